"""The registry of front ends: the packages whose models can be sampled as they are.

Everything that depends on which front ends there are is derived from `FRONT_ENDS`: what `sample`
takes, what a TARGET of the command line may name, and what the messages say. A new front end is one
file in this folder, `<name>.py` with the function `from_<name>`, and one line in that list.
"""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

from nnghmc.errors import PosteriorError
from nnghmc.model.posterior import Posterior


@dataclass(frozen=True)
class FrontEnd:
    """A package that models are written in. It is optional, and loaded only when it is needed.

    Attributes:
        name: the name of the package, of the extra that installs it, and of the file here.
        title: the name as its users write it.
        recognises: says whether an object is a model of this package, without loading the package.
        takes_arguments: whether a model is a function that is called with arguments. The file of
            such a front end also has a function `traced`, to which `call` passes its work.
    """

    name: str
    title: str
    recognises: Callable[[Any], bool]
    takes_arguments: bool = False

    @property
    def model(self) -> str:
        """Return what its models are called."""
        return f"a {self.title} model"

    def posterior(self, model: Any, *model_args: Any, **model_kwargs: Any) -> Posterior:
        """Make a posterior from a model."""
        return getattr(self._module(), f"from_{self.name}")(model, *model_args, **model_kwargs)

    def call(self, function: Callable[[], Any]) -> tuple[bool, Any]:
        """Call a function: return whether it is a model of this package, and what it returned."""
        if self.name not in sys.modules:  # a model would have loaded it
            return False, function()
        return self._module().traced(function)

    def _module(self) -> ModuleType:
        """Load the file of this front end, or say what to install."""
        try:
            importlib.import_module(self.name)
        except ModuleNotFoundError as error:
            if error.name != self.name:
                raise
            raise PosteriorError(
                f"{self.model} needs {self.title}, which is not installed; install it with "
                f'pip install "nnghmc[{self.name}]".'
            ) from None
        return importlib.import_module(f"nnghmc.model.frontends.{self.name}")


def instances_of(package: str, class_name: str) -> Callable[[Any], bool]:
    """Return a test for objects of a class; before its package is loaded there are none."""

    def test(model: Any) -> bool:
        module = sys.modules.get(package)
        return module is not None and isinstance(model, getattr(module, class_name))

    return test


def _is_function(model: Any) -> bool:
    """Say whether it can be a NumPyro model: a function, a partial of one, or one in a handler."""
    if isinstance(model, FunctionType | MethodType | partial):
        return True
    numpyro = sys.modules.get("numpyro")
    return numpyro is not None and isinstance(model, numpyro.primitives.Messenger)


FRONT_ENDS = {
    front_end.name: front_end
    for front_end in (
        FrontEnd("pymc", "PyMC", instances_of("pymc", "Model")),
        FrontEnd("bambi", "Bambi", instances_of("bambi", "Model")),
        FrontEnd("numpyro", "NumPyro", _is_function, takes_arguments=True),
    )
}

MODELS = ", ".join(
    ["a Posterior", *(part.model for part in FRONT_ENDS.values() if not part.takes_arguments)]
)
"""The objects that stand for a posterior by themselves, in words."""
MODEL_FUNCTIONS = " or ".join(part.model for part in FRONT_ENDS.values() if part.takes_arguments)
"""The models that are functions, in words."""


def front_end_of(model: Any) -> FrontEnd | None:
    """Return the front end that recognises a model, if one does."""
    return next((part for part in FRONT_ENDS.values() if part.recognises(model)), None)


def call(function: Callable[[], Any]) -> tuple[bool, Any]:
    """Call a function that takes no arguments; return whether it is a model, and its value."""

    def run() -> tuple[bool, Any]:
        return False, function()

    for front_end in FRONT_ENDS.values():
        if front_end.takes_arguments:
            run = partial(_call_within, front_end, run)
    return run()


def _call_within(front_end: FrontEnd, run: Callable[[], tuple[bool, Any]]) -> tuple[bool, Any]:
    is_a_model, (is_another, returned) = front_end.call(run)
    return is_a_model or is_another, returned


def is_model(found: Any) -> bool:
    """Say whether an object is a posterior or a model, and not a function that may return one."""
    if isinstance(found, Posterior):
        return True
    front_end = front_end_of(found)
    return front_end is not None and not front_end.takes_arguments
