"""Fitting a network to gradient data: mean squared error, Adam, mini-batches, one compiled loop."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from nnghmc.errors import positive_integer, positive_number
from nnghmc.precision import position_dtype
from nnghmc.surrogates.gradient_data import GradientData
from nnghmc.surrogates.networks import GradientMLP
from nnghmc.surrogates.scaling import Standardisation


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


@dataclass(frozen=True, eq=False)
class FitReport:
    """How a fit went: mean loss of each epoch, points used, points dropped for not being finite."""

    losses: np.ndarray
    points: int
    dropped: int

    def __str__(self) -> str:
        dropped = f", {self.dropped} not finite and left out" if self.dropped else ""
        return (
            f"{self.points:,} points{dropped}; loss {self.losses[0]:.3g} to {self.losses[-1]:.3g} "
            f"in {len(self.losses)} epochs"
        )


class LearnedGradient(eqx.Module):
    """A trained network between two standardisations. A pytree: compiled code takes it as input.

    Training is in single precision; the trained weights are as precise as positions, so that
    trajectories are reversible to the rounding of positions.
    """

    network: eqx.nn.MLP
    positions: Standardisation
    gradients: Standardisation

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The learned gradient g(q)."""
        return self.gradients.undo(self.network(self.positions.apply(position)))


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A fitted, frozen gradient, and how the fit went."""

    learned: LearnedGradient
    report: FitReport

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The learned gradient g(q) at one position."""
        return self.learned.gradient(position)


def fit(
    network: GradientMLP,
    gradient_data: GradientData,
    key: PRNGKeyArray,
    training: Training | None = None,
) -> Surrogate:
    """Train a network on gradient data."""
    training = training or Training()
    usable = gradient_data.finite()
    training = replace(training, batch_size=min(training.batch_size, len(usable)))
    positions = Standardisation.of(usable.positions)
    gradients = Standardisation.of(usable.gradients)
    points = _Points(
        _padded(positions.apply(usable.positions)),
        _padded(gradients.apply(usable.gradients)),
        jnp.asarray(len(usable)),
    )
    end = _train(network, points, key, training)
    report = FitReport(
        losses=np.asarray(end.losses)[: int(end.epoch)],
        points=len(usable),
        dropped=len(gradient_data) - len(usable),
    )
    learned = LearnedGradient(in_precision_of_positions(end.network), positions, gradients)
    return Surrogate(learned, report)


def in_precision_of_positions(network: eqx.nn.MLP) -> eqx.nn.MLP:
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
    network: eqx.nn.MLP
    adam: optax.OptState
    losses: Float[Array, " epochs"]
    epoch: Int[Array, ""]


@eqx.filter_jit
def _train(
    network: GradientMLP, points: _Points, key: PRNGKeyArray, training: Training
) -> _Progress:
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
    architecture: eqx.nn.MLP,
    points: _Points,
    order: Int[Array, " capacity"],
    training: Training,
) -> _Progress:
    num_batches = points.number // training.batch_size

    def loss(weights: eqx.nn.MLP, rows: Int[Array, " batch"]) -> Array:
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
