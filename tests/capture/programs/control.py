"""Generators, iterators, closures, exceptions and `with` blocks."""

from __future__ import annotations

import contextlib
import functools
import itertools

import torch

from tests.capture.twins import Cases

case = Cases()
LOG = []
ITERATOR = iter([1, 2, 3, 4, 5, 6, 7, 8, 9])
COUNT = itertools.count(5)
CYCLE = itertools.cycle([1, 2])
RANGE = iter(range(100))


def produce(n):
    for i in range(n):
        LOG.append(("produced", i))
        yield i


GENERATOR = produce(50)
ENUMERATE = enumerate("abcdefghijklmnopq")
ZIP = zip([1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12], strict=False)
MAP = map(lambda v: v + 1, range(50))


class Mine(Exception):
    def __init__(self, code, *rest):
        super().__init__(code, *rest)
        self.code = code


class Steps:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if not self.n:
            raise StopIteration
        self.n -= 1
        return self.n


STEPS = Steps(20)


@contextlib.contextmanager
def traced(name):
    LOG.append(("enter", name))
    try:
        yield name * 2
    except Mine as error:
        LOG.append(("caught", error.code))
    finally:
        LOG.append(("exit", name))


class Context:
    def __init__(self, swallow=False):
        self.swallow = swallow
        self.events = []

    def __enter__(self):
        self.events.append("in")
        return self

    def __exit__(self, kind, value, trace):
        self.events.append(kind.__name__ if kind else None)
        return self.swallow


CONTEXT = Context()


@case
def outside_list_iterator(x):
    return x + next(ITERATOR), next(ITERATOR)


@case
def outside_generator(x):
    return x + next(GENERATOR)


@case
def outside_generator_loop(x):
    for i in GENERATOR:
        x = x + i
        if i % 5 == 4:
            break
    return x


@case
def outside_count(x):
    return x + next(COUNT) + next(CYCLE) + next(RANGE)


@case
def outside_other_iterators(x):
    return next(ENUMERATE), next(ZIP), next(MAP), x


@case
def outside_python_iterator(x):
    return x + next(STEPS), [i for i, _ in zip(STEPS, range(2), strict=False)]


@case(lambda: (torch.rand(3), (i * 2 for i in range(5))))
def generator_argument(x, values):
    return x + next(values), sum(values), next(values, "empty")


@case(lambda: (torch.rand(3), iter([1, 2, 3, 4])))
def iterator_argument(x, values):
    first = next(values)
    rest = [*values]
    return x * first, rest


@case(lambda: (torch.rand(3), zip([1, 2, 3], [4, 5, 6], strict=True)))
def zip_argument(x, pairs):
    for a, b in pairs:
        x = x * a + b
        break
    return x, pairs


@case(lambda: (torch.rand(3), map(lambda v: v * 2, [1, 2, 3])))
def map_argument(x, values):
    return x + sum(values)


@case
def send_and_throw(x):
    def talk():
        got = []
        while True:
            try:
                value = yield len(got)
            except ValueError as error:
                got.append(str(error))
            else:
                if value is None:
                    return got
                got.append(value)

    g = talk()
    a = next(g)
    b = g.send(x)
    c = g.throw(ValueError("thrown"))
    try:
        next(g)
    except StopIteration as stop:
        return a, b, c, stop.value


@case
def generator_close(x):
    events = []

    def work():
        try:
            yield 1
            yield 2
        finally:
            events.append("closed")

    g = work()
    next(g)
    g.close()
    h = work()
    return events, list(h), x, next(g, "done")


@case
def yield_from(x):
    def inner(n):
        got = yield n
        return got or n * 10

    def outer():
        a = yield from inner(1)
        b = yield from inner(2)
        yield from [a, b]
        return "end"

    g = outer()
    return next(g), g.send(5), next(g), list(g), x


@case
def generator_escapes(x):
    return (x + i for i in range(3))


@case
def generator_expression_laziness(x):
    base = 1
    g = (i + base for i in range(3))
    base = 100
    return list(g), x + base


@case
def iterator_escapes(x):
    items = [x, x + 1, x + 2]
    it = iter(items)
    next(it)
    return it, enumerate("ab"), zip([1], [2], strict=True), reversed([1, 2])


@case
def abandoned_generator(x):
    def work():
        try:
            yield x
        finally:
            LOG.append("finalized")

    g = work()
    y = next(g)
    del g
    return y + 1, list(LOG)


@case
def closures_with_nonlocal(x):
    total = 0
    seen = []

    def add(v):
        nonlocal total
        total += v
        seen.append(v)
        return add

    add(1)(2)(3)
    return x + total, seen


@case
def closure_escapes(x):
    n = 1

    def step(y):
        nonlocal n
        n += 1
        return y * n

    step(x)
    return step, n


