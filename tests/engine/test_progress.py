"""The bar says phase, acceptance, speed and time left on a terminal, and nothing elsewhere."""

import io
import sys

import pytest

from nnghmc.engine.progress import reporting


class Screen(io.StringIO):
    """Standard error, connected to a terminal or not."""

    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.fixture
def shown_by(monkeypatch):
    """What a short run with progress writes to standard error."""
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")

    def shown(wanted, terminal):
        screen = Screen(terminal)
        monkeypatch.setattr(sys, "stderr", screen)
        report_a_short_run(wanted)
        return screen.getvalue()

    return shown


def report_a_short_run(wanted):
    with reporting(wanted) as reporter:
        reporter.note("train")
        reporter.begin("sample", 100)
        reporter.advance(40, 0.123)
        reporter.advance(60, 0.789)


def test_what_a_terminal_shows(shown_by):
    shown = shown_by(wanted=True, terminal=True)
    for words in ("train", "1/1", "sample", "compiling", "100/100", "acceptance 0.79"):
        assert words in shown


def test_silence_off_a_terminal_and_on_request(shown_by):
    assert shown_by(wanted=True, terminal=False) == ""
    assert shown_by(wanted=False, terminal=True) == ""
