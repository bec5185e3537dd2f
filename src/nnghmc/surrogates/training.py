"""Training a network: mean squared error, Adam, mini-batches, one compiled loop."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from nnghmc.errors import positive_integer, positive_number
from nnghmc.precision import position_dtype


class Trainable(Protocol):
    """What says how to build a network; frozen, so that equal ones share compiled code."""

    def build(self, dim: int, key: PRNGKeyArray) -> Any:
        """An untrained network, an Equinox module from vectors to vectors of length `dim`."""


@dataclass(frozen=True)
class Training:
    """How a network is trained.

    Args:
        epochs: the most passes t over the data.
        batch_size: points a gradient step.
        learning_rate: Adam's step size at the start; it falls to zero along half a cosine.
        stop_change: stop once the loss of an epoch differs from that of the epoch before by less
            than this share; None trains for all epochs.
    """

    epochs: int = 50
    batch_size: int = 16
    learning_rate: float = 0.01
    stop_change: float | None = None

    def __post_init__(self) -> None:
        positive_integer("epochs", self.epochs)
        positive_integer("batch_size", self.batch_size)
        positive_number("learning_rate", self.learning_rate)
        if self.stop_change is not None:
            positive_number("stop_change", self.stop_change)


def train(
    network: Trainable,
    inputs: np.ndarray,
    outputs: np.ndarray,
    key: PRNGKeyArray,
    training: Training,
) -> tuple[Any, np.ndarray]:
    """A network that maps rows of `inputs` to rows of `outputs`, and the mean loss of each epoch.

    Training is in single precision; the weights returned are as precise as positions, so that
    trajectories are reversible to the rounding of positions.
    """
    training = replace(training, batch_size=min(training.batch_size, len(inputs)))
    points = _Points(_padded(inputs), _padded(outputs), jnp.asarray(len(inputs)))
    end = _train(network, points, key, training)
    return in_precision_of_positions(end.network), np.asarray(end.losses)[: int(end.epoch)]


def in_precision_of_positions(network: Any) -> Any:
    """The same network with weights in the type of positions."""
    dtype = position_dtype()
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if eqx.is_array(leaf) else leaf, network)


class _Points(NamedTuple):
    """Standardised training points, a row each; rows from `number` on are padding."""

    inputs: Float[Array, "capacity dim"]
    outputs: Float[Array, "capacity dim"]
    number: Int[Array, ""]

    def shuffled(self, key: PRNGKeyArray) -> Int[Array, " capacity"]:
        """Row numbers: a permutation of the points, and the padding after them."""
        ranks = jax.random.uniform(key, (len(self.inputs),))
        return jnp.argsort(jnp.where(jnp.arange(len(ranks)) < self.number, ranks, 2.0))


def _padded(rows: np.ndarray) -> Float[Array, "capacity dim"]:
    """Rows in single precision with zeros behind them, up to a power of two.

    More data later then rarely means another shape, and another compilation.
    """
    capacity = 2 ** math.ceil(math.log2(len(rows)))
    padding = ((0, capacity - len(rows)), (0, 0))
    return jnp.asarray(np.pad(rows.astype(np.float32), padding))


class _Progress(NamedTuple):
    network: Any
    adam: optax.OptState
    losses: Float[Array, " epochs"]
    epoch: Int[Array, ""]


@eqx.filter_jit
def _train(network: Trainable, points: _Points, key: PRNGKeyArray, training: Training) -> _Progress:
    """Random weights, then all epochs, in one compiled loop."""
    build_key, order_key = jax.random.split(key)
    untrained = network.build(points.inputs.shape[1], build_key)
    weights, architecture = eqx.partition(untrained, eqx.is_array)
    start = _Progress(
        weights,
        optax.scale_by_adam().init(weights),
        jnp.full(training.epochs, jnp.nan, jnp.float32),
        jnp.asarray(0),
    )

    def goes_on(progress: _Progress) -> Array:
        return (progress.epoch < training.epochs) & ~_has_settled(progress, training.stop_change)

    def epoch(progress: _Progress) -> _Progress:
        order = points.shuffled(jax.random.fold_in(order_key, progress.epoch))
        return _one_epoch(progress, architecture, points, order, training)

    end = jax.lax.while_loop(goes_on, epoch, start)
    return end._replace(network=eqx.combine(end.network, architecture))


def _one_epoch(
    progress: _Progress,
    architecture: Any,
    points: _Points,
    order: Int[Array, " capacity"],
    training: Training,
) -> _Progress:
    num_batches = points.number // training.batch_size

    def loss(weights: Any, rows: Int[Array, " batch"]) -> Array:
        predicted = jax.vmap(eqx.combine(weights, architecture))(points.inputs[rows])
        return jnp.mean((predicted - points.outputs[rows]) ** 2)

    def step(batch: Array, carry: tuple) -> tuple:
        weights, adam, total = carry
        first = batch * training.batch_size
        rows = jax.lax.dynamic_slice(order, (first,), (training.batch_size,))
        value, slope = jax.value_and_grad(loss)(weights, rows)
        direction, adam = optax.scale_by_adam().update(slope, adam)
        done = (progress.epoch + batch / num_batches) / training.epochs
        rate = training.learning_rate * 0.5 * (1 + jnp.cos(jnp.pi * done))
        descent = jax.tree.map(lambda part: (-rate * part).astype(part.dtype), direction)
        return optax.apply_updates(weights, descent), adam, total + value

    carry = (progress.network, progress.adam, jnp.zeros((), jnp.float32))
    weights, adam, total = jax.lax.fori_loop(0, num_batches, step, carry)
    losses = progress.losses.at[progress.epoch].set(total / num_batches)
    return _Progress(weights, adam, losses, progress.epoch + 1)


def _has_settled(progress: _Progress, stop_change: float | None) -> Array:
    if stop_change is None:
        return jnp.asarray(False)
    last, before = progress.losses[progress.epoch - 1], progress.losses[progress.epoch - 2]
    return (progress.epoch >= 2) & (jnp.abs(last - before) < stop_change * before)
