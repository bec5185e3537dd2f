"""Defensive tails: now and then a surrogate posterior has heavier tails than was learned.

If the tails of a surrogate posterior are lighter than the true ones, the chains hardly ever go far
out, and once there they stay for long: standard deviations come out too small for many draws. In
importance sampling, a defensive proposal with heavier tails bounds the weights. Here some of the
proposals are made with a learned potential that grows only like a logarithm above a level.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from nnghmc.kernels.leapfrog import Field

SPREADS = 1.0
"""Where the tails begin, in standard deviations of the potential above its median."""
FEW_DIMENSIONS = 20
"""Number of dimensions up to which a proposal with other tails takes as many transitions as others.
In more dimensions the tails hold nearly all of the volume, and chains would get lost there."""
FURTHER_SCALE = 2.0
"""Scale of the logarithm beyond half the dimensions. With it, the tails of a normal density have
four degrees of freedom."""


class DefensiveTails(eqx.Module):
    """The tails of some proposals of a surrogate transition.

    Above the level, a learned potential u becomes level + scale * log(1 + (u - level) / scale). In
    d dimensions, a normal density then has the tails of Student's distribution with
    2 * scale - d degrees of freedom.

    Attributes:
        level: learned potential where the tails begin.
        scale: scale of the logarithm.
        share: probability that a proposal has these tails. Without any, none has.
    """

    level: Float[Array, ""] | float = eqx.field(converter=jnp.asarray, default=jnp.inf)
    scale: Float[Array, ""] | float = eqx.field(converter=jnp.asarray, default=1.0)
    share: Float[Array, ""] | float = eqx.field(converter=jnp.asarray, default=0.0)

    @classmethod
    def beyond(cls, middle: float, spread: float, dim: int, share: float) -> "DefensiveTails":
        """Return tails that begin above learned potentials with this middle and this spread."""
        return cls(middle + SPREADS * spread, 0.5 * dim + FURTHER_SCALE, share)

    def drawn(self, key: PRNGKeyArray) -> "Tails":
        """Draw whether a proposal has these tails or those that were learned."""
        level = jnp.where(jax.random.bernoulli(key, self.share), self.level, jnp.inf)
        return Tails(level, jnp.asarray(self.scale))


class Tails(eqx.Module):
    """The tails of one proposal; an infinite level leaves the potential as it was learned."""

    level: Float[Array, ""]
    scale: Float[Array, ""]

    @property
    def are_learned(self) -> Array:
        """Whether these are the tails as they were learned."""
        return jnp.isinf(self.level)

    def transitions(self, usual: Array | int, dim: int) -> Array | int:
        """Return how many transitions a proposal with these tails takes, in so many dimensions."""
        return usual if dim <= FEW_DIMENSIONS else jnp.where(self.are_learned, usual, 1)

    def flattened(self, potential: Array) -> Array:
        """Return the potential with these tails."""
        flattened = self.level + self.scale * jnp.log1p(self._rise(potential))
        return jnp.where(potential > self.level, flattened, potential)

    def restored(self, flattened: Array) -> Array:
        """Return the potential as it was learned."""
        restored = self.level + self.scale * jnp.expm1(self._rise(flattened))
        return jnp.where(flattened > self.level, restored, flattened)

    def slope(self, potential: Array) -> Array:
        """Return the derivative of the flattened potential with respect to the learned one."""
        return 1 / (1 + self._rise(potential))

    def _rise(self, potential: Array) -> Array:
        """Return how far a potential is above the level, in units of the scale."""
        above = potential > self.level
        return jnp.where(above, (potential - self.level) / self.scale, 0.0)

    def on(self, potential_and_gradient: Field) -> Field:
        """Return a learned potential with these tails, and its gradient."""

        def field(position: Array) -> tuple[Array, Array]:
            potential, gradient = potential_and_gradient(position)
            return self.flattened(potential), self.slope(potential) * gradient

        return field
