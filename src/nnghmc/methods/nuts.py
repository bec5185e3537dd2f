"""NUTS, whose step size and mass matrix are adapted on all chains together."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from nnghmc.engine.events import Note
from nnghmc.engine.history import History
from nnghmc.engine.method import Method, Prepared, Starts
from nnghmc.engine.session import Session
from nnghmc.engine.statistics import LEAST_DRAWS_FOR_TAILS
from nnghmc.errors import check_fields, share
from nnghmc.explore.descent import Arrival
from nnghmc.explore.nuts_warmup import approach, warm_up_nuts
from nnghmc.explore.rays import follow_rays
from nnghmc.kernels import NoUTurn
from nnghmc.methods.payoff import Estimate, estimate_run
from nnghmc.methods.policy import Policy
from nnghmc.methods.settings import setting
from nnghmc.methods.tuned import Parts
from nnghmc.model.posterior import Posterior

MOST_DRAWS_FOR_TAILS = 4_000
"""Largest number of draws per chain that are read to measure the tails."""


@dataclass(frozen=True)
class NUTS(Method):
    """BlackJAX's no-U-turn sampler, with one step size and one mass matrix for all chains.

    The chains first go downhill into the typical set, whatever the scales of the parameters. The
    mass matrix is dense up to 300 dimensions, and diagonal above.

    Args:
        target_acceptance: acceptance that the step size is adapted to. If trajectories diverge in
            the later half of the warm-up, the target becomes 0.97 unless it is higher already.
        estimate: what `nnghmc.estimate` returned; None measures it. Its number of operations
            decides how thoroughly the code is compiled.
    """

    title: ClassVar[str] = "NUTS"
    adaptive: ClassVar[bool] = True
    target_acceptance: float = setting(
        Policy.nuts_target_acceptance, "Acceptance that NUTS adapts its step size to."
    )
    estimate: Estimate | None = setting(None, "Expected times of the run.", option=None)

    def __post_init__(self) -> None:
        check_fields(self, target_acceptance=share)

    def prepare(self, posterior: Posterior, starts: Starts, session: Session) -> Prepared:
        """Spread the chains around the initial point, and warm up."""
        session.reporter.note("estimate")
        states = starts.spread(session)
        expect(session, posterior, states.position, self.estimate, Policy(), thorough=False)
        policy = Policy(nuts_target_acceptance=self.target_acceptance)
        return prepare_nuts(session, posterior, states, policy)

    def kernel(self, posterior: Posterior, parts: Parts) -> NoUTurn:
        """Return NUTS with the adapted tuning."""
        return NoUTurn(posterior.potential_and_gradient, parts["tuning"])

    def look_back(
        self, posterior: Posterior, parts: Parts, kept: History, session: Session
    ) -> None:
        """Note tails that are too heavy for a variance."""
        note_heavy_tails(posterior, kept, session, Policy())


def expect(
    session: Session,
    posterior: Posterior,
    positions: Any,
    given: Estimate | None,
    policy: Policy,
    *,
    thorough: bool,
) -> Estimate:
    """Return the expected times of the run, measured only once even if the run is stopped."""
    found = given
    if found is None:
        draws, clock = session.wanted_draws, session.clock
        with session.timed("warmup"):
            found = session.once(
                "estimate",
                lambda: estimate_run(
                    posterior, positions, draws, policy, thorough=thorough, clock=clock
                ),
                dataclasses.asdict,
                lambda values: Estimate(**values),
            )
    session.record(found)
    session.flops = found.flops
    return found


def prepare_nuts(
    session: Session,
    posterior: Posterior,
    states: Any,
    policy: Policy,
    *,
    arrival: Arrival | None = None,
    **parts: Any,
) -> Prepared:
    """Warm up NUTS from these states, or from where the chains have arrived downhill.

    `parts` are added to those of the kernel.
    """
    draws = session.wanted_draws + policy.nuts_warmup
    quick = session.quick(draws * policy.gradients_per_nuts_draw)
    function = posterior.potential_and_gradient
    begun = approach(session, function, states, arrival)
    if begun.restarts and arrival is None:
        session.record(local_mode(begun.restarts, len(states.position)))
    warm = warm_up_nuts(
        session,
        function,
        begun,
        policy.nuts_target_acceptance,
        policy.nuts_careful_acceptance,
        quick=quick,
    )
    return Prepared(warm.states, {"tuning": warm.tuning, **parts}, quick)


def local_mode(restarts: int, chains: int) -> Note:
    """Return a note on chains that were restarted because they ended in a local mode."""
    return Note(
        "local mode",
        f"{restarts} of {chains} chains ended in a local mode with negligible probability mass and "
        "were restarted from the other chains",
        "if you think that mode matters, pass initial_positions inside it",
    )


def note_heavy_tails(posterior: Posterior, kept: History, session: Session, policy: Policy) -> None:
    """Measure the tails beyond the outermost draws, and note tails without a variance."""
    if kept.size < LEAST_DRAWS_FOR_TAILS:
        return
    with session.timed("sample") as cost:
        draws, potentials = kept.spread(MOST_DRAWS_FOR_TAILS)
        rays = follow_rays(posterior.potential_and_gradient, draws, potentials, session)
        cost.true_gradients += rays.evaluations
    if rays.index < policy.least_tail_index:
        session.record(
            Note(
                "heavy tails",
                f"the tail index is {rays.index:.1f}: the tails of this posterior are so heavy "
                "that it may have no variance",
                "do not trust means and standard deviations, use quantiles",
            )
        )
