"""Section 4.3: a GARCH(2, 1) model of 1,000 observations, whose likelihood is a recursion."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Array
from matplotlib.figure import Figure

from nnghmc import GradientMLP, Posterior, Run, plots
from nnghmc.paper.experiment import Result, variables_of
from nnghmc.paper.race import OUR_WAY, Course, paper_row, race

LENGTH = 1000
COURSE = Course(
    step_size=0.03,
    most_steps=15,
    draws=10_000,
    collected=1000,
    network=GradientMLP(50),
    warmup=100,
)
SPEED_UP = 4.98
"""The paper's speed-up of NNgHMC."""
PAPER = [paper_row("NNgHMC", speed_up=SPEED_UP)]
SETTINGS = (
    "1,000 observations y of variance h, h[t] = α₀ + α₁ y²[t-1] + α₂ y²[t-2] + β h[t-1], simulated "
    "with α₀ = 0.1, α₁ = 0.1, α₂ = 0.2, β = 0.6, since the paper does not print its true values. "
    "The prior is half normal for α₀ and uniform over the stationary region α₁ + α₂ + β < 1, "
    "α, β > 0. We sample log α₀ and the log odds of α₁, α₂ and β against the remainder to 1, with "
    "the Jacobian, and report on the natural scale. The paper's ε of 0.002 is a step on the "
    "natural scale, where the posterior is ten to twenty times as narrow; here ε is 0.03. L = 15, "
    "and the number of steps is uniform between 1 and L. The paper's way: a network of 50 units "
    "learns for 50 epochs from the gradients of 1,000 draws."
)


class Natural(NamedTuple):
    """The parameters on their natural scale."""

    alpha0: Any
    alpha1: Any
    alpha2: Any
    beta: Any

    def variance(self, square: Any, square_before: Any, variance: Any) -> Any:
        """Return the next variance, given the last two squares and the last variance."""
        return (
            self.alpha0 + self.alpha1 * square + self.alpha2 * square_before + self.beta * variance
        )


TRUTH = Natural(0.1, 0.1, 0.2, 0.6)


def series(length: int = LENGTH, seed: int = 0) -> np.ndarray:
    """Simulate observations from the model."""
    generator = np.random.default_rng(seed)
    values, variance = np.zeros(length), 1.0
    for t in range(2, length):
        variance = TRUTH.variance(values[t - 1] ** 2, values[t - 2] ** 2, variance)
        values[t] = np.sqrt(variance) * generator.normal()
    return values


def garch(values: np.ndarray) -> Posterior:
    """Return the posterior of (α₀, α₁, α₂, β) on the unconstrained scale."""
    squares = values**2
    data = {"now": squares[2:], "lag": squares[1:-1], "second": squares[:-2]}
    first = float(squares.mean())

    def log_likelihood(parameters: Any, data: dict[str, Array]) -> Array:
        natural = Natural(**constrain(parameters))

        def step(variance: Array, row: dict[str, Array]) -> tuple[Array, Array]:
            variance = natural.variance(row["lag"], row["second"], variance)
            return variance, -0.5 * (jnp.log(variance) + row["now"] / variance)

        return jnp.sum(jax.lax.scan(step, jnp.asarray(first), data)[1])

    initial = {"level": np.log(0.1), "weights": np.zeros(3)}
    return Posterior(log_likelihood, log_prior, data, initial, constrain=constrain)


def log_shares(parameters: Any) -> Array:
    """Return the logarithms of α₁, α₂, β and of the remainder to 1."""
    return jax.nn.log_softmax(jnp.append(parameters["weights"], 0.0))


def constrain(parameters: Any) -> dict[str, Array]:
    """Return the parameters on their natural scale."""
    first, second, memory, _ = jnp.exp(log_shares(parameters))
    return {
        "alpha0": jnp.exp(parameters["level"]),
        "alpha1": first,
        "alpha2": second,
        "beta": memory,
    }


def log_prior(parameters: Any) -> Array:
    """Return the log prior, half normal and uniform on the natural scale, with both Jacobians."""
    level = parameters["level"]
    return -0.5 * jnp.exp(2 * level) + level + jnp.sum(log_shares(parameters))


def run(full: bool = False, seed: int = 0, progress: bool = True) -> Result:
    """Run the race, and draw the series and the marginals of the natural parameters."""
    values = series()
    result = race(garch(values), COURSE, full, seed, progress)
    table = result.table("GARCH(2, 1), 10,000 draws (table 1)", PAPER)
    figures = {
        "garch-series.png": series_figure(values, result[OUR_WAY]),
        "garch-marginals.png": plots.marginals(*result.runs),
    }
    return Result([SETTINGS, table, result.verdict(SPEED_UP), result.remarks], figures)


def series_figure(values: np.ndarray, run: Run) -> Figure:
    """Draw the series, with twice its true standard deviation and that at the posterior mean."""
    natural = variables_of(run)
    means = Natural(*(float(natural[name].mean()) for name in Natural._fields))
    drawing, axis = plt.subplots(figsize=(11, 3.4))
    axis.plot(values, color="0.6", linewidth=0.6, label="observations")
    shown = {"2 sd, at the posterior mean": (means, "-"), "2 sd, the truth": (TRUTH, ":")}
    for (name, (parameters, line)), colour in zip(shown.items(), plots.COLOURS, strict=False):
        axis.plot(2 * spreads(values, parameters), line, color=colour, linewidth=1, label=name)
    axis.set(xlabel="time", ylabel="observation", xlim=(0, len(values)))
    axis.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    drawing.tight_layout()
    return drawing


def spreads(values: np.ndarray, parameters: Natural) -> np.ndarray:
    """Return the standard deviation at each time, given the observations before it."""
    squares = values**2
    variances = np.full(len(values), squares.mean())
    for t in range(2, len(values)):
        variances[t] = parameters.variance(squares[t - 1], squares[t - 2], variances[t - 1])
    return np.sqrt(variances)