@case
def closures_share_a_cell(x):
    n = [0]
    v = 1

    def up():
        nonlocal v
        v += 1
        n.append(v)

    def read():
        return v

    up()
    return up, read, n


def counter():
    n = 0

    def step(x):
        nonlocal n
        n += 1
        return x * n

    return step


STEP = counter()


@case
def outside_closure(x):
    return STEP(x) + STEP(x)


@case(lambda: (torch.rand(2),))
def late_binding(x):
    fs = [lambda: i for i in range(3)]
    gs = [lambda i=i: i for i in range(3)]
    return [f() for f in fs], [g() for g in gs], x


@case
def default_argument_mutation(x):
    def f(v, acc=[]):  # noqa: B006
        acc.append(v)
        return len(acc)

    f(1)
    return f(2), x


def remembering(v, acc=[], *, table={}):  # noqa: B006
    acc.append(v)
    table[v] = len(acc)
    return len(acc)


@case
def outside_default_mutation(x):
    return x + remembering(3)


@case
def star_mutation(x):
    def f(*args, **kwargs):
        kwargs["new"] = 1
        return args[0] + 1, kwargs

    d = {"a": 1}
    return f(x, **d), d


def own_star(*args, **kwargs):
    kwargs["k"] = args
    return kwargs, len(args)


@case(lambda: (torch.rand(2), 1, 2))
def star_arguments(*args):
    args += (3,)
    return args, own_star(*args, q=1)


@case
def exception_flow(x):
    path = []
    for n in range(4):
        try:
            path.append(n)
            if n == 1:
                continue
            if n == 2:
                raise Mine(n, "extra")
            if n == 3:
                break
        except Mine as error:
            path.append(("mine", error.code, error.args))
        else:
            path.append("else")
        finally:
            path.append("finally")
    else:
        path.append("never")
    return x, path


@case
def return_in_finally(x):
    def f():
        try:
            raise ValueError("lost")
        finally:
            return 5  # noqa: B012

    def g():
        try:
            return 1
        finally:
            LOG.append("g")

    return f(), g(), x


@case
def chained_exceptions(x):
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error
    except ValueError as outer:
        cause = outer.__cause__
        context = outer.__context__ is cause
    try:
        try:
            {}["nope"]
        except KeyError:
            raise TypeError("third") from None
    except TypeError as other:
        suppressed = other.__suppress_context__
    return str(cause), context, suppressed, x


@case
def raises_mine(x):
    LOG.append("about to")
    raise Mine(7, x.shape[0])


@case
def raises_chained(x):
    try:
        [][1]
    except IndexError as error:
        raise Mine("outer") from error


@case
def raises_key_error(x):
    table = {"a": 1}
    return x + table["b"]


@case
def raises_type_error(x):
    return x + len(3)


@case
def raises_attribute_error(x):
    return x.nothing


