"""The sections of a report: each has a heading, a sentence on how to read it, and what it shows.

A section that has nothing to show says so, and why.
"""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nnghmc.model.monitor import Tally
from nnghmc.platform.text import counted
from nnghmc.run.notes import LARGEST_RHAT, LEAST_BFMI, LEAST_ESS_PER_CHAIN
from nnghmc.run.report import figures, tables
from nnghmc.run.report.contents import Contents
from nnghmc.run.report.figures import Picture
from nnghmc.run.report.markup import Html, element, joined
from nnghmc.run.report.summary import MOST_ROWS, summarised, worst_first

MOST_DRAWN = 6
"""Variables or coordinates that have figures of their own."""
MOST_ROWS_AT_ONCE = 20
"""Rows of a table that is shown whole; a longer one is behind a click."""
WORST_ROWS = 10
NO_DRAWS = "The run has no kept draws, so there is nothing to show."


@dataclass(frozen=True)
class Section:
    """A part of the page that can be linked to."""

    id: str
    title: str
    body: Html

    @property
    def html(self) -> Html:
        """The section as it stands on the page."""
        heading = element("h2", self.title, id=f"{self.id}-title")
        return element(
            "section", heading, self.body, id=self.id, aria_labelledby=f"{self.id}-title"
        )


class Report:
    """Contents with their table of variables, which is made once because most sections need it."""

    def __init__(self, contents: Contents):
        self.contents = contents
        self.summary = summarised(contents.scalars) if contents.scalars else pd.DataFrame()
        self.by_need = worst_first(self.summary)
        names = list(self.summary.index)
        self.drawn = names if len(names) <= MOST_DRAWN else self.by_need[:MOST_DRAWN]

    @property
    def sections(self) -> list[Section]:
        """All sections in the order of the page."""
        bodies: dict[tuple[str, str], Callable[[], Html]] = {
            ("model", "What was sampled"): self.sampled,
            ("story", "What happened"): self.story,
            ("summary", "Summary"): self.variables,
            ("traces", "Traces"): self.traces,
            ("ranks", "Ranks"): self.ranks,
            ("energy", "Energy"): self.energy,
            ("gradient", "Learned gradient"): self.gradient,
            ("acceptance", "Acceptance over time"): self.acceptance,
            ("training", "Training"): self.training,
            ("cost", "Cost"): self.cost,
        }
        return [Section(*name, body()) for name, body in bodies.items()]

    def sampled(self) -> Html:
        """Return the model, the method, the sizes, the seed, and where the run was made."""
        contents = self.contents
        facts = {
            "model": contents.model,
            "method": f"{contents.method}, {'exact' if contents.exact else 'NOT exact'}",
            "chains × draws": f"{contents.chains:,} × {contents.draws:,}"
            + ("" if contents.complete else ", not complete"),
            "dimensions": f"{contents.dim:,}",
            "seed": str(contents.seed),
            "made": contents.made or tables.UNKNOWN,
        }
        pairs = [(element("dt", name), element("dd", fact)) for name, fact in facts.items()]
        return element("dl", *(part for pair in pairs for part in pair), class_="facts")

    def story(self) -> Html:
        """Return what was found and decided, in order."""
        if not self.contents.story:
            return _words("No decisions were made in this run.")
        lines = [element("li", line) for line in self.contents.story]
        return element("ol", *lines, class_="story")

    def variables(self) -> Html:
        """Return ArviZ's table; a long one shows the worst variables, and all after a click."""
        if self.summary.empty:
            return _words(NO_DRAWS)
        names, chains = list(self.summary.index), self.contents.chains
        limits = _words(
            "Effective sample sizes and R-hat are ArviZ's. An exclamation mark (!) stands for an "
            f"R-hat above {LARGEST_RHAT}, or an effective sample size below {LEAST_ESS_PER_CHAIN} "
            "per chain."
        )
        if len(names) <= MOST_ROWS_AT_ONCE:
            whole = tables.of_variables("All variables", self.summary, names, chains)
            return joined(limits, whole)
        worst = tables.of_variables(
            f"The {WORST_ROWS} variables with the largest R-hat"
            if "r_hat" in self.summary
            else f"The first {WORST_ROWS} variables",
            self.summary,
            self.by_need[:WORST_ROWS],
            chains,
        )
        total = len(self.contents.scalars)
        which = f"First {MOST_ROWS:,} of {total:,}" if total > MOST_ROWS else f"All {total:,}"
        whole = tables.of_variables(f"{which} variables", self.summary, names, chains)
        rest = element("details", element("summary", f"{which} variables"), whole)
        return joined(limits, worst, rest)

    def traces(self) -> Html:
        """Return plots of the draws of some variables, in the order in which they were made."""
        if not self.drawn:
            return _words(NO_DRAWS)
        words = "Each chain has a colour. The chains should overlap and show no trend."
        stride = figures.trace_stride(self.contents.scalars[self.drawn[0]])
        thinned = f" Only every {_ordinal(stride)} draw is shown." if stride > 1 else ""
        pictures = [figures.trace(name, self.contents.scalars[name]) for name in self.drawn]
        return joined(_words(f"{words}{self._which()}{thinned}"), _panels(pictures))

    def ranks(self) -> Html:
        """Return the ranks of the same draws by chain."""
        if not self.drawn:
            return _words(NO_DRAWS)
        drawn = [figures.ranks(name, self.contents.scalars[name]) for name in self.drawn]
        pictures = [picture for picture in drawn if picture is not None]
        if not pictures:
            return _words("Ranks need at least two chains with finite draws that differ.")
        words = "The draws of all chains are ranked together. If the chains agree, all bars are "
        words += "about as high as the dashed line."
        if self.contents.chains > figures.MOST_CHAINS_APART:
            words += f" Of {self.contents.chains} chains, the {figures.MOST_CHAINS_APART} that are "
            words += "farthest from the line are shown."
        return joined(_words(f"{words}{self._which()}"), _panels(pictures))

    def _which(self) -> str:
        """Say which variables are shown, where not all of them are."""
        total = len(self.contents.scalars)
        if len(self.drawn) == total:
            return ""
        if "r_hat" not in self.summary:
            return f" Shown: the first {len(self.drawn)} of {total:,} variables."
        return f" Shown: the {len(self.drawn)} of {total:,} variables with the largest R-hat."

    def energy(self) -> Html:
        """Return how the energy changes, and the statistics of each chain."""
        if not self.contents.draws:
            return _words(NO_DRAWS)
        picture = figures.energy(self.contents.statistic("energy"))
        by_chain = tables.of_chains(self.contents)
        if picture is None:
            reason = "The energies of these draws are not known, too few, or all equal."
            return joined(_words(reason), by_chain)
        words = (
            "From one draw to the next, the energy should change about as much as it varies over "
            "all draws. E\u2011BFMI measures this ratio; a mean over chains below "
            f"{LEAST_BFMI} means that the chains are slow to reach the tails."
        )
        return joined(_words(words), _panels([picture]), element("h3", "By chain"), by_chain)

    def gradient(self) -> Html:
        """Return the learned and the true gradient at points that were held out of the fit."""
        fit = self.contents.fit
        if fit is None:
            return _words("No gradient was learned in this run.")
        lines = element("ul", *(element("li", line) for line in fit.lines))
        held_out = fit.gradients
        if held_out is None:
            return joined(lines, _words("No points were held out of the fit to compare it with."))
        worst = np.argsort(-np.nan_to_num(held_out.errors, nan=np.inf), kind="stable")
        shown = worst[: MOST_DRAWN - 1]
        words = (
            "Each dot is a point that was held out of the fit; on the line the learned gradient "
            "equals the true one. Each coordinate is in units of its standard deviation. A poor "
            "gradient lowers acceptance, but does not bias the draws: each is accepted or rejected "
            "by the true posterior."
        )
        if len(shown) < len(worst):
            words += f" Shown: the {len(shown)} of {len(worst):,} coordinates with the largest "
            words += "error."
        pictures = [figures.gradient(held_out, int(coordinate)) for coordinate in shown]
        pictures.append(figures.gradient_errors(held_out))
        return joined(lines, _words(words), _panels(pictures))

    def acceptance(self) -> Html:
        """Return the acceptance from the first draw of the run to the last."""
        contents = self.contents
        rates = contents.acceptance
        picture = figures.acceptance(rates, contents.diverged, contents.phases, contents.probes)
        if picture is None:
            reason = f"{contents.method} has no Metropolis test, so there is no acceptance to show."
            return _words(reason if rates.size else NO_DRAWS)
        words = "The blue line is the mean acceptance probability of all chains."
        if contents.chains > 1:
            words += " The grey lines are those of single chains."
        if contents.probes:
            words += " A probe consists of draws that test the learned gradient and are not kept."
        return joined(_words(words), _panels([picture]))

    def training(self) -> Html:
        """Return the loss over the epochs of the last fit."""
        fit = self.contents.fit
        if fit is None:
            return _words("Nothing was trained in this run.")
        picture = figures.losses(fit.losses, fit.held_out_losses)
        if picture is None:
            return _words("The model of the gradient is not trained in epochs.")
        return joined(_words("The loss of the last fit, by epoch."), _panels([picture]))

    def cost(self) -> Html:
        """Return evaluations and seconds by phase."""
        cost = self.contents.cost
        sentences = (_per_draw(self.contents), _calls_outside(self.contents.calls))
        words = [_words(sentence) for sentence in sentences if sentence]
        return joined(*words, tables.bars_of_seconds(cost), tables.of_cost(cost))


