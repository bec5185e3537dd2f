"""The methods `sample` knows: their names, and whether their draws are from the true posterior."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from nnghmc.errors import SettingsError, check_fields, positive_integer, positive_number


class Method(NamedTuple):
    """What a method is called, what is behind it, and whether it is exact."""

    title: str
    exact: bool
    mini_batches: bool = False
    mass_matrix: bool = True


METHODS = {
    "nnghmc": Method("NNgHMC", exact=True),
    "hmc": Method("standard HMC", exact=True),
    "sgld": Method("SGLD", exact=False, mini_batches=True, mass_matrix=False),
    "sghmc": Method("SGHMC with friction", exact=False, mini_batches=True, mass_matrix=False),
    "naive-sghmc": Method("naive SGHMC", exact=False, mini_batches=True),
    "metropolis-sghmc": Method("SGHMC with Metropolis test", exact=True, mini_batches=True),
    "nuts": Method("NUTS", exact=True),
}


@dataclass(frozen=True)
class MiniBatches:
    """How the stochastic-gradient methods look at the data.

    Args:
        size: rows a mini-batch, drawn with replacement, anew for each gradient.
        friction: of SGHMC, α in 1/time: momentum is lost at this rate and replaced by noise.
        noise: an estimate of the variance of the gradient's own noise, by which SGHMC injects
            less; 0 as most do.
    """

    size: int = 500
    friction: float = 1.0
    noise: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self, size=positive_integer, friction=positive_number, noise=_not_negative)

    def check_step(self, step_size: float) -> None:
        """Refuse an estimate of the gradient's noise that leaves none to inject."""
        if self.noise * step_size > 2 * self.friction:
            raise SettingsError(
                f"noise must be at most 2 friction / step_size, {2 * self.friction / step_size:g} "
                f"here, got {self.noise:g}; use a smaller one, or a smaller step_size."
            )

    def check_fits(self, num_observations: int | None, method: str) -> None:
        """Refuse a posterior without data, or with fewer rows than a mini-batch."""
        if num_observations is None:
            raise SettingsError(
                f"{method} draws mini-batches from the data, and this posterior has none. Make it "
                "with Posterior(log_likelihood, log_prior, data, initial), or use another method."
            )
        if self.size > num_observations:
            raise SettingsError(
                f"a mini-batch must be no larger than the data of {num_observations:,} rows, got "
                f"{self.size:,}; use MiniBatches(size={min(100, num_observations)})."
            )


def _not_negative(name: str, value: Any) -> float:
    return 0.0 if isinstance(value, int | float) and value == 0 else positive_number(name, value)
