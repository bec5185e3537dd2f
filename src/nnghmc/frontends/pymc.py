"""PyMC: a model -> Posterior, its log density through PyTensor's translation to JAX."""

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pymc
import pytensor.tensor as pt
from jaxtyping import Array, PyTree
from pymc.backends.arviz import find_constants, find_observations
from pymc.model.transform.optimization import freeze_dims_and_data
from pymc.util import is_transformed_name
from pytensor.compile.mode import get_mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorConstant

from nnghmc.arviz_versions import for_users_arviz, tree_of
from nnghmc.errors import PosteriorError
from nnghmc.frontends.inputs import with_most_inputs
from nnghmc.frontends.starting import starting_point
from nnghmc.model_checks import shapes_of
from nnghmc.posterior import PREDICTIONS, Posterior, WithoutData
from nnghmc.precision import position_dtype
from nnghmc.quantities import Quantities

LARGE = 64
"""Elements from which on an array of the model is an input of compiled code."""

Natural = Callable[[PyTree], dict[str, Array]]
"""From the unconstrained parameters to the variables of the model, by name."""
Dims = dict[str, list[str]]
"""The names of the axes of each variable that has any."""
Report = Callable[[Natural, Dims], tuple[Natural, Dims]]
"""From the variables of a model and their axes to those that are reported, and theirs."""


@contextmanager
def _as_it_was() -> Iterator[None]:
    """Importing PyMC's and PyTensor's JAX parts asks for 100 devices, and sets the precision."""
    flags, double = os.environ.get("XLA_FLAGS"), position_dtype() == jnp.float64
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", double)
        if flags is None:
            os.environ.pop("XLA_FLAGS", None)
        else:
            os.environ["XLA_FLAGS"] = flags


with _as_it_was():
    import pymc.sampling.jax  # teaches PyTensor to translate what PyMC adds to it
    from pytensor.link.jax.dispatch import jax_funcify


def from_pymc(model: pymc.Model) -> Posterior:
    """A posterior from a PyMC model; see `nnghmc.from_pymc`."""
    if not isinstance(model, pymc.Model):
        raise PosteriorError(f"from_pymc needs a pymc.Model, got {type(model).__name__}.")
    return posterior_of(model)


def posterior_of(
    model: pymc.Model, report: Report = lambda natural, dims: (natural, dims)
) -> Posterior:
    """A posterior from a PyMC model; `report` may change what is reported of each draw."""
    _check_variables(model)
    suggested = _initial_point(model)
    frozen = _frozen(model)
    translator = _Translator(frozen, suggested)
    log_density = translator.graph({"logp": frozen.logp()}).first
    shapes_of("the PyMC model", log_density, suggested)  # or says what is wrong
    return _PyMCPosterior(translator, log_density, starting_point(log_density, suggested), report)


class _Graph(eqx.Module):
    """Outputs by name, as a function of the parameters; its arrays are inputs."""

    arrays: tuple[Array, ...]
    function: Callable[..., Sequence[Array]] = eqx.field(static=True)
    parameters: tuple[str, ...] = eqx.field(static=True)
    outputs: tuple[str, ...] = eqx.field(static=True)

    def named(self, parameters: PyTree) -> dict[str, Array]:
        """Every output by its name."""
        values = (jnp.asarray(parameters[name]) for name in self.parameters)
        return dict(zip(self.outputs, self.function(*values, *self.arrays), strict=True))

    def of_observations(self, parameters: PyTree, data: None) -> dict[str, Array]:
        """Every output by its name, where data are asked for as an argument."""
        return self.named(parameters)

    def first(self, parameters: PyTree) -> Array:
        """The first output alone."""
        return self.named(parameters)[self.outputs[0]]


