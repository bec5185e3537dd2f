"""Defines what a method is: a frozen value that carries its settings and prepares a kernel.

A class that derives from `Method` gets progress, cost, Ctrl-C, stores, resume, extend, load,
summary and report without further code.
"""

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from nnghmc.engine.events import register
from nnghmc.engine.history import History
from nnghmc.engine.session import Session
from nnghmc.errors import check_fields, natural_number, positive_integer
from nnghmc.kernels.base import Kernel
from nnghmc.model.posterior import Posterior

LARGEST_SEED = 2**63 - 1
"""Largest seed, that of a signed 64-bit integer."""


class Starts(Protocol):
    """The starts of the chains: the user's own, or points chosen for the posterior."""

    @property
    def chains(self) -> int:
        """The number of chains."""

    def at_initial(self, session: Session) -> Any:
        """Return the user's starts, or the initial point of the posterior for every chain."""

    def spread(self, session: Session) -> Any:
        """Return the user's starts, or points around the initial one.

        The states have a finite `position`, `potential` and `gradient`, each with a leading axis
        over the chains. So have those of `at_initial`.
        """


@dataclass(frozen=True)
class Prepared:
    """What a method has prepared for the kept draws, as data that can be stored.

    Attributes:
        states: states of the kernel, with a leading axis over the chains.
        parts: the parts that the kernel is built from, by name. A run looks for the names
            `surrogate` and `gradient_data`.
        quick: whether the kept draws take too little work for a thorough compilation to pay.
    """

    states: Any
    parts: Mapping[str, Any] = field(default_factory=dict)
    quick: bool = False


@dataclass(frozen=True)
class Method(abc.ABC):
    """A way to sample a posterior. A subclass is a frozen dataclass whose fields are its settings.

    Attributes:
        title: the method in words.
        exact: whether the posterior is the stationary distribution of the method.
        adaptive: whether the method finds its tuning itself.
        known: all methods in this process, by the names of their classes.
    """

    title: ClassVar[str]
    exact: ClassVar[bool] = True
    adaptive: ClassVar[bool] = False
    known: ClassVar[dict[str, type["Method"]]] = {}

    def __init_subclass__(cls) -> None:
        register(cls, Method.known)

    @property
    def streams(self) -> str:
        """A part of the name of every random stream; runs that differ in it are independent."""
        return type(self).__name__

    def check(self, posterior: Posterior) -> None:
        """Raise an error if the settings do not fit the posterior."""
        return

    @abc.abstractmethod
    def prepare(self, posterior: Posterior, starts: Starts, session: Session) -> Prepared:
        """Do everything that comes before the first kept draw.

        The result must depend only on the arguments and on `session.key`. Everything that takes
        time goes through the session, so that it is counted, shown, and not lost if the run is
        killed. Once `session.stopped` is true, return as soon as possible; the result is not used.
        """

    @abc.abstractmethod
    def kernel(self, posterior: Posterior, parts: Mapping[str, Any]) -> Kernel:
        """Return the kernel that makes the kept draws."""

    def describe(self, parts: Mapping[str, Any]) -> str:
        """Return the name of the method that made the kept draws."""
        return self.title

    def look_back(
        self, posterior: Posterior, parts: Mapping[str, Any], kept: History, session: Session
    ) -> None:
        """Check the kept draws, and record notes on them for the user."""
        return


@dataclass(frozen=True, eq=False)
class Request:
    """The checked arguments of `sample`, which the draws depend on besides the posterior.

    Attributes:
        draws: number of draws to keep per chain.
        chains: number of chains.
        seed: seed of all random streams.
        method: method with its settings.
        initial_positions: unconstrained starts, or None.
        chunk_size: largest number of draws in one compiled call, or None.
    """

    draws: int
    chains: int
    seed: int
    method: Method
    initial_positions: Any = None
    chunk_size: int | None = None

    def __post_init__(self) -> None:
        check_fields(
            self, draws=positive_integer, chains=positive_integer, chunk_size=positive_integer
        )
        object.__setattr__(self, "seed", natural_number("seed", self.seed, largest=LARGEST_SEED))
