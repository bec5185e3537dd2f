"""What the tests of stores share: runs with injected surroundings, and comparisons of runs."""

from pathlib import Path

import numpy as np
import xarray

from nnghmc.engine.method import Request
from nnghmc.explore.starts import ChainStarts
from nnghmc.methods import as_method
from nnghmc.platform.interrupts import StopRequest
from nnghmc.run.corridor import Surroundings, begin
from nnghmc.store.kinds import known_kinds
from nnghmc.store.store import Store


def conducted(posterior, draws, chains, seed, method, store=None, chunk_size=None, **surroundings):
    """`sample` with surroundings of one's own: a stop request, a reporter, eager writing."""
    request = Request(draws, chains, seed, as_method(method), None, chunk_size)
    where = None if store is None else Store.create(store, posterior, request, known_kinds())
    starts = ChainStarts(posterior, chains)
    around = Surroundings(progress=False, clock=standing_still, **surroundings)
    return begin(posterior, request, starts, where, around)


def standing_still():
    """A clock under which the sizes of chunks do not depend on the machine."""
    return 0.0


def resumed(store, posterior, **surroundings):
    """`resume` with surroundings of one's own."""
    opened = Store.open(store)
    request = opened.request(known_kinds())
    starts = ChainStarts(posterior, request.chains, request.initial_positions)
    around = Surroundings(progress=False, **surroundings)
    return begin(posterior, request, starts, opened, around)


class StopAfter(StopRequest):
    """A request to stop that is made after so many looks at it."""

    def __init__(self, looks):
        self.looks = looks

    @property
    def made(self):
        self.looks -= 1
        return self.looks < 0


def group(folder, name):
    return xarray.open_zarr(Path(folder) / "draws.zarr", group=name)


def contents(store):
    """Every array of the draws of a store, by group and name."""
    tree = xarray.open_datatree(Path(store) / "draws.zarr", engine="zarr")
    return {
        (name, variable): values.values
        for name, part in tree.children.items()
        for variable, values in part.variables.items()
    }


def assert_same(run, other):
    np.testing.assert_array_equal(run.draws, other.draws)
    assert run.stats.keys() == other.stats.keys()
    for name, values in other.stats.items():
        np.testing.assert_array_equal(run.stats[name], values)


def without_clock(events):
    """Events but for those that the clock decides, in a form in which NaN equals NaN."""
    return [repr(event) for event in events if event.event != "Estimate"]
