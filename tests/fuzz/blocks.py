"""Compound statements: loops, branches, exceptions, contexts, nested functions."""

from __future__ import annotations

from dataclasses import replace

from tests.fuzz.builder import GRAMMAR, Builder, template

block = GRAMMAR.block

RAISES = (
    "ValueError(<C>)", "Oops(<I>)", "Worse(<C>, <I>)", "KeyError(<C>)", "IndexError", "StopIteration(<I>)",
    "RuntimeError(<C>)",
)  # fmt: skip
CATCHES = (
    "Oops", "Exception", "(ValueError, KeyError)", "ValueError", "LookupError", "(Oops, ArithmeticError)", "Worse",
    "BaseException", "RuntimeError", "AttributeError",
)  # fmt: skip
FAILING = [entry for feature, entry in GRAMMAR.statements if feature == "failing"]
CONTEXTS = (
    "torch.no_grad()", "torch.enable_grad()", "Guard(<C>)", "Guard('swallow', True)", "traced(<C>)",
    "contextlib.suppress(Oops, KeyError)",
    "contextlib.nullcontext()", "torch.set_grad_enabled(<B>)", "swallowing()",
)  # fmt: skip


def text(b: Builder, source: str) -> str:
    """A template, filled."""
    return b.fill(template(source))


# ---- branches --------------------------------------------------------------------------------------------------------


@block("core", 5)
def branch(b: Builder) -> bool:
    inner = replace(b.setting, depth=b.setting.depth + 1)
    b.line(f"if {b.expr('B')}:")
    b.block(3, inner)
    if b.chance(25):
        b.line(f"elif {b.expr('B')}:")
        b.block(2, inner)
    if b.chance(50):
        b.line("else:")
        b.block(2, inner)
    return True


@block("match")
def matching(b: Builder) -> bool:
    inner = replace(b.setting, depth=b.setting.depth + 1)
    subject, cases = b.one(MATCHES)
    b.line(f"match {text(b, subject)}:")
    b.indent += 1
    for index in range(1 + b.below(len(cases))):
        pattern, kind, name = cases[index]
        guard = f" if {b.expr('B')}" if b.chance(20) else ""
        b.line(f"case {pattern}{guard}:")
        with b.inner():
            if name:
                b.define(name, kind)
            b.block(2, inner)
    b.line("case _:")
    b.block(2, inner)
    b.indent -= 1
    return True


MATCHES = (
    ("<I>", (("0", "", ""), ("1 | 2", "", ""), ("int(mi)", "I", "mi"))),
    ("<N>", (("[]", "", ""), ("[mi]", "I", "mi"), ("[mi, *mn]", "N", "mn"))),
    ("<D>", (("{'u': mt}", "T", "mt"), ("{'a': mi, **rest}", "I", "mi"), ("{}", "", ""))),
    ("<P>", (("(mt, 1)", "T", "mt"), ("(_, mi)", "I", "mi"))),
    ("(<I>, <C>)", (("(0, mc)", "C", "mc"), ("(mi, 's' | '')", "I", "mi"), ("(mi, str())", "I", "mi"))),
    ("<L>", (("[mt]", "T", "mt"), ("[mt, _]", "T", "mt"), ("[_, *ml]", "L", "ml"))),
)


# ---- loops -----------------------------------------------------------------------------------------------------------


ITERATIONS = (
    ("for {i} in range({})", ("<I> % 4",), "I"),
    ("for {i} in range({})", ("3",), "I"),
    ("for {t} in {}[:4]", ("<L>",), "T"),
    ("for {t} in {}", ("<G>",), "T"),
    ("for {i} in {}[:4]", ("<N>",), "I"),
    ("for {i}, {t} in enumerate({})", ("<L>",), "IT"),
    ("for {t}, {i} in zip({}, {})", ("<L>", "<N>"), "TI"),
    ("for {c}, _ in list({}.items())", ("<D>",), "C"),
    ("for {c} in {}", ("<D>",), "C"),
    ("for {i} in sorted({})", ("<Q>",), "I"),
    ("for {s} in {}", ("<T>",), "S"),
    ("for {t} in {}", ("(<T>, <T>)",), "T"),
    ("for {c} in {}", ("<C>",), "C"),
)


@block("core", 4)
def for_loop(b: Builder) -> bool:
    if b.setting.depth > 2:
        return False
    head, given, kinds = b.one(ITERATIONS)
    inner = replace(b.setting, depth=b.setting.depth + 1, loop=True)
    parts = [text(b, part) for part in given]
    names = {kind.lower(): b.fresh(kind) for kind in kinds}
    b.line(head.format(*parts, **names) + ":")
    with b.inner():
        for kind in kinds:
            b.define(names[kind.lower()], kind)
        b.block(4, inner)
    orelse(b)
    return True


@block("core", 2)
def walk_list(b: Builder) -> bool:
    """Over the list itself, which the body may change."""
    if b.setting.depth > 2 or not b.known("L"):
        return False
    values, name = b.one(b.known("L")), b.fresh("T")
    b.line(f"for {name} in {values}:")
    with b.body():
        b.line(f"if len({values}) > 5:")
        with b.body():
            b.line("break")
        with b.inner(), b.at(replace(b.setting, depth=b.setting.depth + 1, loop=True)):
            b.define(name, "T")
            b.statements(3)
    orelse(b)
    return True


