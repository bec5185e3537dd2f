"""All chains at once, through compiled chunks, with the draws moved to the host after each chunk.

A chunk is a compiled loop over some draws. Between chunks the host takes the draws off the device,
moves the progress bar and may stop, so device memory does not grow with the number of draws. The
randomness of a draw depends on its number alone: the same seed gives the same draws for any chunk
size.
"""

import abc
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm
from blackjax.mcmc.metrics import Metric, default_metric
from jaxtyping import Array, PRNGKeyArray

from nnghmc.compilation import compiled
from nnghmc.interrupts import StopRequest
from nnghmc.journal import NoJournal, Step
from nnghmc.kernels.hmc import HMCInfo, HMCState
from nnghmc.kernels.leapfrog import Field, Path
from nnghmc.kernels.tuning import Tuning
from nnghmc.progress import Reporter

Algorithm = Callable[[Any, Any, Any], SamplingAlgorithm]
"""(step size, number of steps, metric) -> kernel; a pytree, so that its arrays are inputs."""

Move = Callable[[PRNGKeyArray, HMCState, Tuning, Metric], tuple[HMCState, HMCInfo]]
"""One transition of all chains: (key, states, tuning, metric) -> (states, infos); a pytree."""

SECONDS_A_CHUNK = 0.25
BYTES_A_CHUNK = 64 * 2**20
MOST_DRAWS_A_CHUNK = 1000

ARVIZ_NAMES = {
    "acceptance_rate": "acceptance_rate",
    "is_accepted": "accepted",
    "is_divergent": "diverging",
    "is_nonfinite": "nonfinite",
    "energy": "energy",
    "energy_error": "energy_error",
    "proposed_energy_error": "max_energy_error",
    "step_size": "step_size",
    "num_integration_steps": "n_steps",
    "is_insurance": "insurance",
}


class Draws(NamedTuple):
    """Draws of one chunk, leading axes (draw, chain)."""

    positions: Any
    potentials: Any
    info: HMCInfo


def columns_of(draws: Draws) -> dict[str, np.ndarray]:
    """Statistics under ArviZ's names, each of shape (draws, chains)."""
    columns = {name: getattr(draws.info, part) for part, name in ARVIZ_NAMES.items()}
    return {"lp": -draws.potentials, **columns}


