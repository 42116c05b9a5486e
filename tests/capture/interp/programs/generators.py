"""Generators: send, throw, close, yield from; native code as their consumer."""

# Odd on purpose.
# ruff: noqa: B012, B018, B019, B023, B030, B904, E501, E731, F632, F821, F841, I001, UP008, UP031

import inspect

from capture.interp.programs import program


@program
def consumed_by_native_code():
    def squares(n):
        for i in range(n):
            yield i * i

    return list(squares(4)), sum(squares(5)), dict(zip("abc", squares(3), strict=True)), max(squares(3)), [*squares(2)]


@program
def send_and_return():
    def accumulate():
        total = 0
        while True:
            got = yield total
            if got is None:
                return total
            total += got

    g = accumulate()
    out = [next(g), g.send(3), g.send(4)]
    try:
        g.send(None)
    except StopIteration as e:
        out.append(e.value)
    out.append(next(g, "done"))
    return out


@program
def throw_and_close():
    log = []

    def gen():
        try:
            while True:
                try:
                    got = yield len(log)
                    log.append(("got", got))
                except KeyError as e:
                    log.append(("caught", e.args))
        finally:
            log.append("finally")

    g = gen()
    next(g)
    g.send("a")
    g.throw(KeyError("k"))
    try:
        g.throw(ValueError("v"))
    except ValueError as e:
        log.append(("out", e.args))
    h = gen()
    next(h)
    h.close()
    h.close()
    unstarted = gen()
    unstarted.close()
    return log, next(unstarted, "empty")


@program
def ignores_exit():
    def gen():
        try:
            yield 1
        except GeneratorExit:
            yield 2

    g = gen()
    next(g)
    try:
        g.close()
    except RuntimeError as e:
        return str(e)


@program
def yields_from():
    def inner():
        got = yield 1
        got2 = yield got
        return ("inner", got, got2)

    def outer():
        result = yield from inner()
        yield result
        rest = yield from [10, 20]
        return rest

    g = outer()
    return [next(g), g.send("x"), g.send("y"), *g]


@program
def yield_from_throws():
    log = []

    class Iterator:
        def __iter__(self):
            return self

        def __next__(self):
            return "next"

        def throw(self, e):
            log.append(("throw", type(e).__name__))
            if isinstance(e, KeyError):
                return "handled"
            raise StopIteration("finished")

        def close(self):
            log.append("close")

    def outer(it):
        try:
            result = yield from it
            yield ("result", result)
        finally:
            log.append("outer finally")

    g = outer(Iterator())
    out = [next(g), g.throw(KeyError("k")), g.throw(ValueError("v"))]
    g.close()
    h = outer(Iterator())
    next(h)
    h.close()
    k = outer(iter([1, 2]))
    next(k)
    try:
        k.throw(TypeError("t"))
    except TypeError as e:
        out.append(e.args)
    return out, log


@program
def yield_from_inner_catches():
    def inner():
        while True:
            try:
                yield "in"
            except LookupError as e:
                yield ("caught", e.args)

    def outer():
        yield from inner()

    g = outer()
    return next(g), g.throw(KeyError(1)), next(g), g.throw(IndexError(2))


@program
def nested_yield_from():
    def tree(n):
        if n:
            yield from tree(n - 1)
            yield n
            yield from tree(n - 1)

    return list(tree(4))


@program
def generator_keeps_its_exception():
    def gen():
        try:
            1 / 0
        except ZeroDivisionError as e:
            yield e.args
            try:
                raise
            except ZeroDivisionError as again:
                yield again is e

    g = gen()
    out = [next(g)]
    try:
        raise KeyError("other")
    except KeyError as e:
        out.append(next(g))
        out.append(e.args)
    return out


@program
def context_of_thrown():
    def gen():
        try:
            yield 1
        except KeyError:
            yield 2

    g = gen()
    next(g)
    g.throw(KeyError("k"))
    try:
        g.throw(ValueError("v"))
    except ValueError as e:
        return type(e.__context__), e.__context__.args


@program
def generator_expressions():
    data = [3, 1, 2]
    pairs = ((a, b) for a in data for b in data if a < b)
    return sorted(pairs), sum(x for x in data), any(x > 2 for x in data), all(x > 2 for x in data)


@program
def looks_like_a_generator():
    def numbers(n):
        yield n

    g = numbers(1)
    state = [inspect.isgenerator(g), g.__name__, g.__qualname__, inspect.getgeneratorstate(g)]
    next(g)
    state.append(inspect.getgeneratorstate(g))
    g.close()
    return state, inspect.getgeneratorstate(g), inspect.isgeneratorfunction(numbers)


@program
def generator_errors():
    def gen():
        yield 1

    out = []
    g = gen()
    try:
        g.send("too early")
    except TypeError as e:
        out.append(str(e))

    def self_consuming():
        yield next(me)

    me = self_consuming()
    try:
        next(me)
    except ValueError as e:
        out.append(str(e))
    return out


@program
def generator_method_and_closure():
    class Tree:
        def __init__(self, value, *children):
            self.value, self.children = value, children

        def __iter__(self):
            yield self.value
            for child in self.children:
                yield from child

    scale = 2

    def scaled(tree):
        for v in tree:
            yield v * scale

    return list(scaled(Tree(1, Tree(2, Tree(3)), Tree(4))))


@program
def pipelines():
    def read(lines):
        for line in lines:
            line = line.strip()
            if line:
                yield line

    def parse(lines):
        for line in lines:
            key, _, value = line.partition("=")
            yield key, int(value)

    return dict(parse(read(["a=1", "", " b=2 "])))


@program
def with_inside_generator():
    log = []

    class Manager:
        def __enter__(self):
            log.append("enter")

        def __exit__(self, *a):
            log.append(a[0] and a[0].__name__)

    def gen():
        with Manager():
            yield 1
            yield 2

    for _ in gen():
        pass
    g = gen()
    next(g)
    g.close()
    h = gen()
    next(h)
    del h
    return log
