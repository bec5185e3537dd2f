"""Fits a gradient model to gradient data and returns a frozen surrogate."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from nnghmc.errors import GradientDataError, instance_of
from nnghmc.model.layout import ParameterLayout
from nnghmc.surrogates.data import GradientData
from nnghmc.surrogates.learned import GradientModel, Learned, all_gradients, gradient_model
from nnghmc.surrogates.storage import FitReport
from nnghmc.surrogates.surrogate import Surrogate
from nnghmc.surrogates.training import Lesson, Training

LEAST_HELD_OUT = 20
"""Number of trajectories to hold out at least; a smaller set gives a noisy assessment."""
MOST_HELD_OUT = 0.25
"""Largest fraction of the trajectories that is held out only to reach `LEAST_HELD_OUT`."""


def fit(
    network: GradientModel,
    gradient_data: GradientData,
    key: PRNGKeyArray,
    training: Training | None = None,
    layout: ParameterLayout | None = None,
    before: Learned | None = None,
) -> Surrogate:
    """Fit a gradient model to gradient data.

    Some trajectories are held out, so that the learned gradient can be assessed on them.

    Args:
        network: the gradient model, such as QuadraticPlus().
        gradient_data: points with true gradients.
        key: JAX key for the random weights, the order of the points and the held-out set.
        training: how to train, and how much to hold out; None is the default of the model.
        layout: names and shapes of the parameters. A saved surrogate keeps them.
        before: what was learned from fewer data, which some models start from.
    """
    network = gradient_model("network", network)
    training = instance_of("training", training or network.training, Training)
    usable = instance_of("gradient_data", gradient_data, GradientData).finite()
    usable.check_varying()
    training_part, held_out = _split(usable, training.held_out, key)
    learn_from = _enough(training_part.without_starts())
    test_on = None if held_out is None else held_out.without_starts()
    learning = network.learn(Lesson(learn_from, test_on, key, training, before))
    report = FitReport(
        model=type(network).__name__,
        losses=learning.losses,
        held_out_losses=learning.held_out_losses,
        points=len(learn_from),
        dropped=len(gradient_data) - len(usable),
        held_out=0 if test_on is None else len(test_on),
        held_out_error=relative_error(learning.learned, test_on),
        remarks=learning.remarks,
    )
    return Surrogate(learning.learned, report, usable.dim, layout, held_out)


def _split(
    data: GradientData, fraction: float, key: PRNGKeyArray
) -> tuple[GradientData, GradientData | None]:
    """Split into training points and held-out points; hold nothing out of a single trajectory.

    At least `LEAST_HELD_OUT` trajectories are held out, or `MOST_HELD_OUT` of all if there are few.
    """
    number = data.num_trajectories
    if fraction == 0 or number < 2:
        return data, None
    fraction = max(fraction, min(LEAST_HELD_OUT / number, MOST_HELD_OUT))
    return data.split(fraction, seed=int(jax.random.bits(key, dtype=jnp.uint32)))


def _enough(points: GradientData) -> GradientData:
    if len(points) < 2:
        raise GradientDataError(
            f"a model needs at least 2 points to learn from, got {len(points)}. Collect more."
        )
    return points


def relative_error(learned: Learned, data: GradientData | None) -> float:
    """Measure the size of the error of a learned gradient, relative to the size of the gradient.

    Each coordinate is in units of the root mean square of its gradient, so that the units of the
    parameters do not matter. Without data the result is NaN.
    """
    if data is None:
        return float("nan")
    errors = all_gradients(learned, data.positions) - data.gradients
    size = np.sqrt(np.mean(data.gradients**2, axis=0))
    scale = 1 / np.where(size > 0, size, 1.0)
    return float(np.linalg.norm(scale * errors) / np.linalg.norm(scale * data.gradients))
