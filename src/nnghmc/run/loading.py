"""Loads runs from stores, without their models and whichever version wrote them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nnghmc.engine.cost import Cost
from nnghmc.engine.events import Event, Note
from nnghmc.engine.method import Prepared
from nnghmc.engine.preparation import Preparation, Warmup
from nnghmc.errors import UnreadableError
from nnghmc.model.monitor import Tally
from nnghmc.run.corridor import PREPARED, stored_events, stored_facts
from nnghmc.run.run import Facts, Run
from nnghmc.store.history import HistoryOnDisk
from nnghmc.store.journal import Journal
from nnghmc.store.kinds import known_kinds
from nnghmc.store.store import Store


def load_run(path: Any) -> Run:
    """Read and check a run, complete or not."""
    store = Store.open(path)
    store.check_no_links()
    header, status = store.header, store.status
    least = status.get("journal_lines", 0)
    journal = Journal(store.folder, known_kinds(), least=least, writable=False)
    preparation = _preparation(journal, header)
    return Run(
        facts=stored_facts(status) if status else _facts(header),
        kept=HistoryOnDisk.read_only(store.folder, header["chains"], header["dim"], journal),
        preparation=preparation,
        events=_events(status, preparation),
        cost=Cost.from_dict(status["cost"]) if status else preparation.cost,
        complete=bool(status.get("complete", False)),
        calls=Tally.from_dict(status["calls"]) if status else preparation.calls,
        store=store.folder,
    )


def _events(status: Mapping[str, Any], preparation: Preparation) -> tuple[Event, ...]:
    """Return all events, and the note on a preparation that could not be read."""
    if not status:
        return preparation.events
    own = [event for event in preparation.events if getattr(event, "kind", "") == "unreadable"]
    return (*stored_events(status), *own)


def _facts(header: Any) -> Facts:
    """Return the facts in the header, for a run that has not written its status yet."""
    names = ("model", "title", "exact", "adaptive", "seed")
    values = {name: header[name] for name in names}
    return Facts(**values, coordinates=tuple(header["coordinates"]), made="")


def _preparation(journal: Journal, header: Any) -> Preparation:
    """Return the preparation of the run, as far as this version can read it."""
    notes = journal.notes(PREPARED)
    if not notes:
        return Preparation(None, Warmup(np.empty((header["chains"], 0, header["dim"]))))
    values = notes[-1]
    try:
        return Preparation.restored(values, journal.last(PREPARED), None)
    except UnreadableError as error:
        note = Note(
            "unreadable",
            f"what came before the first kept draw could not be read: {error}",
            "the kept draws are not affected; for the warm-up and the surrogate, use that version",
        )
    return Preparation(
        Prepared(None, {}),
        Warmup(np.empty((header["chains"], 0, header["dim"]))),
        (*(Event.from_dict(event) for event in values["events"]), note),
        Cost.from_dict(values["cost"]),
        Tally.from_dict(values["calls"]),
    )
