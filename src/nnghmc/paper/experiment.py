"""What an experiment of the paper gives: words, tables and figures."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from nnghmc import plots
from nnghmc.run import Run
from nnghmc.sampler import sample


def whole_run(*arguments: Any, **settings: Any) -> Run:
    """What `sample` gives, unless it is interrupted: half a run is of no use here."""
    run = sample(*arguments, **settings)
    if not run.complete:
        raise KeyboardInterrupt
    return run


@dataclass(frozen=True)
class Result:
    """The text of an experiment, which stands by itself, and its figures by file name."""

    text: str
    figures: dict[str, Figure] = field(default_factory=dict)

    @property
    def files(self) -> list[tuple[str, Callable[[Path], None]]]:
        """The name of each figure's file, and what writes it."""
        return [(name, partial(plots.save, figure)) for name, figure in self.figures.items()]
