"""A posterior: log prior + log likelihood + data, seen as a potential U(q) on a flat vector.

The functions are the user's own, in JAX, of a parameter pytree on the unconstrained scale. The
data are an explicit argument of them, never a constant inside: compiled code takes the data as
input, so it compiles fast and can be fed mini-batches.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from nnghmc.calls import Calls
from nnghmc.errors import PosteriorError
from nnghmc.model_checks import (
    check_labels,
    check_results,
    checked_arrays,
    checked_layout,
    checked_mapping,
    checked_num_observations,
    checked_scalar_type,
    shapes_of,
)
from nnghmc.parameters import ParameterLayout, named_leaves
from nnghmc.precision import position_dtype
from nnghmc.quantities import Quantities, over_draws

Position = Float[Array, " dim"]
Scalar = Float[Array, ""]
PotentialFn = Callable[[Position], Scalar]
GradientFn = Callable[[Position], Position]
PotentialAndGradientFn = Callable[[Position], tuple[Scalar, Position]]

NAME_OF_BARE_OBSERVATIONS = "y"
PREDICTIONS = 1_000
"""Stream of a run's seed for simulated data, far from those that sampling uses."""


class Density(eqx.Module):
    """The numbers of a posterior, as a pytree whose arrays (the data) are inputs of compiled code.

    Its bound methods are pytrees too: pass `density.potential` to a compiled function and the data
    travel with it as an argument.
    """

    log_likelihood: Callable[[PyTree, PyTree], Scalar]
    log_prior: Callable[[PyTree], Scalar] | None
    data: PyTree
    layout: ParameterLayout = eqx.field(static=True)

    def potential(self, position: Position) -> Scalar:
        """U(q), minus the log posterior up to a constant."""
        return self._potential(position, self.data, 1.0)

    def _potential(self, position: Position, data: PyTree, weight: float) -> Scalar:
        """U(q) with other data in the place of all of them, each row counted `weight` times."""
        parameters = self.layout.unflatten(position)
        log_density = weight * self.log_likelihood(parameters, data)
        if self.log_prior is not None:
            log_density = log_density + self.log_prior(parameters)
        return -jnp.asarray(log_density, position.dtype)

    def gradient(self, position: Position) -> Position:
        """∇U(q)."""
        return jax.grad(self.potential)(position)

    def potential_and_gradient(self, position: Position) -> tuple[Scalar, Position]:
        """U(q) and ∇U(q) together: the value comes free with the gradient."""
        return jax.value_and_grad(self.potential)(position)

    def batch_gradient(self, batch_size: int, key: PRNGKeyArray, position: Position) -> Position:
        """An unbiased estimate of ∇U(q) from rows of the data drawn at random, with replacement."""
        number = len(jax.tree.leaves(self.data)[0])
        rows = jax.random.randint(key, (batch_size,), 0, number)
        batch = jax.tree.map(lambda part: part[rows], self.data)
        return jax.grad(self._potential)(position, batch, number / batch_size)


class WithoutData(eqx.Module):
    """A log density of the parameters alone, in the place of a log likelihood.

    Such a function likes to close over its data, which may change while it stays the same object.
    `made` is new for each posterior, so that compiled code is never that of an older one.
    """

    log_density: Callable[[PyTree], Scalar]
    made: object = eqx.field(static=True, default_factory=object)

    def __call__(self, parameters: PyTree, data: None) -> Scalar:
        """The log density; there are no data."""
        return self.log_density(parameters)


