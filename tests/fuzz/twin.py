"""One program in twin worlds: run eagerly and compiled, and compared in all that can be seen of it."""

from __future__ import annotations

import contextlib
import io
import itertools
import random
import re
import signal
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo  # programs use its markers, and importing it takes longer than a program may
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS
from tests.capture.bisimulation import Bisimulation
from tests.capture.twins import Outcome, differentiate, process_state, restore

NAME = "program_under_test"
#: Seconds of the processor that a program may take eagerly, and compiled.
EAGER_LIMIT, COMPILED_LIMIT = 1.0, 30.0
#: How often a program runs with other roundings to see what they do.
ROUNDINGS = 8
#: How large the differences are, in those that operators are allowed.
SCALES = tuple(10.0**power for power in range(5))
#: How often a program that does not end may catch the exception that is to end it.
PATIENCE = 20
HANGS = "it does not end"


@dataclass(frozen=True, slots=True)
class Way:
    """How a program is compiled."""

    backend: str = "eager"
    dynamic: bool | None = None
    check_unchanged: bool = False


@dataclass(slots=True)
class Measured:
    """What was compiled of a program. `ran` counts the operators of the eager world (-1: not counted)."""

    graphs: int = 0
    skipped: int = 0
    breaks: int = 0
    compiled: int = 0
    ran: int = -1
    raised: int = 0
    calls: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """How the compiled world differs; `kind` is the same for differences that probably have one cause."""

    text: str
    kind: str


class Unfit(Exception):
    """The program is none: it does not end, or it is not Python."""


class Timeout(BaseException):
    """The program ran too long."""


class World:
    """One copy of a program, and what its calls did."""

    def __init__(self, code: types.CodeType, wrap: Callable[[Any], Any]) -> None:
        self.module = types.ModuleType(NAME)
        self.outcomes: list[Outcome] = []
        self.enter()
        exec(code, vars(self.module))
        self.function = wrap(vars(self.module)["f"])

    def enter(self) -> None:
        sys.modules[NAME] = self.module
        torch.manual_seed(7)
        random.seed(7)

    def calls(self) -> Iterator[Callable[[], Any]]:
        for number in itertools.count():
            if (make := vars(self.module).get(f"call_{number}")) is None:
                return
            yield make

    def run(self) -> None:
        modes = process_state()
        for make in self.calls():
            self.enter()
            outcome = Outcome(make())
            self.outcomes.append(outcome)
            printed = io.StringIO()
            with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
                warnings.simplefilter("ignore")
                try:
                    outcome.result = self.function(*outcome.args)
                    drain(outcome)
                except Exception as error:  # whatever the program raises is what is compared
                    outcome.error = error
            outcome.printed = printed.getvalue()
            outcome.state = (process_state(), bytes(torch.get_rng_state().numpy()))
            restore(modes)
            if outcome.error is None:
                with contextlib.suppress(RuntimeError):
                    differentiate(outcome.result)

    def seen(self) -> Any:
        """All that can be seen of the world."""
        names = sorted(name for name in vars(self.module) if not name.startswith(("__", "call_")))
        calls = [(o.args, o.result, o.error, o.printed, o.state) for o in self.outcomes]
        return calls, {name: vars(self.module)[name] for name in names}


def drain(outcome: Outcome) -> None:
    """Put what is left of the iterators of a result in their place: nothing else can be seen of them."""
    if isinstance(outcome.result, tuple):
        outcome.result = tuple(
            (type(item).__name__, list(itertools.islice(item, 9))) if hasattr(type(item), "__next__") else item
            for item in outcome.result
        )


@contextlib.contextmanager
def limited(seconds: float, give_up: Callable[[], None] | None = None) -> Iterator[None]:
    """Raise `Timeout` in the block when its time is over, and behind it: finalizers and programs swallow exceptions.

    The argument of the exception is the stack of the first time, which shows what does not end. A program that catches
    it, and calls itself twice at each level, may not end at all: behind `PATIENCE` times `give_up` is called.
    """
    stacks: list[str] = []

    def stop(number: int, frame: Any) -> None:
        stacks.append("")  # it counts, where so deep in a recursion nothing more can be called
        if len(stacks) > PATIENCE and give_up is not None:
            give_up()
        if len(stacks) == 1:
            stacks[0] = "".join(traceback.format_stack(frame)[-30:])
        raise Timeout(stacks[0])

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.2)  # again and again: the program may catch it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    if stacks:
        raise Timeout(stacks[0])


class Counting(TorchFunctionMode):
    """Counts the operators that run."""

    count = 0

    def __torch_function__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += getattr(func, "__name__", "") not in UNCOUNTED
        return func(*args, **(kwargs or {}))


UNCOUNTED = frozenset(
    "__get__ size dim numel __len__ item tolist __bool__ __repr__ __format__ backward __set__".split()
)


