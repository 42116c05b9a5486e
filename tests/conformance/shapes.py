"""The shapes of the matrix: where in a program a graph break stands.

Each is the source of a function `f(x, log)`. BREAK is an expression that breaks the graph; the programs work on tensors
before and behind it, and note in `log` what happens.
"""

from __future__ import annotations

from textwrap import dedent

SHAPES: dict[str, str] = {}


def shape(name: str, source: str) -> None:
    SHAPES[name] = dedent(source).strip() + "\n"


shape(
    "straight_line",
    """
    def f(x, log):
        y = x + 1
        BREAK
        return y * 2
    """,
)
shape(
    "in_an_expression",
    """
    def f(x, log):
        return torch.stack([x + 1, *(x * 2 for _ in range(1)), x if BREAK is None else x - 1]) * 2
    """,
)
shape(
    "if",
    """
    def f(x, log):
        y = x + 1
        if len(log) == 0:
            BREAK
            y = y * 2
        else:
            y = y - 1
        return y.sin()
    """,
)
shape(
    "else",
    """
    def f(x, log):
        y = x + 1
        if log:
            y = y * 2
        else:
            y = y - 1
            BREAK
        return y.sin()
    """,
)
shape(
    "for",
    """
    def f(x, log):
        for i in range(3):
            x = x + i
            BREAK
            log.append(i)
            x = x * 2
        else:
            x = x - 1
        return x
    """,
)
shape(
    "for_with_break_and_continue",
    """
    def f(x, log):
        for i, part in enumerate(x.unbind()):
            if i == 1:
                continue
            x = x + part
            BREAK
            if i == 3:
                break
            x = x * 2
        else:
            log.append("else")
        return x
    """,
)
shape(
    "nested_for",
    """
    def f(x, log):
        for a in [1, 2]:
            for b, c in zip("ab", (3, 4)):
                x = x + a * c
                BREAK
                log.append((a, b))
            x = x * 2
        return x
    """,
)
shape(
    "while",
    """
    def f(x, log):
        n = 0
        while n < 3:
            x = x * 2 + n
            BREAK
            n += 1
            log.append(n)
            x = x - 1
        else:
            x = x.sin()
        return x
    """,
)
shape(
    "with",
    """
    def f(x, log):
        with Noting(log, "a") as a:
            x = x + 1
            BREAK
            x = x * 2
            log.append(a.name)
        return x - 1
    """,
)
shape(
    "several_with",
    """
    def f(x, log):
        with Noting(log, "a"), Noting(log, "b") as b:
            x = x + 1
            with Noting(log, b.name + "c"):
                BREAK
                x = x * 2
        return x - 1
    """,
)
shape(
    "entering_a_context",
    """
    def f(x, log):
        class_ = Noting(log, "a")
        x = x + 1
        with (BREAK, class_)[1] as a:
            x = x * 2
        return x - 1
    """,
)
shape(
    "contextmanager",
    """
    def f(x, log):
        with noting(log, "g") as name:
            x = x + 1
            BREAK
            x = x * 2
            log.append(name)
        return x - 1
    """,
)
shape(
    "inside_of_a_contextmanager",
    """
    @contextlib.contextmanager
    def scope(x, log):
        log.append("in")
        y = x + 1
        BREAK
        yield y * 2
        log.append("out")

    def f(x, log):
        with scope(x, log) as y:
            y = y - 1
        return y.sin()
    """,
)
shape(
    "suppressed",
    """
    def f(x, log):
        x = x + 1
        with contextlib.suppress(ValueError):
            BREAK
            x = x * 2
            raise ValueError("gone")
        return x - 1
    """,
)
shape(
    "exit_stack",
    """
    def f(x, log):
        with contextlib.ExitStack() as stack:
            stack.enter_context(Noting(log, "a"))
            x = x + 1
            BREAK
            stack.callback(log.append, "callback")
            x = x * 2
        return x - 1
    """,
)
shape(
    "try_body",
    """
    def f(x, log):
        x = x + 1
        try:
            x = x * 2
            BREAK
            x = x - 3
        except ValueError:
            log.append("never")
        else:
            log.append("else")
        finally:
            x = x.sin()
        return x
    """,
)
shape(
    "raised_behind_the_break",
    """
    def f(x, log):
        x = x + 1
        try:
            BREAK
            x = x - 3
            raise ValueError("v")
        except ValueError as error:
            log.append(str(error))
            x = x * 2
        return x
    """,
)
shape(
    "except",
    """
    def f(x, log):
        try:
            x = x + 1
            raise KeyError("k")
        except KeyError as error:
            x = x * 2
            BREAK
            log.append((error.args, sys.exc_info()[0].__name__))
            x = x - 3
        return x
    """,
)
shape(
    "try_else",
    """
    def f(x, log):
        try:
            x = x + 1
        except KeyError:
            pass
        else:
            x = x * 2
            BREAK
            x = x - 3
        return x
    """,
)
shape(
    "finally",
    """
    def f(x, log):
        try:
            x = x + 1
        finally:
            x = x * 2
            BREAK
            x = x - 3
        return x
    """,
)
shape(
    "finally_on_the_way_out",
    """
    def f(x, log):
        x = x + 1
        try:
            try:
                raise LookupError("way out")
            finally:
                BREAK
                x = x * 2
                log.append("finally")
        except LookupError:
            x = x - 3
        return x
    """,
)
shape(
    "return_in_try",
    """
    def f(x, log):
        x = x + 1
        for _ in range(2):
            try:
                BREAK
                return x * 2
            finally:
                log.append("finally")
    """,
)
shape(
    "except_star",
    """
    def f(x, log):
        x = x + 1
        try:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
        except* ValueError as group:
            BREAK
            x = x * 2
            log.append(len(group.exceptions))
        except* TypeError:
            x = x - 3
        return x
    """,
)
shape(
    "match",
    """
    def f(x, log):
        y = x + 1
        match {"kind": "pair", "items": [2, (3, 4)]}:
            case {"kind": "one"}:
                return y
            case {"kind": "pair", "items": [a, (b, _)]} if BREAK is None or True:
                y = y * a
                log.append((a, b))
            case _:
                y = y - 1
        return y.sin()
    """,
)
shape(
    "list_comprehension",
    """
    def f(x, log):
        parts = [(x + i, BREAK, x * i)[2] for i in range(3)]
        return torch.stack(parts) * 2
    """,
)
shape(
    "dict_and_set_comprehension",
    """
    def f(x, log):
        parts = {i: (x + i, BREAK)[0] for i in range(2)}
        log.append(sorted({(i, BREAK)[0] for i in parts}))
        return parts[0] * parts[1]
    """,
)
shape(
    "generator_expression",
    """
    def f(x, log):
        y = x + 1
        total = sum((y * i, BREAK)[0] for i in range(3))
        return total * 2
    """,
)
shape(
    "generator_consumed",
    """
    def parts(x, log):
        for i in range(3):
            y = x * i
            BREAK
            log.append(i)
            yield y + 1
        return "end"

    def f(x, log):
        total = x + 1
        for part in parts(x, log):
            total = total + part
        return total.sin()
    """,
)
shape(
    "generator_suspended",
    """
    def parts(x, log):
        try:
            sent = yield x + 1
            log.append(sent)
            yield x * 2
            yield x - 3
        finally:
            log.append("closed")

    def f(x, log):
        steps = parts(x, log)
        y = next(steps) + 1
        BREAK
        y = y * steps.send("sent")
        steps.close()
        return y.sin()
    """,
)
shape(
    "generator_handling_an_exception",
    """
    def parts(x, log):
        try:
            yield x + 1
        except ValueError as error:
            log.append(repr(error))
            yield x * 2
            log.append(sys.exc_info()[0].__name__)
            yield x - 3

    def f(x, log):
        steps = parts(x, log)
        y = next(steps) * 3
        z = steps.throw(ValueError("thrown"))
        BREAK
        return y + z + next(steps)
    """,
)
shape(
    "delegating_generator",
    """
    def inner(x, log):
        got = yield x + 1
        log.append(got)
        yield x * 2
        return "result"

    def outer(x, log):
        log.append((yield from inner(x, log)))
        yield x - 3

    def f(x, log):
        steps = outer(x, log)
        y = next(steps) * 3
        BREAK
        y = y + steps.send("sent")
        return [y.sin(), *steps]
    """,
)
shape(
    "generator_that_escapes",
    """
    def f(x, log):
        y = x + 1

        def steps():
            yield y * 2
            log.append("between")
            yield y - 3

        made = steps()
        first = next(made) + 1
        BREAK
        return first.sin(), made
    """,
)
shape(
    "closure",
    """
    def f(x, log):
        total = 0

        def add(n):
            nonlocal total
            total += n
            BREAK
            return x * total

        y = add(1) + 1
        log.append(total)
        return y * add(2) + total
    """,
)
shape(
    "method",
    """
    class Thing:
        def __init__(self, scale):
            self.scale = scale

        def run(self, x):
            x = x * self.scale
            BREAK
            self.scale += 1
            return x + self.scale

    def f(x, log):
        thing = Thing(3)
        y = thing.run(x) - thing.run(x * 2)
        log.append(thing.scale)
        return y.sin()
    """,
)
shape(
    "super",
    """
    class Base:
        def run(self, x):
            x = x + 1
            BREAK
            return x * 2

    class Derived(Base):
        def run(self, x):
            y = super().run(x - 1)
            BREAK
            return y + super().run(x)

    def f(x, log):
        return Derived().run(x).sin()
    """,
)
shape(
    "property_and_operator",
    """
    class Thing:
        def __init__(self, x):
            self.x = x

        @property
        def doubled(self):
            x = self.x * 2
            BREAK
            return x + 1

        def __add__(self, other):
            x = self.x + other
            BREAK
            return x * 2

    def f(x, log):
        thing = Thing(x + 1)
        return (thing + x) * thing.doubled
    """,
)
shape(
    "lambda",
    """
    def f(x, log):
        g = lambda y: (y * 2, BREAK, y + 1)[2]
        return g(x + 1) * 3
    """,
)
shape(
    "callback_of_a_builtin",
    """
    def f(x, log):
        def key(n):
            BREAK
            return -n

        y = x + 1
        log.append(sorted([1, 3, 2], key=key))
        return y * 2
    """,
)
shape(
    "class_body",
    """
    def f(x, log):
        y = x + 1

        class Made:
            first = y * 2
            BREAK
            second = first - 3

            def both(self):
                return self.first + self.second

        return Made().both().sin()
    """,
)
shape(
    "class_that_survives",
    """
    def f(x, log):
        class Made:
            def __init__(self, value):
                self.value = value

            def doubled(self):
                return self.value * 2

        made = Made(x + 1)
        BREAK
        log.append(type(made).__name__)
        return made.doubled().sin()
    """,
)
shape(
    "two_deep",
    """
    def second(x):
        x = x + 1
        BREAK
        return x * 2

    def f(x, log):
        return second(x - 1).sin()
    """,
)
shape(
    "three_deep",
    """
    def third(x):
        x = x + 1
        BREAK
        return x * 2

    def second(x, log):
        y = third(x - 1) + 3
        log.append("second")
        return y

    def f(x, log):
        return second(x * 2, log).sin() + x
    """,
)
shape(
    "deep_in_loops_and_handlers",
    """
    def third(x, i):
        x = x + i
        BREAK
        if i == 1:
            raise ValueError(i)
        return x * 2

    def second(x, log):
        for i in range(3):
            try:
                x = third(x - 1, i)
            except ValueError as error:
                log.append(error.args)
                x = x.sin()
        return x

    def f(x, log):
        with Noting(log, "f"):
            return second(x * 2, log) + x
    """,
)
shape(
    "recursion",
    """
    def f(x, log, n=3):
        if n == 0:
            x = x + 1
            BREAK
            return x * 2
        y = f(x + n, log, n - 1) * 3
        log.append(n)
        return y
    """,
)
shape(
    "recursion_breaking_at_each_level",
    """
    def f(x, log, n=3):
        x = x + n
        BREAK
        if n == 0:
            return x
        return f(x * 2, log, n - 1) - 1
    """,
)
ITERATORS = """
    iter([1, 2, 3]); iter((1, 2, 3)); iter("abc"); iter(range(3)); iter(b"abc"); iter({1: 2, 3: 4})
    iter({1: 2, 3: 4}.values()); iter({1: 2, 3: 4}.items()); iter({5, 6, 7}); iter(int, 1); reversed([1, 2, 3])
    reversed((1, 2, 3)); reversed({1: 2, 3: 4}); enumerate("abc"); zip("abc", [1, 2, 3]); map(str, [1, 2, 3])
    map(lambda n: n + 1, [1, 2, 3]); filter(None, [1, 0, 2, 3]); itertools.chain([1], [2, 3]); itertools.count(5)
    itertools.islice("abcd", 1, None); itertools.cycle("ab"); itertools.repeat(3, 4)
    itertools.product("ab", repeat=2); itertools.accumulate([1, 2, 3])
    itertools.takewhile(lambda n: n < 3, [1, 2, 3]); itertools.pairwise("abc"); itertools.zip_longest("ab", "c")
    itertools.starmap(pow, [(2, 3), (3, 2)]); itertools.permutations("abc"); itertools.combinations("abc", 2)
    itertools.compress("abc", [1, 1, 1]); itertools.dropwhile(lambda n: n < 2, [1, 2, 3]); itertools.tee("abc")[0]
    itertools.groupby("abc"); itertools.filterfalse(None, [0, 1, 0])
"""
for _made in ITERATORS.replace("\n", ";").split(";"):
    if _made.strip():
        shape(
            f"half_consumed_{_made.strip()}",
            f"""
            def f(x, log):
                y = x + 1
                iterator = {_made.strip()}
                log.append(str(next(iterator))[:4])
                BREAK
                log.append((str(next(iterator))[:4], type(iterator).__name__))
                return y * 2
            """,
        )
