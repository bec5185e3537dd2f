"""Bambi: a model of a formula -> Posterior, through the PyMC model that Bambi builds from it.

Bambi centres predictors and scales group effects by their spread for sampling, and undoes both in
the results. Here that is part of what is computed from each draw, so that tables, stores and
everything else show the variables that Bambi's users know.
"""

from typing import NamedTuple

import bambi
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from bambi.utils import get_aliased_name
from jaxtyping import Array, PyTree

from nnghmc.errors import PosteriorError
from nnghmc.model.frontends.pymc import Dims, Natural, posterior_of
from nnghmc.model.posterior import Posterior

OFFSET = "_offset"
GROUPS = "__factor_dim"


def from_bambi(model: bambi.Model) -> Posterior:
    """Make a posterior from a Bambi model; see `nnghmc.from_bambi`."""
    if not isinstance(model, bambi.Model):
        raise PosteriorError(
            f"from_bambi needs a bambi.Model, got {type(model).__name__}. Build one from a formula."
        )
    if not model.built:
        model.build()
    return posterior_of(
        model.backend.model, lambda natural, dims: _as_bambi_reports(model, natural, dims)
    )


class Centring(NamedTuple):
    """An intercept of centred predictors, the coefficients of these, and their means."""

    intercept: str
    coefficients: tuple[str, ...]
    means: tuple[float, ...]

    def shift(self, values: dict[str, Array]) -> Array:
        """Return how much larger the intercept is because its predictors are centred."""
        shape = values[self.intercept].shape  # an axis for the levels of a categorical response
        rows = [values[name].reshape(-1, *shape) for name in self.coefficients]
        return jnp.tensordot(jnp.asarray(self.means), jnp.concatenate(rows), axes=1)


class _Reported(eqx.Module):
    """Computes what Bambi reports of one draw from the variables of its PyMC model."""

    natural: Natural
    centrings: tuple[Centring, ...] = eqx.field(static=True)
    orders: tuple[tuple[str, tuple[int, ...] | None], ...] = eqx.field(static=True)

    def __call__(self, parameters: PyTree) -> dict[str, Array]:
        values = self.natural(parameters)
        for centring in self.centrings:
            values[centring.intercept] = values[centring.intercept] - centring.shift(values)
        return {name: jnp.transpose(values[name], order) for name, order in self.orders}


def _as_bambi_reports(model: bambi.Model, natural: Natural, dims: Dims) -> tuple[Natural, Dims]:
    """Return the variables that Bambi shows, and the names of their axes in Bambi's order."""
    pymc_model = model.backend.model
    derived = {variable.name for variable in pymc_model.deterministics}
    names = {variable.name for variable in pymc_model.free_RVs} | derived
    of_responses = derived & set(model.family.likelihood.params)
    hidden = of_responses | {name for name in names if name.endswith(OFFSET)}
    places = {dim: place for place, dim in enumerate(pymc_model.coords)}

    def in_order(axes: list[str]) -> list[str]:
        return sorted(axes, key=lambda dim: (dim.endswith(GROUPS), places.get(dim, len(places))))

    shown = {name: in_order(axes) for name, axes in dims.items() if name not in hidden}
    orders = {
        name: tuple(dims[name].index(dim) for dim in shown[name]) if name in shown else None
        for name in names - hidden
    }
    return _Reported(natural, _centrings(model), tuple(orders.items())), shown


def _centrings(model: bambi.Model) -> tuple[Centring, ...]:
    """Return how each linear predictor with an intercept and other terms centres its columns."""
    found = []
    for part in model.backend.distributional_components.values():
        intercept, terms = part.component.intercept_term, part.component.common_terms
        if model.center_predictors and intercept and terms:
            names = tuple(get_aliased_name(term) for term in terms.values())
            means = np.asarray(part.design_matrix_without_intercept).mean(axis=0)
            found.append(Centring(get_aliased_name(intercept), names, tuple(means.tolist())))
    return tuple(found)