def compare(
    text: str,
    way: Way,
    measured: Measured | None = None,
    limit: float = COMPILED_LIMIT,
    give_up: Callable[[], None] | None = None,
) -> Difference | None:
    """Run the program in both worlds. `give_up` is called where it cannot be ended eagerly.

    Raises:
        Unfit: when the program does not end in time, or cannot be loaded.
    """
    measured = measured or Measured()
    onegraph.reset()
    try:
        code = compile(text, "<program>", "exec")
        with limited(EAGER_LIMIT, give_up):
            eager = World(code, lambda function: function)
            eager.run()
    except (Timeout, Exception) as error:
        raise Unfit(str(error)) from error
    if any(isinstance(outcome.error, RecursionError) for outcome in eager.outcomes):
        raise Unfit("how deep a recursion goes depends on the frames around it")
    measured.calls = len(eager.outcomes)
    measured.raised = sum(outcome.error is not None for outcome in eager.outcomes)
    failures: list[str] = []
    stop = EVENTS.subscribe(lambda event: note(measured, event, failures))
    try:
        with limited(limit):
            options = {"check_unchanged": way.check_unchanged, "cache": False, "raise_compiler_errors": True}
            compiled = World(
                compile(text, "<program>", "exec"),
                lambda f: onegraph.compile(f, backend=way.backend, dynamic=way.dynamic, options=options),
            )
            compiled.run()
    except Timeout as error:
        return Difference(f"{HANGS}:\n{error}", HANGS)
    finally:
        stop()
    found = judged(eager, compiled)
    if found is not None and differs_from_itself(eager, code):
        raise Unfit("what it does depends on how deep a recursion goes")
    if found is not None and way.backend != "eager" and depends_on_rounding(eager, compiled, code):
        raise Unfit("what it does depends on how operators round")
    if found is None and failures and not operator_fails(code):
        return Difference(
            f"a graph failed where no operator does: {failures[0]}", f"graph failed: {worded(failures[0])}"
        )
    return found


def judged(eager: World, compiled: World, scale: float = 1) -> Difference | None:
    for number, (left, right) in enumerate(zip(eager.outcomes, compiled.outcomes, strict=True)):
        error = right.error
        if error is not None and type(error).__name__ != type(left.error).__name__:
            where = [step for step in traceback.extract_tb(error.__traceback__) if "/onegraph/" in step.filename][-1:]
            place = f"{where[0].filename.rpartition('/')[2]}:{where[0].name}" if where else ""
            text = "".join(traceback.format_exception(error))
            first = (str(error).splitlines() or [""])[0]
            return Difference(
                f"call {number}: {left.error!r} became\n{text}", f"{type(error).__name__} {place} {worded(first)}"
            )
    text = Bisimulation(scale).difference(eager.seen(), compiled.seen())
    return None if text is None else Difference(text, worded(text))


def worded(text: str) -> str:
    """A difference without its numbers."""
    return re.sub(r"0x[0-9a-f]+|[-+]?\d[\d.e+-]*|'[^']*'|\[[^\]]*\]", "_", text)[:70]


def differs_from_itself(eager: World, code: types.CodeType) -> bool:
    """Whether the program does something else on a stack that is deeper already."""

    def run(depth: int) -> World:
        if depth:
            return run(depth - 1)
        again = World(code, lambda function: function)
        again.run()
        return again

    return judged(eager, run(50)) is not None


def depends_on_rounding(eager: World, compiled: World, code: types.CodeType) -> bool:
    """Whether operators that round their results the other way, by chance, make such differences, as large as these."""
    kinds = [(scale, found.kind) for scale in SCALES if (found := judged(eager, compiled, scale)) is not None]
    for seed in range(ROUNDINGS):
        rounded = World(code, Rounding(seed))
        rounded.run()
        seen = [(scale, judged(eager, rounded, scale)) for scale, _ in kinds]
        if kinds == [(scale, found.kind) for scale, found in seen if found is not None]:
            return True
    return False


class Rounding(TorchDispatchMode):
    """What operators compute is up or down by one unit in the last place."""

    EXACT = (torch.ops.aten.clone, torch.ops.aten.copy_, torch.ops.aten._to_copy)

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def rounded(*args: Any) -> Any:
            with self:
                return function(*args)

        return rounded

    def __torch_dispatch__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        if func.overloadpacket in self.EXACT or not any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(args)):
            return results
        each = results if isinstance(results, tuple) else (results,)
        for value, returned in zip(each, func._schema.returns, strict=False):
            is_computed = returned.alias_info is None or returned.alias_info.is_write
            if is_computed and isinstance(value, torch.Tensor) and value.is_floating_point():
                signs = torch.randint(0, 2, value.shape, generator=self.generator, dtype=value.dtype) * 2 - 1
                value.data.mul_(1 + signs * torch.finfo(value.dtype).eps)
        return results


class Failing(TorchFunctionMode):
    """Counts the operators that raise."""

    count = 0

    def __torch_function__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception:
            self.count += 1
            raise


def operator_fails(code: types.CodeType) -> bool:
    """Whether an operator raises where the program runs eagerly."""
    with Failing() as failing:
        World(code, lambda function: function).run()
    return failing.count > 0


def note(measured: Measured, event: Any, failures: list[str]) -> None:
    match event:
        case ev.GraphFailed(error=error):
            measured.failed += 1
            failures.append(error)
        case ev.GraphCaptured():
            measured.graphs += 1
        case ev.GraphBroken():
            measured.breaks += 1
        case ev.FrameSkipped():
            measured.skipped += 1


def count_operators(text: str, measured: Measured) -> None:
    """How many operators the program runs eagerly, and how many of them graphs run when it is compiled."""

    def counted(module: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        operators = sum(node.op.startswith("call_") for node in module.graph.nodes)

        def run(*args: Any) -> Any:
            measured.compiled += operators
            return module.forward(*args)

        return run

    code = compile(text, "<program>", "exec")
    with Counting() as counting:
        World(code, lambda function: function).run()
    measured.ran = counting.count
    World(code, lambda f: onegraph.compile(f, backend=counted)).run()
    measured.compiled = min(measured.compiled, measured.ran)


def way_of(number: int, about: str = "anything") -> Way:
    """How the program of this number is compiled: most by the eager backend, but for what backends do to gradients."""
    often = 3 if about == "gradients" else 10
    backend = {0: "aot_eager", 1: "native"}.get(number % often, "eager")
    return Way(backend, {3: True, 7: False}.get(number % 11), number % 4 == 2)
