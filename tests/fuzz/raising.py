"""Programs about exceptions: raised, chained, kept, swallowed and looked at, with breaks anywhere.

Each exception that a program meets is described or kept, and the kept ones are described behind the call: type,
arguments, notes, cause, context, and the lines of the traceback. When a generator dies is not looked at: what runs code
then is closed by the program.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from random import Random

HEADER = """\
import contextlib
import marshal
import sys
import traceback
import typing

import torch

LOG = []
KEPT = []
COUNT = 0


class Oops(Exception):
    def __init__(self, code):
        super().__init__(code, "oops")
        self.code = code


class Worse(Oops, ValueError):
    def __str__(self):
        return f"worse: {self.code}"


class Guard:
    def __init__(self, name, swallow=False):
        self.name, self.swallow = name, swallow

    def __enter__(self):
        LOG.append(("enter", self.name))
        return self

    def __exit__(self, kind, value, trace):
        LOG.append(("exit", self.name, kind and kind.__name__, value is sys.exception()))
        return self.swallow


class Breaking(Guard):
    def __exit__(self, kind, value, trace):
        graph_break()
        LOG.append(("exit", self.name, trace and trace.tb_lineno))
        return self.swallow


class Raising(Guard):
    def __exit__(self, kind, value, trace):
        raise Worse(self.name)


class Refusing(Guard):
    def __enter__(self):
        raise Oops(self.name)


@contextlib.contextmanager
def traced(name):
    LOG.append(("begin", name))
    try:
        yield name
    finally:
        LOG.append(("end", name))


@contextlib.contextmanager
def swallowing(broken=False):
    try:
        yield 1
    except Oops as error:
        if broken:
            graph_break()
        LOG.append(error.code)
    else:
        LOG.append("fine")


@contextlib.contextmanager
def translating():
    try:
        yield
    except Oops as error:
        raise Worse(7) from error


def opaque(n):
    return marshal.loads(marshal.dumps(n))


def failing(n):
    raise Oops(opaque(n))


def identity(t):
    t.sum().item()
    return t


def graph_break():
    marshal.dumps(0)


def talking(t):
    told = t
    while True:
        try:
            got = yield told
            told = told + 1 if got is None else got * 2
        except Worse as error:
            LOG.append(error.code)
            told = t


def closed(t):
    try:
        yield from talking(t)
    finally:
        LOG.append("silent")


