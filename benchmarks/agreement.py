"""Judge draws by the moments of a long reference run, or of the best of the other samplers."""

import numpy as np

from nnghmc import diagnostics
from nnghmc.run.notes import LARGEST_RHAT
from references import comparable, reference
from targets import WITHOUT_REFERENCE

MOMENTS = ("mean", "sd", "mean_error", "sd_error")


def moments_of(target, draws):
    """Return means and standard deviations of draws, with their Monte Carlo errors, as lists."""
    draws = comparable(target, draws)
    found = {
        "mean": draws.mean(axis=(0, 1)),
        "sd": draws.std(axis=(0, 1)),
        "mean_error": diagnostics.standard_errors(draws),
        "sd_error": diagnostics.standard_errors(draws, of="std"),
    }
    return {name: values.tolist() for name, values in found.items()}


def known_moments(target, runs):
    """Return the moments that ours are compared with, and whose they are; None if no run can judge.

    `runs` holds a list of runs for each sampler.
    """
    if target not in WITHOUT_REFERENCE:
        return reference(target), "reference"
    others = {
        name: max(filter(_can_judge, found), key=_lowest, default=None)
        for name, found in runs.items()
        if name != "nnghmc"
    }
    judges = {name: found for name, found in others.items() if found is not None}
    if not judges:
        return None, "none"
    best = max(judges, key=lambda name: _lowest(judges[name]))
    return judges[best]["moments"], best


def _can_judge(found):
    return found.get("moments") is not None and found["rhat"] <= LARGEST_RHAT


def _lowest(found):
    """Return the lowest ESS of the draws that were made, also where a whole run's is estimated."""
    return found["lowest"] * found["drawn"]


def distances(found, known):
    """Return the largest distance of means and of standard deviations, in joint standard errors."""

    def largest(moment):
        ours, theirs = (np.asarray(of[moment]) for of in (found["moments"], known))
        errors = (np.asarray(of[f"{moment}_error"]) for of in (found["moments"], known))
        return float(np.max(np.abs(ours - theirs) / np.hypot(*errors)))

    return largest("mean"), largest("sd")


def agreement_row(target, runs):
    """Return how far our runs are from what is known, and how many are wrong without a note."""
    mine = [found for found in runs["nnghmc"] if "moments" in found]
    known, judge = known_moments(target, runs)
    worst_rhat = f"{max((found['rhat'] for found in mine), default=np.nan):.3f}"
    well = [found for found in mine if not found["notes"]]
    without_notes = f"{len(well)} of {len(mine)}"
    if known is None or not mine:
        return target, judge, "", "", "", worst_rhat, without_notes, ""
    dim = len(known["mean"])
    bound = float(np.sqrt(2 * np.log(2 * dim * 2 * len(mine))) + 1)
    wrongly = sum(
        max(distances(found, known)) > bound or found["rhat"] > LARGEST_RHAT for found in well
    )
    means, sds = np.max([distances(found, known) for found in mine], axis=0)
    return (
        target,
        judge,
        f"{means:.2f}",
        f"{sds:.2f}",
        f"{bound:.2f}",
        worst_rhat,
        without_notes,
        str(wrongly),
    )


AGREEMENT = (
    "target", "compared with", "largest z of means", "of standard deviations",
    "chance stays below", "R-hat", "runs without notes", "wrongly",
)  # fmt: skip
