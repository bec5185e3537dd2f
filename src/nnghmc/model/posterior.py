"""A posterior: a density on the flat, unconstrained space, and what is reported of its draws."""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from nnghmc.errors import PosteriorError
from nnghmc.model.checks import checked_data, checked_layout
from nnghmc.model.density import (
    Density,
    GradientFn,
    InMemory,
    Position,
    PotentialAndGradientFn,
    PotentialFn,
    Scalar,
    WithoutData,
    gradient,
)
from nnghmc.model.layout import ParameterLayout
from nnghmc.model.monitor import Monitor, Tally
from nnghmc.model.results import Results, Simulate
from nnghmc.model.split import Divided, Split, Undivided, split_potential
from nnghmc.model.tracing import checked_density, checked_in_memory
from nnghmc.platform.precision import position_dtype

__all__ = [
    "GradientFn",
    "Position",
    "Posterior",
    "PotentialAndGradientFn",
    "PotentialFn",
    "Scalar",
    "WithoutData",
    "from_log_density",
]


class Posterior:
    """A posterior distribution to sample. It cannot be changed after it was made.

    Its functions are JAX functions that the user writes. They take the unconstrained parameters as
    a pytree, and the data as an argument of their own. Compiled code takes the data as an input, so
    compiling does not take longer for larger data, and mini-batches can replace them. JAX
    arrays stay on their devices.

    Args:
        log_likelihood: `(parameters, data) -> scalar`; methods with mini-batches need a sum over
            the rows of the data.
        log_prior: `parameters -> scalar`; None for a flat prior.
        data: a pytree of arrays whose leading axis is the observations, or None.
        initial: the parameters at which or around which the chains start: a number, an array, or
            any pytree of them. A dictionary names the variables.
        constrain: `parameters -> pytree` of what is reported, for instance a standard deviation
            instead of its logarithm. The sampler still works on the unconstrained parameters, so
            the log density must include the log Jacobian of the map.
        dims: names of the axes of reported or observed variables, `{"beta": ["feature"]}`.
        coords: labels along those axes, `{"feature": ["age", "income"]}`.
        observed: what was observed, by name, `{"y": y}`; the results hold a copy of it.
        constants: other data that the results should hold, by name.
        pointwise: `(parameters, data) -> array`, the log likelihood of every observation, for
            comparing models. It may return a dictionary of arrays by the names of `observed`.
        predict: `(key, parameters, data) -> array`, one simulated data set, for predictive checks.
            It may return a dictionary of arrays in the same way.

    Attributes:
        initial: the initial parameters as one flat position.
        layout: where each variable lies in the flat position.
        num_observations: the length of the leading axis of the data; None if it is not known.
        energy_precision: the relative rounding error of what the functions return.
        monitor: object that counts the calls of a function outside JAX, and says when to stop. For
            JAX functions it does nothing.
        origin: the TARGET on the command line that this posterior comes from, or None.
    """

    initial: Position
    layout: ParameterLayout
    num_observations: int | None
    energy_precision: float
    monitor: Monitor
    origin: str | None
    _density: Density
    _results: Results

    def __init__(
        self,
        log_likelihood: Callable[[PyTree, PyTree], Scalar],
        log_prior: Callable[[PyTree], Scalar] | None,
        data: PyTree,
        initial: PyTree,
        *,
        constrain: Callable[[PyTree], PyTree] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
        observed: Mapping[str, Any] | None = None,
        constants: Mapping[str, Any] | None = None,
        pointwise: Callable[[PyTree, PyTree], PyTree] | None = None,
        predict: Callable[[PRNGKeyArray, PyTree, PyTree], PyTree] | None = None,
    ):
        layout = checked_layout(initial)
        placed, num_observations = checked_data(data)
        density = InMemory(log_likelihood, log_prior, placed, layout)
        position = layout.flatten(initial, position_dtype())
        precision = checked_in_memory(density, position)
        results = Results.of(
            layout,
            position,
            placed,
            constrain=constrain,
            dims=dims,
            coords=coords,
            observed=observed,
            constants=constants,
            pointwise=pointwise,
            predict=predict,
        )
        self._assemble(density, position, results, precision, num_observations, Monitor())

    @classmethod
    def over(
        cls,
        density: Density,
        initial: PyTree,
        *,
        num_observations: int | None = None,
        monitor: Monitor | None = None,
        **options: Any,
    ) -> "Posterior":
        """Make a posterior over any density, wherever its data are.

        Args:
            density: an object with `potential` and `potential_and_gradient`; see
                `nnghmc.model.density.Density`. It may also have `split`, which states what of the
                potential is exact; see `nnghmc.model.split.Divided`.
            initial: the parameters where the chains start. The density gets them as one flat
                vector, in the order of `nnghmc.model.layout.ParameterLayout.of(initial)`.
            num_observations: how many observations the density is over, where that is known.
            monitor: what counts the evaluations of the density.
            **options: `constrain`, `dims`, `coords`, `observed`, `constants`, `pointwise` and
                `predict` as for `Posterior`. The data that `pointwise` and `predict` get are None.
        """
        layout = checked_layout(initial)
        position = layout.flatten(initial, position_dtype())
        precision = checked_density(density, position)
        results = Results.of(layout, position, None, **options)
        posterior = object.__new__(cls)
        posterior._assemble(
            density, position, results, precision, num_observations, monitor or Monitor()
        )
        return posterior

    def _assemble(
        self,
        density: Density,
        initial: Position,
        results: Results,
        energy_precision: float,
        num_observations: int | None,
        monitor: Monitor,
    ) -> None:
        """Set all attributes, past the guard against changes."""
        vars(self).update(
            initial=initial,
            layout=results.quantities.layout,
            num_observations=num_observations,
            energy_precision=energy_precision,
            monitor=monitor,
            origin=None,
            _density=density,
            _results=results,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise _unchangeable(name)

    def __delattr__(self, name: str) -> None:
        raise _unchangeable(name)

    def with_origin(self, target: str) -> "Posterior":
        """Return a copy that remembers the TARGET of the command line it comes from."""
        return self._copy(origin=target)

    def simulated_by(self, simulate: Simulate) -> "Posterior":
        """Return a copy whose simulated data come from a function outside JAX.

        Args:
            simulate: `(positions of shape (..., dim), seed) -> {observed variable: array}`.
        """
        return self._copy(_results=replace(self._results, simulate=simulate))

    def _copy(self, **changes: Any) -> "Posterior":
        copied = copy.copy(self)
        vars(copied).update(changes)
        return copied

    @property
    def potential(self) -> PotentialFn:
        """Return the function U(q) of a flat position."""
        return self._density.potential

    @property
    def gradient(self) -> GradientFn:
        """Return the function ∇U(q) of a flat position."""
        return eqx.Partial(gradient, self._density)

    @property
    def potential_and_gradient(self) -> PotentialAndGradientFn:
        """Return the function that gives U(q) and ∇U(q) from one evaluation."""
        return self._density.potential_and_gradient

    def split(self) -> Split:
        """Split the potential into an exact part and an expensive function of few inputs.

        U(q) = exact(q) + expensive(s(q)). Priors, Jacobians and cheap maps of the parameters are
        exact; what touches the data, or takes long, is expensive. All of a density outside JAX is
        expensive, because its operations are not known, unless it states a split of its own.
        """
        if "_split" not in vars(self):  # found once: compiled code belongs to it
            vars(self)["_split"] = self._find_split()
        return vars(self)["_split"]

    def undivided(self) -> Split:
        """Return the potential as a split without an exact part, whose inputs are the position."""
        return Undivided(self.potential_and_gradient, self.dim)

    def _find_split(self) -> Split:
        if isinstance(self._density, Divided):
            return self._density.split()
        if isinstance(self._density, InMemory):
            return split_potential(self.potential, self.initial)
        return self.undivided()

    def batch_gradient(self, batch_size: int) -> Callable[[PRNGKeyArray, Position], Position]:
        """Return (key, position) -> an estimate of ∇U from a mini-batch of `batch_size` rows."""
        if not isinstance(self._density, InMemory) or self.num_observations is None:
            raise PosteriorError(
                "mini-batches are drawn from data in memory, and this posterior has none. Make it "
                "with nnghmc.Posterior(log_likelihood, log_prior, data, initial), or use a method "
                "without mini-batches."
            )
        return eqx.Partial(self._density.batch_gradient, batch_size)

    @property
    def log_likelihood(self) -> Callable[[PyTree, PyTree], Scalar] | None:
        """Return the log likelihood as given; None for a density that is not in memory."""
        return self._density.log_likelihood if isinstance(self._density, InMemory) else None

    @property
    def log_prior(self) -> Callable[[PyTree], Scalar] | None:
        """Return the log prior as given; None where it is flat or not known by itself."""
        return self._density.log_prior if isinstance(self._density, InMemory) else None

    @property
    def has_prior_apart(self) -> bool:
        """Say whether prior and likelihood are two functions, and not a single log density."""
        return isinstance(self._density, InMemory) and not isinstance(
            self._density.log_likelihood, WithoutData
        )

    @property
    def data(self) -> PyTree:
        """Return the data, on their devices; None where they are not in memory."""
        return self._density.data if isinstance(self._density, InMemory) else None

    @property
    def calls(self) -> Tally | None:
        """Return how often a function outside JAX was called and failed; None for other models."""
        return self.monitor.tally if self.monitor.counts else None

    @property
    def dim(self) -> int:
        """Return the number of unconstrained coordinates."""
        return self.layout.dim

    @property
    def constrain(self) -> Callable[[PyTree], PyTree] | None:
        """Return the map from the parameters to what is reported, as given."""
        return self._results.quantities.constrain

    @property
    def dims(self) -> dict[str, list[str]]:
        """Return the names of the axes of reported and observed variables."""
        return self._results.dims

    @property
    def coords(self) -> dict[str, list]:
        """Return the labels along those axes."""
        return self._results.coords

    @property
    def observed(self) -> dict[str, np.ndarray]:
        """Return what was observed, by name."""
        return self._results.observed

    @property
    def constants(self) -> dict[str, np.ndarray]:
        """Return the other data that the results hold, by name."""
        return self._results.constants

    def variables(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        """Return the reported variables, by name, at positions of shape (..., dim)."""
        return self._results.variables(positions)

    def log_likelihoods(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        """Return the log likelihood of every observation, by observed variable."""
        return self._results.log_likelihoods(positions)

    def predictions(self, positions: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        """Simulate one data set, by observed variable, at each position."""
        return self._results.predictions(positions, seed)

    def __repr__(self) -> str:
        shapes = zip(self.layout.names, self.layout.shapes, strict=True)
        about = [f"{self.dim} dimensions"]
        if self.num_observations is not None:
            about.append(f"{self.num_observations:,} observations")
        elif self.observed:
            about.append(f"observed {_with_shapes((n, v.shape) for n, v in self.observed.items())}")
        elif isinstance(self._density, InMemory):
            about.append("no data")
        return f"Posterior({_with_shapes(shapes)}; {', '.join(about)})"


def _with_shapes(variables: Iterable[tuple[str, tuple[int, ...]]]) -> str:
    return ", ".join(f"{name}{list(shape) if shape else ''}" for name, shape in variables)


def _unchangeable(name: str) -> AttributeError:
    return AttributeError(
        f"a Posterior cannot be changed after it was made, so {name} cannot be set or deleted. "
        "Make another one with nnghmc.Posterior(...), or copy it by with_origin or simulated_by."
    )


def from_log_density(
    log_density: Callable[[PyTree], Scalar], initial: PyTree, **options: Any
) -> Posterior:
    """Make a posterior from a single function of the parameters, `parameters -> scalar`.

    Arrays that the function closes over become constants of the compiled code; where they are
    large, use `Posterior` and pass them as `data`. Options are those of `Posterior`.
    """
    return Posterior(WithoutData(log_density), None, None, initial, **options)
