"""The automatic run: it learns the gradient if that is likely to pay, and otherwise uses NUTS."""

from dataclasses import dataclass
from typing import ClassVar

from nnghmc.engine.events import Note
from nnghmc.engine.history import History
from nnghmc.engine.method import Method, Prepared, Starts
from nnghmc.engine.session import Session
from nnghmc.engine.statistics import LEAST_DRAWS_FOR_TAILS
from nnghmc.errors import SettingsError, instance_of, one_of
from nnghmc.explore.rounds.afterwards import examine_afterwards
from nnghmc.kernels import Kernel, NoUTurn
from nnghmc.methods.automatic_preparation import AutomaticPreparation
from nnghmc.methods.events import covered
from nnghmc.methods.learning import as_model, automatic_kernel, checked_surrogate, titled
from nnghmc.methods.nuts import MOST_DRAWS_FOR_TAILS, note_heavy_tails
from nnghmc.methods.payoff import Estimate
from nnghmc.methods.policy import Policy
from nnghmc.methods.settings import setting
from nnghmc.methods.tuned import Parts
from nnghmc.model.posterior import Posterior
from nnghmc.surrogates import GradientModel, Surrogate

WAYS = ("estimate", "learn", "nuts")


@dataclass(frozen=True)
class Auto(Method):
    """The automatic run: it learns the gradient if that pays, and samples by NUTS if it does not.

    There is nothing to tune. Each argument replaces one of the automatic choices.

    Args:
        network: model that learns the gradient, such as `GradientMLP(100)`, or its name.
        surrogate: surrogate from an earlier fit that has a potential, to these data or others,
            under this prior or another. The truth is asked about it in place of a new one. If the
            truth agrees, it is tuned and probed; otherwise a surrogate is learned anew.
        way: "estimate" decides by measured times whether to learn; "learn" always tries to learn,
            and "nuts" always uses NUTS.
        estimate: expected times of the run, from `nnghmc.estimate`; None measures them. With an
            estimate, no decision depends on the clock.
        policy: thresholds of most decisions.
    """

    title: ClassVar[str] = "automatic"
    adaptive: ClassVar[bool] = True
    network: GradientModel | str = setting(
        "process", "Model that learns the gradient; mlp is the paper's network.", kind="network"
    )
    surrogate: Surrogate | None = setting(
        None, "Surrogate file of an earlier run, used instead of learning.", kind="surrogate"
    )
    way: str = setting("estimate", "Decide by timing (estimate), or learn, or nuts.")
    estimate: Estimate | None = setting(None, "Expected times of the run.", option=None)
    policy: Policy = setting(Policy, "Thresholds of most decisions.", option=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "network", as_model(self.network))
        one_of("way", self.way, WAYS)
        instance_of("policy", self.policy, Policy)
        if self.estimate is not None:
            instance_of("estimate", self.estimate, Estimate)

    @property
    def streams(self) -> str:
        """A part of the name of every random stream, another one if a surrogate is given.

        The run is then independent of the one that the surrogate came from.
        """
        return super().streams if self.surrogate is None else f"{super().streams} reusing"

    def check(self, posterior: Posterior) -> None:
        """Raise an error if the surrogate has other parameters, or no potential."""
        checked_surrogate(self.surrogate, posterior)
        if self.surrogate is not None and not self.surrogate.conservative:
            raise SettingsError(
                "the automatic run takes a surrogate that has a potential, and a "
                f"{self.surrogate.report.model} has none. Use NNgHMC(surrogate=...)."
            )

    def prepare(self, posterior: Posterior, starts: Starts, session: Session) -> Prepared:
        """Decide between a learned gradient and NUTS, and prepare the choice."""
        return AutomaticPreparation(self, posterior, session).run(starts)

    def kernel(self, posterior: Posterior, parts: Parts) -> Kernel:
        """Return a mixture of surrogate transitions and HMC along the true gradient, or NUTS."""
        if not parts["handed_over"]:
            return NoUTurn(posterior.potential_and_gradient, parts["tuning"])
        return automatic_kernel(posterior, parts, self.policy.true_share)

    def describe(self, parts: Parts) -> str:
        """Return the name of the method that made the kept draws."""
        return titled("NNgHMC", parts["surrogate"]) if parts["handed_over"] else "NUTS"

    def look_back(
        self, posterior: Posterior, parts: Parts, kept: History, session: Session
    ) -> None:
        """Note what the kept draws show: acceptance that fell, places closed off, heavy tails."""
        before, now = parts["probed_acceptance"], kept.worst_acceptance
        if now < before - self.policy.largest_fall:
            session.record(_acceptance_fell(before, now))
        if parts["handed_over"] and kept.size >= LEAST_DRAWS_FOR_TAILS and not session.stopped:
            self._look_beyond(posterior, parts, kept, session)
        note_heavy_tails(posterior, kept, session, self.policy)

    def _look_beyond(
        self, posterior: Posterior, parts: Parts, kept: History, session: Session
    ) -> None:
        """Ask the truth beyond the kept draws, and note places that the surrogate closes off."""
        surrogate = parts["surrogate"].on(posterior)
        if not surrogate.conservative:
            return
        draws, potentials = kept.spread(MOST_DRAWS_FOR_TAILS)
        points, tuning = self.policy.coverage_points, parts["tuning"]
        examined = examine_afterwards(
            posterior, surrogate, tuning, draws, potentials, points, session
        )
        if examined is None:
            return
        cover, closed = examined
        session.record(covered(cover))
        if closed > self.policy.largest_closed_off_at_the_end:
            session.record(_closed_off(f"at {closed:.1%} of the points beyond the outermost draws"))
        elif cover.bound > self.policy.largest_uncovered_at_the_end:
            session.record(_closed_off(f"for {cover.mass:.1%} of the posterior"))


def _acceptance_fell(before: float, now: float) -> Note:
    """Return the note on an acceptance far below that of the probe."""
    return Note(
        "acceptance fell",
        f"acceptance fell from {before:.2f} in the probe to {now:.2f} in a chain that went where "
        "the gradient was not learned; the draws are exact, but have a smaller effective sample "
        "size",
        'run again with another seed, or with method="nuts"',
    )


def _closed_off(where: str) -> Note:
    """Return the note on a surrogate that keeps the chains out of places with mass."""
    return Note(
        "coverage",
        f"the surrogate is wrong {where}, so the chains may hardly visit places that hold "
        "probability mass, and standard deviations may be too small",
        'run again with another seed, or with method="nuts"',
    )
