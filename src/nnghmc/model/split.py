"""Splits a potential into an exact part and an expensive function of few inputs.

U(q) = exact(q) + expensive(s(q)). The expensive function is what touches the data, or takes long.
Its inputs s are computed from the parameters by cheap operations. The exact part is everything
else: priors, Jacobians, and the map from q to s. Only the expensive function needs to be learned.

The potential is traced, and the result is read as a sum of terms. Terms that cheap operations
compute from the parameters alone are exact. The inputs of the others are the narrowest set of
values that separates the parameters from everything that is not exact: a minimum cut through the
operations, in which each value counts as many times as it has elements. For a regression with
`x @ beta + (tau * z)[group]`, the inputs are beta and tau * z. Where nothing narrower exists, they
are the parameters themselves.
"""

import abc
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal, Var
from jaxtyping import Array, Float
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from nnghmc.model.density import Position, PotentialAndGradientFn, PotentialFn, Scalar
from nnghmc.model.program import Program, names_within, trace_program, variables

LOOPS = frozenset({"while", "scan", "cond", "pure_callback", "io_callback", "buffer_callback"})
"""Operations whose cost is not known; none of them is exact."""
FACTORISATIONS = frozenset(
    {"cholesky", "eigh", "lu", "qr", "svd", "triangular_solve", "custom_linear_solve", "fft"}
)
"""Operations that are exact for at most `MOST_ELEMENTS_TO_FACTORISE` elements."""
MOST_ELEMENTS_TO_FACTORISE = 100
"""Largest number of elements of a matrix that is factorised exactly."""
MOST_ELEMENTS = 10_000
"""Largest number of elements of an array in an exact operation, or 20 per dimension if more."""
LARGE_CONSTANT = 64
"""Number of elements from which on an array that the potential closes over counts as data."""
UNBOUNDED = 10**8
"""Capacity of what cannot be cut."""


@dataclass(frozen=True, eq=False)
class _Plan:
    """Which parts of a program are exact: terms of the result with their signs, and the cut."""

    program: Program
    exact: tuple[tuple[float, Any], ...]
    expensive: tuple[tuple[float, Any], ...]
    cut: tuple[Var, ...]


InputsFunction = Callable[[Array], tuple[Array, Array]]
"""A function of the inputs, with its gradient."""


class Split(eqx.Module):
    """A potential as U(q) = exact(q) + expensive(s(q))."""

    @property
    @abc.abstractmethod
    def num_inputs(self) -> int:
        """The number of inputs of the expensive function."""

    @property
    @abc.abstractmethod
    def has_exact_part(self) -> bool:
        """Whether some terms of the potential are exact."""

    @abc.abstractmethod
    def inputs(self, position: Position) -> Float[Array, " inputs"]:
        """Return s(q), the inputs of the expensive function, as one flat vector."""

    @abc.abstractmethod
    def exact(self, position: Position) -> Scalar:
        """Return the exact part of the potential."""

    @abc.abstractmethod
    def expensive_and_gradient(
        self, inputs: Float[Array, " inputs"]
    ) -> tuple[Scalar, Float[Array, " inputs"]]:
        """Return the expensive function and its gradient with respect to the inputs."""

    def with_function(
        self, position: Position, function: InputsFunction
    ) -> tuple[Scalar, Position]:
        """Return exact(q) + function(s(q)) and its gradient with respect to q."""
        inputs, pull_back = jax.vjp(self.inputs, position)
        exact, exact_gradient = jax.value_and_grad(self.exact)(position)
        value, gradient = function(inputs)
        return exact + value, exact_gradient + pull_back(gradient)[0]


class Undivided(Split):
    """A potential without an exact part: all of it is expensive, and its inputs are the parameters.

    This is what there is to say of a density that is not written in JAX.
    """

    potential_and_gradient: PotentialAndGradientFn
    dim: int = eqx.field(static=True)

    @property
    def num_inputs(self) -> int:
        """The number of parameters."""
        return self.dim

    @property
    def has_exact_part(self) -> bool:
        """Always False."""
        return False

    def inputs(self, position: Position) -> Float[Array, " inputs"]:
        """Return the position itself."""
        return position

    def exact(self, position: Position) -> Scalar:
        """Return zero."""
        return jnp.zeros((), position.dtype)

    def expensive_and_gradient(
        self, inputs: Float[Array, " inputs"]
    ) -> tuple[Scalar, Float[Array, " inputs"]]:
        """Return the potential and its gradient."""
        return self.potential_and_gradient(inputs)


