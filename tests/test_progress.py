"""The bar says phase, acceptance, speed and time left on a terminal, and nothing elsewhere."""

import io

from rich.console import Console

from nnghmc import progress


def shown_by(monkeypatch, wanted, terminal):
    text = io.StringIO()

    def console(**_):
        return Console(file=text, force_terminal=terminal, width=100, force_jupyter=False)

    monkeypatch.setattr(progress, "Console", console)
    with progress.reporting(wanted) as reporter:
        reporter.note("train")
        reporter.begin("sample", 100)
        reporter.advance(40, 0.123)
        reporter.advance(60, 0.789)
    return text.getvalue()


def test_what_a_terminal_shows(monkeypatch):
    shown = shown_by(monkeypatch, wanted=True, terminal=True)
    for words in ("train", "1/1", "sample", "compiling", "100/100", "acceptance 0.79"):
        assert words in shown


def test_silence_off_a_terminal_and_on_request(monkeypatch):
    assert shown_by(monkeypatch, wanted=True, terminal=False) == ""
    assert shown_by(monkeypatch, wanted=False, terminal=True) == ""
