"""The sections of a report, each with a heading, some words on how to read it, and what it shows.

A section says so where it has nothing to show, and why.
"""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nnghmc.diagnostics import LARGEST_RHAT, LEAST_BFMI, LEAST_ESS_A_CHAIN
from nnghmc.report import figures, tables
from nnghmc.report.contents import Contents
from nnghmc.report.figures import Picture
from nnghmc.report.markup import Html, element, joined
from nnghmc.report.summary import MOST_ROWS, summarised, worst_first

MOST_DRAWN = 6
MOST_ROWS_AT_ONCE = 20
WORST_ROWS = 10
NO_DRAWS = "The run was interrupted before its first kept draw, so there is nothing to show."


@dataclass(frozen=True)
class Section:
    """A part of the page that can be linked to."""

    id: str
    title: str
    body: Html

    @property
    def html(self) -> Html:
        """As it stands on the page."""
        heading = element("h2", self.title, id=f"{self.id}-title")
        return element(
            "section", heading, self.body, id=self.id, aria_labelledby=f"{self.id}-title"
        )


class Report:
    """What is shown of some contents; the table of variables is made once, as all look at it."""

    def __init__(self, contents: Contents):
        self.contents = contents
        self.summary = summarised(contents.scalars) if contents.scalars else pd.DataFrame()
        self.by_need = worst_first(self.summary)
        names = list(self.summary.index)
        self.drawn = names if len(names) <= MOST_DRAWN else self.by_need[:MOST_DRAWN]

    @property
    def sections(self) -> list[Section]:
        """All of them, in the order of the page."""
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
        """Model, method, sizes, seed, and where it was made."""
        contents = self.contents
        facts = {
            "model": contents.model,
            "method": f"{contents.method}, {'exact' if contents.exact else 'NOT exact'}",
            "chains × draws": f"{contents.chains:,} × {contents.draws:,}"
            + ("" if contents.complete else ", incomplete (interrupted)"),
            "dimensions": f"{contents.dim:,}",
            "seed": str(contents.seed),
            "made": contents.made,
        }
        pairs = [(element("dt", name), element("dd", fact)) for name, fact in facts.items()]
        return element("dl", *(part for pair in pairs for part in pair), class_="facts")

    def story(self) -> Html:
        """What was tried, found and decided."""
        if not self.contents.story:
            return _words("Nothing was decided on the way: method and tuning were given.")
        lines = [element("li", line) for line in self.contents.story]
        return element("ol", *lines, class_="story")

    def variables(self) -> Html:
        """ArviZ's table; of many variables the worst first, and all of them behind a click."""
        if self.summary.empty:
            return _words(NO_DRAWS)
        names, chains = list(self.summary.index), self.contents.chains
        limits = _words(
            f"By ArviZ. Marked with ! is what to look at: R-hat above {LARGEST_RHAT}, or an "
            f"effective sample size below {LEAST_ESS_A_CHAIN} a chain."
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
        """The draws of some variables in their order."""
        if not self.drawn:
            return _words(NO_DRAWS)
        words = "The chains, a colour each, should lie over each other and show no trend."
        stride = figures.trace_stride(self.contents.scalars[self.drawn[0]])
        thinned = f" Every {stride}th draw is drawn." if stride > 1 else ""
        pictures = [figures.trace(name, self.contents.scalars[name]) for name in self.drawn]
        return joined(_words(f"{words}{self._which()}{thinned}"), _panels(pictures))

    def ranks(self) -> Html:
        """The ranks of the same variables' draws."""
        if not self.drawn:
            return _words(NO_DRAWS)
        made = [figures.ranks(name, self.contents.scalars[name]) for name in self.drawn]
        pictures = [picture for picture in made if picture is not None]
        if not pictures:
            return _words("Ranks compare chains: it takes two of them, and finite draws that move.")
        words = "All draws are ranked together; a chain that agrees with the others has bars that "
        words += "reach the dashed line all along."
        if self.contents.chains > figures.MOST_CHAINS_APART:
            words += f" Of {self.contents.chains} chains the {figures.MOST_CHAINS_APART} that are "
            words += "farthest from it are shown."
        return joined(_words(f"{words}{self._which()}"), _panels(pictures))

    def _which(self) -> str:
        """Which variables are drawn, where not all of them are."""
        total = len(self.contents.scalars)
        if len(self.drawn) == total:
            return ""
        if "r_hat" not in self.summary:
            return f" Shown: the first {len(self.drawn)} of {total:,} variables."
        return f" Shown: the {len(self.drawn)} of {total:,} variables with the largest R-hat."

    def energy(self) -> Html:
        """How the energy moves, and what each chain did."""
        if not self.contents.draws:
            return _words(NO_DRAWS)
        picture = figures.energy(self.contents.statistic("energy"))
        by_chain = tables.of_chains(self.contents)
        if picture is None:
            reason = "The energies of these draws are not known, too few, or all the same."
            return joined(_words(reason), by_chain)
        words = (
            "From one draw to the next the energy should change about as much as it varies at all. "
            f"E\u2011BFMI is the ratio of the two; a mean below {LEAST_BFMI} means that tails are "
            "reached too slowly."
        )
        return joined(_words(words), _panels([picture]), element("h3", "By chain"), by_chain)

    def gradient(self) -> Html:
        """What was learned beside what is true, where it was not learned from."""
        fit = self.contents.fit
        if fit is None:
            return _words("No gradient was learned in this run.")
        told = element("ul", *(element("li", line) for line in fit.lines))
        held_out = fit.gradients
        if held_out is None:
            return joined(told, _words("No points were held out to compare it with the true one."))
        worst = np.argsort(-np.nan_to_num(held_out.errors, nan=np.inf), kind="stable")
        shown = worst[: MOST_DRAWN - 1]
        words = (
            "At points that were not learned from, dots on the line mean a perfect gradient. Each "
            "coordinate is in units of its own spread. A poor gradient makes draws fewer, never "
            "wrong: each is tested against the true posterior."
        )
        if len(shown) < len(worst):
            words += f" Shown: the {len(shown)} of {len(worst):,} coordinates with the largest "
            words += "error."
        pictures = [figures.gradient(held_out, int(coordinate)) for coordinate in shown]
        pictures.append(figures.gradient_errors(held_out))
        return joined(told, _words(words), _panels(pictures))

    def acceptance(self) -> Html:
        """From the first draw of the run to the last."""
        contents = self.contents
        picture = figures.acceptance(
            contents.whole_statistic("acceptance_rate"),
            contents.whole_statistic("diverging").astype(bool),
            contents.all_phases,
            contents.probes,
        )
        if picture is None:
            made = contents.whole_statistic("acceptance_rate").size
            reason = f"{contents.method} has no Metropolis test, and so no acceptance."
            return _words(reason if made else "The run was interrupted before its first draw.")
        words = "The mean acceptance probability of all chains, and faintly that of each."
        if contents.probes:
            words += " A probe is some draws that try the learned gradient; they are not kept."
        return joined(_words(words), _panels([picture]))

    def training(self) -> Html:
        """The loss over the epochs of the last fit."""
        fit = self.contents.fit
        if fit is None:
            return _words("Nothing was trained in this run.")
        picture = figures.losses(fit.losses, fit.held_out_losses)
        if picture is None:
            return _words("What learned the gradient is not trained in epochs.")
        return joined(_words("The loss of the last fit."), _panels([picture]))

    def cost(self) -> Html:
        """Evaluations and seconds."""
        cost = self.contents.cost
        parts = [tables.bars_of_seconds(cost), tables.of_cost(cost)]
        kept = self.contents.chains * self.contents.draws
        if kept:
            parts.insert(0, _words(_per_draw(self.contents, kept)))
        return joined(*parts)


def _per_draw(contents: Contents, kept: int) -> str:
    """What one kept draw took, on average."""
    cost = contents.cost.sample
    counted = {title: getattr(cost, name) / kept for name, title in tables.COUNTS.items()}
    told = [
        f"{tables.short(value)} {title.removesuffix('s') if value == 1 else title}"
        for title, value in counted.items()
        if value
    ]
    return f"A kept draw took {', '.join(told)} on average." if told else ""


def _words(text: str) -> Html:
    return element("p", text)


def _panels(pictures: list[Picture]) -> Html:
    """Beside each other where there is room; one alone may be larger."""
    class_ = "panels" if len(pictures) > 1 else "panels alone"
    return element("div", *(_figure(picture) for picture in pictures), class_=class_)


def _figure(picture: Picture) -> Html:
    source = f"data:image/svg+xml;base64,{b64encode(picture.svg).decode()}"
    width, height = (round(96 * side) for side in figures.SIZE)
    image = element("img", src=source, alt=picture.alt, width=width, height=height)
    return element("figure", image, element("figcaption", picture.caption))
