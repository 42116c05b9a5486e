"""What is known of a Triton kernel before it is launched: what it may run as, and which arguments it may write to.

The writes are found in its intermediate representation (TTIR). An argument counts as written unless all operations that
its pointer comes to are known to write nothing. Pointers are followed from the operations back to the arguments,
through the variables of loops and the results of branches.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

import torch

from onegraph.base.dataclass import dataclass

#: Operations that make pointers of pointers, and those that only read where pointers point to.
MOVES = frozenset(
    f"tt.{name}"
    for name in (
        "addptr", "advance", "bitcast", "broadcast", "expand_dims", "make_tensor_descriptor", "make_tensor_ptr",
        "reshape", "splat", "trans", "unsplat",
    )
) | {"arith.select"}  # fmt: skip
READS = frozenset({"tt.load", "tt.descriptor_load", "tt.descriptor_gather"})
#: Operations with regions whose variables are given values: the place of the first of these values among the operands,
#: and of the variable that has it among those of the region. The ends of a region give the variables new values, and
#: the operation its results: from this place on among their operands.
REGIONS = {"scf.for": (3, 1), "scf.while": (0, 0), "scf.if": (1, 0)}
ENDS = {"scf.yield": 0, "scf.condition": 1}
POINTER = "!tt."  # in a type: !tt.ptr<f32>, tensor<16x!tt.ptr<f32>>, !tt.tensordesc<...>


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of TTIR. Values and regions are numbers; `pointers` are those of its operands that point somewhere.

    It stands in a region, which has these variables.
    """

    name: str
    operands: tuple[int, ...]
    pointers: frozenset[int]
    results: tuple[int, ...]
    regions: tuple[int, ...]
    region: int
    variables: tuple[int, ...]


class UnknownWrites(Exception):
    """It cannot be told what the kernel writes to."""


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """Constants of a kernel: by name those of a configuration, and functions of what is known that compute others."""

    constants: Mapping[str, Any]
    computed: Mapping[str, Callable[[Mapping[str, Any]], Any]]
    zeroed: frozenset[str] = frozenset()  # arguments that are written to where configurations are tried
    has_hooks: bool = False


def choices_of(kernel: Any) -> tuple[tuple[KernelChoice, ...], ...]:
    """What each decorator around a kernel, from the outermost on, leaves to choose from."""
    found: list[tuple[KernelChoice, ...]] = []
    while kernel is not innermost(kernel):
        if hasattr(kernel, "configs"):
            zeroed = frozenset({*kernel.reset_to_zero, *kernel.restore_value})
            hooked = kernel.user_defined_pre_hook or kernel.user_defined_post_hook
            hooks = [hooked or config.pre_hook is not None for config in kernel.configs]
            constants = [config.all_kwargs() for config in kernel.configs]
            found.append(tuple(KernelChoice(c, {}, zeroed, h) for c, h in zip(constants, hooks, strict=True)))
        else:
            found.append((KernelChoice({}, kernel.values),))
        kernel = kernel.fn
    return tuple(found)


def innermost(kernel: Any) -> Any:
    """The kernel without the decorators that choose for it."""
    while not isinstance(kernel.fn, FunctionType):
        kernel = kernel.fn
    return kernel


def numbers_of(kernel: Any) -> frozenset[str]:
    """The names of the arguments that may be other numbers in each launch."""
    if any(choice.computed for choices in choices_of(kernel) for choice in choices):
        return frozenset()
    function = innermost(kernel)
    if not hasattr(function, "params"):  # of the interpreter, to which all are the same
        return frozenset(function.arg_names)
    return frozenset(parameter.name for parameter in function.params if not parameter.is_constexpr)


def constants_of(kernel: Any) -> tuple[Mapping[str, Any], ...]:
    """The constants of each of its configurations."""
    return tuple(
        {name: value for choice in chosen for name, value in choice.constants.items()}
        for chosen in itertools.product(*choices_of(kernel))
    )


def known_of(kernel: Any) -> Any:
    """The names of its arguments, their defaults, and its choices, as plain data."""
    function = innermost(kernel)
    parameters = inspect.signature(function.fn).parameters
    defaults = {name: p.default for name, p in parameters.items() if p.default is not p.empty}
    choices = tuple(
        tuple((dict(choice.constants), tuple(choice.computed.items())) for choice in choices)
        for choices in choices_of(kernel)
    )
    return tuple(function.arg_names), defaults, choices


