"""Trains networks by Adam on mini-batches, with early stopping, in one compiled loop."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from nnghmc.errors import check_fields, positive_integer, positive_number, share
from nnghmc.platform.compilation import compiled
from nnghmc.platform.memory import require_memory
from nnghmc.platform.precision import position_dtype
from nnghmc.surrogates.data import GradientData

MOST_WORK_TO_COMPILE_QUICKLY = 5e9
"""Largest product of weights, points and epochs, about a second or two of training, for which quick
compilation saves more time than thoroughly optimised code."""

BYTES_PER_WEIGHT = 7 * 4
"""Memory for training: a weight, its gradient, two moments of Adam and the best weight so far in
float32, and the result in float64."""


class Trainable(Protocol):
    """An object that knows how to build a network and how to compute its loss.

    It is frozen, so that equal objects share compiled code.
    """

    def build(self, dim: int, key: PRNGKeyArray) -> Any:
        """Build an untrained network for positions of length `dim`, as an Equinox module."""

    def loss(self, network: Any, row: PyTree) -> Array:
        """Compute the loss of a network on one row of the training points."""


@dataclass(frozen=True)
class Training:
    """Settings for training a network.

    Args:
        epochs: largest number of passes over the data.
        batch_size: points per gradient step.
        learning_rate: step size of Adam at the start; it falls to zero along half a cosine.
        stop_change: stop once the loss changes by less than this fraction from one epoch to the
            next; None trains for all epochs.
        held_out: fraction of the trajectories to hold out. The learned gradient is assessed on
            them. 0 holds nothing out.
        patience: stop once the held-out loss has not improved for this many epochs, and return the
            weights with the lowest; None trains for all epochs.
        most_steps: approximate upper bound on the number of gradient steps. With many points it
            reduces the number of epochs; None sets no bound.
    """

    epochs: int = 50
    batch_size: int = 16
    learning_rate: float = 0.01
    stop_change: float | None = None
    held_out: float = 0.1
    patience: int | None = None
    most_steps: int | None = None

    def __post_init__(self) -> None:
        check_fields(
            self,
            epochs=positive_integer,
            batch_size=positive_integer,
            learning_rate=positive_number,
            stop_change=positive_number,
            held_out=share,
            patience=positive_integer,
            most_steps=positive_integer,
        )

    def for_points(self, number: int, capacity: int) -> "Training":
        """Adapt batch size and epochs to the number of points and to `most_steps`.

        The number of epochs depends on the capacity, a power of two, so that it takes few values
        and compiled code is reused.
        """
        batch_size = min(self.batch_size, number)
        epochs = self.epochs
        if self.most_steps is not None:
            epochs = max(1, min(epochs, self.most_steps * batch_size // capacity))
        return replace(self, batch_size=batch_size, epochs=epochs)


class Lesson(NamedTuple):
    """The data and settings that a gradient model learns from.

    Attributes:
        data: finite gradient data to learn from.
        held_out: gradient data that decide when to stop; None where nothing was held out.
        key: JAX key for all random choices.
        training: how to train a network.
        before: what was learned earlier, which a model may start from; None at first.
    """

    data: GradientData
    held_out: GradientData | None
    key: PRNGKeyArray
    training: Training
    before: Any = None

    def mapped(self, change: Callable[[GradientData], GradientData]) -> "Lesson":
        """Apply a function to the data and to the held-out data."""
        held_out = None if self.held_out is None else change(self.held_out)
        return self._replace(data=change(self.data), held_out=held_out)


class Trained(NamedTuple):
    """A trained network, with the mean training loss and held-out loss of each epoch."""

    network: Any
    losses: np.ndarray
    held_out_losses: np.ndarray


def train(network: Trainable, lesson: Lesson, rows_of: Callable[[GradientData], PyTree]) -> Trained:
    """Train a network on the rows that `rows_of` makes of gradient data.

    Rows are a dictionary of arrays with one row per point; `inputs` holds the positions. Training
    is in single precision. The returned weights have the precision of positions, so that
    trajectories are reversible to the rounding of positions.
    """
    held_out, key, training = lesson.held_out, lesson.key, lesson.training
    if training.patience is None or held_out is None:
        training, held_out = replace(training, patience=None), None
    rows = rows_of(lesson.data)
    weights = _checked_size(network, rows, key)
    points = _Points.of(rows)
    training = training.for_points(int(points.number), points.capacity)
    quick = weights * points.capacity * training.epochs < MOST_WORK_TO_COMPILE_QUICKLY
    held_out_points = None if held_out is None else _Points.of(rows_of(held_out))
    end = _train(network, points, held_out_points, key, training, quick=quick)
    epochs = int(end.epoch)
    losses, held_out_losses = np.asarray(end.losses)[:epochs], np.empty(0, np.float32)
    best = end.network
    if held_out is not None:
        held_out_losses, best = np.asarray(end.held_out_losses)[:epochs], end.best
    return Trained(in_precision_of_positions(best), losses, held_out_losses)


def in_precision_of_positions(network: Any) -> Any:
    """Convert the weights of a network to the floating-point type of positions."""
    dtype = position_dtype()
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if eqx.is_array(leaf) else leaf, network)


def _checked_size(network: Trainable, rows: PyTree, key: PRNGKeyArray) -> int:
    """Count the weights of a network before it is built, and fail if they exceed the memory."""
    dim = _dim(rows)
    shapes = jax.tree.leaves(eqx.filter_eval_shape(lambda key: network.build(dim, key), key))
    weights = sum(math.prod(leaf.shape) for leaf in shapes if hasattr(leaf, "shape"))
    require_memory(
        weights * BYTES_PER_WEIGHT,
        f"training {network} in {dim} dimensions ({weights:,} weights)",
        "Use fewer hidden units.",
    )
    return weights


def _dim(rows: PyTree) -> int:
    return int(rows["inputs"].shape[1])


class _Points(NamedTuple):
    """Points in single precision, padded to a power of two; rows from `number` on are padding.

    More data later then rarely changes the shape, and compiled code is reused.
    """

    rows: PyTree
    number: Int[Array, ""]

    @classmethod
    def of(cls, rows: PyTree) -> "_Points":
        number = len(rows["inputs"])
        capacity = 2 ** math.ceil(math.log2(number))

        def padded(part: np.ndarray) -> Array:
            padding = ((0, capacity - number), *((0, 0) for _ in part.shape[1:]))
            return jnp.asarray(np.pad(part.astype(np.float32), padding))

        return cls(jax.tree.map(padded, rows), jnp.asarray(number))

    @property
    def capacity(self) -> int:
        return len(self.rows["inputs"])

    def shuffled(self, key: PRNGKeyArray) -> Int[Array, " capacity"]:
        """Return row numbers: first a random permutation of the points, then the padding."""
        ranks = jax.random.uniform(key, (self.capacity,))
        return jnp.argsort(jnp.where(jnp.arange(self.capacity) < self.number, ranks, 2.0))


class _Progress(NamedTuple):
    """The state of training after some epochs: weights, losses and the best weights so far."""

    network: Any
    adam: optax.OptState
    losses: Float[Array, " epochs"]
    held_out_losses: Float[Array, " epochs"]
    best: Any
    best_loss: Float[Array, ""]
    best_epoch: Int[Array, ""]
    epoch: Int[Array, ""]

    @classmethod
    def at_start(cls, weights: Any, epochs: int) -> "_Progress":
        unknown = jnp.full(epochs, jnp.nan, jnp.float32)
        return cls(
            network=weights,
            adam=optax.scale_by_adam().init(weights),
            losses=unknown,
            held_out_losses=unknown,
            best=weights,
            best_loss=jnp.asarray(jnp.inf, jnp.float32),
            best_epoch=jnp.asarray(0),
            epoch=jnp.asarray(0),
        )


@compiled
def _train(
    network: Trainable,
    points: _Points,
    held_out: _Points | None,
    key: PRNGKeyArray,
    training: Training,
) -> _Progress:
    """Start from random weights and run all epochs in one compiled loop."""
    build_key, order_key = jax.random.split(key)
    weights, architecture = eqx.partition(network.build(_dim(points.rows), build_key), eqx.is_array)

    def held_out_loss(weights: Any) -> Array:
        if held_out is None:
            return jnp.asarray(jnp.nan, jnp.float32)
        trained = eqx.combine(weights, architecture)
        losses = jax.vmap(lambda row: network.loss(trained, row))(held_out.rows)
        is_point = jnp.arange(held_out.capacity) < held_out.number
        return jnp.sum(jnp.where(is_point, losses, 0.0)) / held_out.number

    def batch_loss(weights: Any, rows: PyTree) -> Array:
        trained = eqx.combine(weights, architecture)
        return jnp.mean(jax.vmap(lambda row: network.loss(trained, row))(rows))

    def epoch(progress: _Progress) -> _Progress:
        order = points.shuffled(jax.random.fold_in(order_key, progress.epoch))
        progress = _run_epoch(progress, batch_loss, points, order, training)
        return _remember_best(progress, held_out_loss(progress.network))

    start = _Progress.at_start(weights, training.epochs)
    end = jax.lax.while_loop(lambda progress: _continues(progress, training), epoch, start)
    last, best = (eqx.combine(part, architecture) for part in (end.network, end.best))
    return end._replace(network=last, best=best)


def _run_epoch(
    progress: _Progress,
    batch_loss: Any,
    points: _Points,
    order: Int[Array, " capacity"],
    training: Training,
) -> _Progress:
    """Take one gradient step per batch, with the points in the given order."""
    num_batches = points.number // training.batch_size

    def step(batch: Array, carry: tuple) -> tuple:
        weights, adam, total = carry
        first = batch * training.batch_size
        chosen = jax.lax.dynamic_slice(order, (first,), (training.batch_size,))
        rows = jax.tree.map(lambda part: part[chosen], points.rows)
        value, slope = jax.value_and_grad(batch_loss)(weights, rows)
        direction, adam = optax.scale_by_adam().update(slope, adam)
        fraction = (progress.epoch + batch / num_batches) / training.epochs
        rate = training.learning_rate * 0.5 * (1 + jnp.cos(jnp.pi * fraction))
        descent = jax.tree.map(lambda part: (-rate * part).astype(part.dtype), direction)
        return optax.apply_updates(weights, descent), adam, total + value

    carry = (progress.network, progress.adam, jnp.zeros((), jnp.float32))
    weights, adam, total = jax.lax.fori_loop(0, num_batches, step, carry)
    losses = progress.losses.at[progress.epoch].set(total / num_batches)
    return progress._replace(network=weights, adam=adam, losses=losses)


def _remember_best(progress: _Progress, held_out_loss: Array) -> _Progress:
    """Count the epoch, record its held-out loss, and keep the weights if it is the lowest."""
    better = held_out_loss < progress.best_loss

    def keep(new: Array, old: Array) -> Array:
        return jnp.where(better, new, old)

    return progress._replace(
        held_out_losses=progress.held_out_losses.at[progress.epoch].set(held_out_loss),
        best=jax.tree.map(keep, progress.network, progress.best),
        best_loss=keep(held_out_loss, progress.best_loss),
        best_epoch=keep(progress.epoch + 1, progress.best_epoch),
        epoch=progress.epoch + 1,
    )


def _continues(progress: _Progress, training: Training) -> Array:
    """Say whether to run another epoch, by the stopping rules of the settings."""
    continues = progress.epoch < training.epochs
    if training.stop_change is not None:
        last, before = progress.losses[progress.epoch - 1], progress.losses[progress.epoch - 2]
        settled = jnp.abs(last - before) < training.stop_change * before
        continues &= ~((progress.epoch >= 2) & settled)
    if training.patience is not None:
        continues &= progress.epoch - progress.best_epoch < training.patience
    return continues