class History(abc.ABC):
    """Draws and statistics, leading axes (chain, draw), that grow chunk by chunk."""

    keeps_itself = False
    """Whether its draws survive a crash, so that nobody else needs to remember them."""

    def __init__(self, num_chains: int):
        self.num_chains = num_chains
        self.length = 0
        self._acceptance_by_chain = np.zeros(num_chains)  # sums, so that a look is cheap

    def add(self, draws: Draws, states: HMCState) -> None:
        """Put one more chunk behind what is there; the chains stand where it ends."""
        self._take(draws, states)
        self._count(np.asarray(draws.info.acceptance_rate))

    def _count(self, acceptance_rates: np.ndarray) -> None:
        """So many more draws, with rates of shape (draws, chains)."""
        self._acceptance_by_chain += acceptance_rates.sum(axis=0)
        self.length += len(acceptance_rates)

    @abc.abstractmethod
    def _take(self, draws: Draws, states: HMCState) -> None: ...

    def finish(self) -> None:
        """No more draws for now."""
        return

    @property
    @abc.abstractmethod
    def draws(self) -> np.ndarray:
        """Positions, shape (chains, draws, dim)."""

    @property
    @abc.abstractmethod
    def stats(self) -> dict[str, np.ndarray]:
        """Statistics under ArviZ's names, each of shape (chains, draws)."""

    def stat(self, name: str) -> np.ndarray:
        """One of the statistics."""
        return self.stats[name]

    def spread(self, most: int) -> tuple[np.ndarray, np.ndarray]:
        """At most so many draws a chain, spread evenly, and their potentials."""
        rows = slice(None, None, max(1, -(-self.length // most)))
        return self.draws[:, rows], -self.stat("lp")[:, rows]

    @property
    def acceptance(self) -> float:
        """The mean acceptance probability."""
        return (
            float(self._acceptance_by_chain.mean() / self.length) if self.length else float("nan")
        )

    @property
    def worst_acceptance(self) -> float:
        """The mean acceptance probability of the chain that has the lowest."""
        return float(self._acceptance_by_chain.min() / self.length) if self.length else float("nan")

    @property
    def size(self) -> int:
        """Draws made, all chains together."""
        return self.num_chains * self.length

    @property
    def leapfrog_steps(self) -> int:
        """Steps taken, all chains together."""
        return int(self.stat("n_steps").sum()) if self.length else 0


class HistoryInMemory(History):
    """Draws and statistics on the host, with room for a number of draws that is known before."""

    def __init__(self, num_chains: int, num_draws: int, dim: int):
        super().__init__(num_chains)
        self._positions = np.empty((num_chains, num_draws, dim))
        self._stats: dict[str, np.ndarray] = {}

    def _take(self, draws: Draws, states: HMCState) -> None:
        rows = slice(self.length, self.length + len(draws.positions))
        self._positions[:, rows] = np.swapaxes(draws.positions, 0, 1)
        for name, values in columns_of(draws).items():
            if name not in self._stats:
                self._stats[name] = np.empty(self._positions.shape[:2], values.dtype)
            self._stats[name][:, rows] = values.T

    def longer(self, more: int) -> "HistoryInMemory":
        """A copy with room for more."""
        chains, _, dim = self._positions.shape
        copy = HistoryInMemory(chains, self.length + more, dim)
        copy._positions[:, : self.length] = self.draws
        for name, values in self.stats.items():
            copy._stats[name] = np.empty(copy._positions.shape[:2], values.dtype)
            copy._stats[name][:, : self.length] = values
        copy.length = self.length
        copy._acceptance_by_chain = self._acceptance_by_chain.copy()
        return copy

    @property
    def draws(self) -> np.ndarray:
        """Positions, shape (chains, draws, dim)."""
        return self._positions[:, : self.length]

    @property
    def stats(self) -> dict[str, np.ndarray]:
        """Statistics under ArviZ's names, each of shape (chains, draws)."""
        return {name: values[:, : self.length] for name, values in self._stats.items()}


def _all_is_well() -> None:
    pass


@dataclass(frozen=True)
class Supervision:
    """What watches over the chains from the host; `check` raises what must end the run."""

    reporter: Reporter
    stop: StopRequest
    chunk_size: int | None = None
    journal: NoJournal = field(default_factory=NoJournal)
    check: Callable[[], None] = _all_is_well


def each_chain(algorithm: Algorithm) -> Move:
    """The same kernel for every chain."""
    return eqx.Partial(_each_chain, algorithm)


def _each_chain(
    algorithm: Algorithm, key: PRNGKeyArray, states: HMCState, tuning: Tuning, metric: Metric
) -> tuple[HMCState, HMCInfo]:
    """One transition of every chain.

    The chains share the length of the trajectory, so that none waits for another. The length does
    not depend on where they are: each chain on its own is the same Markov chain as ever, and at
    stationarity the chains stay uncorrelated.
    """
    keys = jax.random.split(key, 1 + len(states.position))
    kernel = algorithm(*tuning.drawn_length(keys[0]), metric)
    return jax.vmap(kernel.step)(keys[1:], states)


class Insured(eqx.Module):
    """A move along a learned gradient, and with a fixed probability one along the true gradient.

    Both leave the posterior unchanged, and so does their mixture: a chain in a place where the
    learned gradient leads nowhere can leave it. The coin is one for all chains, so that the true
    gradient is paid for only when it falls that way; it does not depend on where they are.
    """

    learned: Move
    gradient: Callable[[Array], Array]
    true: Move
    potential_and_gradient: Field
    probability: Array
    true_tuning: Tuning

    def __call__(
        self, key: PRNGKeyArray, states: HMCState, tuning: Tuning, metric: Metric
    ) -> tuple[HMCState, HMCInfo]:
        """One transition of every chain."""
        coin_key, move_key = jax.random.split(key)

        def along_true(states: HMCState) -> tuple[HMCState, HMCInfo]:
            _, gradients = jax.vmap(self.potential_and_gradient)(states.position)
            start = states._replace(gradient=gradients)
            moved, info = self.true(move_key, start, self.true_tuning, metric)
            info = info._replace(is_insurance=jnp.ones_like(info.is_insurance))
            return moved._replace(gradient=jax.vmap(self.gradient)(moved.position)), info

        def along_learned(states: HMCState) -> tuple[HMCState, HMCInfo]:
            return self.learned(move_key, states, tuning, metric)

        coin = jax.random.uniform(coin_key) < self.probability
        return jax.lax.cond(coin, along_true, along_learned, states)


def run_chains(
    move: Move,
    tuning: Tuning,
    key: PRNGKeyArray,
    states: HMCState,
    draw_numbers: range,
    supervision: Supervision,
    path_rows: int = 0,
    on_chunk: Callable[[int, Draws], None] = lambda first, draws: None,
    quick: bool = False,
    history: History | None = None,
) -> tuple[HMCState, History]:
    """Make these draws in every chain, or as many of them as a stop request allows.

    `path_rows` is the number of points in the path that the kernel reports for a draw; `on_chunk`
    gets the number of a chunk's first draw and its draws, paths and all, before they are
    forgotten. With `quick` it compiles in half the time, and runs somewhat slower. The draws are
    added to `history`, to a new one in memory if none is given.
    """
    if history is None:
        history = HistoryInMemory(len(states.position), len(draw_numbers), states.position.shape[1])
    if history.keeps_itself:
        supervision = replace(supervision, journal=NoJournal())
    first = draw_numbers.start
    chunks = _chunks(move, tuning, key, states, draw_numbers, supervision, path_rows, quick)
    for draws, states in chunks:
        on_chunk(first, draws)
        history.add(draws, states)
        first += len(draws.positions)
        supervision.reporter.advance(len(draws.positions), history.acceptance)
    history.finish()
    return states, history


def _chunks(
    move: Move,
    tuning: Tuning,
    key: PRNGKeyArray,
    states: HMCState,
    draw_numbers: range,
    supervision: Supervision,
    path_rows: int,
    quick: bool,
) -> Iterator[tuple[Draws, HMCState]]:
    capacity = _capacity(states, path_rows)  # whatever the chunk size: compiled code stays the same
    largest = min(capacity, supervision.chunk_size or capacity)
    first, size = draw_numbers.start, 1
    stream = np.asarray(jax.random.key_data(key)).tolist()
    while first < draw_numbers.stop and not supervision.stop.made:
        what = f"draws from {first} on of {stream}"
        remembered = supervision.journal.recall(what)
        if remembered is not None:
            draws, states = _unpacked(remembered.arrays)
            first += len(draws.positions)
            yield draws, states
            continue
        size = min(size, largest, draw_numbers.stop - first)
        started = time.perf_counter()
        numbers = (jnp.asarray(first), jnp.asarray(size))
        states, filled = _chunk(
            move, tuning, key, states, *numbers, capacity, path_rows, quick=quick
        )
        draws = jax.tree.map(lambda rows, size=size: np.asarray(rows)[:size], filled)
        elapsed = time.perf_counter() - started
        supervision.check()  # before anything is remembered that does not count
        supervision.journal.add(Step(what, _packed(draws, states), seconds=elapsed))
        first += size
        yield draws, states
        size = max(1, int(size * min(SECONDS_A_CHUNK / elapsed, 8.0)))


def _packed(draws: Draws, states: HMCState) -> dict[str, np.ndarray]:
    """A chunk and where it ends, as named arrays."""
    leaves = jax.tree.leaves((draws, states))
    return {str(number): np.asarray(leaf) for number, leaf in enumerate(leaves)}


def _unpacked(arrays: Mapping[str, np.ndarray]) -> tuple[Draws, HMCState]:
    info = HMCInfo(**{**dict.fromkeys(HMCInfo._fields, 0), "path": Path(0, 0, 0)})  # type: ignore[arg-type]
    structure = jax.tree.structure((Draws(0, 0, info), HMCState(0, 0, 0)))  # type: ignore[arg-type]
    leaves = [arrays[str(number)] for number in range(len(arrays))]
    draws, states = jax.tree.unflatten(structure, leaves)
    return draws, jax.tree.map(jnp.asarray, states)


def _capacity(states: HMCState, path_rows: int) -> int:
    """How many draws a chunk may hold: what fits into its share of memory."""
    bytes_a_draw = states.position.nbytes * (1 + 2 * path_rows)
    return int(np.clip(BYTES_A_CHUNK // bytes_a_draw, 1, MOST_DRAWS_A_CHUNK))


@compiled
def evaluate_all(function: Callable[[Array], Any], positions: Array) -> Any:
    """A function of one position at every chain's position."""
    return jax.vmap(function)(positions)


def evaluate_recorded(
    function: Callable[[Array], Any],
    positions: Array,
    supervision: Supervision,
    *,
    quick: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Potentials and gradients at every chain's position, remembered by the journal."""
    remembered = supervision.journal.recall("evaluation")
    if remembered is None:
        started = time.perf_counter()
        found = evaluate_all(function, jnp.asarray(positions), quick=quick)
        parts = dict(zip(("potentials", "gradients"), map(np.asarray, found), strict=True))
        remembered = Step("evaluation", parts, seconds=time.perf_counter() - started)
        supervision.check()
        supervision.journal.add(remembered)
    return remembered.arrays["potentials"], remembered.arrays["gradients"]


@compiled
def _chunk(
    move: Move,
    tuning: Tuning,
    key: PRNGKeyArray,
    states: HMCState,
    first: Array,
    size: Array,
    capacity: int,
    path_rows: int,
) -> tuple[HMCState, Draws]:
    """The draws numbered `first` and on, `size` of them, in the first rows of `capacity` rows.

    `size` is an input, not a constant: chunks of any size share one compilation.
    """
    metric = default_metric(tuning.inverse_mass_matrix)

    def body(row: Array, carry: tuple[HMCState, Draws]) -> tuple[HMCState, Draws]:
        states, filled = carry
        draw_key = jax.random.fold_in(key, first + row)
        states, info = move(draw_key, states, tuning, metric)
        draws = Draws(states.position, states.potential, info)
        return states, jax.tree.map(lambda rows, new: rows.at[row].set(new), filled, draws)

    return jax.lax.fori_loop(0, size, body, (states, _empty_rows(states, capacity, path_rows)))


def _empty_rows(states: HMCState, capacity: int, path_rows: int) -> Draws:
    """Room for the draws of a chunk, said outright: asking JAX would trace the model once more."""
    num_chains, dim = states.position.shape

    def zeros(*shape: int, dtype: Any = states.position.dtype) -> Array:
        return jnp.zeros((capacity, num_chains, *shape), dtype)

    info = HMCInfo(
        acceptance_rate=zeros(),
        is_accepted=zeros(dtype=bool),
        is_divergent=zeros(dtype=bool),
        is_nonfinite=zeros(dtype=bool),
        energy=zeros(),
        energy_error=zeros(),
        proposed_energy_error=zeros(),
        step_size=zeros(),
        num_integration_steps=zeros(dtype=jnp.int32),
        is_insurance=zeros(dtype=bool),
        path=Path(zeros(path_rows, dim), zeros(path_rows), zeros(path_rows, dim)),
    )
    return Draws(zeros(dim), zeros(), info)
