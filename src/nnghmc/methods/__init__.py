"""Methods of sampling, one per file, as frozen values that carry their settings."""

from nnghmc.engine.method import Method
from nnghmc.errors import SettingsError
from nnghmc.methods.auto import Auto
from nnghmc.methods.hmc import HMC
from nnghmc.methods.nnghmc import NNgHMC
from nnghmc.methods.nuts import NUTS
from nnghmc.methods.stochastic.metropolis_sghmc import MetropolisSGHMC
from nnghmc.methods.stochastic.naive_sghmc import NaiveSGHMC
from nnghmc.methods.stochastic.sghmc import SGHMC
from nnghmc.methods.stochastic.sgld import SGLD

METHODS: dict[str, type[Method]] = {
    "auto": Auto,
    "nnghmc": NNgHMC,
    "hmc": HMC,
    "nuts": NUTS,
    "sgld": SGLD,
    "sghmc": SGHMC,
    "naive-sghmc": NaiveSGHMC,
    "metropolis-sghmc": MetropolisSGHMC,
}
"""All methods, by name. To add a method, write a file and a line here."""


def as_method(method: Method | str) -> Method:
    """Return the method of a name, with its default settings, or the given method."""
    if isinstance(method, str):
        if method not in METHODS:
            raise SettingsError(f"method must be one of {', '.join(METHODS)}; got {method!r}.")
        return METHODS[method]()
    if isinstance(method, type) and issubclass(method, Method):
        raise SettingsError(
            f"method must be a value, got the class {method.__name__}; call it, as "
            f"{method.__name__}()."
        )
    if not isinstance(method, Method):
        raise SettingsError(
            f"method must be a name ({', '.join(METHODS)}) or a method such as nnghmc.NUTS(), got "
            f"{method!r}."
        )
    return method


__all__ = [
    "HMC",
    "METHODS",
    "NUTS",
    "SGHMC",
    "SGLD",
    "Auto",
    "Method",
    "MetropolisSGHMC",
    "NNgHMC",
    "NaiveSGHMC",
    "as_method",
]
