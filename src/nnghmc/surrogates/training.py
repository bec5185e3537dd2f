"""Training a network: Adam, mini-batches, early stopping, one compiled loop."""

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

from nnghmc.compilation import compiled
from nnghmc.errors import check_fields, positive_integer, positive_number, share
from nnghmc.memory import require_memory
from nnghmc.precision import position_dtype
from nnghmc.surrogates.gradient_data import GradientData

MOST_WORK_TO_COMPILE_QUICKLY = 5e9
"""Weights times points times epochs: a second or two of training."""

BYTES_A_WEIGHT = 7 * 4
"""Weights, slopes, two moments of Adam and the best so far in float32, the result in float64."""


class Trainable(Protocol):
    """What says how to build a network and what to ask of it.

    Frozen, so that equal ones share compiled code.
    """

    def build(self, dim: int, key: PRNGKeyArray) -> Any:
        """An untrained network of positions of length `dim`, an Equinox module."""

    def loss(self, network: Any, row: PyTree) -> Array:
        """The loss of a network on one row of the training points."""


@dataclass(frozen=True)
class Training:
    """How a network is trained.

    Args:
        epochs: the most passes t over the data.
        batch_size: points a gradient step.
        learning_rate: Adam's step size at the start; it falls to zero along half a cosine.
        stop_change: stop once the loss of an epoch differs from that of the epoch before by less
            than this share; None trains for all epochs.
        held_out: the share of the trajectories that is not learned from; what was learned is
            assessed on it. 0 holds nothing out.
        patience: stop once the held-out loss has not improved for so many epochs, and go back to
            the weights that had the lowest; None trains on.
        most_steps: with many points, fewer epochs: no more than about so many gradient steps.
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
        """With no batch larger than the points, and no more steps than allowed.

        The capacity, a power of two, decides on the epochs: few sizes mean few compilations.
        """
        batch_size = min(self.batch_size, number)
        epochs = self.epochs
        if self.most_steps is not None:
            epochs = max(1, min(epochs, self.most_steps * batch_size // capacity))
        return replace(self, batch_size=batch_size, epochs=epochs)


class Lesson(NamedTuple):
    """What a model learns from: finite gradient data, and more of it to say when to stop."""

    data: GradientData
    held_out: GradientData | None
    key: PRNGKeyArray
    training: Training

    def mapped(self, change: Callable[[GradientData], GradientData]) -> "Lesson":
        """The same lesson on changed data, held-out ones too."""
        held_out = None if self.held_out is None else change(self.held_out)
        return self._replace(data=change(self.data), held_out=held_out)


class Trained(NamedTuple):
    """A trained network, and the mean loss of each epoch on what it saw and what it did not."""

    network: Any
    losses: np.ndarray
    held_out_losses: np.ndarray


def train(network: Trainable, lesson: Lesson, rows_of: Callable[[GradientData], PyTree]) -> Trained:
    """Train a network on rows: arrays with a row a point, those of `inputs` being positions.

    Training is in single precision; the weights returned are as precise as positions, so that
    trajectories are reversible to the rounding of positions.
    """
    _, held_out, key, training = lesson
    if training.patience is None or held_out is None:
        training, held_out = replace(training, patience=None), None
    rows = rows_of(lesson.data)
    weights = _checked_size(network, rows, key)
    points = _Points.of(rows)
    training = training.for_points(int(points.number), points.capacity)
    quick = weights * points.capacity * training.epochs < MOST_WORK_TO_COMPILE_QUICKLY
    unseen = None if held_out is None else _Points.of(rows_of(held_out))
    end = _train(network, points, unseen, key, training, quick=quick)
    made = int(end.epoch)
    losses, held_out_losses = (np.asarray(part)[:made] for part in (end.losses, end.unseen_losses))
    best = end.network if held_out is None else end.best
    return Trained(
        in_precision_of_positions(best), losses, held_out_losses[: 0 if held_out is None else made]
    )


def in_precision_of_positions(network: Any) -> Any:
    """The same network with weights in the type of positions."""
    dtype = position_dtype()
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if eqx.is_array(leaf) else leaf, network)


def _checked_size(network: Trainable, rows: PyTree, key: PRNGKeyArray) -> int:
    """The number of weights of a network, refused before it is built if memory cannot hold it."""
    dim = _dim(rows)
    shapes = jax.tree.leaves(eqx.filter_eval_shape(lambda key: network.build(dim, key), key))
    weights = sum(math.prod(leaf.shape) for leaf in shapes if hasattr(leaf, "shape"))
    require_memory(
        weights * BYTES_A_WEIGHT,
        f"training {network} in {dim} dimensions ({weights:,} weights)",
        "Use fewer hidden units.",
    )
    return weights


def _dim(rows: PyTree) -> int:
    return int(rows["inputs"].shape[1])


class _Points(NamedTuple):
    """Training points in single precision; rows from `number` on are padding, up to a power of two.

    More data later then rarely means another shape, and another compilation.
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
        """Row numbers: a permutation of the points, and the padding after them."""
        ranks = jax.random.uniform(key, (self.capacity,))
        return jnp.argsort(jnp.where(jnp.arange(self.capacity) < self.number, ranks, 2.0))


