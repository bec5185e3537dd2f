"""Loads the posterior that a TARGET of the command line names."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from nnghmc.errors import NnghmcError, TargetError
from nnghmc.model.frontends import MODEL_FUNCTIONS, MODELS, as_posterior, is_model, registry
from nnghmc.model.posterior import Posterior
from nnghmc.platform.explanation import explain

FORMS = (
    f"`file.py:name` or `package.module:name`, where name is {MODELS}, {MODEL_FUNCTIONS} without "
    "arguments, or a function without arguments that returns one of these"
)
"""What a TARGET may be, beside the built-in names."""

BuiltIn = Mapping[str, Callable[[], Posterior]]
"""Functions that make posteriors, by the names that a TARGET may use for them."""
NOTHING_BUILT_IN: BuiltIn = MappingProxyType({})


def forms(built_in: Iterable[str]) -> str:
    """Say what a TARGET may be where there are built-in names."""
    names = ", ".join(built_in)
    return f"a built-in name ({names}), {FORMS}" if names else FORMS


def load_target(target: str, built_in: BuiltIn = NOTHING_BUILT_IN) -> Posterior:
    """Return the posterior that a TARGET names; its origin is that TARGET.

    Args:
        target: a built-in name, `file.py:name` or `package.module:name`.
        built_in: functions that make posteriors, by name.
    """
    posterior = built_in[target]() if target in built_in else _found(target, built_in)
    return posterior.with_origin(_from_any_folder(target))


def _from_any_folder(target: str) -> str:
    """Return the same TARGET for a process that runs in another folder."""
    source, separator, name = target.rpartition(":")
    return f"{Path(source).resolve()}:{name}" if separator and source.endswith(".py") else target


def _found(target: str, built_in: BuiltIn) -> Posterior:
    source, separator, name = target.rpartition(":")
    if not separator or not source or not name:
        raise TargetError(f"TARGET must be {forms(built_in)}; got {target!r}.")
    module = _imported(source)
    if not hasattr(module, name):
        raise TargetError(f"{source} has no {name!r}. {_posteriors_in(module)}")
    return _as_posterior(target, _resolved(source, name, getattr(module, name)))


def _resolved(source: str, name: str, found: Any) -> Any:
    """Return what a name stands for: what it returns, if it is a function but no model itself."""
    if not callable(found) or is_model(found):
        return found
    is_a_model, returned = _called(source, name, found)
    return found if is_a_model and not is_model(returned) else returned


def _as_posterior(target: str, found: Any) -> Posterior:
    if is_model(found) or registry.front_end_of(found) is not None:
        return as_posterior(found)
    raise TargetError(
        f"TARGET must name {MODELS} or {MODEL_FUNCTIONS}, and {target} is of type "
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
        raise TargetError(f"{source} could not be imported: {explain(error)}.") from error


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
    """Call a function once: return whether it is a model itself, and what it returned."""
    try:
        return registry.call(function)
    except NnghmcError:
        raise
    except Exception as error:
        raise TargetError(
            "TARGET must name a Posterior, a model, or a function without arguments that returns "
            f"one; {name}() of {source} failed: {explain(error)}."
        ) from error


def _posteriors_in(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if is_model(value)]
    return f"It has {', '.join(names)}." if names else "It has no Posterior at all."
