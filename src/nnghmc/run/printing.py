"""Describes a run in words, as `print(run)` shows it."""

from typing import TYPE_CHECKING

import numpy as np

from nnghmc.engine.cost import PHASES, Cost, PhaseCost
from nnghmc.platform.text import counted, in_words, printable

if TYPE_CHECKING:
    from nnghmc.run.run import Run


def run_in_words(run: "Run") -> str:
    """Return the title, the story, the quality of the draws, the cost and the notes."""
    size = f"{counted(run.kept.num_chains, 'chain')} × {counted(run.kept.length, 'draw')}"
    lines = [
        f"{run.title}: {size} of {counted(run.dim, 'dimension')}, "
        + ("exact" if run.exact else "NOT exact")
        + ("" if run.complete else ", incomplete (interrupted)")
        + f", in {in_words(run.cost.total.seconds)}"
        + _time_along_the_true_gradient(run),
        *(f"  {line}" for line in run.story),
    ]
    if run.surrogate is not None and not run.facts.adaptive:
        first, *others = run.surrogate.report.lines
        lines += [f"  {first}", *(f"    {line}" for line in others)]
    if run.kept.length:
        lines.append(f"  {_quality(run)}")
    lines += [f"  {line}" for line in _cost_lines(run.cost)]
    lines += [f"  note: {note}" for note in run.notes]
    return printable("\n".join(lines))


def _time_along_the_true_gradient(run: "Run") -> str:
    """Return the time that learned trajectories would have taken with true gradients, in words."""
    if run.estimate is None or not run.handed_over:
        return ""
    rounds = run.cost.sample.learned_gradients / run.kept.num_chains
    seconds = rounds * run.estimate.gradient_seconds
    return f"; the same trajectories with true gradients would have taken about {in_words(seconds)}"


def _quality(run: "Run") -> str:
    """Return acceptance, divergences, ESS and R-hat of the kept draws, in words."""
    tested = not np.isnan(run.acceptance)
    words = f"acceptance {run.acceptance:.2f}" if tested else "no Metropolis test"
    words += f", {counted(run.divergences, 'divergence')}"
    nonfinite = int(run.stats["nonfinite"].sum()) if "nonfinite" in run.stats else 0
    if nonfinite:
        words += f" ({nonfinite} not finite)"
    if run.convergence is None:
        return words
    bulk, tail, rhat = run.convergence
    words += f"; lowest ESS {bulk.min():,.0f} (tails {tail.min():,.0f})"
    return f"{words}; R-hat {rhat.max():.3f}"


def _cost_lines(cost: Cost) -> list[str]:
    """Return one line per phase, with its seconds and evaluations."""
    lines = []
    for phase in PHASES:
        part: PhaseCost = getattr(cost, phase)
        counts = {
            "potential": part.true_potentials,
            "true gradient": part.true_gradients,
            "learned gradient": part.learned_gradients,
            "mini-batch gradient": part.batch_gradients,
        }
        if part.seconds:
            time = f"{phase:<7}{part.seconds:>8.2f} s ({part.compile_seconds:.2f} compiling)"
            evaluated = (counted(number, noun) for noun, number in counts.items() if number)
            lines.append(", ".join([time, *evaluated]))
    return lines