class _Progress(NamedTuple):
    network: Any
    adam: optax.OptState
    losses: Float[Array, " epochs"]
    unseen_losses: Float[Array, " epochs"]
    best: Any
    best_loss: Float[Array, ""]
    best_epoch: Int[Array, ""]
    epoch: Int[Array, ""]


@compiled
def _train(
    network: Trainable,
    points: _Points,
    unseen: _Points | None,
    key: PRNGKeyArray,
    training: Training,
) -> _Progress:
    """Random weights, then all epochs, in one compiled loop."""
    build_key, order_key = jax.random.split(key)
    weights, architecture = eqx.partition(network.build(_dim(points.rows), build_key), eqx.is_array)

    def unseen_loss(weights: Any) -> Array:
        if unseen is None:
            return jnp.asarray(jnp.nan, jnp.float32)
        trained = eqx.combine(weights, architecture)
        losses = jax.vmap(lambda row: network.loss(trained, row))(unseen.rows)
        counted = jnp.arange(unseen.capacity) < unseen.number
        return jnp.sum(jnp.where(counted, losses, 0.0)) / unseen.number

    def batch_loss(weights: Any, rows: PyTree) -> Array:
        trained = eqx.combine(weights, architecture)
        return jnp.mean(jax.vmap(lambda row: network.loss(trained, row))(rows))

    def epoch(progress: _Progress) -> _Progress:
        order = points.shuffled(jax.random.fold_in(order_key, progress.epoch))
        progress = _one_epoch(progress, batch_loss, points, order, training)
        return _judged(progress, unseen_loss(progress.network))

    unknown = jnp.full(training.epochs, jnp.nan, jnp.float32)
    start = _Progress(
        weights,
        optax.scale_by_adam().init(weights),
        unknown,
        unknown,
        weights,
        jnp.asarray(jnp.inf, jnp.float32),
        jnp.asarray(0),
        jnp.asarray(0),
    )
    end = jax.lax.while_loop(lambda progress: _goes_on(progress, training), epoch, start)
    last, best = (eqx.combine(part, architecture) for part in (end.network, end.best))
    return end._replace(network=last, best=best)


def _one_epoch(
    progress: _Progress,
    batch_loss: Any,
    points: _Points,
    order: Int[Array, " capacity"],
    training: Training,
) -> _Progress:
    num_batches = points.number // training.batch_size

    def step(batch: Array, carry: tuple) -> tuple:
        weights, adam, total = carry
        first = batch * training.batch_size
        chosen = jax.lax.dynamic_slice(order, (first,), (training.batch_size,))
        rows = jax.tree.map(lambda part: part[chosen], points.rows)
        value, slope = jax.value_and_grad(batch_loss)(weights, rows)
        direction, adam = optax.scale_by_adam().update(slope, adam)
        done = (progress.epoch + batch / num_batches) / training.epochs
        rate = training.learning_rate * 0.5 * (1 + jnp.cos(jnp.pi * done))
        descent = jax.tree.map(lambda part: (-rate * part).astype(part.dtype), direction)
        return optax.apply_updates(weights, descent), adam, total + value

    carry = (progress.network, progress.adam, jnp.zeros((), jnp.float32))
    weights, adam, total = jax.lax.fori_loop(0, num_batches, step, carry)
    losses = progress.losses.at[progress.epoch].set(total / num_batches)
    return progress._replace(network=weights, adam=adam, losses=losses)


def _judged(progress: _Progress, unseen_loss: Array) -> _Progress:
    """The progress after one more epoch, the best weights remembered."""
    better = unseen_loss < progress.best_loss

    def keep(new: Array, old: Array) -> Array:
        return jnp.where(better, new, old)

    return progress._replace(
        unseen_losses=progress.unseen_losses.at[progress.epoch].set(unseen_loss),
        best=jax.tree.map(keep, progress.network, progress.best),
        best_loss=keep(unseen_loss, progress.best_loss),
        best_epoch=keep(progress.epoch + 1, progress.best_epoch),
        epoch=progress.epoch + 1,
    )


def _goes_on(progress: _Progress, training: Training) -> Array:
    goes_on = progress.epoch < training.epochs
    if training.stop_change is not None:
        last, before = progress.losses[progress.epoch - 1], progress.losses[progress.epoch - 2]
        settled = jnp.abs(last - before) < training.stop_change * before
        goes_on &= ~((progress.epoch >= 2) & settled)
    if training.patience is not None:
        goes_on &= progress.epoch - progress.best_epoch < training.patience
    return goes_on
