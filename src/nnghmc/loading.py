"""From the TARGET of a command line to a Posterior."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from nnghmc.errors import NnghmcError, TargetError, line_in_file
from nnghmc.frontends import (
    MODELS,
    as_posterior,
    is_model,
    is_numpyro_model,
    run_as_numpyro_model,
)
from nnghmc.paper.targets import TARGETS
from nnghmc.posterior import Posterior

FORMS = (
    f"a built-in name ({', '.join(TARGETS)}), `file.py:name` or `package.module:name`, "
    f"where name is {MODELS}, a NumPyro model without arguments, or a function without arguments "
    "that returns one of these"
)


def load_target(target: str) -> Posterior:
    """The posterior that a TARGET names: built-in, `file.py:name` or `package.module:name`."""
    posterior = TARGETS[target]() if target in TARGETS else _found(target)
    posterior.origin = _wherever_we_are(target)
    return posterior


def _wherever_we_are(target: str) -> str:
    """The same TARGET for a process that runs in another folder."""
    source, separator, name = target.rpartition(":")
    return f"{Path(source).resolve()}:{name}" if separator and source.endswith(".py") else target


def _found(target: str) -> Posterior:
    source, separator, name = target.rpartition(":")
    if not separator or not source or not name:
        raise TargetError(f"TARGET must be {FORMS}; got {target!r}.")
    module = _imported(source)
    if not hasattr(module, name):
        raise TargetError(f"{source} has no {name!r}. {_posteriors_in(module)}")
    return _as_posterior(target, _resolved(source, name, getattr(module, name)))


def _resolved(source: str, name: str, found: Any) -> Any:
    """What a name stands for: what it returns, if it is a function but no model itself."""
    if not callable(found) or is_model(found):
        return found
    has_sites, returned = _called(source, name, found)
    return found if has_sites and not is_model(returned) else returned


def _as_posterior(target: str, found: Any) -> Posterior:
    if is_model(found) or is_numpyro_model(found):
        return as_posterior(found)
    raise TargetError(
        f"TARGET must name {MODELS} or a NumPyro model, and {target} is of type "
        f"{type(found).__name__}. Make one with nnghmc.Posterior(...) or "
        "nnghmc.from_log_density(...)."
    )


def _imported(source: str) -> ModuleType:
    if source.endswith(".py") and not Path(source).is_file():
        raise TargetError(f"TARGET names the file {source}, and there is no such file.")
    try:
        if source.endswith(".py"):
            return _module_from_file(Path(source))
        sys.path.append("")
        return importlib.import_module(source)
    except NnghmcError:
        raise
    except (Exception, SystemExit) as error:
        raise TargetError(
            f"{source} could not be imported: {type(error).__name__}: {error}"
            f"{line_in_file(error, source)}"
        ) from error


def _module_from_file(path: Path) -> ModuleType:
    name = f"_nnghmc_target_{path.stem}"  # a file called copy.py must not replace a module
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.append(str(path.resolve().parent))
    spec.loader.exec_module(module)
    return module


def _called(source: str, name: str, function: Any) -> tuple[bool, Any]:
    """Whether a function has sites of NumPyro, and what it returns."""
    try:
        return run_as_numpyro_model(function)
    except NnghmcError:
        raise
    except Exception as error:
        raise TargetError(
            f"TARGET must name a Posterior, a model, or a function without arguments that returns "
            f"one; {name}() of {source} failed: {type(error).__name__}: {error}"
            f"{line_in_file(error, source)}"
        ) from error


def _posteriors_in(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if is_model(value)]
    return f"It has {', '.join(names)}." if names else "It has no Posterior at all."
