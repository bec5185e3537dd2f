"""Lists the classes that a store may hold; reading a store creates objects of no others."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from nnghmc.engine.method import Method, Request
from nnghmc.kernels import Tuning
from nnghmc.platform.codec import STORABLE, Converter, Kinds
from nnghmc.surrogates import MODELS, GradientData, Surrogate, Training


def known_kinds() -> Kinds:
    """Return every class that may be written, by name, including all imported methods."""
    return {
        "Request": Request,
        "Training": Training,
        "GradientData": GradientData,
        "Surrogate": Converter(Surrogate, _packed_surrogate, _unpacked_surrogate),
        "Tuning": Converter(Tuning, _packed_tuning, _unpacked_tuning),
        **{kind.__name__: kind for kind in MODELS.values()},
        **STORABLE,
        **Method.known,
    }


def _packed_surrogate(surrogate: Surrogate) -> dict[str, np.ndarray]:
    return surrogate.as_arrays(held_out=True)


def _unpacked_surrogate(arrays: dict[str, np.ndarray]) -> Surrogate:
    return Surrogate.from_arrays(arrays, "the store")


def _packed_tuning(tuning: Tuning) -> tuple[Any, ...]:
    return tuning.step_size, tuning.num_steps, tuning.inverse_mass_matrix


def _unpacked_tuning(parts: tuple[Any, ...]) -> Tuning:
    step_size, num_steps, matrix = parts
    return Tuning(_on_device(step_size), _on_device(num_steps), jnp.asarray(matrix))


def _on_device(value: Any) -> Any:
    return tuple(map(jnp.asarray, value)) if isinstance(value, tuple) else jnp.asarray(value)
