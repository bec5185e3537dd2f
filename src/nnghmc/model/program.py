"""The operations of a traced JAX function, of which a part can be evaluated by itself."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
from jax.extend.core import Literal, Var, jaxprs_in_params
from jaxtyping import Array

from nnghmc.model.density import Position

CALLS = ("jit", "pjit")
"""Operations that run a program of their own, whose inputs and outputs are theirs one by one."""


@dataclass(frozen=True, eq=False)
class Program:
    """A function of a position and of some arrays, as a list of operations.

    Attributes:
        position: the variable of the position.
        arrays: the variables of the arrays: those that the function holds, and its constants.
        constants: those of the arrays that are constants of the function.
        operations: all operations, in the order of their evaluation.
        result: the variable of the result, or a literal.
    """

    position: Var
    arrays: tuple[Var, ...]
    constants: tuple[Var, ...]
    operations: tuple[Any, ...]
    result: Any

    def evaluate(self, known: Mapping[Var, Array], wanted: Sequence[Any]) -> list[Array]:
        """Return the values of the wanted variables, given those of others that they depend on."""
        values = dict(known)
        for operation in self.needed_for(wanted, set(known)):
            arguments = [_value(part, values) for part in operation.invars]
            values.update(zip(operation.outvars, _run(operation, arguments), strict=True))
        return [_value(part, values) for part in wanted]

    def needed_for(self, wanted: Sequence[Any], known: set[Var]) -> list[Any]:
        """Return the operations that lead from known variables to the wanted ones, in order."""
        missing = {part for part in wanted if isinstance(part, Var)} - known
        needed = []
        for operation in reversed(self.operations):
            if missing & set(operation.outvars):
                needed.append(operation)
                missing |= set(variables(operation.invars)) - known
        return needed[::-1]


def variables(parts: Sequence[Any]) -> Iterator[Var]:
    """Yield the variables among variables and literals."""
    return (part for part in parts if isinstance(part, Var))


def trace_program(
    function: Callable[[Position], Any], position: Position
) -> tuple[Program, tuple[Array, ...]]:
    """Trace a function of a position, and return its program and the values of its arrays.

    Arrays that the function holds as a pytree, and those that it closes over, become inputs.
    Calls of compiled functions are replaced by their operations.
    """
    held, rest = eqx.partition(function, eqx.is_array)
    leaves, structure = jax.tree.flatten(held)

    def of_arrays(position: Position, *leaves: Array) -> Any:
        return eqx.combine(jax.tree.unflatten(structure, leaves), rest)(position)

    closed = jax.make_jaxpr(of_arrays)(position, *leaves)
    opened = jax.make_jaxpr(lambda *inputs: _opened(closed, inputs)[0])(position, *leaves)
    first, *others = opened.invars
    program = Program(
        position=first,
        arrays=(*others, *opened.constvars),
        constants=tuple(opened.constvars),
        operations=tuple(opened.eqns),
        result=opened.outvars[0],
    )
    return program, (*leaves, *map(jax.numpy.asarray, opened.consts))


def names_within(operation: Any) -> Iterator[str]:
    """Yield the name of an operation, and those of all operations of the programs that it runs."""
    yield operation.primitive.name
    for program in jaxprs_in_params(operation.params):
        for inner in program.eqns:
            yield from names_within(inner)


def _opened(closed: Any, inputs: Sequence[Any]) -> list[Any]:
    """Evaluate a program with the operations of compiled functions in place of their calls."""
    values = dict(zip(closed.constvars, closed.consts, strict=True))
    values.update(zip(closed.invars, inputs, strict=True))
    for operation in closed.eqns:
        arguments = [_value(part, values) for part in operation.invars]
        if operation.primitive.name in CALLS:
            results: Sequence[Any] = _opened(operation.params["jaxpr"], arguments)
        else:
            results = _run(operation, arguments)
        values.update(zip(operation.outvars, results, strict=True))
    return [_value(part, values) for part in closed.outvars]


def _value(part: Any, values: Mapping[Var, Any]) -> Any:
    return part.val if isinstance(part, Literal) else values[part]


def _run(operation: Any, arguments: Sequence[Any]) -> Sequence[Any]:
    settings = operation.primitive.get_bind_params(operation.params)
    result = operation.primitive.bind(*arguments, **settings)
    return result if operation.primitive.multiple_results else [result]
