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
import xarray
from jaxtyping import Array, PyTree
from pymc.backends.arviz import find_constants, find_observations
from pymc.logprob.transforms import CircularTransform
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

from nnghmc.errors import PosteriorError
from nnghmc.model.frontends.circles import angles_of, as_points, log_density_of_distances
from nnghmc.model.frontends.inputs import with_most_inputs
from nnghmc.model.frontends.starting import starting_point
from nnghmc.model.posterior import Posterior, from_log_density
from nnghmc.model.quantities import Quantities, at_positions
from nnghmc.model.results import PREDICTIONS
from nnghmc.model.tracing import trace
from nnghmc.platform.explanation import explain
from nnghmc.platform.precision import position_dtype

LARGE = 64
"""Least number of elements of an array of the model that is an input of compiled code."""

Natural = Callable[[PyTree], dict[str, Array]]
"""Maps the unconstrained parameters to the variables of the model, by name."""
Dims = dict[str, list[str]]
"""Names of the axes, by the name of the variable."""
Report = Callable[[Natural, Dims], tuple[Natural, Dims]]
"""Maps the variables of a model and their axes to those that are reported."""


@contextmanager
def _settings_kept() -> Iterator[None]:
    """Undo what importing PyMC's and PyTensor's JAX parts does: 100 devices, another precision."""
    flags, double = os.environ.get("XLA_FLAGS"), position_dtype() == jnp.float64
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", double)
        if flags is None:
            os.environ.pop("XLA_FLAGS", None)
        else:
            os.environ["XLA_FLAGS"] = flags


with _settings_kept():
    import pymc.sampling.jax  # teaches PyTensor to translate what PyMC adds to it
    from pytensor.link.jax.dispatch import jax_funcify


def from_pymc(model: pymc.Model) -> Posterior:
    """Make a posterior from a PyMC model; see `nnghmc.from_pymc`."""
    if not isinstance(model, pymc.Model):
        raise PosteriorError(
            f"from_pymc needs a pymc.Model, got {type(model).__name__}. Pass the model itself."
        )
    return posterior_of(model)


def posterior_of(
    model: pymc.Model, report: Report = lambda natural, dims: (natural, dims)
) -> Posterior:
    """Make a posterior from a PyMC model; `report` may change what is reported of each draw."""
    _check_variables(model)
    suggested = _initial_point(model)
    frozen = _frozen(model)
    translator = _Translator(frozen, suggested)
    log_density = translator.graph({"logp": frozen.logp()}).log_density
    trace("the PyMC model", log_density, suggested)  # or says what is wrong
    return _with_results(translator, log_density, starting_point(log_density, suggested), report)


class _Graph(eqx.Module):
    """Outputs by name, as a function of the parameters; its arrays are inputs of compiled code."""

    arrays: tuple[Array, ...]
    function: Callable[..., Sequence[Array]] = eqx.field(static=True)
    parameters: tuple[str, ...] = eqx.field(static=True)
    outputs: tuple[str, ...] = eqx.field(static=True)
    circular: tuple[str, ...] = eqx.field(static=True)

    def named(self, parameters: PyTree) -> dict[str, Array]:
        """Return every output by its name."""
        values = (self._value(name, parameters) for name in self.parameters)
        return dict(zip(self.outputs, self.function(*values, *self.arrays), strict=True))

    def of_observations(self, parameters: PyTree, data: None) -> dict[str, Array]:
        """Return every output by its name; the graph holds the data itself."""
        return self.named(parameters)

    def log_density(self, parameters: PyTree) -> Array:
        """Return the first output, which is the model's log density, with that of distances."""
        distances = (log_density_of_distances(parameters[name]) for name in self.circular)
        return self.named(parameters)[self.outputs[0]] + sum(distances)

    def _value(self, name: str, parameters: PyTree) -> Array:
        value = jnp.asarray(parameters[name])
        return angles_of(value) if name in self.circular else value


def _with_results(
    translator: "_Translator",
    log_density: Callable[[PyTree], Array],
    initial: PyTree,
    report: Report,
) -> Posterior:
    """Make a posterior from a log density, with the labels, data and results of the model."""
    model = translator.model
    variables = {
        variable.name: variable
        for variable in model.unobserved_value_vars
        if not is_transformed_name(variable.name)
    }
    natural = translator.graph(variables).named
    observed, constants = find_observations(model), find_constants(model)
    shapes = jax.eval_shape(natural, initial)
    all_dims, coords = _labels(model, {**constants, **observed, **shapes})
    constrain, dims = report(natural, all_dims)
    used = {axis for axes in dims.values() for axis in axes}
    posterior = from_log_density(
        log_density,
        initial,
        constrain=constrain,
        dims=dims,
        coords={axis: part for axis, part in coords.items() if axis in used},
        observed=observed,
        constants=constants,
        pointwise=_pointwise(translator),
    )
    everything = Quantities(natural, None, None, None, posterior.layout)
    return posterior.simulated_by(_Simulation(model, everything, tuple(observed)))


