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
from jaxtyping import Array, Float, PyTree

from nnghmc.errors import PosteriorError
from nnghmc.parameters import ParameterLayout, named_leaves
from nnghmc.precision import position_dtype

Position = Float[Array, " dim"]
Scalar = Float[Array, ""]
PotentialFn = Callable[[Position], Scalar]
GradientFn = Callable[[Position], Position]
PotentialAndGradientFn = Callable[[Position], tuple[Scalar, Position]]


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
        parameters = self.layout.unflatten(position)
        log_density = self.log_likelihood(parameters, self.data)
        if self.log_prior is not None:
            log_density = log_density + self.log_prior(parameters)
        return -jnp.asarray(log_density, position.dtype)

    def gradient(self, position: Position) -> Position:
        """∇U(q)."""
        return jax.grad(self.potential)(position)

    def potential_and_gradient(self, position: Position) -> tuple[Scalar, Position]:
        """U(q) and ∇U(q) together: the value comes free with the gradient."""
        return jax.value_and_grad(self.potential)(position)


class _WithoutData(eqx.Module):
    """A log density of the parameters alone, in the place of a log likelihood."""

    log_density: Callable[[PyTree], Scalar]

    def __call__(self, parameters: PyTree, data: None) -> Scalar:
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
        dims: names of the axes of reported variables, `{"beta": ["feature"]}`.
        coords: labels along those axes, `{"feature": ["age", "income"]}`.
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
    ):
        layout = _checked_layout(initial)
        self.initial: Position = layout.flatten(initial, position_dtype())
        self.constrain = constrain
        self.dims = {name: list(axes) for name, axes in (dims or {}).items()}
        self.coords = {axis: list(labels) for axis, labels in (coords or {}).items()}
        self.num_observations = _checked_num_observations(data)
        self._density = Density(log_likelihood, log_prior, jax.tree.map(jnp.asarray, data), layout)
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

    @property
    def log_likelihood(self) -> Callable[[PyTree, PyTree], Scalar]:
        """The log likelihood as given."""
        return self._density.log_likelihood

    @property
    def log_prior(self) -> Callable[[PyTree], Scalar] | None:
        """The log prior as given; None where it is flat."""
        return self._density.log_prior

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
        parameters = self.layout.unflatten(np.asarray(positions))
        if self.constrain is None:
            return named_leaves(parameters)
        leading = positions.shape[:-1]
        flat = self.layout.unflatten(jnp.reshape(positions, (-1, self.dim)))
        reported = named_leaves(jax.jit(jax.vmap(self.constrain))(flat))
        return {
            name: np.asarray(value).reshape(leading + value.shape[1:])
            for name, value in reported.items()
        }

    def _check_functions(self) -> None:
        parameters = self.layout.unflatten(self.initial)
        _check_scalar("log_likelihood", self.log_likelihood, parameters, self.data)
        if self.log_prior is not None:
            _check_scalar("log_prior", self.log_prior, parameters)
        if self.constrain is not None:
            _shape_of("constrain", self.constrain, parameters)

    def __repr__(self) -> str:
        observations = "no data"
        if self.num_observations is not None:
            observations = f"{self.num_observations:,} observations"
        variables = ", ".join(
            f"{name}{list(shape) if shape else ''}"
            for name, shape in zip(self.layout.names, self.layout.shapes, strict=True)
        )
        return f"Posterior({variables}; {self.dim} dimensions, {observations})"


def from_log_density(
    log_density: Callable[[PyTree], Scalar], initial: PyTree, **options: Any
) -> Posterior:
    """A posterior from a single function of the parameters, `parameters -> scalar`.

    Arrays that the function closes over become constants of the compiled code; where they are
    large, use `Posterior` and hand them over as `data`. Options are those of `Posterior`.
    """
    return Posterior(_WithoutData(log_density), None, None, initial, **options)


def _checked_layout(initial: PyTree) -> ParameterLayout:
    for name, leaf in named_leaves(initial).items():
        try:
            values = np.asarray(leaf)
            numeric = np.issubdtype(values.dtype, np.integer) or np.issubdtype(
                values.dtype, np.floating
            )
        except (TypeError, ValueError):
            numeric = False
        if not numeric:
            raise PosteriorError(
                f"initial must hold real numbers or arrays of them; {name} is {leaf!r}."
            )
        if not np.all(np.isfinite(values)):
            raise PosteriorError(
                f"initial must be finite; {name} is {values}. Choose a point inside the support."
            )
    layout = ParameterLayout.of(initial)
    if layout.dim == 0:
        raise PosteriorError("initial must hold at least one parameter, got none.")
    return layout


def _checked_num_observations(data: PyTree) -> int | None:
    leaves = named_leaves(data)
    if not leaves:
        return None
    lengths = {}
    for name, leaf in leaves.items():
        shape = np.shape(leaf)
        if not shape:
            raise PosteriorError(
                f"data must be arrays whose leading axis is the observations; {name} is the scalar "
                f"{leaf!r}. Let log_likelihood close over fixed numbers instead."
            )
        _check_no_nan(name, leaf)
        lengths[name] = shape[0]
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise PosteriorError(
            f"data must share the length of their leading axis; got {listed}. Give one row an "
            "observation in every array, or let log_likelihood close over what is no observation."
        )
    return next(iter(lengths.values()))


def _check_no_nan(name: str, leaf: Any) -> None:
    values = np.asarray(leaf)
    if not np.issubdtype(values.dtype, np.floating):
        return
    missing = int(np.isnan(values).sum())
    if missing:
        raise PosteriorError(
            f"data must not contain NaN; {name} has {missing} of {values.size} values missing. "
            "Drop or impute these observations."
        )


def _check_scalar(name: str, function: Callable, *arguments: Any) -> None:
    result = _shape_of(name, function, *arguments)
    shape = getattr(result, "shape", None)
    if shape != () or not jnp.issubdtype(result.dtype, jnp.floating):
        given = f"an array of shape {shape}" if shape else f"{result}"
        raise PosteriorError(
            f"{name} must return one real number, got {given}. "
            "Sum over the observations (and over the parameters) before returning."
        )


def _shape_of(name: str, function: Callable, *arguments: Any) -> Any:
    if not callable(function):
        raise PosteriorError(f"{name} must be a function, got {function!r}.")
    try:
        return jax.eval_shape(function, *arguments)
    except Exception as error:
        reason = (str(error).strip().splitlines() or ["no message"])[0]
        raise PosteriorError(
            f"{name} failed at the initial parameters: {type(error).__name__}: {reason}"
        ) from error
