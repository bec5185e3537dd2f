"""Surrogate: what was learned, how the fit went, and which parameters it belongs to."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from nnghmc.errors import SettingsError
from nnghmc.parameters import ParameterLayout
from nnghmc.posterior import Posterior
from nnghmc.surrogates.gradient_data import GradientData
from nnghmc.surrogates.learned import Learned
from nnghmc.surrogates.prior_swap import swap_prior
from nnghmc.surrogates.storage import (
    FitReport,
    StoredSurrogate,
    packed,
    read_surrogate,
    unpacked,
    write_surrogate,
)


@dataclass(frozen=True, eq=False, repr=False)
class Surrogate:
    """A fitted, frozen gradient.

    Attributes:
        learned: the gradient as a pytree, for use in compiled code.
        report: how the fit went.
        dim: the number of coordinates.
        layout: names and shapes of the parameters, where they are known.
        held_out: the gradient data that were not learned from; a loaded surrogate has none.
    """

    learned: Learned
    report: FitReport
    dim: int
    layout: ParameterLayout | None = None
    held_out: GradientData | None = None

    def __repr__(self) -> str:
        return f"Surrogate of {self.dim} dimensions: {self.report}"

    @property
    def conservative(self) -> bool:
        """Whether the gradient is that of a potential."""
        return self.learned.conservative

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The learned gradient g(q) at one position."""
        return self.learned.gradient(position)

    def potential(self, position: Float[Array, " dim"]) -> Float[Array, ""]:
        """The learned potential at one position, up to a constant, where there is one."""
        if not self.conservative:
            raise SettingsError(
                f"{self.report.model} learned a free vector field, which has no potential. Models "
                "that have one: QuadraticPlus, Quadratic, PotentialNet, RandomBases, "
                "GaussianProcess."
            )
        return self.learned.potential(position)

    def with_prior(self, old: Any, new: Any) -> "Surrogate":
        """The same gradient for another prior, with no new training.

        Args:
            old: the posterior it was learned on, or its log prior; None for a flat one.
            new: the posterior to sample, of the same likelihood and data, or its log prior.
        """
        return replace(self, learned=swap_prior(self.learned, self.layout, old, new), held_out=None)

    def check_fits(self, posterior: Posterior) -> None:
        """Refuse a posterior with other parameters than those this was learned for."""
        if posterior.dim != self.dim:
            raise SettingsError(
                f"a surrogate of {self.dim} dimensions cannot serve a posterior of "
                f"{posterior.dim}; fit one to this posterior."
            )
        layout = self.layout
        theirs = (posterior.layout.names, posterior.layout.shapes)
        if layout is not None and (layout.names, layout.shapes) != theirs:
            raise SettingsError(
                f"this surrogate was learned for the parameters {layout.names} of shapes "
                f"{layout.shapes}, and the posterior has {theirs[0]} of shapes {theirs[1]}; fit "
                "one to this posterior."
            )

    def save(self, path: str | Path) -> None:
        """Write it to one file, which `load_surrogate` reads."""
        write_surrogate(path, self._stored())

    def as_arrays(self) -> dict[str, np.ndarray]:
        """All of it but what was held out, as arrays with names; `from_arrays` takes them."""
        return packed(self._stored())

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], path: str | Path) -> "Surrogate":
        """What `as_arrays` gave, checked; `path` is where the arrays come from."""
        return cls._of(unpacked(path, arrays))

    def _stored(self) -> StoredSurrogate:
        names = None if self.layout is None else self.layout.names
        shapes = None if self.layout is None else self.layout.shapes
        return StoredSurrogate(self.learned, self.report, self.dim, names, shapes)

    @classmethod
    def _of(cls, stored: StoredSurrogate) -> "Surrogate":
        layout = None
        if stored.names is not None and stored.shapes is not None:
            layout = ParameterLayout(None, stored.names, stored.shapes)
        return cls(stored.learned, stored.report, stored.dim, layout)


def load_surrogate(path: str | Path) -> Surrogate:
    """Read a surrogate that `save` wrote. No code from the file is run, whatever it contains."""
    return Surrogate._of(read_surrogate(path))