@block("core", 2)
def while_loop(b: Builder) -> bool:
    if b.setting.depth > 2:
        return False
    counter = b.fresh("W")
    b.line(f"{counter} = 0")
    condition = f" and {b.expr('B')}" if b.chance(40) else ""
    b.line(f"while {counter} < {1 + b.below(3)}{condition}:")
    with b.body(), b.inner(), b.at(replace(b.setting, depth=b.setting.depth + 1, loop=True)):
        b.line(f"{counter} += 1")
        b.statements(4)
    orelse(b)
    return True


def orelse(b: Builder) -> None:
    if b.chance(20):
        b.line("else:")
        b.block(2, replace(b.setting, depth=b.setting.depth + 1))


@block("core", 3)
def leave_loop(b: Builder) -> bool:
    if not b.setting.loop:
        return False
    b.line(f"if {b.expr('B')}:")
    with b.body():
        if b.chance(30):
            b.statements(1)
        b.line(b.one(("break", "continue")))
    return True


# ---- exceptions ------------------------------------------------------------------------------------------------------


@block("exceptions", 6)
def attempt(b: Builder) -> bool:
    inner = replace(b.setting, depth=b.setting.depth + 1, generator=False)  # one left in here would see its end
    b.line("try:")
    with b.body(), b.inner(), b.at(inner):
        b.statements(3)
        match b.below(4):
            case 0 | 1:
                raise_(b, conditional=b.chance(50))
            case 2:
                fitting = [entry for entry in FAILING if entry.fits(b)]
                b.line(b.fill(b.one(fitting)))
    caught = b.chance(85)
    for _ in range((1 + b.below(2)) if caught else 0):
        name = b.fresh("E") if b.chance(60) else ""
        b.line(f"except {b.one(CATCHES)}{' as ' + name if name else ''}:")
        with b.body(), b.inner(), b.at(replace(inner, handler=name or "_")):
            if name and b.chance(60):
                b.line(f"LOG.append({b.one(SEEN).format(name)})")
            b.statements(2)
    if caught and b.chance(25):
        b.line("else:")
        b.block(2, inner)
    if not caught or b.chance(30):
        b.line("finally:")
        with b.body(), b.inner(), b.at(inner):
            b.statements(2)
            if b.chance(5):
                b.line(f"return {b.expr(b.setting.returns)}" if not b.setting.generator else "pass")
    return True


SEEN = (
    "type({0}).__name__", "str({0})", "{0}.args", "repr({0})", "{0}.__context__ is None", "repr({0}.__cause__)", "{0}",
    "type({0}.__context__).__name__", "{0}.__suppress_context__",
)  # fmt: skip


def raise_(b: Builder, conditional: bool) -> None:
    if conditional:
        b.line(f"if {b.expr('B')}:")
        b.indent += 1
    handler = b.setting.handler
    raised = text(b, b.one(RAISES))
    match b.below(5) if handler else 0:
        case 1:
            b.line("raise")
        case 2:
            b.line(f"raise {raised} from {handler if handler != '_' else None}")
        case 3:
            b.line(f"raise {raised} from None")
        case 4 if handler != "_":
            b.line(f"raise {handler}")
        case _:
            b.line(f"raise {raised}")
    b.indent -= conditional


@block("exceptions", 1)
def raise_in_handler(b: Builder) -> bool:
    if not b.setting.handler:
        return False
    raise_(b, conditional=b.chance(60))
    return True


@block("exceptions", 1)
def raise_anywhere(b: Builder) -> bool:
    if not b.chance(15):
        return False
    raise_(b, conditional=True)
    return True


# ---- contexts --------------------------------------------------------------------------------------------------------


@block("contexts", 4)
def with_block(b: Builder) -> bool:
    items = []
    for _ in range(1 + b.chance(25)):
        context = text(b, b.one(CONTEXTS))
        bound = context.startswith(("Guard", "traced")) and b.chance(50)
        items.append(f"{context} as {b.fresh('M')}" if bound else context)
    b.line(f"with {', '.join(items)}:")
    with b.body(), b.inner(), b.at(replace(b.setting, depth=b.setting.depth + 1, generator=False)):
        b.statements(3)
        if "exceptions" in b.features and b.chance(20):
            raise_(b, conditional=True)
    return True


@block("contexts")
def exit_stack(b: Builder) -> bool:
    name = b.fresh("M")
    b.line(f"with contextlib.ExitStack() as {name}:")
    with b.body(), b.inner(), b.at(replace(b.setting, depth=b.setting.depth + 1, generator=False)):
        b.line(f"{name}.enter_context({text(b, b.one(CONTEXTS))})")
        b.line(f"{name}.callback(LOG.append, {b.expr('I')})")
        b.statements(2)
    return True


def declare_globals(b: Builder) -> None:
    if "globals" in b.features:
        b.line("global COUNT, SCALE")


