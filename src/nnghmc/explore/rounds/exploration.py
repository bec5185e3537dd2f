"""Explores on the surrogate: the surrogate is learned where the truth says that it matters.

The chains go downhill along the true gradient. A quadratic is put where the lowest one arrived.
Rounds follow: NUTS draws from the surrogate posterior, cold and hot, which is nearly free; the
truth is evaluated at some of the draws, in full batches; and the surrogate is fitted again. The
rounds end when the truth agrees with the surrogate at its draws, at hot draws that reach its tails,
and along true trajectories that lead outward, or when all rounds are made.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nnghmc.engine.session import Session
from nnghmc.engine.statistics import split_rhat
from nnghmc.explore.descent import Arrival, descend
from nnghmc.explore.fitting import fit_remembered
from nnghmc.explore.nuts_warmup import coloured, usable_matrix
from nnghmc.explore.rounds.coverage import Coverage
from nnghmc.explore.rounds.differences import STEP
from nnghmc.explore.rounds.examination import Agreement, Examination, learned_values, some
from nnghmc.explore.rounds.expansion import (
    are_separate,
    covariance_of,
    scales_of_inputs,
    second_derivatives,
)
from nnghmc.explore.rounds.sparsity import sparse_curvature
from nnghmc.explore.rounds.surrogate_chains import LEAST_CHAINS, SurrogateChains
from nnghmc.explore.rounds.truth import BATCH, Evaluated, Truth
from nnghmc.model.posterior import Posterior
from nnghmc.model.split import Split
from nnghmc.surrogates import (
    FitReport,
    GradientData,
    GradientModel,
    QuadraticPlusProcess,
    SparseQuadratic,
    Surrogate,
)
from nnghmc.surrogates.fit import relative_error
from nnghmc.surrogates.models.quadratic import MOST_DENSE_DIMENSIONS
from nnghmc.surrogates.models.sparse_quadratic import is_sparse
from nnghmc.surrogates.parts.grouped_process import Groups
from nnghmc.surrogates.surrogate_posterior import SurrogatePosterior

ASKED = BATCH
"""Number of cold draws, and of hot ones, at which the truth is asked in each round."""
DRAWS = 40
"""Draws per chain on the surrogate posterior in each round, cold and hot."""
DRAWS_TO_THE_EDGE = 400
"""Hot draws per chain that show how far the surrogate posterior reaches, in few dimensions."""
FEW_INPUTS = 200
"""Number of inputs up to which each has a gradient difference of its own."""
FIRST_STEP_SIZE = 0.5
"""Step size at the start, where the mass matrix fits, times the fourth root of the dimensions."""
FAR_APART, BARRIER, POINTS_ON_A_LINE = 3.0, 3.0, 8
"""Distance of two arrivals, in standard deviations per root of the dimensions, from which on a
barrier between them is looked for; its least height; and points at which the truth is asked."""
MOST_FORGOTTEN = 0.02
"""Share of all evaluated points where the surrogate may be too high."""
ASTRAY, STRIDE = 5.0, 4.0
"""Spread of true minus surrogate potentials from which on draws of the surrogate posterior are
astray, and the ratio of distances of points on the way to them."""
LEAST_AIM, LOWERED_PER_ROUND = 0.7, 0.02
"""Least acceptance to aim at, and by how much the aim falls in each round."""
NUMBERS_OF_TRANSITIONS = np.array([1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32])
"""Numbers of transitions on the surrogate posterior per draw to choose from."""
RHAT_OF_SEPARATE_MODES = 2.0
"""R-hat of chains on the surrogate posterior above which they are in separate modes."""


@dataclass(frozen=True)
class Round:
    """The result of one round: how well the truth agreed with the surrogate.

    Attributes:
        number: number of the round, from 0.
        acceptance: expected acceptance of a draw of the surrogate posterior.
        coverage: how much posterior mass lies where the surrogate is wrong.
        rhat: largest R-hat of the chains on the surrogate posterior.
        forgotten: share of all points so far where the surrogate is too high, such as the ends of
            descents in another mode.
        closed_off: share of points on true trajectories where the surrogate is too high; NaN if
            none were followed, because the surrogate was not good enough anyway.
    """

    number: int
    acceptance: float
    coverage: Coverage
    rhat: float
    forgotten: float
    closed_off: float = float("nan")


@dataclass(frozen=True)
class Aim:
    """When a surrogate is good enough.

    Attributes:
        acceptance: least expected acceptance of a draw of the surrogate posterior.
        uncovered: bound on the posterior mass where the surrogate may be wrong.
        points: number of hot draws at which the truth is asked before a surrogate counts as good.
        closed_off: largest share of points on true trajectories where the surrogate is too high.
    """

    acceptance: float
    uncovered: float
    points: int
    closed_off: float

    def is_met(self, made: Round) -> bool:
        """Return whether the truth agrees with the surrogate of a round."""
        agrees = self.draws_agree(made) and made.closed_off <= self.closed_off
        return agrees and made.coverage.bound <= self.uncovered

    def draws_agree(self, made: Round) -> bool:
        """Return whether the truth agrees at draws of the surrogate posterior, cold and hot.

        This is before enough hot draws were made for a bound on what they may have missed.
        """
        covered = made.coverage.mass <= self.uncovered
        together = made.rhat <= RHAT_OF_SEPARATE_MODES and made.forgotten <= MOST_FORGOTTEN
        return made.acceptance >= self.acceptance_after(made.number) and covered and together

    def acceptance_after(self, rounds: int) -> float:
        """Return the least acceptance after some rounds: with each, there is less left to gain."""
        return max(LEAST_AIM, self.acceptance - LOWERED_PER_ROUND * rounds)


@dataclass
class Exploration:
    """The exploration of one posterior.

    Attributes:
        posterior: the posterior.
        split: what of its potential is exact, and the inputs of the rest.
        session: the session of the run.
        aim: when the surrogate is good enough.
        model: the model that is fitted in each round.
        sparse_model: the model that is fitted instead if most of many inputs meet few others.
        rounds: the rounds so far.
        learned: the learned function of the inputs.
        surrogate: the last fit, or None before the first.
        num_chains: number of chains of the run.
    """

    posterior: Posterior
    split: Split
    session: Session
    aim: Aim
    num_chains: int
    model: QuadraticPlusProcess = field(default_factory=QuadraticPlusProcess)
    sparse_model: SparseQuadratic = field(default_factory=SparseQuadratic)
    rounds: list[Round] = field(default_factory=list)
    learned: Any = None
    surrogate: Surrogate | None = None

    def __post_init__(self) -> None:
        self.truth = Truth(self.split, self.session, self.posterior.monitor.counts)

    def descend(self, states: Any) -> Arrival:
        """Take the chains downhill along the true gradient."""

        def evaluate(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            function = self.posterior.potential_and_gradient
            potentials, gradients = self.session.evaluate("descent", function, positions)
            return potentials, gradients

        with self.session.timed("warmup") as cost:
            arrival = descend(evaluate, states)
            cost.true_gradients += arrival.evaluations * len(states.position)
        return arrival

    def begin(self, arrival: Arrival, given: Surrogate | None = None) -> bool:
        """Put a surrogate where the lowest chain arrived, and start chains on it around there.

        The first surrogate is a quadratic, unless one is given. Returns False if there are too many
        inputs for a quadratic.
        """
        lowest = int(np.argmin(arrival.states.potential))
        position = np.asarray(arrival.states.position)[lowest]
        covariance = arrival.inverse_mass_matrix
        with self.session.timed("collect"):
            if given is None:
                self.learned = self._expand(arrival, lowest)
                if self.learned is None:
                    return False
                covariance = covariance_of(self.split, self.learned, position)
            else:
                self.learned, self.surrogate = given.learned, given
        self.chains = self._chains_around(position, usable_matrix(covariance))
        return True

    def in_separate_modes(self, arrival: Arrival) -> bool:
        """Return whether a chain arrived far from the lowest one, behind a barrier.

        The potential is followed along straight lines. A barrier rises above both ends. There is
        none if the surrogate that was put where the lowest chain arrived knows the other place.
        """
        ends = np.asarray(arrival.states.position)
        potentials = np.asarray(arrival.states.potential)
        lowest = int(np.argmin(potentials))
        away = ends - ends[lowest]
        matrix = self.chains.inverse_mass_matrix
        inverse = np.diag(1 / matrix) if matrix.ndim == 1 else np.linalg.inv(matrix)
        distances = np.sqrt(np.einsum("ij,jk,ik->i", away, inverse, away))
        dim = ends.shape[1]
        is_far = distances > FAR_APART * max(1.0, dim**0.5)
        far = np.flatnonzero(is_far & (self._missed(ends, potentials) > BARRIER + dim / 2))
        if not len(far):
            return False
        fractions = np.linspace(0, 1, POINTS_ON_A_LINE + 2)[1:-1, np.newaxis]
        lines = np.concatenate([ends[lowest] + fractions * away[number] for number in far])
        between = self.truth.at(lines).potentials.reshape(len(far), -1)
        highest = np.nan_to_num(between, nan=np.inf).max(axis=1)
        return bool(np.any(highest > potentials[far] + BARRIER))

    def _missed(self, ends: np.ndarray, potentials: np.ndarray) -> np.ndarray:
        """Return by how much the surrogate is too high, minus the same at the lowest position.

        In a mode of its own, far away, the surrogate around the lowest position is far too high.
        """
        inputs, exact = self.truth.inputs_and_exact(ends)
        learned = exact + learned_values(SurrogatePosterior(self.split, self.learned), inputs)
        missed = learned - potentials
        return np.asarray(missed - missed[np.argmin(potentials)])

    def _chains_around(self, position: np.ndarray, covariance: np.ndarray) -> SurrogateChains:
        """Return chains on the surrogate posterior that start around a position."""
        number = max(LEAST_CHAINS, self.num_chains)
        noise = self.session.generator("start of chains").normal(size=(number, len(position)))
        step_size = FIRST_STEP_SIZE * len(position) ** -0.25
        around = position + 0.5 * coloured(noise, covariance)
        return SurrogateChains(self.session, around, covariance, step_size)

    def _expand(self, arrival: Arrival, lowest: int) -> Any:
        """Return the quadratic with slope and curvature of the truth at the lowest arrival.

        With many inputs, of which most meet few others, it is a sparse one. None says that there
        are too many inputs for another.
        """
        positions, inputs = np.asarray(arrival.states.position), self.split.num_inputs
        scales = scales_of_inputs(self.split, positions[lowest], arrival.inverse_mass_matrix)
        if inputs > FEW_INPUTS:
            found = self.truth.at(positions)
            point = found.inputs[lowest], found.gradients[lowest]
            generator = self.session.generator("sets of inputs")
            curvature = sparse_curvature(self.truth, *point, STEP * scales, generator)
            if curvature is not None:
                return self.sparse_model.at_point(*point, curvature.rising())
            if inputs > MOST_DENSE_DIMENSIONS:
                return None
        centre, slope, hessian = second_derivatives(self.truth, positions, lowest, scales)
        groups = Groups.of_curvature(hessian)
        generator = self.session.generator("groups")
        if groups and not are_separate(self.truth, groups, centre, scales, generator):
            groups = None
        return self.model.at_point(centre, slope, hessian, groups)

    def make_round(self) -> Round | None:
        """Draw from the surrogate posterior, ask the truth, and judge; None after a stop."""
        number = len(self.rounds)
        surrogate = SurrogatePosterior(self.split, self.learned)
        self.chains.adapt(surrogate, f"adapting {number}")
        examination = Examination(self.truth, surrogate, self.chains, f"round {number}")
        self.cold = examination.draws(DRAWS)
        hot = examination.hot_draws(DRAWS)
        if self.session.stopped:
            return None
        chosen = [some(part, ASKED, examination.generator) for part in (self.last_draws, hot)]
        found = self.fresh = self.truth.at(np.concatenate(chosen))
        cold_found, hot_found = found.select(slice(ASKED)), found.select(slice(ASKED, None))
        agreement = Agreement.of(examination.excess(cold_found))
        if agreement.spread > ASTRAY:
            self.truth.at(self._on_the_way_to(cold_found.positions))
        else:
            self.truth.see_typical(cold_found.potentials)
        forgotten = examination.closed_off(self.truth.all, agreement)
        coverage = examination.coverage(hot_found, agreement)
        made = Round(number, agreement.acceptance, coverage, _rhat(self.cold), forgotten)
        if self.aim.draws_agree(made) and not self.session.stopped:
            made = replace(made, closed_off=self._closed_off(examination, agreement))
        if made.closed_off <= self.aim.closed_off and not self.session.stopped:
            rest = some(hot, self.aim.points - ASKED, examination.generator)
            hot_found = Evaluated.concatenate([hot_found, self.truth.at(rest)])
            made = replace(made, coverage=examination.coverage(hot_found, agreement))
        self.rounds.append(made)
        return made

    def _on_the_way_to(self, positions: np.ndarray) -> np.ndarray:
        """Return points between the lowest potential so far and some positions, at all distances.

        Draws of a surrogate that rises too little are so far out that they teach nothing of where
        the mass is.
        """
        found = self.truth.all
        lowest = found.positions[np.argmin(found.potentials)]
        fractions = STRIDE ** -np.arange(1.0, 1 + len(positions))
        return np.asarray(lowest + fractions[:, np.newaxis] * (positions - lowest))

    def _closed_off(self, examination: Examination, agreement: Agreement) -> float:
        """Look outward from the edge; the surrogate counts as good if nothing shows."""
        edge = examination.edge(self.chains.as_many_as(DRAWS_TO_THE_EDGE), agreement)
        if self.session.stopped:
            return float("nan")
        return examination.look_outward(np.concatenate([self.last_draws, edge]), agreement)

    @property
    def last_draws(self) -> np.ndarray:
        """The last draws of the surrogate posterior, of all chains together."""
        return self.cold.reshape(-1, self.posterior.dim)

    def learn(self) -> None:
        """Fit the surrogate again, to all that the truth has said, and restart the chains.

        The chains start where the truth says that there is mass: a surrogate that is wrong may have
        led them astray.
        """
        number = len(self.rounds)
        data = self.truth.lesson_data()
        key = self.session.key("fit of a round", number)
        model = self.model_in_use
        fitted = fit_remembered(self.session, model, data, key, None, before=self.learned)
        self.surrogate = fitted.as_of_inputs()
        self.learned = fitted.learned
        found = self.truth.all
        weights = self.truth.weights(found)
        generator = self.session.generator("restart", number)
        rows = generator.choice(len(weights), len(self.chains.positions), p=weights / weights.sum())
        self.chains.positions = found.positions[rows]

    @property
    def model_in_use(self) -> GradientModel:
        """The model that is fitted in each round."""
        return self.sparse_model if is_sparse(self.learned) else self.model

    @property
    def tested_surrogate(self) -> Surrogate:
        """The surrogate of the last round, with what the truth said of it in that round.

        Nothing of that was learned from, so that it is held out.
        """
        surrogate = self.surrogate or self._first_surrogate()
        held_out = GradientData.of_points(
            self.fresh.inputs, self.fresh.gradients, self.fresh.values
        )
        report = replace(
            surrogate.report,
            held_out=len(held_out),
            held_out_error=relative_error(surrogate.learned, held_out),
        )
        return replace(surrogate, report=report, held_out=held_out)

    def _first_surrogate(self) -> Surrogate:
        """Return the first quadratic as a surrogate."""
        nothing, number = np.empty(0), self.truth.asked
        report = FitReport(type(self.model_in_use).__name__, nothing, nothing, number)
        return Surrogate(self.learned, report, self.split.num_inputs, of_inputs=True)

    def transitions_per_draw(self, step_cost: float, spent: float) -> int:
        """Return the number of transitions on the surrogate posterior per draw that pays best.

        More of them make draws less correlated, and take more learned gradients.

        Args:
            step_cost: cost of a learned step relative to a true potential.
            spent: what was spent before the first draw, per draw, in the same unit. The more that
                is, the more is each draw worth.
        """
        away = self.cold - self.cold.mean(axis=(0, 1))
        numbers = NUMBERS_OF_TRANSITIONS
        cost = spent + 1 + numbers * step_cost * self.chains.steps_per_draw
        means, squares = (
            _effective_draws(_correlation(part) ** numbers) for part in (away, away**2)
        )
        return int(numbers[np.argmax(np.sqrt(means * squares) / cost)])


def _effective_draws(correlation: np.ndarray) -> np.ndarray:
    """Return how many independent draws a draw is worth, by its correlation with the next."""
    bounded = np.clip(correlation, -0.5, 0.99)
    return np.asarray((1 - bounded) / (1 + bounded))


def _correlation(draws: np.ndarray) -> float:
    """Return the correlation with the next draw, for the worst coordinate."""
    away = draws - draws.mean(axis=(0, 1))
    products = (away[:, 1:] * away[:, :-1]).mean(axis=(0, 1))
    return float(np.max(products / np.maximum((away**2).mean(axis=(0, 1)), 1e-300)))


def _rhat(draws: np.ndarray) -> float:
    """Return the largest split R-hat of the coordinates."""
    return float(np.nan_to_num(split_rhat(draws), nan=1.0).max())
