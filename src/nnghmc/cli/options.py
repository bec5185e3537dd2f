"""Derives options of the command line from the settings of methods."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, get_args
from zipfile import BadZipFile

import numpy as np
import typer

from nnghmc.errors import SettingsError
from nnghmc.methods import METHODS, Method
from nnghmc.surrogates import MODELS, load_surrogate

Network = StrEnum("Network", list(MODELS))  # type: ignore[misc]
HIDDEN = "hidden"
"""Name of the only option that is a setting of the network rather than of the method."""


@dataclass(frozen=True)
class Option:
    """An option of the command line, with the setting that it sets.

    Attributes:
        path: name of the setting, followed by the name of a field if the setting has fields.
        name: name of the option, without the dashes.
        annotation: type that Typer reads the option as.
        kind: how the option is read further; see `nnghmc.methods.settings.setting`.
        meaning: help text.
        number: int or float, for ranges.
        methods: names of the methods that have the setting.
    """

    path: tuple[str, ...]
    name: str
    annotation: Any
    kind: str
    meaning: str
    number: type = float
    methods: list[str] = field(default_factory=list)

    @property
    def argument(self) -> str:
        """The name of the option as an argument of a function."""
        return self.name.replace("-", "_")

    def read(self, given: Any) -> Any:
        """Return the setting for a value from the command line."""
        readers: dict[str, Callable[[Any], Any]] = {
            "range": lambda text: _number_or_range(f"--{self.name}", text, self.number),
            "matrix": _loaded_matrix,
            "surrogate": load_surrogate,
        }
        return readers.get(self.kind, lambda value: value)(given)


def _found(kind: type, path: tuple[str, ...] = ()) -> Iterator[Option]:
    """Yield the options of a dataclass, and of its fields that are groups of settings."""
    for part in fields(kind):
        metadata = part.metadata
        if metadata.get("option", None) is None:
            continue
        here = (*path, part.name)
        if metadata["kind"] == "group":
            yield from _found(part.type, here)  # type: ignore[arg-type]
            continue
        name = metadata["option"] or part.name.replace("_", "-")
        default = part.default if part.default is not MISSING else None
        annotation = _annotation(part.type, metadata["kind"])
        low = default[0] if isinstance(default, tuple) else default
        number = type(low) if isinstance(low, int | float) else float
        meaning = metadata["meaning"]
        if metadata["kind"] == "range":
            meaning += " LOW:HIGH draws it uniformly for each draw."
        yield Option(here, name, annotation, metadata["kind"], meaning, number)


def _annotation(kind: Any, reading: str) -> Any:
    """Return the type that Typer reads a setting as."""
    if reading == "range":
        return str
    if reading in ("matrix", "surrogate"):
        return Path
    if reading == "network":
        return Network
    plain = [part for part in get_args(kind) if part is not type(None)]
    return plain[0] if isinstance(kind, UnionType) else kind


def method_options() -> dict[str, Option]:
    """Return all options by their arguments' names; methods with the same setting share one."""
    options: dict[str, Option] = {}
    for name, kind in METHODS.items():
        for option in _found(kind):
            options.setdefault(option.argument, option).methods.append(name)
    hidden = Option(
        ("network", HIDDEN), HIDDEN, str, "", "Hidden units of the network; 50,50 is two layers."
    )
    hidden.methods.extend(options["network"].methods)
    return {**options, HIDDEN: hidden}


OPTIONS = method_options()
"""All options that are settings of methods, by the names of their arguments."""


def with_method_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command with the arguments `(..., **settings)` one option per setting of a method."""
    signature = inspect.signature(command)
    own = [part for part in signature.parameters.values() if part.kind is not part.VAR_KEYWORD]
    derived = [
        inspect.Parameter(
            argument,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                option.annotation | None,
                typer.Option(
                    f"--{option.name}",
                    help=option.meaning,
                    rich_help_panel=f"Settings of {', '.join(option.methods)}",
                ),
            ],
        )
        for argument, option in OPTIONS.items()
    ]
    every = [part.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in own] + derived
    command.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
    command.__annotations__ = {part.name: part.annotation for part in every}
    return command


def chosen_methods(names: list[str], given: Mapping[str, Any]) -> list[tuple[str, Method]]:
    """Return the methods of these names, each with those of the given settings that it has."""
    passed = {argument: value for argument, value in given.items() if value is not None}
    for argument in passed:
        owners = OPTIONS[argument].methods
        if not set(owners) & set(names):
            raise SettingsError(
                f"--{OPTIONS[argument].name} is a setting of the methods {', '.join(owners)}, and "
                f"not of {', '.join(names)}; leave it out, or add --method {owners[0]}."
            )
    return [(name, _method(name, passed)) for name in names]


def _method(name: str, passed: Mapping[str, Any]) -> Method:
    """Return the method of a name, with those of the passed settings that it has."""
    settings: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {}
    for argument, value in passed.items():
        option = OPTIONS[argument]
        if name not in option.methods:
            continue
        if len(option.path) == 1:
            settings[option.path[0]] = option.read(value)
        else:
            groups.setdefault(option.path[0], {})[option.path[1]] = option.read(value)
    hidden = groups.pop("network", {}).get(HIDDEN)
    if "network" in settings or hidden is not None:
        settings["network"] = _network(settings.get("network", Network("default")), hidden)
    kinds = {part.name: part.type for part in fields(METHODS[name])}
    settings |= {group: kinds[group](**values) for group, values in groups.items()}  # type: ignore[operator]
    return METHODS[name](**settings)


def _network(network: Any, hidden: str | None) -> Any:
    """Return the gradient model of a name, perhaps with other hidden layers."""
    kind = MODELS[network.value]
    if hidden is None:
        return kind()
    if HIDDEN not in {part.name for part in fields(kind)}:
        raise SettingsError(
            f"--hidden is not a setting of --network {network.value}; leave it out."
        )
    try:
        widths = tuple(int(part) for part in hidden.split(","))
    except ValueError:
        raise SettingsError(
            f"--hidden must be a number of units, or several as 50,50; got {hidden!r}."
        ) from None
    return kind(hidden=widths[0] if len(widths) == 1 else widths)


def _number_or_range(option: str, text: str, kind: type) -> Any:
    """Return a number, or a pair for LOW:HIGH."""
    try:
        numbers = tuple(kind(part) for part in text.split(":"))
    except ValueError:
        raise SettingsError(
            f"{option} must be a number or LOW:HIGH ({kind.__name__}), got {text!r}."
        ) from None
    return numbers[0] if len(numbers) == 1 else numbers


def _loaded_matrix(path: Path) -> np.ndarray:
    """Return the matrix in a .npy file, or raise an error if it cannot be read."""
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise SettingsError(
            f"--inverse-mass must be a .npy file of numbers; {path}: {error}"
        ) from None
