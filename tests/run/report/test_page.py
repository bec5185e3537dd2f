import os
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

from nnghmc.engine.events import Note
from nnghmc.errors import SettingsError
from nnghmc.model.monitor import Tally
from nnghmc.run.report import page_of, sections, write_page
from support_report import HOSTILE, made_up, made_up_learned

SECTIONS = [
    "model",
    "story",
    "summary",
    "traces",
    "ranks",
    "energy",
    "gradient",
    "acceptance",
    "training",
    "cost",
]
VOID = {"meta", "link", "img", "br"}


class Page(HTMLParser):
    """A page taken apart; refuses one whose elements are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.counts, self.ids, self.links, self.words = [], Counter(), [], [], []
        self.images, self.headings, self.addresses = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.counts[tag] += 1
        self.ids += [given["id"]] if "id" in given else []
        self.addresses += [given[name] for name in ("src", "href") if name in given]
        if tag == "img":
            self.images.append(given)
        if tag in ("h1", "h2", "h3"):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)


def noise(chains, draws, dim):
    return np.random.default_rng(0).normal(size=(chains, draws, dim))


@pytest.fixture(scope="module")
def learned_page():
    return Page(page_of(made_up_learned()))


def test_every_section_is_there_and_linked_to(learned_page):
    assert [name for name in learned_page.ids if name in SECTIONS] == SECTIONS
    assert max(Counter(learned_page.ids).values()) == 1
    links = [address for address in learned_page.addresses if address.startswith("#")]
    assert links == [f"#{name}" for name in SECTIONS]


def test_nothing_is_outside_the_file(learned_page):
    assert all(address.startswith(("#", "data:")) for address in learned_page.addresses)
    assert learned_page.counts["script"] == 0


def test_headings_and_pictures_can_be_followed_without_eyes(learned_page):
    levels = learned_page.headings
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert len(learned_page.images) == 3 + 3 + 1 + 4 + 1 + 1
    assert all(image["alt"].strip() for image in learned_page.images)
    assert len({image["alt"] for image in learned_page.images}) == len(learned_page.images)


def test_what_the_user_wrote_is_text_and_nothing_else(learned_page):
    assert HOSTILE in learned_page.text
    assert any(HOSTILE in image["alt"] for image in learned_page.images)
    hostile = "<img src=x onerror=alert(1)>"
    texts = {"story": (hostile,), "model": hostile, "made": hostile, "method": hostile}
    made = made_up(noise(1, 1, 1), notes=(Note("a kind", hostile, hostile),), **texts)
    page = Page(page_of(made))
    # the note and its remedy, the story, the model, when it was made, and the method in two titles
    # and in the facts
    assert page.text.count(hostile) == 8
    assert "x" not in page.addresses


AWKWARD = {
    "no draws": made_up(np.empty((2, 0, 2)), complete=False),
    "one draw of one chain": made_up(noise(1, 1, 2)),
    "one chain": made_up(noise(1, 30, 2)),
    "three draws": made_up(noise(2, 3, 2)),
    "nothing known but draws": made_up(noise(2, 30, 2), known_energy=False, exact=False),
    "constant": made_up(np.ones((2, 30, 2))),
    "not finite": made_up(np.full((2, 30, 2), np.nan)),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_runs_have_a_whole_page(name):
    page = Page(page_of(AWKWARD[name]))
    assert [part for part in page.ids if part in SECTIONS] == SECTIONS
    assert "nan" not in page.text


@pytest.mark.parametrize(
    ("changes", "draws", "verdict"),
    [
        ({}, 1, "All well"),
        ({"notes": (Note("low acceptance", "acceptance is low", "do this"),)}, 1, "Watch out"),
        ({"complete": False}, 1, "the run was interrupted after 1 draw per chain"),
        ({"complete": False, "store": "a folder"}, 3, "this run is not complete"),
        ({"complete": False}, 0, "No draws"),
    ],
)
def test_the_verdict_comes_first(changes, draws, verdict):
    text = Page(page_of(made_up(noise(1, draws, 1), **changes))).text
    assert verdict.lower() in text[: text.index("What was sampled")].lower()
    assert ("All well" in text) == (verdict == "All well")


@pytest.mark.parametrize("draws", [0, 3])
def test_an_incomplete_stored_run_says_how_to_go_on(draws):
    text = Page(page_of(made_up(noise(1, draws, 1), complete=False, store="my runs/1"))).text
    assert "nnghmc resume 'my runs/1', or in Python nnghmc.resume('my runs/1', model)." in text


def test_a_note_has_its_remedy_below_it():
    notes = (Note("a kind", "It happened.", "do this"), Note("another kind", "so did that"))
    words = Page(page_of(made_up(noise(1, 3, 1), notes=notes))).words
    first = words.index("It happened.")
    expected = ["It happened.", "What to do: do this.", "so did that."]
    assert words[first : first + 3] == expected


def test_calls_of_a_function_outside_jax_are_counted():
    calls = Tally(potentials=30, gradients=1, failures={"ValueError": 2}, nonfinite=4)
    text = Page(page_of(made_up(noise(1, 3, 1), calls=calls))).text
    assert "was called 31 times: 30 times for the log density alone and once for its" in text
    assert "2 calls failed, and 4 returned infinity or NaN." in text
    assert "outside JAX" not in Page(page_of(made_up(noise(1, 3, 1)))).text


@pytest.mark.parametrize(
    ("number", "expected"), [(2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (1021, "1,021st")]
)
def test_ordinals(number, expected):
    assert sections._ordinal(number) == expected


def test_of_many_variables_the_worst_are_shown_and_all_can_be_seen(monkeypatch):
    monkeypatch.setattr(sections, "MOST_DRAWN", 1)
    draws = noise(2, 20, 40)
    draws[0, :, 33] += 5
    page = Page(page_of(made_up(draws)))
    assert page.counts["details"] == 1
    assert page.counts["table"] == 4  # the worst, all, by chain, cost
    text = page.text
    assert "The 10 variables with the largest R-hat" in text
    assert text.index("x[33]") < text.index("x[1]")
    assert "the 1 of 40 variables with the largest R-hat" in text
    assert page.images[0]["alt"].startswith("Trace of x[33]")


def test_the_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    contents = made_up(noise(1, 1, 1))
    write_page(contents, path)
    before = path.read_text()
    assert before.startswith("<!DOCTYPE html>")
    assert before.endswith("</html>\n")

    with path.open() as reader:
        write_page(made_up(noise(1, 1, 1), seed=8), path)
        assert reader.read() == before  # who had it open still has the whole of the old one
    before = path.read_text()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SettingsError, match=r"report.html: No space left on device"):
        write_page(made_up(noise(1, 1, 1), seed=9), path)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_path_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(SettingsError, match=r"must go to a file that can be written; .*No such"):
        write_page(made_up(noise(1, 1, 1)), tmp_path / "nowhere" / "report.html")
    with pytest.raises(SettingsError, match="Is a directory"):
        write_page(made_up(noise(1, 1, 1)), tmp_path)