# ---- functions -------------------------------------------------------------------------------------------------------


@block("closures", 3)
def nested_function(b: Builder) -> bool:
    if b.setting.depth > 2:
        return False
    name = b.fresh("K")
    parameter = b.fresh("T")
    shared = [n for kind in "TI" for n in b.known(kind, "@") if n[0].islower()]
    b.line(f"def {name}({parameter}{b.one(('', ', m=2', ', *rest', ', **options'))}):")
    with b.body():
        outer, b.assignable = b.assignable, set()
        if shared and b.chance(60):
            chosen = b.one(shared)
            b.line(f"nonlocal {chosen}")
            b.assignable.add(chosen)
        declare_globals(b)
        with b.inner(), b.at(replace(b.setting, loop=False, generator=False, handler="", returns="T", depth=2)):
            b.define(parameter, "T")
            b.statements(3)
            b.line(f"return {b.expr('T')}")
        b.assignable = outer
    b.define(name, "K")
    return True


@block("closures")
def nested_generator(b: Builder) -> bool:
    if b.setting.depth > 2:
        return False
    name = b.fresh("H")
    b.line(f"def {name}():")
    with b.body():
        declare_globals(b)
        outer, b.assignable = b.assignable, set()
        with b.inner(), b.at(replace(b.setting, loop=False, generator=True, handler="", depth=2)):
            b.statements(3)
            b.line(f"yield {b.expr('T')}")
        b.assignable = outer
    b.line(f"{b.define(b.fresh('G'), 'G')} = {name}()")
    return True


@block("core", 1)
def leave_function(b: Builder) -> bool:
    if b.setting.depth == 0 or not b.chance(50):
        return False
    b.line(f"if {b.expr('B')}:")
    with b.body():
        b.line(f"return {b.expr(b.setting.returns)}")
    return True


# ---- generators ------------------------------------------------------------------------------------------------------


@block("core", 4)
def yielding(b: Builder) -> bool:
    if not b.setting.generator:
        return False
    match b.below(6):
        case 0 | 1 | 2:
            b.line(f"yield {b.expr('T')}")
        case 3:
            got = b.fresh("Y")
            b.line(f"{got} = yield {b.expr('T')}")
            b.line(f"if {got} is not None:")
            with b.body():
                b.line(b.one(("LOG.append('got')", f"yield {got}", "return x")))
        case 4:
            b.line(f"yield from {b.expr('G')}")
        case _:
            b.line(f"{b.define(b.fresh('Y'), 'Y')} = yield from {b.expr('G')}")
    return True


@block("iterators", 3)
def drive_generator(b: Builder) -> bool:
    if not b.known("G"):
        return False
    name, indent = b.one(b.known("G")), b.indent
    step = b.one(DRIVES)
    if step.startswith("try"):
        b.line("try:")
        b.indent += 1
        b.line(text(b, step[4:]).replace("GEN", name))
        b.indent = indent
        b.line("except (StopIteration, AttributeError, Oops, RuntimeError) as stopped:")
        b.indent += 1
        b.line(
            b.one(("LOG.append(type(stopped).__name__)", "LOG.append(getattr(stopped, 'value', 0) is None)", "pass"))
        )
    else:
        b.line(text(b, step).replace("GEN", name))
    b.indent = indent
    return True


@block("hatches", 2)
def region(b: Builder) -> bool:
    """What is said of graph breaks changes nothing of what the program does, as long as it allows them."""
    b.line("with torch._dynamo.error_on_graph_break(False):")
    b.block(3, replace(b.setting, depth=b.setting.depth + 1, generator=False))
    return True


@block("talking", 5)
def talk(b: Builder) -> bool:
    """A generator that is talked to across statements."""
    name = b.fresh("TALK")
    if b.chance(30):
        b.line(f"with contextlib.closing(closed({b.expr('T')})) as {name}:")
        with b.body(), b.inner(), b.at(replace(b.setting, depth=b.setting.depth + 1, generator=False)):
            talk_to(b, name)
        return True
    b.line(f"{name} = talking({b.expr('T')})")
    talk_to(b, name)
    if b.chance(50):
        b.line(f"{name}.close()")
    return True


def talk_to(b: Builder, name: str) -> None:
    for _ in range(1 + b.below(4)):
        step = b.one(TALKS)
        if step is None:
            b.statement()
        else:
            target = b.fresh("T")
            b.line(f"{target} = {text(b, step).replace('GEN', name)}")
            b.define(target, "T")


TALKS = ("next(GEN)", "GEN.send(None)", "next(GEN, <T>)", "(next(GEN), GEN.send(<T>))[1]", "GEN.send(None) + <T>",
         "(next(GEN), GEN.throw(Oops(<I>)))[1]", None, None)  # fmt: skip

DRIVES = (
    "try LOG.append(next(GEN).dim())", "try GEN.send(<T>)", "try GEN.throw(Oops(<I>))", "try GEN.close()",
    "LOG.append(len(list(GEN)))", "LOG.append([v.dim() for v in GEN])", "LOG.append(next(GEN, None) is None)",
    "try GEN.send(None)",
)  # fmt: skip