@dataclass(frozen=True)
class _Simulation:
    """Simulates data by PyMC itself, from positions of shape (chains, draws, dim)."""

    model: pymc.Model
    variables: Quantities
    observed: tuple[str, ...]

    def __call__(self, positions: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        if not self.observed:
            raise PosteriorError(
                "simulated data need observed variables, and the model has none. Pass observed= to "
                "the variable that was observed."
            )
        _check_nothing_else_shared(self.model)
        with _quiet(logging.getLogger("pymc")):
            return pymc.sample_posterior_predictive(
                self._draws(positions),
                self.model,
                var_names=list(self.observed),
                random_seed=np.random.default_rng([seed, PREDICTIONS]),
                progressbar=False,
                return_inferencedata=False,
            )

    def _draws(self, positions: np.ndarray) -> xarray.Dataset:
        """Return the variables of the model as PyMC takes draws; their axes need no names."""
        values = at_positions(self.variables.reported, positions)
        axes = {
            name: ("chain", "draw", *(f"{name}_dim_{axis}" for axis in range(part.ndim - 2)))
            for name, part in values.items()
        }
        chains, draws = positions.shape[:2]
        return xarray.Dataset(
            {name: (axes[name], part) for name, part in values.items()},
            coords={"chain": np.arange(chains), "draw": np.arange(draws)},
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
    """Return where PyMC itself would start, on the unconstrained scale, by free variable."""
    point = model.initial_point(random_seed=0)
    start = {rv.name: np.asarray(point[model.rvs_to_values[rv].name]) for rv in model.free_RVs}
    return start | {name: as_points(start[name]) for name in _circular(model)}


def _circular(model: pymc.Model) -> tuple[str, ...]:
    """Return the names of the variables that PyMC would sample as an angle on the real line."""
    transforms = model.rvs_to_transforms
    return tuple(rv.name for rv in model.free_RVs if isinstance(transforms[rv], CircularTransform))


def _frozen(model: pymc.Model) -> pymc.Model:
    """Return a copy with the values that `pm.Data` and the lengths of dims have now.

    PyMC refuses to copy a model that sets initial values. They are not needed any more, so they are
    removed while the copy is made.
    """
    values = model.rvs_to_initial_values
    model.rvs_to_initial_values = dict.fromkeys(values)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Detected variables likely created by GP")
            frozen = freeze_dims_and_data(model)
    except (NotImplementedError, ValueError) as error:
        raise PosteriorError(
            f"PyMC must be able to copy the model, and cannot: {explain(error)}. Change the part "
            "of the model that the message names."
        ) from error
    finally:
        model.rvs_to_initial_values = values
    frozen.check_bounds = model.check_bounds
    return frozen


@dataclass
class _Translator:
    """Translates variables of a model to JAX; an array that several need is on the device once."""

    model: pymc.Model
    example: PyTree
    on_device: dict[int, Array] = field(default_factory=dict)

    def graph(self, outputs: Mapping[str, Variable]) -> _Graph:
        """Return outputs as functions, with as many arrays as inputs as possible."""
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
        circular = _circular(self.model)
        return _Graph(arrays, _jax_function(graph), names, tuple(outputs), circular)

    def _placed(self, value: np.ndarray) -> Array:
        # The model keeps its values alive, so that no other array gets the same id.
        return self.on_device.setdefault(id(value), jnp.asarray(value))


def _rewriting(model: pymc.Model) -> Any:
    """Return what simplifies a graph for JAX; out of bounds the density is zero, as in PyMC."""
    checks = "check_parameter_to_ninf_switch" if model.check_bounds else "remove_check_parameter"
    # XLA fuses loops by itself; PyTensor would warn about those that are too large for C.
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
    """Return the shared variables and constants that outputs depend on, with their values."""
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
    """Return the function for the log likelihood of every observation, if there are any."""
    observed = translator.model.observed_RVs
    if not observed:
        return None
    terms = translator.model.logp(observed, sum=False)
    names = [variable.name for variable in observed]
    return translator.graph(dict(zip(names, terms, strict=True))).of_observations


def _labels(model: pymc.Model, variables: Mapping[str, Any]) -> tuple[Dims, dict[str, list]]:
    """Return the names of the axes of these variables, and the labels along them."""
    dims: Dims = {}
    lengths: dict[str, int] = {}
    for name, axes in model.named_vars_to_dims.items():
        if name in variables and axes:
            dims[name] = [axis or f"{name}_dim_{i}" for i, axis in enumerate(axes)]
            lengths.update(zip(dims[name], np.shape(variables[name]), strict=True))
    labels = {axis: model.coords.get(axis) for axis in lengths}
    coords = {axis: list(part) for axis, part in labels.items() if part is not None}
    fitting = {axis: part for axis, part in coords.items() if len(part) == lengths[axis]}
    return dims, fitting


def _check_nothing_else_shared(model: pymc.Model) -> None:
    """Refuse shared variables that PyMC takes for changed; it would draw from the prior again."""
    for variable in graph_inputs(model.free_RVs):
        if isinstance(variable, SharedVariable) and not isinstance(variable.type, RandomType):
            raise PosteriorError(
                "simulated data need a model whose shared variables are pymc.Data, and free "
                f"variables depend on {variable.name or 'one without a name'}, which is not. "
                "Replace it by pymc.Data."
            )


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