@case
def raises_zero_division(x):
    return x * (1 // (x.dim() - 1))


@case
def raises_assertion(x):
    assert x.dim() == 2, f"dim is {x.dim()}"


@case
def raises_in_callee(x):
    def f(y, n):
        LOG.append(n)
        if n == 0:
            raise RuntimeError("bottom")
        return f(y, n - 1)

    try:
        f(x, 2)
    finally:
        LOG.append("unwound")


@case
def raises_shape_mismatch(x):
    LOG.append(1)
    return x + torch.ones(7)


@case
def catches_shape_mismatch(x):
    try:
        return x + torch.ones(7)
    except RuntimeError as error:
        return x, str(error)


@case
def catches_index_error(x):
    try:
        return x[10]
    except IndexError as error:
        return x, str(error)


@case
def catches_everything(x):
    try:
        y = x.view(3)
    except Exception as error:
        y = x * 2
        name = type(error).__name__
    return y, name


@case
def exception_groups(x):
    caught = []
    try:
        raise ExceptionGroup("many", [ValueError(1), TypeError(2)])
    except* ValueError as group:
        caught.append(len(group.exceptions))
    except* TypeError as group:
        caught.append(group.exceptions[0].args)
    return caught, x


@case
def groups_of_one(x):
    caught = []
    for kind in (ValueError, KeyboardInterrupt):
        try:
            raise kind(1)
        except* BaseException as group:
            caught.append((type(group), group.args[0], type(group.args[1]), group.exceptions[0].args))
    return caught, x


@case
def exception_escapes(x):
    try:
        raise Mine(3)
    except Mine as error:
        kept = error
    return kept, x


@case
def exception_object_made(x):
    return ValueError("made", 3), Mine("code"), x


@case
def reraise(x):
    try:
        try:
            raise Mine(1)
        except Mine:
            LOG.append("seen")
            raise
    except Mine as error:
        return x + error.code


@case
def stop_iteration_inside_of_generator(x):
    def bad():
        yield 1
        raise StopIteration

    try:
        list(bad())
    except RuntimeError as error:
        return str(error), x


@case
def context_managers(x):
    with traced("a") as a, traced("b") as b:
        y = x + 1
    with traced("c"):
        raise Mine("inside")
    return y, a, b, list(LOG)


@case
def context_outside(x):
    with CONTEXT as c:
        x = x + len(c.events)
    with contextlib.suppress(KeyError), CONTEXT:
        raise KeyError(1)
    return x


@case
def context_swallows(x):
    with Context(swallow=True) as c:
        raise ValueError
    return c, x


@case
def exit_stack(x):
    events = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(traced("s"))
        stack.callback(events.append, "called")
        stack.push(lambda *error: events.append(error[0]))
    return events, x


@case
def null_and_closing(x):
    class Thing:
        closed = False

        def close(self):
            self.closed = True

    with contextlib.nullcontext(5) as n, contextlib.closing(Thing()) as thing:
        y = x * n
    return y, thing.closed


@case
def context_decorator(x):
    @traced("deco")
    def f(y):
        return y + 1

    return f(x), list(LOG)


@case
def grad_modes(x):
    before = torch.is_grad_enabled()
    w = x.clone().requires_grad_()
    with torch.no_grad():
        a = w * 2
        inner = torch.is_grad_enabled()
        with torch.enable_grad():
            b = w * 3
    c = w * 4
    with torch.set_grad_enabled(False):
        d = w * 5
    return a.requires_grad, b.requires_grad, c.requires_grad, d.requires_grad, before, inner, b, c


@case
def grad_mode_left_off(x):
    torch.set_grad_enabled(False)
    return x * 2, torch.is_grad_enabled()


@case
def grad_mode_restored_after_error(x):
    try:
        with torch.no_grad():
            raise Mine(1)
    except Mine:
        pass
    return torch.is_grad_enabled(), (x.requires_grad_() * 2).requires_grad


@case
def inference_mode(x):
    with torch.inference_mode():
        y = x + 1
    return y, y.is_inference(), x + 1


@case
def autocast(x):
    m = torch.rand(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = m @ m
        with torch.autocast("cpu", enabled=False):
            z = m @ m
    return y, z, m @ m


@torch.no_grad()
def decorated(x):
    return x * 2


@case(lambda: (torch.rand(3, requires_grad=True),))
def no_grad_decorator(x):
    return decorated(x).requires_grad, x * 2


@case
def match_statement(x):
    results = []
    for value in (1, "s", [1, 2, 3], {"k": 5, "z": 6}, (1, (2, 3)), None, Mine(4), 2.5):
        match value:
            case int(n) if n > 0:
                results.append(("int", n))
            case str() as s:
                results.append(s)
            case [first, *rest]:
                results.append((first, rest))
            case {"k": k, **others}:
                results.append((k, others))
            case None:
                results.append("none")
            case Mine(code=c):
                results.append(c)
            case _:
                results.append("other")
    return results, x


@case
def loops(x):
    n = 0
    while True:
        n += 1
        if n % 2:
            continue
        if n > 6:
            break
        x = x * n
    for _ in range(0):
        pass
    else:
        n = -n
    return x, n


@case
def recursion(x):
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    def deep(n):
        return 0 if n == 0 else 1 + deep(n - 1)

    return x + fib(10), deep(150)


@case
def runaway_recursion(x):
    def forever(n):
        return forever(n + 1)

    try:
        forever(0)
    except RecursionError:
        return x + 1


@case
def functools_wraps(x):
    def twice(f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            return f(f(*args, **kwargs), **kwargs)

        return inner

    @twice
    def step(y, k=2):
        """Doc."""
        return y * k

    return step(x), step(x, k=3), step.__name__, step.__doc__, step.__wrapped__(1)


@case
def chained_comparisons(x):
    calls = []

    def value(n):
        calls.append(n)
        return n

    return value(1) < value(2) < value(3), value(3) < value(1) < value(5), calls, x


@case
def lambda_defaults_and_unpacking(x):
    (a, b), *c = (1, 2), 3, 4
    [d, e] = "de"
    f = g = [a]
    f.append(b)
    h, h2 = c[0], c
    return a, b, c, d, e, f is g, g, h, h2, x


@case
def deleted_local(x):
    y = 1
    del y
    try:
        return y  # noqa: F821
    except UnboundLocalError as error:
        return str(error), x


@case
def print_order(x):
    print("start", x.shape, end="|")
    LOG.append("between")
    y = x + 1
    print("end", len(LOG))
    return y


@case
def print_in_callee(x):
    def f(y):
        print("callee", y.dim())
        return y + 1

    return f(x) * f(x)
