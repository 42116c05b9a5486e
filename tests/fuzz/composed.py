"""Random programs that compose all that graphs take in: `python -m tests.fuzz.composed --count 1000 --seed 0`.

Each statement is one of transforms of functions, branches and loops over tensors, NumPy, sizes that only the data say,
classes and modes with a `__torch_function__`, and wrappers; these go into each other where eager lets them. A program
is called three times, with other sizes for some, and a subclass as its argument for some. Values, gradients, what its
classes have seen, errors and the random stream must be eager's (Python's, for branches and loops).
`ONEGRAPH_SANITIZE=1` before it checks each access of the kernels that are compiled for it.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

import onegraph
from onegraph.base import events as ev
from onegraph.base.errors import InvalidAccess
from onegraph.compile import EVENTS
from onegraph.tools.record import recording
from onegraph.torchlib.data_sizes import UNEXPECTED
from tests.control_flow import PYTHON, TORCH, Operators
from tests.fuzz import command, control_flow, transforms
from tests.fuzz.arrays import VALUES
from tests.fuzz.control_flow import HELPERS
from tests.fuzz.transforms import PRELUDE, difference

CLASSES = """
import numpy as np
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map


class Plain(torch.Tensor):
    pass


class Counting(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        SEEN.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


class Turned(Plain):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        func = {torch.Tensor.sin: torch.Tensor.cos, torch.Tensor.mul: torch.Tensor.add}.get(func, func)
        return super().__torch_function__(func, types, args, kwargs)


class Scaled:
    def __init__(self, x, scale):
        self.x, self.scale = x, scale

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [a.x * a.scale if isinstance(a, cls) else a for a in args]
        return func(*plain, **(kwargs or {}))


class Doubling(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func in (torch.Tensor.sin, torch.Tensor.tanh) else result


class Noting(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        SEEN.append(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


class Pair(torch.Tensor):
    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, strides=a.stride(), dtype=a.dtype)

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        return Pair(parts["a"], parts["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def run(name):
            def part(value):
                return getattr(value, name) if isinstance(value, Pair) else value

            return func(*tree_map(part, args), **tree_map(part, kwargs or {}))

        a, b = run("a"), run("b")
        if func._schema.is_mutable:
            return args[0]
        if isinstance(a, torch.Tensor):
            return Pair(a, b)
        return type(a)(map(Pair, a, b)) if isinstance(a, (tuple, list)) else a


def plainly(x):
    return x.as_subclass(torch.Tensor)


def within(mode, function, x):
    with mode():
        return function(x)


def paired(function, x):
    y = function(Pair(x.detach(), x.detach().flip(0)))
    return x * 0.5 + y.a - 0.3 * y.b if isinstance(y, Pair) else x * y


def of_array(x, array):
    return x + torch.from_numpy(np.array(array, dtype=np.float64)).sin()


def masked(x):
    return x[x[:, 0] > 0.1]
"""
#: Of rows `x`, to as many; {v} is a value of {y}.
CLASSED = (
    "plainly((lambda {y}: {v})({x}.as_subclass(Plain)))", "plainly((lambda {y}: {v})({x}.as_subclass(Counting)))",
    "plainly((lambda {y}: {v})({x}.as_subclass(Turned)))", "torch.add(Scaled({x}, 0.5), {x})",
    "torch.sub(torch.tanh(Scaled({x}, 2.0)), {x})", "within(Doubling, lambda {y}: {v}, {x})",
    "within(Noting, lambda {y}: {v}, {x})", "paired(lambda {y}: {p}, {x})",
    "torch.stack([{x}.as_subclass(Plain), {x}])[0] * 1",
)  # fmt: skip
SIZED = (
    "{x} + masked({x}).sum(0)", "{x} * masked({x}).shape[0]",
    "{x}.index_add(0, torch.nonzero({x}[:, 1] > 0)[:, 0], {x}[{x}[:, 1] > 0])",
    "torch.cat([masked({x}), {x}[{x}[:, 0] <= 0.1]]) * 2", "{x} - torch.unique(({x} > 0).long()).numel()",
    "{x} + {x}[torch.where({x}[:, 2] > 0)[0]].tanh().sum(0)", "{x} * (({x} > 0).sum().item() + 1)",
    "{x}.repeat_interleave(torch.ones({x}.shape[0], dtype=torch.int64), dim=0).sin()",
    "{x} + torch.zeros(int(({x}[:, 0] > 0).sum()) + 1, 3, dtype={x}.dtype).sum(0)",
)  # fmt: skip
#: What a wrapper computes: each part on its own.
PAIRED = (
    "{x}.sin()",
    "{x}.tanh() * {x}",
    "{x} * 2 + {x}.cos()",
    "{x}.softmax(-1)",
    "{x}.sum(0)",
    "{x}.t().t()",
    "{x}.clone().mul_(3)",
)
KINDS = ("plain", "class", "class", "transform", "control", "array", "sizes")
#: What functions of torch in Python ask of tensors within: nobody promises that.
QUESTIONS = frozenset("dim size stride is_floating_point is_complex requires_grad_".split())
CALLS = 3
#: What torch's own operators of control flow refuse operands with, one or the other.
ERRORS = frozenset(("UncapturedHigherOrderOpError", "TorchRuntimeError"))
WATCHED = (ev.FrameStarted, ev.FrameSkipped, ev.GraphBroken, ev.GraphFailed)


class Drawing:
    """One program of rows of three elements."""

    def __init__(self, number: int) -> None:
        self.rng = random.Random(number)
        self.control, self.transforms = control_flow.Drawing(number), transforms.Drawing(number)
        self.control.rng = self.transforms.rng = self.rng
        self.control.is_random = False  # torch's own loops, which run at a break, differentiate other random numbers
        self.names = 0

    def value(self, x: str, depth: int) -> str:
        """An expression of `x` that has its sizes."""
        match self.rng.choice(KINDS if depth else KINDS[:1]):
            case "class":
                self.names += 1
                y = f"q{self.names}"
                pair = self.rng.choice(PAIRED).format(x=y)
                return self.rng.choice(CLASSED).format(x=f"({x})", y=y, v=self.value(y, depth - 1), p=pair)
            case "transform":
                return self.transforms.transformed(x, 2, 1)
            case "control":
                self.names += 1  # torch's operators take plain tensors
                y = f"r{self.names}"
                return f"(lambda {y}: {self.control.choice([y], y, 1)})(plainly({x}))"
            case "array":
                names = {"a": "a", "b": "a", "s": "1.5", "k": self.rng.choice((2, 0.5)), "t": "np.float32"}
                drawn = self.rng.choice(VALUES).format(**names)
                return f"of_array({x}, (lambda a: {drawn})(plainly({x}).detach().numpy()))"
            case "sizes":
                return self.rng.choice(SIZED).format(x=f"({x})")
        return self.transforms.plain(x)

    def text(self) -> str:
        lines, values = ["def f(x, w, ops):", "    zero = torch.tensor(0)"], ["x"]
        for count in range(self.rng.randint(2, 4)):
            if self.rng.random() < 0.25:
                plain = f"    p{count} = plainly({self.rng.choice(values)})"
                lines += [plain, self.control.statement(f"t{count}", [f"p{count}"])]
            else:
                lines.append(f"    t{count} = {self.value(self.rng.choice(values), 2)}")
            values.append(f"t{count}")
        return "\n".join([*lines, f"    return {', '.join(values[1:])}, x.sum()", ""])


def draw(number: int) -> str:
    """The text of the function of a program."""
    return Drawing(number).text()


def run(space: dict[str, Any], function: Callable[..., Any], ops: Operators, number: int, call: int) -> list[Any]:
    """All that is seen: results, their types, gradients, side effects, the next random number; or the error."""
    rng = random.Random(number + 3)
    trained, changing, rows = rng.random() < 0.5, rng.random() < 0.5, rng.randint(2, 4)
    cls = rng.choice((torch.Tensor, torch.Tensor, space["Plain"], space["Counting"]))
    generator = torch.Generator().manual_seed(number * 5 + call)
    size = rows + call if changing else rows
    x, w = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((size, 3), (3, 3)))
    leaves = [x, w, *space["LAYER"].parameters()]
    for tensor in leaves:
        tensor.requires_grad_(trained)
        tensor.grad = None
    space["SEEN"].clear()
    torch.manual_seed(number)
    try:
        results = tree_leaves(function(x.as_subclass(cls), w, ops))
        effects = [each for each in space["SEEN"] if type(each) is tuple or each[0] != "_" and each not in QUESTIONS]
        seen = [each.as_subclass(torch.Tensor) for each in results]
        loss = [(t * t.detach().cos()).sum() for t in seen if t.requires_grad]
        if loss:
            torch.stack(loss).sum().backward()
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        return ["ZeroTensor" if "ZeroTensor" in str(error) else type(error).__name__]
    gradients = [torch.zeros_like(t) if t.grad is None else t.grad for t in leaves]
    kinds = [(type(each).__name__, tuple(each.shape), str(each.dtype)) for each in results]
    return [*seen, *gradients, kinds, torch.rand(1), effects]


def check(number: int, **options: Any) -> str:
    """How the program of this number differs when it is compiled; empty if it does not."""
    torch.manual_seed(number)
    space: dict[str, Any] = {"torch": torch}
    text = draw(number)
    if "Doubling" in text and "checkpoint(" in text:
        return ""  # the backward pass computes again in eager, without the mode, which compiled code does not do
    exec(compile(PRELUDE + HELPERS + CLASSES + text, f"<program {number}>", "exec"), space)
    backend = ("eager", "aot_eager", "native", "native")[number % 4]
    settings = {"raise_compiler_errors": True, "smallest_recorded_graph": 0, **options} if backend == "native" else {}
    compiled = onegraph.compile(space["f"], backend=backend, options=settings)
    with recording(EVENTS, WATCHED) as events, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, ours = "", []
        try:
            for call in range(CALLS):
                theirs = run(space, space["f"], PYTHON, number, call)
                if len(theirs) == 1 and "checkpoint(" in text:
                    break  # it computes again in another state, which compiled code does not do
                if theirs == ["ZeroTensor"]:
                    break  # NumPy takes no zeros without memory, which compiled code does not have
                ours = run(space, compiled, TORCH, number, call)
                found = difference(ours, theirs)
                if found and any(isinstance(each.event, ev.GraphBroken | ev.GraphFailed) for each in events):
                    # Its own operators have run: they refuse some operands, look at others, and have other gradients.
                    torchs = run(space, space["f"], TORCH, number, call)
                    for other in (theirs, torchs):
                        if len(ours) == len(other) > 1:
                            other[-1] = ours[-1]
                    both_fail = {*map(str, ours), *map(str, torchs)} <= ERRORS
                    found = "" if both_fail else difference(ours, theirs) and difference(ours, torchs)
                if found:
                    found = f"call {call}{found}\n" + "\n".join(str(each.event) for each in events)
                    break
        except (Exception, InvalidAccess) as error:  # of onegraph: those of eager are results
            found = f": {type(error).__name__}: {error}"
    onegraph.reset()
    if not found and ours and not any(isinstance(each.event, ev.FrameStarted) for each in events):
        found = ": no frame was compiled\n" + "\n".join(str(each.event) for each in events)
    errors = [e.event.error for e in events if isinstance(e.event, ev.GraphFailed) and e.event.resolved]
    return found or next((f": {error}" for error in errors if UNEXPECTED not in error), "")


if __name__ == "__main__":
    sys.exit(command.run("tests.fuzz.composed", __doc__, check, draw))