class Posterior:
    """What is to be sampled.

    Args:
        log_likelihood: `(parameters, data) -> scalar`, a sum over the rows of the data.
        log_prior: `parameters -> scalar`; None for a flat prior.
        data: a pytree of arrays whose leading axis is the observations, or None.
        initial: the parameters where the chains start, a number, an array, or any pytree of them.
            A dictionary names the variables.
        constrain: `parameters -> pytree` of what is reported, for instance a scale on its natural
            axis. The sampler works on the unconstrained parameters all the same, so the
            log density must contain the Jacobian of the map.
        dims: names of the axes of reported or observed variables, `{"beta": ["feature"]}`.
        coords: labels along those axes, `{"feature": ["age", "income"]}`.
        observed: what was observed, by name, `{"y": y}`; the results carry it along.
        constants: other data that the results should carry along, by name.
        pointwise: `(parameters, data) -> array`, the log likelihood of every observation, or a
            dictionary of them by the names of `observed`; for comparing models.
        predict: `(key, parameters, data) -> array`, one simulated data set, or a dictionary of
            them likewise; for predictive checks.
    """

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
        self.initial: Position = layout.flatten(initial, position_dtype())
        self.constrain = constrain
        self.dims = checked_mapping("dims", dims)
        self.coords = checked_mapping("coords", coords)
        self.origin: str | None = None  # the TARGET it comes from, where the command line made it
        self.observed = checked_arrays("observed", observed)
        self.constants = checked_arrays("constants", constants)
        self.num_observations = checked_num_observations(data)
        self.calls: Calls | None = None  # of a function outside JAX, counted
        self.energy_precision: float  # the relative rounding of what the functions return
        self._density = Density(log_likelihood, log_prior, jax.tree.map(jnp.asarray, data), layout)
        self._quantities = Quantities(constrain, pointwise, predict, self._density.data, layout)
        self._check_functions()

    @property
    def potential(self) -> PotentialFn:
        """U(q) on the flat vector."""
        return self._density.potential

    @property
    def gradient(self) -> GradientFn:
        """∇U(q) on the flat vector."""
        return self._density.gradient

    @property
    def potential_and_gradient(self) -> PotentialAndGradientFn:
        """U(q) and ∇U(q) in one evaluation."""
        return self._density.potential_and_gradient

    def batch_gradient(self, batch_size: int) -> Callable[[PRNGKeyArray, Position], Position]:
        """(key, position) -> an estimate of ∇U from a mini-batch of so many rows of the data."""
        return eqx.Partial(self._density.batch_gradient, batch_size)

    @property
    def log_likelihood(self) -> Callable[[PyTree, PyTree], Scalar]:
        """The log likelihood as given."""
        return self._density.log_likelihood

    @property
    def log_prior(self) -> Callable[[PyTree], Scalar] | None:
        """The log prior as given; None where it is flat."""
        return self._density.log_prior

    @property
    def has_prior_apart(self) -> bool:
        """Whether prior and likelihood are told apart; not so for a single log density."""
        return not isinstance(self.log_likelihood, WithoutData)

    @property
    def data(self) -> PyTree:
        """The data, on the device."""
        return self._density.data

    @property
    def layout(self) -> ParameterLayout:
        """Where each variable lies in the flat vector."""
        return self._density.layout

    @property
    def dim(self) -> int:
        """The number of unconstrained coordinates."""
        return self.layout.dim

    def variables(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        """The reported variables, by name, of positions of shape (..., dim)."""
        if self.constrain is None:
            return named_leaves(self.layout.unflatten(np.asarray(positions)))
        return named_leaves(self._each(self._quantities.reported, positions))

    def log_likelihoods(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        """The log likelihood of every observation, by observed variable, at each position."""
        if self._quantities.pointwise is None:
            raise PosteriorError(
                "the log likelihood of every observation needs a function that this posterior was "
                "not given. Make it with Posterior(..., pointwise=), (parameters, data) -> array."
            )
        return self._by_observed(self._each(self._quantities.log_likelihoods, positions))

    def predictions(self, positions: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        """One simulated data set, by observed variable, at each position."""
        if self._quantities.predict is None:
            raise PosteriorError(
                "simulated data need a function that this posterior was not given. Make it with "
                "Posterior(..., predict=), (key, parameters, data) -> array."
            )
        key = jax.random.fold_in(jax.random.key(seed), PREDICTIONS)
        numbers = np.arange(np.prod(positions.shape[:-1], dtype=int))
        simulated = self._each(self._quantities.prediction, positions, (numbers,), key)
        return self._by_observed(simulated)

    def _each(
        self,
        function: Callable[..., PyTree],
        positions: np.ndarray,
        others: tuple[np.ndarray, ...] = (),
        *rest: Any,
    ) -> PyTree:
        """A function of one position at each, with the leading axes of positions (..., dim)."""
        leading = positions.shape[:-1]
        flat = np.reshape(positions, (-1, self.dim))
        values = over_draws(function, (flat, *others), *rest)
        return jax.tree.map(lambda leaf: leaf.reshape(leading + leaf.shape[1:]), values)

    def _by_observed(self, values: PyTree) -> dict[str, Any]:
        """Values by the name of what was observed; a bare array belongs to the only one."""
        if jax.tree_util.treedef_is_leaf(jax.tree.structure(values)):
            only = len(self.observed) == 1
            return {next(iter(self.observed)) if only else NAME_OF_BARE_OBSERVATIONS: values}
        return named_leaves(values)

    def _check_functions(self) -> None:
        parameters = self.layout.unflatten(self.initial)
        name = "log_density" if isinstance(self.log_likelihood, WithoutData) else "log_likelihood"
        types = [checked_scalar_type(name, self.log_likelihood, parameters, self.data)]
        if self.log_prior is not None:
            types.append(checked_scalar_type("log_prior", self.log_prior, parameters))
        self.energy_precision = max(float(jnp.finfo(kind).eps) for kind in types)
        reported: PyTree = parameters
        if self.constrain is not None:
            reported = shapes_of("constrain", self.constrain, parameters)
        check_labels(named_leaves(reported), self.observed, self.constants, self.dims, self.coords)
        self._check_results(parameters)

    def _check_results(self, parameters: PyTree) -> None:
        """What is evaluated after sampling must not be found wrong only then."""
        pointwise, predict = self._quantities.pointwise, self._quantities.predict
        if pointwise is not None:
            shapes = shapes_of("pointwise", pointwise, parameters, self.data)
            check_results("pointwise", self._by_observed(shapes), self.observed)
        if predict is not None:
            shapes = shapes_of("predict", predict, jax.random.key(0), parameters, self.data)
            check_results("predict", self._by_observed(shapes), self.observed, whole=True)

    def __repr__(self) -> str:
        observations = "no data"
        if self.num_observations is not None:
            observations = f"{self.num_observations:,} observations"
        elif self.observed:
            shapes = {name: value.shape for name, value in self.observed.items()}
            observations = f"observed {_with_shapes(shapes)}"
        variables = _with_shapes(dict(zip(self.layout.names, self.layout.shapes, strict=True)))
        return f"Posterior({variables}; {self.dim} dimensions, {observations})"


def _with_shapes(variables: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name}{list(shape) if shape else ''}" for name, shape in variables.items())


def from_log_density(
    log_density: Callable[[PyTree], Scalar], initial: PyTree, **options: Any
) -> Posterior:
    """A posterior from a single function of the parameters, `parameters -> scalar`.

    Arrays that the function closes over become constants of the compiled code; where they are
    large, use `Posterior` and hand them over as `data`. Options are those of `Posterior`.
    """
    return Posterior(WithoutData(log_density), None, None, initial, **options)