def _per_draw(contents: Contents) -> str:
    """Say what one kept draw took, on average."""
    cost, kept = contents.cost.sample, contents.chains * contents.draws
    if not kept:
        return ""
    means = {title: getattr(cost, name) / kept for name, title in tables.COUNTS.items()}
    parts = [
        f"{tables.short(value)} {title.removesuffix('s') if value == 1 else title}"
        for title, value in means.items()
        if value
    ]
    return f"A kept draw took {', '.join(parts)} on average." if parts else ""


def _calls_outside(calls: Tally) -> str:
    """Say how often a function outside JAX was called; the string is empty for one inside JAX."""
    if not calls.calls:
        return ""
    return (
        f"The function outside JAX was called {_times(calls.calls)}: {_times(calls.potentials)} "
        f"for the log density alone and {_times(calls.gradients)} for its gradient too. "
        f"{counted(calls.failed, 'call')} failed, and {calls.nonfinite:,} returned infinity or NaN."
    )


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def _ordinal(number: int) -> str:
    """Return 2nd, 3rd, 4th and so on."""
    last = 0 if number % 100 in (11, 12, 13) else number % 10
    return f"{number:,}{({1: 'st', 2: 'nd', 3: 'rd'}).get(last, 'th')}"


def _words(text: str) -> Html:
    return element("p", text)


def _panels(pictures: list[Picture]) -> Html:
    """Place figures beside each other where there is room; a single one may be larger."""
    class_ = "panels" if len(pictures) > 1 else "panels alone"
    return element("div", *(_figure(picture) for picture in pictures), class_=class_)


def _figure(picture: Picture) -> Html:
    source = f"data:image/svg+xml;base64,{b64encode(picture.svg).decode()}"
    width, height = (round(96 * side) for side in figures.SIZE)
    image = element("img", src=source, alt=picture.alt, width=width, height=height)
    return element("figure", image, element("figcaption", picture.caption))
