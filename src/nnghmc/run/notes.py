"""Notes tell a person what to know before using the draws, and what to do about it."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from nnghmc.engine.events import Note
from nnghmc.engine.statistics import (
    LEAST_DRAWS_FOR_TAILS,
    Convergence,
    bfmi,
    longest_stay,
    rhat,
    tail_shapes,
)
from nnghmc.platform.text import counted

LARGEST_RHAT = 1.01
"""R-hat above which the chains disagree."""
LEAST_ESS_PER_CHAIN = 100
"""Effective sample size per chain below which there are too few draws."""
LEAST_ACCEPTANCE = 0.2
"""Mean acceptance below which it is noted."""
LEAST_BFMI, LEAST_DRAWS_FOR_BFMI = 0.6, 100
"""Mean E-BFMI over chains below which it is noted, and the number of draws that it takes. Stan's
limit of 0.3 is for a single chain; the mean over chains is known more precisely."""
LONGEST_STAY = 100
"""Largest number of consecutive draws in one place. With an acceptance of a fifth, a longer stay
does not happen by chance."""

Stats = Mapping[str, np.ndarray]
"""Statistics of draws by ArviZ's names."""


class Remedies(NamedTuple):
    """Remedies for draws that may be wrong.

    Attributes:
        rejected: for chains that never moved, or accept too little.
        stayed: for a chain that stays in one place for long.
        diverged: for trajectories that diverged.
        disagree: for chains that disagree.
        few_divergences: share of draws that may diverge without a note. On a surrogate posterior,
            now and then a trajectory diverges in a place that the truth has been asked about.
    """

    rejected: str
    stayed: str
    diverged: str
    disagree: str
    few_divergences: float = 0.0


OWN_TUNING = Remedies(
    rejected="use a smaller step_size",
    stayed='it cannot leave that place; use a smaller step_size, or method="hmc"',
    diverged="use a smaller step_size",
    disagree="make more draws, warm up longer, or give num_steps as a pair",
)
CURVED = (
    "the posterior is too sharply curved there for the step size, and that region may be missing "
    "from the draws; write the model in other coordinates"
)
SEVERAL_MODES = "make more draws; if that does not help, the posterior may have several modes"
TRUE_GRADIENT = Remedies(rejected=CURVED, stayed=CURVED, diverged=CURVED, disagree=SEVERAL_MODES)
LEARNED_GRADIENT = Remedies(
    rejected='these chains cannot be used; run again with another seed, or with method="nuts"',
    stayed="the gradient was not learned there; the draws are exact, but more are needed, or "
    'method="nuts"',
    diverged=CURVED,
    disagree=SEVERAL_MODES,
    few_divergences=0.002,
)


class Kept(NamedTuple):
    """The kept draws, with everything that notes on them depend on.

    Attributes:
        draws: positions, shape (chains, draws, dim).
        stats: statistics by ArviZ's names, each of shape (chains, draws).
        names: names of the coordinates.
        convergence: effective sample sizes and R-hat; None for too few draws.
        remedies: remedies that suit the method.
    """

    draws: np.ndarray
    stats: Stats
    names: list[str]
    convergence: Convergence | None
    remedies: Remedies = OWN_TUNING

    @property
    def stuck(self) -> int:
        """The number of chains that never moved; 0 if there is only a single draw."""
        if self.draws.shape[1] < 2:
            return 0
        return int(np.sum(np.ptp(self.draws, axis=1).max(axis=1) == 0))


def judge(kept: Kept) -> list[Note]:
    """Return all notes on the kept draws."""
    notes = [*_rejections(kept), *_divergences(kept)]
    if kept.convergence is None:
        draws = counted(kept.draws.shape[1], "draw")
        text = f"convergence cannot be judged from {draws} per chain"
        return [*notes, Note("few draws", text, "make more draws")]
    if kept.stuck == len(kept.draws):
        return notes
    checks: tuple[Callable[[Kept], list[Note]], ...] = (
        _heavy_tails,
        _slow_energies,
        _disagreement,
        _few_effective_draws,
    )
    return [*notes, *(note for check in checks for note in check(kept))]


