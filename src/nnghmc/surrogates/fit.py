"""Gradient data and a gradient model in, a frozen surrogate out."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from nnghmc.errors import GradientDataError, instance_of
from nnghmc.parameters import ParameterLayout
from nnghmc.surrogates.gradient_data import GradientData
from nnghmc.surrogates.learned import GradientModel, Learned, all_gradients, gradient_model
from nnghmc.surrogates.storage import FitReport
from nnghmc.surrogates.surrogate import Surrogate
from nnghmc.surrogates.training import Lesson, Training

LEAST_HELD_OUT = 20


def fit(
    network: GradientModel,
    gradient_data: GradientData,
    key: PRNGKeyArray,
    training: Training | None = None,
    layout: ParameterLayout | None = None,
) -> Surrogate:
    """Fit any gradient model to gradient data.

    Whole trajectories are held out of it, `training.held_out` of them, to assess what was learned.
    `layout` tells the names and shapes of the parameters; a saved surrogate remembers them.
    """
    network = gradient_model("network", network)
    training = instance_of("training", training or network.training, Training)
    usable = instance_of("gradient_data", gradient_data, GradientData).finite()
    usable.check_varying()
    training_part, held_out = _split(usable, training.held_out, key)
    learn_from = training_part.without_starts()
    if len(learn_from) < 2:
        raise GradientDataError(
            f"at least 2 points are needed to learn from, got {len(learn_from)}. Collect more."
        )
    unseen = None if held_out is None else held_out.without_starts()
    learning = network.learn(Lesson(learn_from, unseen, key, training))
    report = FitReport(
        model=type(network).__name__,
        losses=learning.losses,
        held_out_losses=learning.held_out_losses,
        points=len(learn_from),
        dropped=len(gradient_data) - len(usable),
        held_out=0 if unseen is None else len(unseen),
        held_out_error=relative_error(learning.learned, unseen),
        remarks=learning.remarks,
    )
    return Surrogate(learning.learned, report, usable.dim, layout, held_out)


def fitted_before(
    surrogate: Surrogate,
    network: GradientModel,
    gradient_data: GradientData,
    key: PRNGKeyArray,
    training: Training | None = None,
    layout: ParameterLayout | None = None,
) -> Surrogate:
    """What `fit` gives for these arguments, made of what it gave before, with no training."""
    share = (training or network.training).held_out
    held_out = _split(gradient_data.finite(), share, key)[1]
    return replace(surrogate, layout=layout, held_out=held_out)


def _split(
    data: GradientData, fraction: float, key: PRNGKeyArray
) -> tuple[GradientData, GradientData | None]:
    """Training points and held-out ones, where there are trajectories enough.

    A few trajectories say little, so at least 20 are held out, or a quarter of those there are.
    """
    number = data.num_trajectories
    if fraction == 0 or number < 2:
        return data, None
    fraction = max(fraction, min(LEAST_HELD_OUT / number, 0.25))
    return data.split(fraction, seed=int(jax.random.bits(key, dtype=jnp.uint32)))


def relative_error(learned: Learned, data: GradientData | None) -> float:
    """The size of the error of a gradient relative to that of the gradient itself.

    Each coordinate in units of its gradient's size, so that those of parameters do not matter.
    """
    if data is None:
        return float("nan")
    errors = all_gradients(learned, data.positions) - data.gradients
    size = np.sqrt(np.mean(data.gradients**2, axis=0))
    scale = 1 / np.where(size > 0, size, 1.0)
    return float(np.linalg.norm(scale * errors) / np.linalg.norm(scale * data.gradients))