def lines(error):
    entry, found = error.__traceback__, []
    while entry is not None:
        code = entry.tb_frame.f_code
        if code.co_filename == "<program>":
            place = list(code.co_positions())[entry.tb_lasti // 2]
            found.append((code.co_name, entry.tb_lineno, place))
        entry = entry.tb_next
    return found


def seen(error, depth=4):
    if error is None or not depth:
        return None
    parts = [seen(part, depth - 1) for part in getattr(error, "exceptions", ())]
    told = type(error).__name__, str(error), getattr(error, "__notes__", None), lines(error), parts
    return told, seen(error.__cause__, depth - 1), error.__suppress_context__, seen(error.__context__, depth - 1)


@torch.compiler.disable
def __look__(error):
    LOG.append(seen(error))
"""

FOOTER = """
def call_0():
    return torch.rand(3), 1


def call_1():
    LOG.append([seen(error) for error in KEPT])
    return torch.rand(3), 2


def call_2():
    LOG.append([seen(error) for error in KEPT])
    LOG.append("dropping")
    KEPT.clear()
    LOG.append("dropped")
    return torch.rand(4), 1


def call_3():
    LOG.append([seen(error) for error in KEPT])
    KEPT.clear()
    return torch.rand(4), 0
"""

BREAKS = (
    "graph_break()", "torch._dynamo.graph_break()", "print('told', n)", "x = identity(x)", "n = opaque(n)",
    "print(sys.exception())", "global_count()", "LOG.append(opaque(n))",
)  # fmt: skip
RAISES = (
    "raise Oops({k})", "raise Worse({k})", "raise Worse({k}) from Oops({k})", "raise Oops({k}) from None",
    "failing({k})", "1 / 0", "{{}}[{k}]", "[].pop()", "int('abc')", "assert n < 0, 'negative'", "x.view(-1, 77)",
    "raise KeyError", "raise 5", "raise ExceptionGroup('several', [Oops({k}), ValueError('v')])", "undefined_name",
    "raise KEPT[-1]", "raise Worse({k}) from KEPT[-1]", "None.missing", "n.append(1)", "x + 'a'", "x[9]",
    "raise OSError(2, 'no file')", "raise StopIteration({k})", "next(iter([]))", "raise RuntimeError(n)",
    "del missing", "(a, b) = (1, 2, 3)", "torch.cat([x, x.unsqueeze(0)])", "raise LookupError({k}) from opaque(None)",
)  # fmt: skip
LOOKS = (
    "KEPT.append({e})", "KEPT.append({e})", "__look__({e})", "LOG.append(seen({e}))", "LOG.append(str({e}))",
    "LOG.append(repr({e}.args))", "LOG.append({e}.__context__ is None)", "LOG.append(lines({e}))",
    "{e}.add_note('a note')", "LOG.append({e}.__traceback__.tb_lineno)", "KEPT.append({e}.__context__ or {e})",
    "LOG.append(type(sys.exc_info()[1]).__name__)", "LOG.append(sys.exception() is {e})", "{e}.__cause__ = Oops(0)",
    "{e}.__context__ = None", "{e}.__traceback__ = None", "{e}.__suppress_context__ = True",
    "LOG.append(traceback.format_exc())", "LOG.append(''.join(traceback.format_exception({e})))",
    "LOG.append(traceback.extract_tb({e}.__traceback__)[-1].lineno)", "KEPT.append({e}.with_traceback(None))",
    "LOG.append(isinstance({e}, ValueError))", "kept = {e}", "x = x + len({e}.args)",
)  # fmt: skip
AGAIN = ("raise", "raise", "raise {e}", "raise Worse(3) from {e}", "raise Oops(4)", "raise {e} from None",
         "raise {e}.with_traceback(None)", "raise {e}.__context__ or {e}", "raise type({e})(5)",
         "return x, n")  # fmt: skip
KINDS = ("Oops", "Worse", "ValueError", "ZeroDivisionError", "(Oops, KeyError)", "Exception", "Exception",
         "LookupError", "(RuntimeError, TypeError)", "ArithmeticError", "BaseException")  # fmt: skip
CONTEXTS = (
    "Guard({k})", "Guard({k}, True)", "Breaking({k})", "Breaking({k}, n > 1)", "Raising({k})", "Refusing({k})",
    "traced({k})", "swallowing()", "swallowing(True)", "translating()", "contextlib.suppress(Oops, KeyError)",
    "contextlib.nullcontext({k})", "torch.no_grad()", "Guard({k}, n == 1)", "contextlib.closing(closed(x))",
    "contextlib.ExitStack()",
)  # fmt: skip
PUSHES = ("callback(LOG.append, n)", "callback(failing, n)", "push(Guard(1, True))")
DRIVES = (
    "{run} = {name}(x, n); x = next({run})", "x = sum({name}(x, n), x)", "x = next({name}(x, n), x)",
    "{run} = {name}(x, n); next({run}); {run}.throw(Oops({k}))", "{run} = {name}(x, n); next({run}); {run}.close()",
    "for x in {name}(x, n): pass", "{run} = list({name}(x, n))",
)  # fmt: skip
PLAIN = (
    "x = x + 1", "x = x * 2", "n += 1", "LOG.append(n)", "LOG.append(x.shape[0])", "y = x.sin()", "x = x.relu()",
    "talk = talking(x)", "talk = talking(x); next(talk)", "talk = None", "kept = None", "LOG.append('here')",
    "talk = closed(x); next(talk); talk.close()", "other = talking(x); x = next(other)",
    "x = next(talking(x))", "KEPT.clear()", "LOG.append(sys.exc_info()[0])", "LOG.append(len(KEPT))",
)  # fmt: skip


class Drawer:
    """Draws the text of one program."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._count = 0
        self.lines: list[str] = []
        self.indent = 0
        self.functions: list[str] = []
        self.generators: list[str] = []

    def below(self, count: int) -> int:
        return self._random.randrange(count)

    def chance(self, percent: int) -> bool:
        return self.below(100) < percent

    def one(self, items: tuple[str, ...] | list[str]) -> str:
        return items[self.below(len(items))]

    def fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    @contextlib.contextmanager
    def body(self) -> Iterator[None]:
        self.indent += 1
        yield
        self.indent -= 1

    # ---- statements --------------------------------------------------------------------------------------------------

    def block(self, depth: int, loop: bool, error: str, generator: bool, most: int = 3) -> None:
        with self.body():
            for _ in range(1 + self.below(most)):
                self.statement(depth + 1, loop, error, generator)

    def statement(self, depth: int, loop: bool, error: str, generator: bool) -> None:
        """One statement; `error` is the variable of the exception that is being handled, or nothing."""
        chosen = self.below(100)
        k = self.below(9)
        if chosen < 18:
            self.line(self.one(BREAKS))
        elif chosen < 40 or depth > 4:
            if error and self.chance(60):
                self.line(self.one(LOOKS).format(e=error))
            else:
                self.line(self.one(PLAIN).format(k=k))
        elif chosen < 53:
            self.raising(error, k)
        elif chosen < 74:
            self.trying(depth, loop, error, generator)
        elif chosen < 82:
            self.managing(depth, loop, error, generator)
        elif chosen < 87:
            head = self.one(("for i in range(2):", "for i in (1, 2):", "while n < 4:"))
            self.line(head)
            self.line("    n += 1" if head.startswith("while") else "    x = x + i")
            self.block(depth, True, error, generator)
        elif chosen < 90 and loop:
            self.line(self.one(("break", "continue", f"if n > {k % 3}: break")))
        elif chosen < 94 and (self.functions or self.generators):
            self.calling(k)
        elif chosen < 97 and generator:
            self.line(self.one(("yield x", "n = (yield x) or n", "yield from talking(x)")))
        elif depth < 4:
            self.nested(depth)
        else:
            self.line("return x, n")

    def raising(self, error: str, k: int) -> None:
        text = self.one(AGAIN) if error and self.chance(50) else self.one(RAISES)
        text = text.format(k=k, e=error)
        if self.chance(50):
            self.line(f"if n > {self.below(3)}:")
            text = "    " + text
        self.line(text)

    def trying(self, depth: int, loop: bool, error: str, generator: bool) -> None:
        self.line("try:")
        generator = False  # one that is left in here would see its end
        self.block(depth, loop, error, generator)
        clauses = self.below(3) if self.chance(85) else 0
        grouped = clauses > 0 and self.chance(12)
        for _ in range(clauses):
            name = self.fresh("e")
            kinds = self.one(KINDS)
            if grouped and kinds == "BaseException":
                kinds = "OSError"
            self.line(f"except{'*' if grouped else ''} {kinds} as {name}:")
            with self.body():
                for _ in range(1 + self.below(3)):
                    if grouped:
                        self.line(self.one((*LOOKS, *BREAKS)).format(e=name))
                    else:
                        self.statement(depth + 1, loop, name, generator)
        if clauses and self.chance(20):
            self.line("else:")
            self.block(depth, loop, error, generator, 2)
        if not clauses or self.chance(30):
            self.line("finally:")
            self.block(depth, loop, error, generator, 2)

    def managing(self, depth: int, loop: bool, error: str, generator: bool) -> None:
        context = self.one(CONTEXTS).format(k=self.below(9))
        name = self.fresh("c")
        self.line(f"with {context} as {name}:")
        if "ExitStack" in context:
            with self.body():
                self.line(f"{name}.enter_context({self.one(CONTEXTS).format(k=self.below(9))})")
                self.line(f"{name}.{self.one(PUSHES)}")
        self.block(depth, loop, error, False)

    def nested(self, depth: int) -> None:
        name = self.fresh("h")
        generator = self.chance(30)
        self.line(f"def {name}(x, n):")
        functions, generators = self.functions[:], self.generators[:]
        self.block(depth, False, "", generator)
        with self.body():
            self.line("yield x" if generator else "return x, n")
        self.functions, self.generators = functions, generators
        (self.generators if generator else self.functions).append(name)
        self.calling(1)

    def calling(self, k: int) -> None:
        if self.generators and (not self.functions or self.chance(50)):
            name = self.one(self.generators)
            self.line(self.one(DRIVES).format(name=name, run=self.fresh("g"), k=k))
        else:
            self.line(f"x, n = {self.one(self.functions)}(x, n)")


def draw_raising(random: Random) -> str:
    """The text of a program."""
    drawer = Drawer(random)
    drawer.line("def global_count():")
    drawer.line("    global COUNT")
    drawer.line("    COUNT += 1")
    drawer.line("    if COUNT % 3 == 2:")
    drawer.line("        raise Oops(opaque(COUNT))")
    drawer.line("")
    for _ in range(drawer.below(3)):
        name, generator = drawer.fresh("h"), drawer.chance(30)
        drawer.line(f"def {name}(x, n):")
        drawer.block(1, False, "", generator, 4)
        drawer.line("    yield x" if generator else "    return x, n")
        drawer.line("")
        (drawer.generators if generator else drawer.functions).append(name)
    drawer.line("def f(x, n):")
    drawer.block(0, False, "", False, 5)
    drawer.line("    return x, n")
    return HEADER + "\n".join(["", *drawer.lines, ""]) + FOOTER
