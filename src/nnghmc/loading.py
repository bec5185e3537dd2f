"""From the TARGET of a command line to a Posterior."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from nnghmc.errors import NnghmcError, TargetError, line_in_file
from nnghmc.paper.targets import TARGETS
from nnghmc.posterior import Posterior

FORMS = (
    f"a built-in name ({', '.join(TARGETS)}), `file.py:name` or `package.module:name`, "
    "where name is a Posterior or a function without arguments that returns one"
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
    found = getattr(module, name)
    if callable(found) and not isinstance(found, Posterior):
        found = _called(source, name, found)
    if not isinstance(found, Posterior):
        raise TargetError(
            f"TARGET must name a Posterior, and {target} is of type {type(found).__name__}. "
            "Make one with nnghmc.Posterior(...) or nnghmc.from_log_density(...)."
        )
    return found


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


def _called(source: str, name: str, function: Any) -> Any:
    try:
        return function()
    except NnghmcError:
        raise
    except Exception as error:
        raise TargetError(
            f"TARGET must name a Posterior, or a function without arguments that returns one; "
            f"{name}() of {source} failed: {type(error).__name__}: {error}"
            f"{line_in_file(error, source)}"
        ) from error


def _posteriors_in(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Posterior)]
    return f"It has {', '.join(names)}." if names else "It has no Posterior at all."
