"""Kernels that follow trajectories: standard HMC, and HMC along a learned gradient."""

import abc
from collections.abc import Callable
from typing import Any, cast

import equinox as eqx
import jax
from blackjax.base import SamplingAlgorithm
from blackjax.mcmc.metrics import MetricTypes, default_metric
from jaxtyping import Array, PRNGKeyArray, PyTree

from nnghmc.kernels.base import Evaluations, Kernel, Statistics, Transition, number_of_draws
from nnghmc.kernels.hmc import HMCInfo, HMCState, hmc, true_gradient_hmc
from nnghmc.kernels.leapfrog import Field, Path
from nnghmc.kernels.tuning import Jittered, Tuning

ARVIZ_NAMES = {
    "acceptance_rate": "acceptance_rate",
    "is_accepted": "accepted",
    "is_divergent": "diverging",
    "is_nonfinite": "nonfinite",
    "energy": "energy",
    "energy_error": "energy_error",
    "proposed_energy_error": "max_energy_error",
    "step_size": "step_size",
    "num_integration_steps": "n_steps",
}
"""ArviZ's name for each field of `HMCInfo`."""


def num_steps(statistics: Statistics) -> int:
    """Return the number of leapfrog steps of the draws, over all chains."""
    return int(statistics["n_steps"].sum())


class TrajectoryKernel(Kernel):
    """The base class of kernels that follow trajectories of a tuned length.

    All chains share the length of a trajectory, so that none waits for another. The length does not
    depend on where the chains are, so each chain has the same distribution as if it ran alone, and
    at stationarity the chains stay uncorrelated. A subclass has a field `tuning` with its `Tuning`.
    """

    @property
    def _tuning(self) -> Tuning:
        """The field `tuning` of the subclass, which decides on its place among the fields."""
        return cast(Any, self).tuning

    @abc.abstractmethod
    def algorithm(
        self, step_size: Jittered[float], num_steps: Jittered[int], metric: MetricTypes
    ) -> SamplingAlgorithm:
        """Return the transition of one chain for this trajectory length and metric."""

    def step(self, key: PRNGKeyArray, state: Any) -> tuple[Any, Any]:
        """Make one transition of one chain."""
        tuning = self._tuning
        length = (tuning.step_size, tuning.num_steps)
        return self.algorithm(*length, tuning.inverse_mass_matrix).step(key, state)

    def all_chains(self) -> Transition:
        """Return the transition of all chains; the metric is computed once."""
        metric = default_metric(self._tuning.inverse_mass_matrix)

        def step(key: PRNGKeyArray, states: Any) -> tuple[Any, Any]:
            keys = jax.random.split(key, 1 + len(states.position))
            algorithm = self.algorithm(*self._tuning.drawn_length(keys[0]), metric)
            return jax.vmap(algorithm.step)(keys[1:], states)

        return step

    def statistics(self, info: HMCInfo) -> dict[str, Array]:
        """Return the statistics of a transition by ArviZ's names."""
        return {name: getattr(info, field) for field, name in ARVIZ_NAMES.items()}

    def recorded(self, info: HMCInfo) -> PyTree:
        """Return the recorded path, which is empty for most kernels."""
        return info.path


class SurrogateKernel(TrajectoryKernel):
    """The base class of kernels that propose by a surrogate, with one true potential per draw."""

    def evaluations(self, statistics: Statistics) -> Evaluations:
        """Return the evaluations: one true potential per draw and one learned gradient per step."""
        return Evaluations(
            true_potentials=number_of_draws(statistics), learned_gradients=num_steps(statistics)
        )

    @property
    def entering(self) -> Evaluations:
        """The evaluations that `init` takes if the potential is known: one learned gradient."""
        return Evaluations(learned_gradients=1)


class LearnedGradientHMC(SurrogateKernel):
    """HMC along a learned gradient, which takes one true potential per draw."""

    potential: Callable[[Array], Array]
    gradient: Callable[[Array], Array]
    tuning: Tuning

    def algorithm(
        self, step_size: Jittered[float], num_steps: Jittered[int], metric: MetricTypes
    ) -> SamplingAlgorithm:
        """Return HMC with the true potential in its Metropolis test."""
        return hmc(self.potential, self.gradient, step_size, num_steps, metric)

    def init(self, position: Array, potential: Array | None = None) -> HMCState:
        """Return the state of one chain, with the learned gradient."""
        known = self.potential(position) if potential is None else potential
        return HMCState(position, known, self.gradient(position))


class TrueGradientHMC(TrajectoryKernel):
    """Standard HMC; with `record_steps` it records the steps of its trajectories."""

    potential_and_gradient: Field
    tuning: Tuning
    record_steps: int = eqx.field(static=True, default=0)

    def algorithm(
        self, step_size: Jittered[float], num_steps: Jittered[int], metric: MetricTypes
    ) -> SamplingAlgorithm:
        """Return standard HMC."""
        return true_gradient_hmc(
            self.potential_and_gradient,
            step_size,
            num_steps,
            metric,
            record_steps=self.record_steps,
        )

    def init(self, position: Array, potential: Array | None = None) -> HMCState:
        """Return the state of one chain, with the true gradient."""
        return HMCState(position, *self.potential_and_gradient(position))

    def evaluations(self, statistics: Statistics) -> Evaluations:
        """Return the evaluations: one true gradient per step."""
        return Evaluations(true_gradients=num_steps(statistics))

    @property
    def recorded_positions(self) -> int:
        """The number of positions recorded per draw: the start and every recorded step, or 0."""
        return Path.num_rows(self.record_steps)

    @property
    def entering(self) -> Evaluations:
        """The evaluations that `init` takes if the potential is known: one true gradient."""
        return Evaluations(true_gradients=1)
