"""What the results of a run hold: reported variables, observations, and the names of their axes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from nnghmc.errors import PosteriorError
from nnghmc.model.checks import check_labels, check_results, checked_arrays, checked_mapping
from nnghmc.model.density import Position
from nnghmc.model.layout import ParameterLayout, named_leaves
from nnghmc.model.quantities import Quantities, at_positions
from nnghmc.model.tracing import trace

NAME_OF_BARE_OBSERVATIONS = "y"
PREDICTIONS = 1_000
"""Number of the random stream of simulated data, far from those that sampling uses."""

Simulate = Callable[[np.ndarray, int], dict[str, np.ndarray]]
"""(positions (..., dim), seed) -> simulated data by observed variable."""


@dataclass(frozen=True)
class Results:
    """The part of a posterior that speaks about draws, and not about the density.

    Attributes:
        quantities: the functions of one draw, compiled together with the data they use.
        dims: names of the axes of reported and observed variables.
        coords: labels along those axes.
        observed: the observed data, by name.
        constants: other data, by name.
        simulate: simulates data for all draws at once, where that happens outside JAX.
    """

    quantities: Quantities
    dims: dict[str, list[str]]
    coords: dict[str, list]
    observed: dict[str, np.ndarray]
    constants: dict[str, np.ndarray]
    simulate: Simulate | None = None

    @classmethod
    def of(
        cls,
        layout: ParameterLayout,
        initial: Position,
        data: PyTree,
        *,
        constrain: Callable[[PyTree], PyTree] | None = None,
        dims: Mapping[str, Any] | None = None,
        coords: Mapping[str, Any] | None = None,
        observed: Mapping[str, Any] | None = None,
        constants: Mapping[str, Any] | None = None,
        pointwise: Callable[[PyTree, PyTree], PyTree] | None = None,
        predict: Callable[[PRNGKeyArray, PyTree, PyTree], PyTree] | None = None,
    ) -> "Results":
        """Make the results from the options of a posterior; check them at the initial position."""
        results = cls(
            Quantities(constrain, pointwise, predict, data, layout),
            checked_mapping("dims", dims),
            checked_mapping("coords", coords),
            checked_arrays("observed", observed),
            checked_arrays("constants", constants),
        )
        results._check(layout.unflatten(initial))
        return results

    def variables(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        """Return the reported variables at positions of shape (..., dim)."""
        if self.quantities.constrain is None:
            return named_leaves(self.quantities.layout.unflatten(np.asarray(positions)))
        return named_leaves(at_positions(self.quantities.reported, positions))

    def log_likelihoods(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        """Return the log likelihood of every observation at each position."""
        if self.quantities.pointwise is None:
            raise PosteriorError(
                "the log likelihood of every observation needs a function that this posterior was "
                "not given. Make it with Posterior(..., pointwise=), (parameters, data) -> array."
            )
        return self._by_observed(at_positions(self.quantities.log_likelihoods, positions))

    def predictions(self, positions: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        """Simulate one data set at each position."""
        if self.simulate is not None:
            return self.simulate(positions, seed)
        if self.quantities.predict is None:
            raise PosteriorError(
                "simulated data need a function that this posterior was not given. Make it with "
                "Posterior(..., predict=), (key, parameters, data) -> array."
            )
        key = jax.random.fold_in(jax.random.key(seed), PREDICTIONS)
        numbers = np.arange(np.prod(positions.shape[:-1], dtype=int))
        return self._by_observed(
            at_positions(self.quantities.prediction, positions, (numbers,), key)
        )

    def _by_observed(self, values: PyTree) -> dict[str, Any]:
        """Return values by the name of what was observed; a bare array belongs to the only one."""
        if jax.tree_util.treedef_is_leaf(jax.tree.structure(values)):
            only = len(self.observed) == 1
            return {next(iter(self.observed)) if only else NAME_OF_BARE_OBSERVATIONS: values}
        return named_leaves(values)

    def _check(self, parameters: PyTree) -> None:
        """Find mistakes now that would otherwise be found only after sampling."""
        functions, reported = self.quantities, parameters
        if functions.constrain is not None:
            reported = trace("constrain", functions.constrain, parameters).result
        carried = {**self.constants, **self.observed}
        check_labels(named_leaves(reported), carried, self.dims, self.coords)
        if functions.pointwise is not None:
            shapes = trace("pointwise", functions.pointwise, parameters, functions.data).result
            check_results("pointwise", self._by_observed(shapes), self.observed)
        if functions.predict is not None:
            arguments = (jax.random.key(0), parameters, functions.data)
            shapes = trace("predict", functions.predict, *arguments).result
            check_results("predict", self._by_observed(shapes), self.observed, whole=True)
