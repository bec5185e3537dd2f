"""Densities: what a posterior evaluates at a position of the flat, unconstrained space.

`Density` is the contract: a potential, and a potential with its gradient. Data in memory are one
way to keep it. A function outside JAX, data in shards or on another machine are others.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from nnghmc.model.layout import ParameterLayout

Position = Float[Array, " dim"]
Scalar = Float[Array, ""]
PotentialFn = Callable[[Position], Scalar]
GradientFn = Callable[[Position], Position]
PotentialAndGradientFn = Callable[[Position], tuple[Scalar, Position]]


@runtime_checkable
class Density(Protocol):
    """The potential U(q) of a flat position, and its gradient.

    Make it an `equinox.Module`. Its bound methods are pytrees then, so that the arrays it holds are
    inputs of compiled code and not constants in it. Both methods must be traceable by JAX, and
    `jax.vmap` runs them for all chains at once.
    """

    def potential(self, position: Position) -> Scalar:
        """Return U(q), minus the log posterior up to a constant."""
        ...

    def potential_and_gradient(self, position: Position) -> tuple[Scalar, Position]:
        """Return U(q) and ∇U(q) from one evaluation."""
        ...


def gradient(density: Density, position: Position) -> Position:
    """Return ∇U(q) alone."""
    return density.potential_and_gradient(position)[1]


class InMemory(eqx.Module):
    """The density of a log prior and a log likelihood of data that JAX holds in memory.

    The data stay on the devices they are on. They are leaves of this pytree: pass
    `density.potential` to a compiled function, and the data travel with it as an argument.
    """

    log_likelihood: Callable[[PyTree, PyTree], Scalar]
    log_prior: Callable[[PyTree], Scalar] | None
    data: PyTree
    layout: ParameterLayout = eqx.field(static=True)

    def potential(self, position: Position) -> Scalar:
        """Return U(q), minus the log posterior up to a constant."""
        return self._potential(position, self.data, 1.0)

    def potential_and_gradient(self, position: Position) -> tuple[Scalar, Position]:
        """Return U(q) and ∇U(q); the value comes free with the gradient."""
        return jax.value_and_grad(self.potential)(position)

    def batch_gradient(self, batch_size: int, key: PRNGKeyArray, position: Position) -> Position:
        """Estimate ∇U(q) without bias from rows of the data drawn at random, with replacement."""
        number = len(jax.tree.leaves(self.data)[0])
        rows = jax.random.randint(key, (batch_size,), 0, number)
        batch = jax.tree.map(lambda part: part[rows], self.data)
        return jax.grad(self._potential)(position, batch, number / batch_size)

    def _potential(self, position: Position, data: PyTree, weight: float) -> Scalar:
        """Return U(q) with these data in place of all data, each row counted `weight` times."""
        parameters = self.layout.unflatten(position)
        log_density = weight * self.log_likelihood(parameters, data)
        if self.log_prior is not None:
            log_density = log_density + self.log_prior(parameters)
        return -jnp.asarray(log_density, position.dtype)


class WithoutData(eqx.Module):
    """A log density of the parameters alone, in the place of a log likelihood.

    Such a function often closes over its data, which may change while it stays the same object.
    `identity` is new for each posterior, so that no posterior runs code compiled for an older one.
    """

    log_density: Callable[[PyTree], Scalar]
    identity: object = eqx.field(static=True, default_factory=object)

    def __call__(self, parameters: PyTree, data: None) -> Scalar:
        """Return the log density; there are no data."""
        return self.log_density(parameters)