def written_arguments(kernel: Any, given: Mapping[str, Any]) -> frozenset[str]:
    """The names of the arguments that a launch of the kernel, given these by name, may write to.

    Raises:
        UnknownWrites: the kernel is none of Triton's compiler, something else than the kernel runs in a launch, or it
            uses pointers in a way that is not understood.
    """
    function = innermost(kernel)
    if type(function).__name__ != "JITFunction" or function.pre_run_hooks:
        raise UnknownWrites(f"it is a {type(function).__name__}, or has hooks")
    names: set[str] = set()
    for chosen in itertools.product(*choices_of(kernel)):
        known = dict(given)
        for choice in chosen:
            if choice.has_hooks:
                raise UnknownWrites("functions of the program run before or after it")
            known |= choice.constants
            known |= {name: function(known) for name, function in choice.computed.items()}
            names |= choice.zeroed
        names |= written_by(function, known)
    return frozenset(names)


def written_by(function: Any, given: Mapping[str, Any]) -> set[str]:
    """The names of the arguments that the function writes to."""
    kinds = {parameter.name: kind_of(parameter, given) for parameter in function.params}
    constants = {name: given.get(name) for name, kind in kinds.items() if kind == "constexpr"}
    operations = operations_of(function, kinds, constants)
    entry = next(operation for operation in operations if operation.name == "tt.return")
    names = dict(zip(entry.variables, (name for name in kinds if name not in constants), strict=True))
    return {names[value] for value in written_values(operations, names)}


def written_values(operations: Sequence[Operation], arguments: Collection[int]) -> set[int]:
    """The arguments that the pointers of operations which may write come from."""
    variables = {operation.region: operation.variables for operation in operations}
    ends: dict[int, list[Operation]] = {}
    for operation in operations:
        if operation.name in ENDS:
            ends.setdefault(operation.region, []).append(operation)
    sources: dict[int, set[int]] = {}
    waiting: set[int] = set()

    def flow(values: Sequence[int], places: Sequence[int]) -> None:
        for value, place in zip(values, places, strict=False):
            sources.setdefault(place, set()).add(value)

    for operation in operations:
        if operation.name in MOVES:
            for result in operation.results:
                sources.setdefault(result, set()).update(operation.pointers)
        elif operation.name in REGIONS:
            first, skipped = REGIONS[operation.name]
            given = [operation.operands[first:]]
            given += [end.operands[ENDS[end.name] :] for region in operation.regions for end in ends.get(region, [])]
            for values in given:
                flow(values, operation.results)
                for region in operation.regions:
                    flow(values, variables.get(region, ())[skipped:])
        elif operation.name not in READS and operation.name not in ENDS:
            waiting |= operation.pointers
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        seen.add(value)
        if value not in sources and value not in arguments:
            raise UnknownWrites("a pointer is read from memory, or made of a number")
        waiting |= sources.get(value, set()) - seen
    return seen.intersection(arguments)


def kind_of(parameter: Any, given: Mapping[str, Any]) -> str:
    """The type of a parameter's argument, as Triton writes it."""
    from triton.runtime.jit import MockTensor, mangle_type

    value = given.get(parameter.name)
    if parameter.is_constexpr or value is None:
        return "constexpr"
    return str(mangle_type(MockTensor(value.dtype) if isinstance(value, torch.Tensor) else value))


def operations_of(function: Any, kinds: Mapping[str, str], constants: Mapping[str, Any]) -> Sequence[Operation]:
    """The kernel's operations; those of functions that it calls are among them."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.compiler import make_backend

    target = GPUTarget("cuda", 90, 32)  # what is written to is the same on all
    backend = make_backend(target)
    options = backend.parse_options({})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    source = ASTSource(function, dict(kinds), dict(constants))
    functions, modules = backend.get_codegen_implementation(options), backend.get_module_map()
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    module = stages["ttir"](source.make_ir(target, options, functions, modules, context), {})
    found: list[Operation] = []
    module.walk(lambda operation: found.extend(read(operation)))
    return found


def read(operation: Any) -> Iterator[Operation]:
    """An operation of Triton's, as it is used here; nothing of the module itself, which stands nowhere."""
    block = operation.get_block()
    if block is None:
        return
    operands = [operation.get_operand(number) for number in range(operation.get_num_operands())]
    yield Operation(
        operation.get_name(),
        tuple(operand.id() for operand in operands),
        frozenset(operand.id() for operand in operands if POINTER in str(operand.get_type())),
        tuple(operation.get_result(number).id() for number in range(operation.get_num_results())),
        tuple(operation.get_region(number).id() for number in range(operation.get_num_regions())),
        block.get_parent().id(),
        tuple(block.get_argument(number).id() for number in range(block.get_num_arguments())),
    )
