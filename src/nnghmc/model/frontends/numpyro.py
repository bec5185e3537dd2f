"""NumPyro: a model and its arguments -> Posterior, on the unconstrained scale of its sites."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree
from numpyro import handlers
from numpyro.distributions import Delta, biject_to
from numpyro.infer.util import constrain_fn, log_likelihood, potential_energy
from numpyro.primitives import Messenger

from nnghmc.errors import PosteriorError
from nnghmc.model.frontends.inputs import with_most_inputs
from nnghmc.model.frontends.starting import starting_point
from nnghmc.model.posterior import Posterior, from_log_density
from nnghmc.model.tracing import trace
from nnghmc.platform.compilation import compiled
from nnghmc.platform.explanation import explain

Message = dict[str, Any]
HELD_PARAMETERS = "$params"
"""How NumPyro names the parameters of a neural network, which its priors replace."""


def from_numpyro(model: Callable[..., Any], *model_args: Any, **model_kwargs: Any) -> Posterior:
    """Make a posterior from a NumPyro model and its arguments; see `nnghmc.from_numpyro`."""
    with handlers.block():  # handlers that the caller is under are no part of the model
        survey = _Survey.of(model, model_args, model_kwargs)
        conditioned = _Conditioned(survey.arguments, survey.held, survey.names)
        trace("the NumPyro model", conditioned, survey.centre)  # or says what is wrong
        observed = {name: np.asarray(value) for name, value in survey.observed.items()}
        return from_log_density(
            conditioned,
            starting_point(conditioned, survey.centre),
            constrain=conditioned.constrain,
            dims=survey.dims,
            coords=survey.coords,
            observed=observed,
            pointwise=conditioned.pointwise if observed else None,
            predict=conditioned.predict if observed else None,
        )


def traced(function: Callable[[], Any]) -> tuple[bool, Any]:
    """Call a function: return whether it has sites of NumPyro, and what it returned."""
    with handlers.trace() as sites, handlers.seed(rng_seed=0):
        result = function()
    return bool(sites), result


@dataclass(frozen=True, eq=False)
class _Fixed:
    """The constants of compiled code: the model, and those arguments that are no inputs."""

    model: Callable[..., Any]
    treedef: Any
    others: tuple[Any, ...]
    is_input: tuple[bool, ...]


class _Arguments(eqx.Module):
    """A model with its arguments; arrays among them are leaves, so inputs of compiled code."""

    arrays: tuple[Array, ...]
    fixed: _Fixed = eqx.field(static=True)

    @classmethod
    def of(
        cls, model: Callable[..., Any], arguments: PyTree, is_input: Callable[[Any], bool]
    ) -> "_Arguments":
        leaves, treedef = jax.tree.flatten(arguments)
        chosen = tuple(is_input(leaf) for leaf in leaves)
        both = list(zip(leaves, chosen, strict=True))
        others = tuple(leaf for leaf, inside in both if not inside)
        arrays = tuple(jnp.asarray(leaf) for leaf, inside in both if inside)
        return cls(arrays, _Fixed(model, treedef, others, chosen))

    def bound(self) -> tuple[Callable[..., Any], tuple, dict[str, Any]]:
        """Return the model, its arguments and its arguments by name."""
        arrays, others = iter(self.arrays), iter(self.fixed.others)
        leaves = [next(arrays if inside else others) for inside in self.fixed.is_input]
        return (self.fixed.model, *jax.tree.unflatten(self.fixed.treedef, leaves))


class _Conditioned(eqx.Module):
    """A model with its arguments, as functions of unconstrained parameters.

    Parameters and results have plain names; `names` holds the names of their sites.
    """

    arguments: _Arguments
    held: dict[str, Any]
    names: "_Names" = eqx.field(static=True)

    def __call__(self, parameters: PyTree) -> Array:
        """Return the log density on the unconstrained scale, with the Jacobians of transforms."""
        return -potential_energy(*self._bound(), self._latent(parameters))

    def constrain(self, parameters: PyTree) -> dict[str, Array]:
        """Return latent sites on their natural scale, and deterministic sites."""
        return {_plain(name): value for name, value in self._natural(parameters, True).items()}

    def pointwise(self, parameters: PyTree, data: None) -> dict[str, Array]:
        """Return the log likelihood of every observation, by observed site."""
        model, args, kwargs = self._bound()
        natural = self._natural(parameters, False)
        values = log_likelihood(model, natural, *args, batch_ndims=0, **kwargs)
        return {_plain(name): values[name] for name in self.names.observed}

    def predict(self, key: PRNGKeyArray, parameters: PyTree, data: None) -> dict[str, Array]:
        """Simulate one value of every observed site."""
        model, args, kwargs = self._bound()
        natural = self._natural(parameters, False)
        simulating = handlers.substitute(handlers.uncondition(_OfAll(model)), data=natural)
        sites = handlers.trace(handlers.seed(simulating, key)).get_trace(*args, **kwargs)
        return {_plain(name): sites[name]["value"] for name in self.names.observed}

    def _natural(self, parameters: PyTree, deterministic: bool) -> dict[str, Array]:
        latent = self._latent(parameters)
        return constrain_fn(*self._bound(), latent, return_deterministic=deterministic)

    def _latent(self, parameters: PyTree) -> dict[str, Array]:
        return {name: parameters[_plain(name)] for name in self.names.latent}

    def _bound(self) -> tuple[Callable[..., Any], tuple, dict[str, Any]]:
        model, args, kwargs = self.arguments.bound()
        return handlers.substitute(model, data=self.held) if self.held else model, args, kwargs


class _OfAll(Messenger):
    """Simulates every observation by itself where one distribution stands for several."""

    def process_message(self, msg: Message) -> None:
        """Change the distribution of an observed site."""
        if msg["type"] == "sample" and msg["is_observed"] and jnp.size(msg["value"]):
            shape = _observed(msg).shape
            msg["fn"] = msg["fn"].expand(shape[: len(shape) - msg["fn"].event_dim])


@dataclass(frozen=True)
class _Names:
    """The sites that are sampled, and those that were observed, as the model calls them."""

    latent: tuple[str, ...]
    observed: tuple[str, ...]


class _Notes:
    """What a traced run of a model found out that is no array."""

    names: _Names
    dims: dict[str, list[str]]
    coords: dict[str, list[int]]


@dataclass(frozen=True)
class _Survey:
    """What one run of a model shows about it."""

    arguments: _Arguments
    names: _Names
    centre: dict[str, Array]
    observed: dict[str, Array]
    held: dict[str, Any]
    dims: dict[str, list[str]]
    coords: dict[str, list[int]]

    @classmethod
    def of(cls, model: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> "_Survey":
        arguments = with_most_inputs(
            lambda is_input: _Arguments.of(model, (args, kwargs), is_input),
            lambda built: eqx.filter_eval_shape(_values, built, _Notes()),
        )
        notes = _Notes()
        try:
            centre, observed, held = _values(arguments, notes, quick=True)
        except PosteriorError:
            raise
        except Exception as error:
            raise PosteriorError(
                f"a function is taken for a NumPyro model, and running it with "
                f"{_count(len(args) + len(kwargs))} failed: {explain(error)}. Give its "
                "arguments as model_args and model_kwargs; a log density in JAX goes through "
                "nnghmc.from_log_density."
            ) from error
        return cls(arguments, notes.names, centre, observed, held, notes.dims, notes.coords)


@compiled
def _values(
    arguments: _Arguments, notes: "_Notes"
) -> tuple[dict[str, Array], dict[str, Array], dict[str, Any]]:
    """Run the model at the centre of its priors, and return that centre and its observations.

    The third part is what neural networks begin with. The names of sites and axes are no arrays;
    they go into `notes` while the model is traced.
    """
    model, args, kwargs = arguments.bound()
    centred = handlers.substitute(handlers.seed(model, 0), substitute_fn=_centre)
    trace = handlers.trace(centred).get_trace(*args, **kwargs)
    held = _held(trace)
    _check_sites(trace, held)
    names = _Names(
        tuple(name for name, _ in _samples(trace, observed=False)),
        tuple(name for name, m in _samples(trace, observed=True) if jnp.size(m["value"])),
    )
    if not names.latent:
        raise PosteriorError(
            "a function is taken for a NumPyro model, and this one has no numpyro.sample site "
            "without obs, so there is nothing to sample. A log density in JAX goes through "
            "nnghmc.from_log_density."
        )
    notes.names = names
    notes.dims, notes.coords = _axes(trace, names)
    centre = {_plain(name): _unconstrained(trace[name]) for name in names.latent}
    return centre, {_plain(name): _observed(trace[name]) for name in names.observed}, held


def _centre(site: Message) -> Array | None:
    """Return the prior mean of a latent site, or zero of the unconstrained scale without a mean."""
    if site["type"] != "sample" or site["is_observed"] or site["fn"].support.is_discrete:
        return None
    prior, transform = site["fn"], biject_to(site["fn"].support)
    shape = tuple(site["kwargs"].get("sample_shape", ())) + tuple(prior.shape())
    zero = jnp.zeros(transform.inverse_shape(shape))
    try:
        mean = transform.inv(jnp.broadcast_to(1.0 * prior.mean, shape))
    except (NotImplementedError, ValueError):
        return transform(zero)
    return transform(jnp.where(jnp.isfinite(mean), mean, zero))


def _count(number: int) -> str:
    return {0: "no arguments", 1: "1 argument"}.get(number, f"{number} arguments")


def _held(trace: dict[str, Message]) -> dict[str, Any]:
    """Return what a neural network of NumPyro begins with; priors replace what is sampled."""
    return {
        name: site["value"]
        for name, site in trace.items()
        if site["type"] == "mutable" or (site["type"] == "param" and name.endswith(HELD_PARAMETERS))
    }


def _check_sites(trace: dict[str, Message], held: dict[str, Any]) -> None:
    """Refuse sites without a fixed, differentiable log density."""
    latent = [(name, site["fn"]) for name, site in _samples(trace, observed=False)]
    _refuse(
        [name for name, prior in latent if prior.support.is_discrete],
        "are discrete, and Hamiltonian dynamics need continuous ones. Sum over them in the model, "
        "for instance with numpyro.distributions.MixtureSameFamily.",
    )
    _refuse(
        [name for name, prior in latent if isinstance(prior, Delta)],
        "can take one value only. Use numpyro.deterministic.",
    )
    _refuse(
        [n for n, site in trace.items() if site["type"] == "param" and n not in held],
        "are numpyro.param, which have no prior. Use numpyro.sample, with "
        "numpyro.distributions.ImproperUniform for a flat prior.",
    )
    _refuse(
        [n for n, site in trace.items() if site["type"] == "plate" and _is_part(*site["args"])],
        "are plates of a random part of the data. Leave subsample_size out: the Metropolis test "
        "needs the log density of all data.",
    )


def _refuse(names: list[str], why: str) -> None:
    if names:
        raise PosteriorError(f"the NumPyro model has sites that {why} Got {', '.join(names)}.")


def _is_part(size: int, subsample_size: int | None) -> bool:
    return subsample_size is not None and subsample_size != size


def _samples(trace: dict[str, Message], observed: bool) -> list[tuple[str, Message]]:
    return [
        (name, site)
        for name, site in trace.items()
        if site["type"] == "sample" and bool(site["is_observed"]) == observed
    ]


def _unconstrained(site: Message) -> Array:
    return biject_to(site["fn"].support).inv(site["value"])


def _observed(site: Message) -> Array:
    """Return what was observed, with one value for each that the distribution stands for."""
    value = jnp.asarray(site["value"])
    return jnp.broadcast_to(value, jnp.broadcast_shapes(value.shape, tuple(site["fn"].shape())))


def _axes(
    trace: dict[str, Message], names: _Names
) -> tuple[dict[str, list[str]], dict[str, list[int]]]:
    """Return the names of axes, from plates and from `infer={"event_dims": [...]}`, and labels."""
    deterministic = (name for name, site in trace.items() if site["type"] == "deterministic")
    values = {name: trace[name]["value"] for name in (*names.latent, *deterministic)}
    values |= {name: _observed(trace[name]) for name in names.observed}
    dims, coords = {}, {}
    for name, value in values.items():
        shape = jnp.shape(value)
        axes = [f"{_plain(name)}_dim_{i}" for i in range(len(shape))]
        for axis, label in _named_axes(trace[name], shape).items():
            axes[axis] = label
            coords[label] = list(range(shape[axis]))
        dims[_plain(name)] = axes
    return dims, coords


def _named_axes(site: Message, shape: tuple[int, ...]) -> dict[int, str]:
    """Return the names of the axes of a site that have one, by the number of the axis."""
    event_names = list((site.get("infer") or {}).get("event_dims", ()))
    sampled = site["type"] == "sample"
    num_event = len(site["fn"].event_shape) if sampled else len(event_names)
    num_batch = len(shape) - num_event
    found = {}
    for frame in site["cond_indep_stack"]:
        axis = num_batch + frame.dim
        if axis >= 0 and shape[axis] == frame.size:
            found[axis] = _plain(frame.name)
    if len(event_names) == num_event:
        found |= {num_batch + i: str(label) for i, label in enumerate(event_names)}
    return found


def _plain(site: str) -> str:
    """Return the name under which a site is reported; netCDF keeps / for itself."""
    return site.replace("/", ".")
