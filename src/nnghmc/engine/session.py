"""The session of one call of `sample`, `extend` or `resume`, which all its phases share.

It owns the progress bar, the request to stop, the clock, the checkpoint, the cost, the named random
streams and the events, and decides how thoroughly to compile.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from nnghmc.engine.checkpoint import NoCheckpoint
from nnghmc.engine.chunks import (
    capacity,
    evaluate_all,
    initial_states,
    make_chunk,
    next_size,
)
from nnghmc.engine.cost import Cost, PhaseCost
from nnghmc.engine.events import Event
from nnghmc.engine.history import Draws, History, HistoryInMemory
from nnghmc.engine.progress import Reporter, Silent
from nnghmc.kernels.base import Kernel
from nnghmc.platform.interrupts import StopRequest

QUICK_FLOPS = 2e10
"""Number of floating-point operations, of a few seconds, below which a phase is compiled quickly.

A measured time would not do: the same seed must give the same draws.
"""

OnChunk = Callable[[int, Draws], None]
"""(number of the first draw, draws of the chunk) -> None."""


def _nothing(*_: Any) -> None:
    return


def _as_it_is(value: Any) -> Any:
    return value


class Session:
    """The state and services of one call of `sample`, `extend` or `resume`.

    Attributes:
        cost: evaluations and seconds so far, by phase.
        events: what was found and decided so far.
        warmup: histories of the warm-up draws, with the names of their phases.
        wanted_draws: number of draws per chain to keep.
        stop: request to stop.
        reporter: object that shows progress.
        flops: floating-point operations of one gradient of all chains; infinite if they were not
            counted, and NaN if they cannot be, outside JAX.
    """

    def __init__(
        self,
        seed: int,
        streams: str,
        *,
        wanted_draws: int = 0,
        reporter: Reporter | None = None,
        stop: StopRequest | None = None,
        checkpoint: NoCheckpoint | None = None,
        chunk_size: int | None = None,
        check: Callable[[], None] = _nothing,
        clock: Callable[[], float] = time.perf_counter,
    ):
        """Begin a session without cost, events or draws.

        Args:
            seed: seed of all random streams.
            streams: part of the name of every stream, so that methods have streams of their own.
            wanted_draws: number of draws per chain to keep.
            reporter: object that shows progress; by default none is shown.
            stop: request to stop, which may be made at any time.
            checkpoint: object that remembers steps; by default none are remembered.
            chunk_size: largest number of draws in one compiled call; None lets memory and time
                decide.
            check: function that is called after every step, and raises an error to end the run.
            clock: function that returns the time in seconds.
        """
        self.wanted_draws = wanted_draws
        self.reporter = reporter or Silent()
        self.stop = stop or StopRequest()
        self.clock = clock
        self.cost = Cost()
        self.events: list[Event] = []
        self.warmup: list[tuple[str, History]] = []
        self.flops = float("inf")
        self._root = jax.random.key(seed)
        self._streams = streams
        self._checkpoint = checkpoint or NoCheckpoint()
        self._chunk_size = chunk_size
        self._check = check
        self._uses: dict[str, int] = {}
        self._recalled = 0.0

    @property
    def stopped(self) -> bool:
        """Whether a stop was requested; phases then return as soon as they can."""
        return self.stop.made

    def key(self, name: str, *numbers: int) -> PRNGKeyArray:
        """Return the key of a random stream, by its name and numbers such as that of an attempt."""
        digest = hashlib.sha256(f"{self._streams}/{name}".encode()).digest()
        key = jax.random.fold_in(self._root, int.from_bytes(digest[:4], "big"))
        for number in numbers:
            key = jax.random.fold_in(key, number)
        return key

    def generator(self, name: str, *numbers: int) -> np.random.Generator:
        """Return a generator of NumPy for a random stream, which needs no compilation."""
        return np.random.default_rng(np.asarray(jax.random.key_data(self.key(name, *numbers))))

    def record(self, event: Event) -> None:
        """Add an event to those of the run."""
        self.events.append(event)

    @contextmanager
    def timed(self, phase: str) -> Iterator[PhaseCost]:
        """Add the time spent inside the context, and that of recalled steps, to a phase."""
        with self.cost.timed(phase, lambda: self.clock() + self._recalled) as cost:
            yield cost

    def quick(self, gradients: float) -> bool:
        """Return whether a phase of this many gradients of all chains is compiled quickly."""
        return not self.flops * gradients >= QUICK_FLOPS

    def once(
        self,
        name: str,
        compute: Callable[[], Any],
        pack: Callable[[Any], Any] = _as_it_is,
        unpack: Callable[[Any], Any] = _as_it_is,
    ) -> Any:
        """Return the result of `compute`, or recall it if it was computed before a stop.

        A name may be used several times; its uses are numbered. `pack` turns the result into
        numbers, arrays, tuples and dictionaries, and `unpack` turns these back into the result.
        """
        return self._remembered(self._numbered(name), compute, pack, unpack)

    def _numbered(self, name: str) -> str:
        """Return a name with the number of its use in this session."""
        number = self._uses[name] = self._uses.get(name, -1) + 1
        return f"{name} {number}"

    def remember_no_more(self) -> None:
        """Remember no further steps, because the history writes the kept draws itself."""
        self._checkpoint = NoCheckpoint()

    def evaluate(
        self, name: str, function: Callable[[Array], Any], positions: Any, *, quick: bool = True
    ) -> tuple[np.ndarray, ...]:
        """Return what a function, such as a potential with its gradient, gives at each position.

        The result is remembered.
        """

        def compute() -> tuple[np.ndarray, ...]:
            found = evaluate_all(function, jnp.asarray(positions), quick=quick)
            return tuple(np.asarray(part) for part in found)

        result: tuple[np.ndarray, ...] = self.once(name, compute)
        return result

    def begin(
        self, kernel: Kernel, positions: Any, potentials: Any = None, *, quick: bool = True
    ) -> Any:
        """Return the states of a kernel at the positions of all chains."""
        known = None if potentials is None else jnp.asarray(potentials)
        return initial_states(kernel, jnp.asarray(positions), known, quick=quick)

    def advance(
        self,
        phase: str,
        kernel: Kernel,
        states: Any,
        draws: int | range,
        *,
        stream: str | None = None,
        label: str | None = None,
        on_chunk: OnChunk = _nothing,
        quick: bool = False,
        history: History | None = None,
        in_warmup: bool = True,
    ) -> tuple[Any, History]:
        """Make draws in every chain, until all are made or a stop is requested.

        Args:
            phase: phase that the cost belongs to: warmup, collect, train or sample.
            kernel: kernel that makes the draws.
            states: states of the chains.
            draws: number of draws per chain, or a range with the numbers of the draws.
            stream: name of the random stream; by default that of the phase.
            label: text on the progress bar; "" if the draws belong to a bar that is already shown.
            on_chunk: function that is called with every chunk, including what the kernel records.
            quick: whether to compile in half the time, and run somewhat slower.
            history: history that takes the draws; by default a new one in memory.
            in_warmup: whether the draws belong to the warm-up draws of the run.

        Returns the states after the last draw, and the history.
        """
        numbers = range(draws) if isinstance(draws, int) else draws
        name = phase if stream is None else stream
        if label != "":
            self.reporter.begin(label or name, len(numbers))
        made = history
        if made is None:
            made = HistoryInMemory(len(states.position), len(numbers), states.position.shape[1])
        with self.timed(phase) as cost:
            chunks = self._chunks(kernel, name, states, numbers, made, quick)
            for first, chunk, states in chunks:
                on_chunk(first, chunk)
                made.add(chunk, states)
                cost.count(kernel.evaluations(chunk.statistics))
                self.reporter.advance(len(chunk), made.acceptance)
            made.finish()
        if in_warmup and history is None:
            self.warmup.append((phase, made))
        return states, made

    def _chunks(
        self,
        kernel: Kernel,
        name: str,
        states: Any,
        numbers: range,
        history: History,
        quick: bool,
    ) -> Iterator[tuple[int, Draws, Any]]:
        """Yield the number of the first draw, the draws and the states after them, per chunk."""
        key, first, size = self.key(name), numbers.start, 1
        room = capacity(kernel, states)
        largest = min(room, self._chunk_size or room)
        step = self._numbered(name)
        structure = jax.tree.structure(states)
        while first < numbers.stop and not self.stopped:
            size = min(size, largest, numbers.stop - first)
            started = self.clock()

            def compute(first: int = first, size: int = size, states: Any = states) -> Any:
                after, draws = make_chunk(kernel, key, states, first, size, quick=quick)
                return {"draws": tuple(draws), "states": tuple(jax.tree.leaves(after))}

            if history.keeps_itself:
                found = self._checked(compute)
            else:
                found = self._remembered(f"{step} from draw {first}", compute)
            draws = Draws(*found["draws"])
            states = jax.tree.unflatten(structure, map(jnp.asarray, found["states"]))
            yield first, draws, states
            first += len(draws)
            size = next_size(size, self.clock() - started)

    def _remembered(
        self,
        name: str,
        compute: Callable[[], Any],
        pack: Callable[[Any], Any] = _as_it_is,
        unpack: Callable[[Any], Any] = _as_it_is,
    ) -> Any:
        """Recall a step, or make it and remember it."""
        if self.stopped:  # a step that begins after a request to stop is not part of the run
            return compute()
        remembered = self._checkpoint.recall(name)
        if remembered is not None:
            self._recalled += remembered.seconds
            return unpack(remembered.value)
        started = self.clock()
        value = self._checked(compute)
        if self._checkpoint.active:
            self._checkpoint.remember(name, pack(value), self.clock() - started)
        return value

    def _checked(self, compute: Callable[[], Any]) -> Any:
        """Compute a result, and check that the run may go on before the result is remembered."""
        value = compute()
        self._check()
        return value
