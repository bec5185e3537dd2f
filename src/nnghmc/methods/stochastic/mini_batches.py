"""The base class of methods whose gradients come from mini-batches of the data."""

from dataclasses import dataclass

from nnghmc.errors import SettingsError, check_fields, positive_integer
from nnghmc.methods.settings import setting
from nnghmc.methods.tuned import TunedMethod
from nnghmc.model.posterior import Posterior


@dataclass(frozen=True)
class MiniBatchMethod(TunedMethod):
    """A method whose gradients come from random mini-batches of the data.

    Args:
        step_size: step size ε; from a pair (low, high) it is drawn uniformly per draw.
        num_steps: number L of steps per draw, or a pair (low, high).
        warmup: number of warm-up draws per chain, which are not kept.
        batch_size: number of rows per mini-batch; each gradient draws them with replacement.
    """

    batch_size: int = setting(500, "Rows per mini-batch.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, batch_size=positive_integer)

    def check(self, posterior: Posterior) -> None:
        """Raise an error if the posterior has no data, or fewer rows than a mini-batch."""
        super().check(posterior)
        rows = posterior.num_observations
        if rows is None:
            raise SettingsError(
                f"{self.title} draws mini-batches from the data, and this posterior has none. Make "
                "it with Posterior(log_likelihood, log_prior, data, initial), or use another "
                "method."
            )
        if self.batch_size > rows:
            raise SettingsError(
                f"a mini-batch must be no larger than the data of {rows:,} rows, got "
                f"batch_size={self.batch_size:,}; use {type(self).__name__}"
                f"(batch_size={min(100, rows)})."
            )
