"""Replaces the prior under which a gradient was learned by another one."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree

from nnghmc.errors import SettingsError
from nnghmc.model.layout import ParameterLayout
from nnghmc.model.posterior import Posterior
from nnghmc.surrogates.learned import Learned

LogPrior = Callable[[PyTree], Any] | None
"""A log prior as a function of the parameters; None is a flat prior."""


class UnderAnotherPrior(Learned):
    """A learned gradient in which the part of the old prior is replaced by that of the new one."""

    inner: Learned
    old: LogPrior
    new: LogPrior
    layout: ParameterLayout = eqx.field(static=True)

    @property
    def conservative(self) -> bool:
        """Whether the inner gradient is that of a potential; those of the priors always are."""
        return self.inner.conservative

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Evaluate the learned gradient plus the gradient of the old minus the new log prior."""
        return self.inner.gradient(position) + jax.grad(self._difference)(position)

    def potential(self, position: Float[Array, " dim"]) -> Float[Array, ""]:
        """Evaluate the learned potential plus the old minus the new log prior."""
        return self.inner.potential(position) + self._difference(position)

    def _difference(self, position: Float[Array, " dim"]) -> Array:
        parameters = self.layout.unflatten(position)
        old, new = (0.0 if f is None else f(parameters) for f in (self.old, self.new))
        return old - new + 0.0 * position[0]  # jax.grad needs a function of q, also for flat priors


def swap_prior(
    learned: Learned, layout: ParameterLayout | None, old: Any, new: Any
) -> UnderAnotherPrior:
    """Replace the prior `old` of a learned gradient by `new`; both are posteriors or log priors.

    Log priors take the parameters as a pytree, so they need a layout with a tree structure, from
    `layout` or from one of the posteriors.
    """
    for value in (old, new):
        if isinstance(value, Posterior):
            if layout is not None and (value.layout.names, value.layout.shapes) != (
                layout.names,
                layout.shapes,
            ):
                raise SettingsError(
                    f"both priors must be those of the surrogate's parameters, {layout.names} of "
                    f"shapes {layout.shapes}; got {value.layout.names} of shapes "
                    f"{value.layout.shapes}."
                )
            layout = value.layout
    if layout is None or layout.treedef is None:
        raise SettingsError(
            "log priors are functions of the parameters as a pytree, and this surrogate does not "
            "know its structure. Pass the two posteriors instead: surrogate.with_prior(old, new)."
        )
    return UnderAnotherPrior(learned, _log_prior("old", old), _log_prior("new", new), layout)


def _log_prior(name: str, value: Any) -> LogPrior:
    if isinstance(value, Posterior):
        if not value.has_prior_apart:
            raise SettingsError(
                f"{name} must have a prior that is separate from its likelihood, and this "
                "posterior is one log density. Create it with Posterior(log_likelihood, log_prior, "
                "...), or pass the two log priors."
            )
        return value.log_prior
    if value is None or callable(value):
        return value
    raise SettingsError(
        f"{name} must be a Posterior, or a log prior: a function of the parameters, or None for a "
        f"flat prior; got {value!r}."
    )
