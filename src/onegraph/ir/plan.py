"""The execution plan: what one call of a compiled graph does, step by step, as data.

An executor keeps two arrays during a call: `slots` (tensors) and `registers` (64-bit integers). The steps run in order;
there is no control flow. A plan holds no tensors, no addresses and no operators: the executor is given the plan, the
constants by slot, the kernels' addresses in the order of `plan.kernels`, and finds the operators by name.

    Input     slot i or register i gets the i-th argument of the call
    Constant  slot i gets the constant of that name (bound once, never freed)
    Compute   registers[target] = op(a, b)             "size": the size of slot a along dimension b;
                                                       "add" "sub" "mul" "floordiv" "mod" "min" "max": of integers,
                                                       floordiv and mod as in Python
    Alloc     slots[target] = torch.empty_strided(shape, strides, dtype=dtype, device=device). A `workspace` never
              leaves the call: the executor may keep it for the next one (not for two calls at the same time)
    View      slots[target] = the storage of slots[base] seen with this shape and these strides (as_strided);
              `offset` counts elements from the first element of slots[base], not from the start of its storage
    Launch    code = kernel(pointers, sizes, threads)
                  pointers[k] = the data pointer of slots[operands[k].slot] + operands[k].offset bytes
                  sizes[k]    = the integer sizes[k]
                  threads     = how many threads it may use at most: torch's thread count, where `parallel` is true
              the kernel's C type is  int64_t kernel(void **pointers, const int64_t *sizes, int64_t threads);  it
              decides by the amount of work how many threads it uses. A code other than 0 means an error was found: it
              is `plan.kernels[launch.kernel].errors[code - 1]`, to be raised after the slots are released.
              A kernel with checked accesses is given pointers[n + k], the bytes of operand k (`watched`), and returns
              -1 - k for a wrong access k, with its index in pointers[2 * n].
              With a `grid` it runs on a device, in so many programs along x, y and z (the ones that are left out have
              1; a 0 launches nothing): it begins on the current stream, and tells no errors. Its parameters are the
              pointers, the sizes as 64-bit integers, and two null pointers.
    Extern    results = operator(*args, **kwargs); slots[outputs[k]] = results[k] (None: dropped). With `several` the
              operator returns a tuple or list, of which lists are opened; without, its one result is results[0].
              A register target takes an int.
              expected[k] = (sizes, strides) that the plan was made for: a result with other strides (in a dimension of
              more than one element) is replaced by a copy that has them. None: anything goes.
              Operators: "aten.addmm.default" is torch.ops.aten.addmm.default. `Slot` and `Register` in args stand for
              the tensor and the integer, tuples become lists, `Named("dtype", "float32")` is torch.float32.
    Free      the slots become empty; `for_good`: the executor does not keep the memory of a workspace for the next call
              (a plan that consumes its inputs frees their slots, too); `ours`: nobody else knows the memory, which may
              serve what is allocated later, in this call or in others
    Return    the call's result, a tuple: the tensors of slots, integers, or None

Kernels read and write through the pointers only; nothing keeps a pointer after the launch. A kernel never allocates.
Integer operands are `Register`s or plain ints.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from onegraph.base.dataclass import dataclass
from onegraph.ir.loop import Named
from onegraph.ir.types import DType


@dataclass(frozen=True, slots=True)
class Register:
    """An integer that is known at the call."""

    number: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A tensor that exists during the call."""

    number: int


Int = int | Register
#: The operations of `Compute`, but "size".
INTEGER_OPS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "min": min,
    "max": max,
}
#: A number of bytes, as an expression over registers that no step computes: ("mul", Register(0), 64).
Bytes = int | Register | tuple[str, "Bytes", "Bytes"]
PlanArgument = Slot | Register | Named | int | float | bool | str | complex | None | tuple["PlanArgument", ...]


@dataclass(frozen=True, slots=True)
class Compute:
    target: int
    op: str
    a: Int
    b: Int


@dataclass(frozen=True, slots=True)
class Alloc:
    target: int
    dtype: DType
    shape: tuple[Int, ...]
    strides: tuple[Int, ...]
    device: str
    workspace: bool = False


@dataclass(frozen=True, slots=True)
class ViewOf:
    target: int
    base: int
    shape: tuple[Int, ...]
    strides: tuple[Int, ...]
    offset: Int


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where an operand of a kernel begins: a slot, and bytes from its first element.

    `bytes` are those that the kernel may use from there on, where they are known: they check a plan that was read. They
    are over the registers of symbols, and owe nothing to the steps that compute how much memory there is.
    """

    slot: int
    offset: int = 0
    bytes: Bytes | None = None


@dataclass(frozen=True, slots=True)
class Watched:
    """What the sanitizer is told of an operand: its buffer, the bytes that it spans, those of an element.

    `fresh`: nothing has been written to it before.
    """

    buffer: str
    span: Int
    itemsize: int
    fresh: bool


@dataclass(frozen=True, slots=True)
class Launch:
    kernel: int
    operands: tuple[Pointer, ...]
    sizes: tuple[Int, ...] = ()
    parallel: bool = True
    watched: tuple[Watched, ...] = ()
    origin: str = ""
    grid: tuple[Int, ...] = ()


@dataclass(frozen=True, slots=True)
class ExternCall:
    """`moved` and `flops` are the bytes and the operations of arithmetic of one call; 0 if they are not known. `device`
    is another one than that of the plan's kernels that it makes or takes tensors of."""

    operator: str
    args: tuple[PlanArgument, ...]
    kwargs: tuple[tuple[str, PlanArgument], ...]
    outputs: tuple[Slot | Register | None, ...]
    expected: tuple[tuple[tuple[Int, ...], tuple[Int, ...]] | None, ...]
    several: bool = False
    moved: int = 0
    flops: int = 0
    device: str = ""

    @property
    def inference(self) -> bool:
        """Whether it is told that no gradients are recorded.

        Weights are packed for that. Where gradients are recorded, oneDNN looks for an implementation that can be
        differentiated, and for a packed weight finds its reference: a hundred times slower.
        """
        return self.operator.startswith("mkldnn.")

    @property
    def communicates(self) -> bool:
        """Whether processes make it together."""
        return self.operator.startswith(("_c10d_functional.", "onegraph_c10d."))


@dataclass(frozen=True, slots=True)
class Free:
    slots: tuple[int, ...]
    for_good: bool = False
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Return:
    values: tuple[Slot | Int | None, ...]


PlanStep = Compute | Alloc | ViewOf | Launch | ExternCall | Free | Return


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A compiled function. Launches of equal kernels share one. `errors` are (exception name, message).

    `accesses` of a kernel that checks them are (operand, what is done there). `moved` and `flops` are the bytes and the
    operations of arithmetic of one launch; 0 where sizes are symbols.
    """

    name: str
    errors: tuple[tuple[str, str], ...] = ()
    accesses: tuple[tuple[int, str], ...] = ()
    moved: int = 0
    flops: int = 0


@dataclass(frozen=True, slots=True)
class ExecPlan:
    """`inputs` says where each argument of the call goes; `constants` which slot holds which constant.

    Kernels of the program that are `left_out` would only copy a buffer into its own memory.
    """

    inputs: tuple[Slot | Register, ...]
    constants: tuple[tuple[int, str], ...]
    slots: int
    registers: int
    kernels: tuple[KernelInfo, ...]
    steps: tuple[PlanStep, ...]
    sanitize: bool = False
    left_out: frozenset[str] = frozenset()