class PriorApart(Undivided):
    """A potential whose prior is known apart: the rest is expensive, and takes the parameters."""

    prior: PotentialFn

    @property
    def has_exact_part(self) -> bool:
        """Always True: the prior."""
        return True

    def exact(self, position: Position) -> Scalar:
        """Return minus the log prior."""
        return self.prior(position)


@runtime_checkable
class Divided(Protocol):
    """A density that states its split itself, because tracing it would not show one."""

    def split(self) -> Split:
        """Return what is exact of the potential, and what is expensive."""
        ...


class TracedSplit(Split):
    """A potential in JAX, whose operations are known, split into those that are exact and others.

    The arrays of the potential are leaves of this pytree, so that they are inputs of compiled code.
    """

    arrays: tuple[Array, ...]
    plan: _Plan = eqx.field(static=True)

    @property
    def num_inputs(self) -> int:
        """The number of inputs of the expensive function."""
        return sum(_size(value) for value in self.plan.cut)

    @property
    def has_exact_part(self) -> bool:
        """Whether some terms of the potential are exact."""
        return bool(self.plan.exact)

    def inputs(self, position: Position) -> Float[Array, " inputs"]:
        """Return s(q), the inputs of the expensive function, as one flat vector."""
        values = self.plan.program.evaluate(self._known(position), self.plan.cut)
        return jnp.concatenate([jnp.ravel(value).astype(position.dtype) for value in values])

    def exact(self, position: Position) -> Scalar:
        """Return the exact part of the potential."""
        zero = jnp.zeros((), position.dtype)
        return zero + self._sum(self.plan.exact, self._known(position))

    def expensive(self, inputs: Float[Array, " inputs"]) -> Scalar:
        """Return the expensive function of its inputs."""
        ends = np.cumsum([_size(value) for value in self.plan.cut])[:-1]
        parts = zip(self.plan.cut, jnp.split(inputs, ends), strict=True)
        known = {value: part.reshape(_shape(value)).astype(_dtype(value)) for value, part in parts}
        zero = jnp.zeros((), inputs.dtype)
        return zero + self._sum(self.plan.expensive, {**self._arrays(), **known})

    def expensive_and_gradient(
        self, inputs: Float[Array, " inputs"]
    ) -> tuple[Scalar, Float[Array, " inputs"]]:
        """Return the expensive function and its gradient with respect to the inputs."""
        return jax.value_and_grad(self.expensive)(inputs)

    def _sum(self, terms: tuple[tuple[float, Any], ...], known: dict[Var, Array]) -> Any:
        values = self.plan.program.evaluate(known, [term for _, term in terms])
        return sum(sign * value for (sign, _), value in zip(terms, values, strict=True))

    def _known(self, position: Position) -> dict[Var, Array]:
        return {**self._arrays(), self.plan.program.position: position}

    def _arrays(self) -> dict[Var, Array]:
        return dict(zip(self.plan.program.arrays, self.arrays, strict=True))


def split_potential(potential: PotentialFn, position: Position) -> Split:
    """Split a potential, which is traced at this position.

    If the whole potential is cheap, or nothing of it, it has no exact part, and the inputs of the
    expensive function are the parameters.
    """
    program, arrays = trace_program(potential, position)
    small = [part for part in program.constants if _size(part) < LARGE_CONSTANT]
    values = _Values.of(program, set(program.arrays) - set(small))
    terms = _terms(program, values)
    expensive = tuple((sign, term) for sign, term in terms if not values.is_exact(term))
    exact = tuple((sign, term) for sign, term in terms if values.is_exact(term))
    if not any(term in values.varying for _, term in expensive):
        whole = ((1.0, program.result),)
        return TracedSplit(arrays, _Plan(program, (), whole, (program.position,)))
    cut = _narrowest_cut(program, values, [term for _, term in expensive])
    return TracedSplit(arrays, _Plan(program, exact, expensive, cut))


