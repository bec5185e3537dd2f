"""All chains at once, through compiled chunks, with the draws moved to the host after each chunk.

A chunk is a compiled loop over some draws. Between chunks the host takes the draws off the device,
moves the progress bar and may stop, so device memory does not grow with the number of draws. The
randomness of a draw depends on its number alone: the same seed gives the same draws for any chunk
size.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm
from blackjax.mcmc.metrics import Metric, default_metric
from jaxtyping import Array, PRNGKeyArray

from nnghmc.interrupts import StopRequest
from nnghmc.kernels.hmc import HMCInfo, HMCState
from nnghmc.kernels.leapfrog import Path
from nnghmc.kernels.tuning import Tuning
from nnghmc.progress import Reporter

Algorithm = Callable[[Any, Any, Any], SamplingAlgorithm]
"""(step size, number of steps, metric) -> kernel; a pytree, so that its arrays are inputs."""

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
}


class Draws(NamedTuple):
    """Draws of one chunk, leading axes (draw, chain)."""

    positions: Any
    potentials: Any
    info: HMCInfo


class History:
    """Draws and statistics on the host, leading axes (chain, draw), filled chunk by chunk."""

    def __init__(self, num_chains: int, num_draws: int, dim: int):
        self._positions = np.empty((num_chains, num_draws, dim))
        self._stats: dict[str, np.ndarray] = {}
        self._acceptance_by_chain = np.zeros(num_chains)  # sums, so that a look is cheap
        self.length = 0

    def write(self, draws: Draws) -> None:
        """Put one more chunk behind what is there."""
        end = self.length + len(draws.positions)
        self._positions[:, self.length : end] = np.swapaxes(draws.positions, 0, 1)
        columns = {name: getattr(draws.info, part) for part, name in ARVIZ_NAMES.items()}
        for name, values in {"lp": -draws.potentials, **columns}.items():
            if name not in self._stats:
                self._stats[name] = np.empty(self._positions.shape[:2], values.dtype)
            self._stats[name][:, self.length : end] = values.T
        self._acceptance_by_chain += draws.info.acceptance_rate.sum(axis=0)
        self.length = end

    @property
    def draws(self) -> np.ndarray:
        """Positions, shape (chains, draws, dim)."""
        return self._positions[:, : self.length]

    @property
    def stats(self) -> dict[str, np.ndarray]:
        """Statistics under ArviZ's names, each of shape (chains, draws)."""
        return {name: values[:, : self.length] for name, values in self._stats.items()}

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
    def leapfrog_steps(self) -> int:
        """Steps taken, all chains together."""
        return int(self.stats["n_steps"].sum()) if self.length else 0


@dataclass(frozen=True)
class Supervision:
    """What watches over the chains from the host."""

    reporter: Reporter
    stop: StopRequest
    chunk_size: int | None = None


def run_chains(
    algorithm: Algorithm,
    tuning: Tuning,
    key: PRNGKeyArray,
    states: HMCState,
    draw_numbers: range,
    supervision: Supervision,
    record_steps: int = 0,
    on_chunk: Callable[[int, Draws], None] = lambda first, draws: None,
) -> tuple[HMCState, History]:
    """Make these draws in every chain, or as many of them as a stop request allows.

    `record_steps` is that of the kernel; `on_chunk` gets the number of a chunk's first draw and
    its draws, paths and all, before they are forgotten.
    """
    num_chains, dim = states.position.shape
    history = History(num_chains, len(draw_numbers), dim)
    chunks = _chunks(algorithm, tuning, key, states, draw_numbers, supervision, record_steps)
    for draws, states in chunks:  # noqa: B007 (the last states are the result)
        on_chunk(draw_numbers.start + history.length, draws)
        history.write(draws)
        supervision.reporter.advance(len(draws.positions), history.acceptance)
    return states, history


def _chunks(
    algorithm: Algorithm,
    tuning: Tuning,
    key: PRNGKeyArray,
    states: HMCState,
    draw_numbers: range,
    supervision: Supervision,
    record_steps: int,
) -> Iterator[tuple[Draws, HMCState]]:
    capacity = supervision.chunk_size or _capacity(states, record_steps)
    first, size = draw_numbers.start, 1
    while first < draw_numbers.stop and not supervision.stop.made:
        size = min(size, capacity, draw_numbers.stop - first)
        started = time.perf_counter()
        numbers = (jnp.asarray(first), jnp.asarray(size))
        states, filled = _chunk(algorithm, tuning, key, states, *numbers, capacity, record_steps)
        draws = jax.tree.map(lambda rows, size=size: np.asarray(rows)[:size], filled)
        elapsed = time.perf_counter() - started
        yield draws, states
        first += size
        size = max(1, int(size * min(SECONDS_A_CHUNK / elapsed, 8.0)))


def _capacity(states: HMCState, record_steps: int) -> int:
    """How many draws a chunk may hold: what fits into its share of memory."""
    bytes_a_draw = states.position.nbytes * (1 + 2 * Path.num_rows(record_steps))
    return int(np.clip(BYTES_A_CHUNK // bytes_a_draw, 1, MOST_DRAWS_A_CHUNK))


def _one_draw(
    algorithm: Algorithm, tuning: Tuning, metric: Metric, key: PRNGKeyArray, states: HMCState
) -> tuple[HMCState, Draws]:
    """One transition of every chain.

    The chains share the length of the trajectory, so that none waits for another. The length does
    not depend on where they are: each chain on its own is the same Markov chain as ever, and at
    stationarity the chains stay uncorrelated.
    """
    keys = jax.random.split(key, 1 + len(states.position))
    kernel = algorithm(*tuning.drawn_length(keys[0]), metric)
    states, info = jax.vmap(kernel.step)(keys[1:], states)
    return states, Draws(states.position, states.potential, info)


@eqx.filter_jit
def evaluate_all(function: Callable[[Array], Any], positions: Array) -> Any:
    """A function of one position at every chain's position."""
    return jax.vmap(function)(positions)


@eqx.filter_jit
def _chunk(
    algorithm: Algorithm,
    tuning: Tuning,
    key: PRNGKeyArray,
    states: HMCState,
    first: Array,
    size: Array,
    capacity: int,
    record_steps: int,
) -> tuple[HMCState, Draws]:
    """The draws numbered `first` and on, `size` of them, in the first rows of `capacity` rows.

    `size` is an input, not a constant: chunks of any size share one compilation.
    """
    metric = default_metric(tuning.inverse_mass_matrix)

    def body(row: Array, carry: tuple[HMCState, Draws]) -> tuple[HMCState, Draws]:
        states, filled = carry
        draw_key = jax.random.fold_in(key, first + row)
        states, draws = _one_draw(algorithm, tuning, metric, draw_key, states)
        return states, jax.tree.map(lambda rows, new: rows.at[row].set(new), filled, draws)

    return jax.lax.fori_loop(0, size, body, (states, _empty_rows(states, capacity, record_steps)))


def _empty_rows(states: HMCState, capacity: int, record_steps: int) -> Draws:
    """Room for the draws of a chunk, said outright: asking JAX would trace the model once more."""
    num_chains, dim = states.position.shape
    rows = Path.num_rows(record_steps)

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
        path=Path(zeros(rows, dim), zeros(rows), zeros(rows, dim)),
    )
    return Draws(zeros(dim), zeros(), info)