shape(
    "fresh_objects_with_aliasing",
    """
    def f(x, log):
        y = x + 1
        inner = [y]
        outer = {"a": inner, "b": (inner, y)}
        outer["self"] = outer
        thing = types.SimpleNamespace(inner=inner)
        BREAK
        inner.append(y * 2)
        log.append((outer["b"][0] is inner, outer["self"] is outer, thing.inner is inner, inner[0] is y))
        return torch.stack(outer["a"])
    """,
)
shape(
    "unbound_and_deleted_names",
    """
    def f(x, log):
        y = x + 1
        if log:
            z = 1
        gone = 3
        del gone
        BREAK
        try:
            log.append(z)
        except UnboundLocalError as error:
            log.append(str(error))
        try:
            gone
        except UnboundLocalError as error:
            log.append(str(error))
        return y * 2
    """,
)

#: How many graphs a first call makes, where they are not two. The steps of a generator, and the callbacks of a builtin,
#: are graphs of their own where they break.
GRAPHS: dict[str, int] = {
    "for": 6,
    "for_with_break_and_continue": 4,
    "nested_for": 5,
    "while": 4,
    "contextmanager": 3,
    "inside_of_a_contextmanager": 4,
    "list_comprehension": 6,
    "dict_and_set_comprehension": 3,
    "generator_expression": 5,
    "generator_consumed": 9,
    "generator_suspended": 4,
    "generator_handling_an_exception": 4,
    "delegating_generator": 3,
    "method": 3,
    "super": 4,
    "property_and_operator": 3,
    "deep_in_loops_and_handlers": 7,
    "recursion_breaking_at_each_level": 5,
}
#: The same for the kinds that compute something before they break.
GRAPHS_WITH_A_SUM: dict[str, int] = GRAPHS | {
    "dict_and_set_comprehension": 5,
    "closure": 3,
    "callback_of_a_builtin": 4,
    'half_consumed_itertools.pairwise("abc")': 3,
}
