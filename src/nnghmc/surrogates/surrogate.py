"""The fitted, frozen surrogate, with its report, its parameters and its held-out data."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from nnghmc.errors import SettingsError, SurrogateFileError
from nnghmc.model.layout import ParameterLayout
from nnghmc.model.posterior import GradientFn, Posterior
from nnghmc.surrogates.data import GradientData
from nnghmc.surrogates.learned import Learned
from nnghmc.surrogates.parts.prior_swap import swap_prior
from nnghmc.surrogates.storage import (
    FitReport,
    StoredSurrogate,
    read_arrays,
    read_surrogate,
    to_arrays,
    write_surrogate,
)
from nnghmc.surrogates.surrogate_posterior import SurrogatePosterior


@dataclass(frozen=True, eq=False, repr=False)
class Surrogate:
    """A fitted and frozen gradient model.

    Attributes:
        learned: the gradient as a pytree, for use in compiled code.
        report: a report on the fit.
        dim: number of coordinates.
        layout: names and shapes of the parameters; None where they are unknown.
        held_out: gradient data held out of the fit; None where nothing was held out. A surrogate
            loaded from a file has none.
        of_inputs: whether its coordinates are the inputs of the expensive function of a posterior
            rather than the parameters.
    """

    learned: Learned
    report: FitReport
    dim: int
    layout: ParameterLayout | None = None
    held_out: GradientData | None = None
    of_inputs: bool = False

    def __repr__(self) -> str:
        coordinates = "inputs" if self.of_inputs else "dimensions"
        return f"Surrogate of {self.dim} {coordinates}: {self.report}"

    def on(self, posterior: Posterior) -> SurrogatePosterior:
        """Return the surrogate posterior: the exact part of a posterior and what was learned.

        The posterior may have another prior than the one that the surrogate was learned under, if
        the surrogate is that of the expensive function in its inputs.
        """
        self.check_fits(posterior)
        split = posterior.split() if self.of_inputs else posterior.undivided()
        return SurrogatePosterior(split, self.learned)

    @property
    def conservative(self) -> bool:
        """Whether the learned gradient is that of a potential."""
        return self.learned.conservative

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Evaluate the learned gradient g(q) at one position, or at inputs if it is `of_inputs`."""
        return self.learned.gradient(position)

    def potential(self, position: Float[Array, " dim"]) -> Float[Array, ""]:
        """Evaluate the learned potential at one position; it is known up to a constant.

        Models that learn a free vector field have no potential and raise a `SettingsError`.
        """
        if not self.conservative:
            raise SettingsError(
                f"potential needs a model that learns one, and {self.report.model} learned a free "
                "vector field. Fit QuadraticPlus, Quadratic, PotentialNet, RandomBases or "
                "GaussianProcess instead."
            )
        return self.learned.potential(position)

    def with_prior(self, old: Any, new: Any) -> "Surrogate":
        """Return a surrogate for another prior, without new training.

        Args:
            old: the posterior the surrogate was fitted to, or its log prior; None is a flat prior.
            new: the posterior to sample, with the same likelihood and data, or its log prior.
        """
        if self.of_inputs:
            raise SettingsError(
                "a surrogate of the expensive function holds no prior that could be replaced. Use "
                "it as it is: sample(posterior, method=Auto(surrogate=surrogate))."
            )
        return replace(self, learned=swap_prior(self.learned, self.layout, old, new), held_out=None)

    def as_of_inputs(self) -> "Surrogate":
        """Return the same surrogate, said to be one of the inputs of an expensive function."""
        return replace(self, of_inputs=True, layout=None)

    def gradient_for(self, posterior: Posterior) -> GradientFn:
        """Return the learned gradient as a function of the parameters of a posterior."""
        return self.on(posterior).gradient if self.of_inputs else self.learned.gradient

    def check_fits(self, posterior: Posterior) -> None:
        """Fail if the parameters or inputs of a posterior are not those of the surrogate."""
        if self.of_inputs:
            if posterior.split().num_inputs != self.dim:
                raise SettingsError(
                    f"a surrogate of {self.dim} inputs cannot serve a posterior whose expensive "
                    f"function has {posterior.split().num_inputs}. Fit one to this posterior."
                )
            return
        if posterior.dim != self.dim:
            raise SettingsError(
                f"a surrogate of {self.dim} dimensions cannot serve a posterior of "
                f"{posterior.dim}. Fit one to this posterior."
            )
        layout = self.layout
        theirs = (posterior.layout.names, posterior.layout.shapes)
        if layout is not None and (layout.names, layout.shapes) != theirs:
            raise SettingsError(
                f"this surrogate was fitted to the parameters {layout.names} of shapes "
                f"{layout.shapes}, and the posterior has {theirs[0]} of shapes {theirs[1]}. Fit a "
                "surrogate to this posterior."
            )

    def save(self, path: str | Path) -> None:
        """Write the surrogate to one file, without held-out data; `load_surrogate` reads it."""
        write_surrogate(path, self._stored(held_out=False))

    def as_arrays(self, held_out: bool = False) -> dict[str, np.ndarray]:
        """Turn the surrogate into named arrays, which `from_arrays` reads.

        With `held_out`, the held-out gradient data are among them.
        """
        return to_arrays(self._stored(held_out))

    @classmethod
    def from_arrays(
        cls,
        arrays: dict[str, np.ndarray],
        path: str | Path,
        layout: ParameterLayout | None = None,
    ) -> "Surrogate":
        """Restore a surrogate from the arrays of `as_arrays`, and check it.

        Args:
            arrays: the named arrays; held-out gradient data are restored where present.
            path: where the arrays come from, for error messages.
            layout: replaces the restored layout, which has names and shapes but no tree structure.
        """
        surrogate = cls._of(read_arrays(path, arrays))
        if layout is None or surrogate.of_inputs:
            return surrogate
        if layout.dim != surrogate.dim:
            raise SurrogateFileError(
                f"{path} must hold a surrogate of {layout.dim} dimensions for the parameters "
                f"{layout.names}, and it has {surrogate.dim}. Fit a surrogate to this posterior."
            )
        return replace(surrogate, layout=layout)

    def _stored(self, held_out: bool) -> StoredSurrogate:
        names = None if self.layout is None else self.layout.names
        shapes = None if self.layout is None else self.layout.shapes
        data = self.held_out if held_out else None
        return StoredSurrogate(
            self.learned, self.report, self.dim, names, shapes, data, self.of_inputs
        )

    @classmethod
    def _of(cls, stored: StoredSurrogate) -> "Surrogate":
        layout = None
        if stored.names is not None and stored.shapes is not None:
            layout = ParameterLayout(None, stored.names, stored.shapes)
        return cls(
            stored.learned, stored.report, stored.dim, layout, stored.held_out, stored.of_inputs
        )


def load_surrogate(path: str | Path) -> Surrogate:
    """Read a surrogate that `Surrogate.save` wrote; no code in the file is executed."""
    return Surrogate._of(read_surrogate(path))
