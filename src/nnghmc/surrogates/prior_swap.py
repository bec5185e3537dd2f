"""A learned gradient under another prior than the one it was learned under."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree

from nnghmc.errors import SettingsError
from nnghmc.parameters import ParameterLayout
from nnghmc.posterior import Posterior
from nnghmc.surrogates.learned import Learned

LogPrior = Callable[[PyTree], Any] | None


class UnderAnotherPrior(Learned):
    """A learned gradient, with the old prior's part of it replaced by the new one's."""

    inner: Learned
    old: LogPrior
    new: LogPrior
    layout: ParameterLayout = eqx.field(static=True)

    @property
    def conservative(self) -> bool:
        """As the model inside: priors are."""
        return self.inner.conservative

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The learned gradient, with the difference of the prior gradients added."""
        return self.inner.gradient(position) + jax.grad(self._difference)(position)

    def potential(self, position: Float[Array, " dim"]) -> Float[Array, ""]:
        """The learned potential, with the difference of the log priors added."""
        return self.inner.potential(position) + self._difference(position)

    def _difference(self, position: Float[Array, " dim"]) -> Array:
        parameters = self.layout.unflatten(position)
        old, new = (0.0 if f is None else f(parameters) for f in (self.old, self.new))
        return old - new + 0.0 * position[0]  # a number that depends on q, even without priors


def swap_prior(
    learned: Learned, layout: ParameterLayout | None, old: Any, new: Any
) -> UnderAnotherPrior:
    """The gradient learned under `old`, for use under `new`: posteriors, or log priors of one."""
    for given in (old, new):
        if isinstance(given, Posterior):
            if layout is not None and (given.layout.names, given.layout.shapes) != (
                layout.names,
                layout.shapes,
            ):
                raise SettingsError(
                    f"both priors must be of the parameters learned from, {layout.names} of shapes "
                    f"{layout.shapes}; got {given.layout.names} of shapes {given.layout.shapes}."
                )
            layout = given.layout
    if layout is None or layout.treedef is None:
        raise SettingsError(
            "log priors are functions of the parameters, and this surrogate does not know their "
            "form. Give the two posteriors instead: surrogate.with_prior(old, new)."
        )
    return UnderAnotherPrior(learned, _log_prior("old", old), _log_prior("new", new), layout)


def _log_prior(name: str, given: Any) -> LogPrior:
    if isinstance(given, Posterior):
        if not given.has_prior_apart:
            raise SettingsError(
                f"{name} must have its prior apart from its likelihood, and this posterior is one "
                "log density. Make it with Posterior(log_likelihood, log_prior, ...), or give the "
                "two log priors."
            )
        return given.log_prior
    if given is None or callable(given):
        return given
    raise SettingsError(
        f"{name} must be a Posterior, or a log prior: a function of the parameters, or None for a "
        f"flat one; got {given!r}."
    )