def _rejections(kept: Kept) -> list[Note]:
    """Note chains that never moved, accept too little, or stay in one place."""
    chains, stats = len(kept.draws), kept.stats
    if kept.stuck:
        text = f"{kept.stuck} of {chains} chains never moved"
        return [Note("stuck chains", text, kept.remedies.rejected)]
    if "acceptance_rate" in stats:
        rates = stats["acceptance_rate"]
        if (mean := rates.mean()) < LEAST_ACCEPTANCE:
            text = f"acceptance is only {mean:.2f}"
            return [Note("low acceptance", text, kept.remedies.rejected)]
        if (lowest := rates.mean(axis=1).min()) < LEAST_ACCEPTANCE:
            text = f"acceptance is only {lowest:.2f} in one chain"
            return [Note("low acceptance", text, kept.remedies.rejected)]
    if (stay := longest_stay(stats["lp"])) > LONGEST_STAY:
        text = f"a chain stayed in one place for {stay} draws"
        return [Note("long stay", text, kept.remedies.stayed)]
    return []


def _divergences(kept: Kept) -> list[Note]:
    flags = kept.stats.get("diverging", np.zeros(1, bool))
    diverged = int(flags.sum())
    if diverged <= kept.remedies.few_divergences * flags.size:
        return []
    trajectories = "1 trajectory" if diverged == 1 else f"{diverged:,} trajectories"
    return [Note("divergences", f"{trajectories} diverged", kept.remedies.diverged)]


def _heavy_tails(kept: Kept) -> list[Note]:
    number = kept.draws.shape[0] * kept.draws.shape[1]
    if number < LEAST_DRAWS_FOR_TAILS:
        return []
    shapes = tail_shapes(kept.draws)
    worst = int(np.argmax(np.nan_to_num(shapes, nan=-np.inf)))
    in_tails = min(number / 5, 3 * np.sqrt(number))  # the number of draws that the fit uses
    if not shapes[worst] > 0.5 + 2 / np.sqrt(in_tails):
        return []
    return [
        Note(
            "heavy tails",
            f"the tails of {kept.names[worst]} are so heavy (Pareto k {shapes[worst]:.2f}) that it "
            "may have no variance",
            "do not trust its mean and standard deviation, use quantiles",
        )
    ]


def _slow_energies(kept: Kept) -> list[Note]:
    energies = kept.stats.get("energy", np.empty(0))
    if energies.size < LEAST_DRAWS_FOR_BFMI or not (found := bfmi(energies).mean()) < LEAST_BFMI:
        return []
    return [
        Note(
            "low E-BFMI",
            f"E-BFMI is {found:.2f}, below {LEAST_BFMI}: from draw to draw the energy changes too "
            "little, as in a funnel, and narrow regions or tails may be missing from the draws",
            "write the model in other coordinates",
        )
    ]


def _disagreement(kept: Kept) -> list[Note]:
    assert kept.convergence is not None
    values = kept.convergence.rhat
    if not np.isnan(kept.stats["lp"]).all():  # unknown to methods with mini-batches alone
        values = np.append(values, rhat(kept.stats["lp"][..., np.newaxis]))
    if values.max() <= LARGEST_RHAT:
        return []
    worst = int(np.argmax(np.nan_to_num(values, nan=np.inf)))
    name = [*kept.names, "the log density"][worst]
    text = f"R-hat is {values[worst]:.3f} for {name}, so the chains disagree"
    return [Note("chains disagree", text, kept.remedies.disagree)]


def _few_effective_draws(kept: Kept) -> list[Note]:
    assert kept.convergence is not None
    sizes = np.minimum(kept.convergence.bulk_ess, kept.convergence.tail_ess)
    if sizes.min() >= LEAST_ESS_PER_CHAIN * len(kept.draws):
        return []
    worst = int(np.argmin(np.nan_to_num(sizes, nan=0.0)))
    text = (
        f"the effective sample size is {sizes[worst]:.0f} for {kept.names[worst]}, below "
        f"{LEAST_ESS_PER_CHAIN} per chain"
    )
    return [Note("low effective sample size", text, "make more draws")]


def not_exact(title: str) -> Note:
    """Return the note on a method that is not exact."""
    return Note(
        "not exact",
        f"{title} is not exact: nothing corrects for its step size and its mini-batches",
        "compare it with an exact method",
    )


def failed_calls(words: str) -> Note:
    """Return the note on calls of a function outside JAX that failed."""
    return Note("failed calls", words)


def interrupted(draws: int) -> str:
    """Return a sentence that says how many draws were made before an interruption."""
    if not draws:
        return "the run was interrupted before its first kept draw"
    return f"the run was interrupted after {counted(draws, 'draw')} per chain"