class _PyMCPosterior(Posterior):
    """A posterior whose simulated data PyMC makes itself."""

    def __init__(
        self,
        translator: "_Translator",
        log_density: Callable[[PyTree], Array],
        initial: PyTree,
        report: Report,
    ) -> None:
        self._model = model = translator.model
        variables = {
            variable.name: variable
            for variable in model.unobserved_value_vars
            if not is_transformed_name(variable.name)
        }
        self._natural = natural = translator.graph(variables).named
        observed, constants = find_observations(model), find_constants(model)
        shapes = jax.eval_shape(natural, initial)
        self._labels = labels = _labels(model, {**constants, **observed, **shapes})
        constrain, dims = report(natural, labels["dims"])
        used = {axis for axes in dims.values() for axis in axes}
        super().__init__(
            WithoutData(log_density),
            None,
            None,
            initial,
            constrain=constrain,
            dims=dims,
            coords={axis: part for axis, part in labels["coords"].items() if axis in used},
            observed=observed,
            constants=constants,
            pointwise=_pointwise(translator),
        )

    def predictions(self, positions: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        """One simulated data set, by observed variable, at each position (chains, draws, dim)."""
        if not self.observed:
            raise PosteriorError("simulated data need observed variables; the model has none.")
        _check_nothing_else_shared(self._model)
        everything = Quantities(self._natural, None, None, None, self.layout).reported
        draws: Any = {"posterior": self._each(everything, positions)}
        if self.constants:  # PyMC compares them with what it finds
            draws["constant_data"] = self.constants
        draws = for_users_arviz(tree_of(draws, **self._labels))
        with _quiet(logging.getLogger("pymc")):
            return pymc.sample_posterior_predictive(
                draws,
                self._model,
                var_names=list(self.observed),
                random_seed=np.random.default_rng([seed, PREDICTIONS]),
                progressbar=False,
                return_inferencedata=False,
            )


def _check_variables(model: pymc.Model) -> None:
    if not model.free_RVs:
        raise PosteriorError("the PyMC model must have a free variable, got none to sample.")
    discrete = [rv.name for rv in model.free_RVs if rv.dtype.startswith(("int", "uint", "bool"))]
    if discrete:
        raise PosteriorError(
            "the PyMC model has free variables that are discrete, and Hamiltonian dynamics need "
            "continuous ones. Sum over them in the model, for instance with pymc.Mixture or "
            f"pymc_extras.marginalize. Got {', '.join(discrete)}."
        )


def _initial_point(model: pymc.Model) -> dict[str, np.ndarray]:
    """Where PyMC itself would start, on the unconstrained scale, by free variable."""
    point = model.initial_point(random_seed=0)
    return {rv.name: np.asarray(point[model.rvs_to_values[rv].name]) for rv in model.free_RVs}


def _frozen(model: pymc.Model) -> pymc.Model:
    """A copy with the values that `pm.Data` and the lengths of dims have now.

    PyMC copies no model with initial values of its own. They are not needed any more, and set
    aside for the moment.
    """
    values = model.rvs_to_initial_values
    model.rvs_to_initial_values = dict.fromkeys(values)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Detected variables likely created by GP")
            frozen = freeze_dims_and_data(model)
    except (NotImplementedError, ValueError) as error:
        raise PosteriorError(f"PyMC cannot make a copy of this model: {error}.") from error
    finally:
        model.rvs_to_initial_values = values
    frozen.check_bounds = model.check_bounds
    return frozen


@dataclass
class _Translator:
    """From variables of a model to JAX; an array that several need is on the device once."""

    model: pymc.Model
    example: PyTree
    on_device: dict[int, Array] = field(default_factory=dict)

    def graph(self, outputs: Mapping[str, Variable]) -> _Graph:
        """Outputs as functions, with as many arrays as inputs as they bear."""
        return with_most_inputs(
            lambda is_input: self._translate(outputs, is_input),
            lambda graph: eqx.filter_eval_shape(lambda this: this.named(self.example), graph),
        )

    def _translate(
        self, outputs: Mapping[str, Variable], is_input: Callable[[Any], bool]
    ) -> _Graph:
        values = _arrays(outputs)
        inputs = {
            variable: TensorType(value.dtype, shape=value.shape)()
            for variable, value in values.items()
            if value.size >= LARGE and is_input(value)
        }
        rest = [v for v in values if isinstance(v, SharedVariable) and v not in inputs]
        replace = {**inputs, **{variable: pt.constant(values[variable]) for variable in rest}}
        graph = FunctionGraph(
            [*self.model.value_vars, *inputs.values()],
            clone_replace(list(outputs.values()), replace=replace),
        )
        _rewriting(self.model).rewrite(graph)
        names = tuple(self.model.values_to_rvs[value].name for value in self.model.value_vars)
        arrays = tuple(self._placed(values[variable]) for variable in inputs)
        return _Graph(arrays, _jax_function(graph), names, tuple(outputs))

    def _placed(self, value: np.ndarray) -> Array:
        # The model keeps its values alive, so that their identities stay what they are.
        return self.on_device.setdefault(id(value), jnp.asarray(value))


def _rewriting(model: pymc.Model) -> Any:
    """What simplifies a graph for JAX; parameters out of bounds have no density, as in PyMC."""
    checks = "check_parameter_to_ninf_switch" if model.check_bounds else "remove_check_parameter"
    # XLA fuses loops by itself; PyTensor would warn of those that are too large for C.
    return get_mode("JAX").including(f"local_{checks}").excluding("fusion").optimizer


def _jax_function(graph: FunctionGraph) -> Callable[..., Sequence[Array]]:
    try:
        return jax_funcify(graph)
    except NotImplementedError as error:
        raise PosteriorError(
            f"PyTensor cannot translate the model to JAX: {error}. Sample it through "
            "nnghmc.from_callable with the model's own compile_logp and compile_dlogp."
        ) from error


def _arrays(outputs: Mapping[str, Variable]) -> dict[Variable, np.ndarray]:
    """Shared variables and constants below the outputs, with their values."""
    found = {}
    for variable in graph_inputs(list(outputs.values())):
        if isinstance(variable, SharedVariable):
            if isinstance(variable.type, RandomType):
                raise PosteriorError(
                    "the log density of the PyMC model must not be random, and it has random "
                    "variables of its own, such as pymc.Minibatch or pymc.Simulator. Use all data "
                    "and a likelihood that can be evaluated."
                )
            found[variable] = np.asarray(variable.get_value(borrow=True))
        elif isinstance(variable, TensorConstant):
            found[variable] = variable.data
    return found


def _pointwise(translator: _Translator) -> Callable[..., dict[str, Array]] | None:
    """The log likelihood of every observation, where anything is observed."""
    observed = translator.model.observed_RVs
    if not observed:
        return None
    terms = translator.model.logp(observed, sum=False)
    names = [variable.name for variable in observed]
    return translator.graph(dict(zip(names, terms, strict=True))).of_observations


def _labels(model: pymc.Model, variables: Mapping[str, Any]) -> dict[str, dict[str, list]]:
    """Names of axes and labels along them, as the model has them, of what the results hold."""
    dims: dict[str, list[str]] = {}
    lengths: dict[str, int] = {}
    for name, axes in model.named_vars_to_dims.items():
        if name in variables and axes:
            dims[name] = [axis or f"{name}_dim_{i}" for i, axis in enumerate(axes)]
            lengths.update(zip(dims[name], np.shape(variables[name]), strict=True))
    labels = {axis: model.coords.get(axis) for axis in lengths}
    coords = {axis: list(part) for axis, part in labels.items() if part is not None}
    fitting = {axis: part for axis, part in coords.items() if len(part) == lengths[axis]}
    return {"dims": dims, "coords": fitting}


def _check_nothing_else_shared(model: pymc.Model) -> None:
    """PyMC would draw anew from their priors what depends on shared variables that it forgets."""
    for variable in graph_inputs(model.free_RVs):
        if isinstance(variable, SharedVariable) and not isinstance(variable.type, RandomType):
            raise PosteriorError(
                "simulated data need a model whose shared variables are pymc.Data, and free "
                f"variables depend on {variable.name or 'one without a name'}, which is not."
            )


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