@dataclass(frozen=True)
class _Values:
    """Which values of a program vary with the position, and which of these are exact."""

    varying: frozenset[Var]
    exact: frozenset[Var]

    @classmethod
    def of(cls, program: Program, data: set[Var]) -> "_Values":
        """Follow all operations; a value is exact if cheap ones compute it without the data."""
        varying, exact, of_data = {program.position}, {program.position}, set(data)
        most = max(MOST_ELEMENTS, 20 * _size(program.position))
        for operation in program.operations:
            uses = set(variables(operation.invars))
            results = set(operation.outvars)
            if uses & of_data:
                of_data |= results
            if uses & varying:
                varying |= results
                if not uses & of_data and uses & varying <= exact and _is_cheap(operation, most):
                    exact |= results
        return cls(frozenset(varying), frozenset(exact))

    def is_exact(self, part: Any) -> bool:
        """Return whether a variable is exact; literals are."""
        return isinstance(part, Literal) or part in self.exact


def _is_cheap(operation: Any, most_elements: int) -> bool:
    """Return whether an operation is without loops, and has few elements."""
    names = set(names_within(operation))
    if names & LOOPS:
        return False
    parts = (*variables(operation.invars), *operation.outvars)
    largest = max(_size(part) for part in parts)
    return largest <= (MOST_ELEMENTS_TO_FACTORISE if names & FACTORISATIONS else most_elements)


def _terms(program: Program, values: _Values) -> list[tuple[float, Any]]:
    """Return the terms that add up to the result, each with its factor.

    Sums are taken apart only as far as a part of them is not exact.
    """
    origin = {result: made for made in program.operations for result in made.outvars}
    terms, open_terms = [], [(1.0, program.result)]
    while open_terms:
        factor, part = open_terms.pop()
        summands = None
        if not values.is_exact(part) and part in origin:
            summands = _summands(origin[part])
        if summands is None:
            terms.append((factor, part))
        else:
            open_terms += [(factor * own, summand) for own, summand in summands]
    return terms


def _summands(operation: Any) -> list[tuple[float, Any]] | None:
    """Return the summands of a sum of numbers with their factors; None for other operations."""
    name, parts = operation.primitive.name, operation.invars
    if any(_shape(part) for part in parts):
        return None
    if name in ("add", "add_any"):
        return [(1.0, part) for part in parts]
    if name == "sub":
        return [(1.0, parts[0]), (-1.0, parts[1])]
    if name == "neg":
        return [(-1.0, parts[0])]
    if name == "mul":
        numbers = [part for part in parts if isinstance(part, Literal)]
        others = [part for part in parts if isinstance(part, Var)]
        return [(float(numbers[0].val), others[0])] if len(numbers) == len(others) == 1 else None
    return None


def _narrowest_cut(program: Program, values: _Values, terms: list[Any]) -> tuple[Var, ...]:
    """Return the fewest exact elements that determine the terms, as near to the position as can be.

    Each value is an edge whose capacity is its number of elements, and each use of a value an edge
    that cannot be cut. The maximum flow from the position to what is not exact saturates the
    narrowest set of values.
    """
    needed = program.needed_for(terms, set())
    results = (part for operation in needed for part in operation.outvars)
    exact = [program.position, *(part for part in results if part in values.exact)]
    entry = {value: 2 * number for number, value in enumerate(exact)}
    source, sink = 2 * len(exact), 2 * len(exact) + 1
    capacities: dict[tuple[int, int], int] = defaultdict(int)
    capacities[source, entry[program.position]] = UNBOUNDED
    for value, node in entry.items():
        is_real = jnp.issubdtype(_dtype(value), jnp.floating)
        capacities[node, node + 1] = _size(value) if is_real else UNBOUNDED
    for operation in needed:
        for used in set(variables(operation.invars)) & entry.keys():
            for result in operation.outvars:
                capacities[entry[used] + 1, entry.get(result, sink)] = UNBOUNDED
    reached = _reached(capacities, source, sink)
    return tuple(
        value for value, node in entry.items() if node in reached and node + 1 not in reached
    )


def _reached(capacities: dict[tuple[int, int], int], source: int, sink: int) -> set[int]:
    """Return the nodes that the source still reaches beside the maximum flow to the sink."""
    rows, columns = np.array(list(capacities)).T
    numbers = np.array(list(capacities.values()), np.int32)
    graph = csr_matrix((numbers, (rows, columns)), shape=(sink + 1, sink + 1))
    residual = graph - maximum_flow(graph, source, sink).flow
    residual.data = np.maximum(residual.data, 0)
    residual.eliminate_zeros()
    return set(breadth_first_order(residual, source, return_predecessors=False).tolist())


def _size(value: Any) -> int:
    return math.prod(_shape(value))


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.aval.shape)


def _dtype(value: Any) -> np.dtype:
    return value.aval.dtype
