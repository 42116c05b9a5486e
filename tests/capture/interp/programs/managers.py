"""`with` and exception groups."""

# Odd on purpose.
# ruff: noqa: B012, B018, B019, B023, B030, B904, E501, E731, F632, F821, F841, I001, UP008, UP031

import contextlib
import sys
import traceback

from capture.interp.programs import program
from capture.interp.programs.exceptions import chain_of


@program
def with_statement():
    log = []

    class Manager:
        def __init__(self, name, swallow=False):
            self.name, self.swallow = name, swallow

        def __enter__(self):
            log.append(f"enter {self.name}")
            return self.name.upper()

        def __exit__(self, kind, value, tb):
            log.append(f"exit {self.name} {kind and kind.__name__} {value} {tb is not None}")
            return self.swallow

    with Manager("a") as a, Manager("b") as b:
        log.append(a + b)
    with Manager("c", swallow=True):
        raise ValueError("swallowed")
    try:
        with Manager("d"), Manager("e") as e:
            log.append(e)
            1 / 0
    except ZeroDivisionError:
        log.append("out")

    def leaves():
        with Manager("f"):
            return "returned"

    def loops():
        for i in range(3):
            with Manager(f"g{i}", swallow=True):
                if i == 1:
                    continue
                if i == 2:
                    break
                raise KeyError
        return i

    return leaves(), loops(), log


@program
def with_errors():
    class NoExit:
        def __enter__(self):
            return 1

    class Bad:
        def __enter__(self):
            raise ValueError("enter")

        def __exit__(self, *a):
            print("not reached")

    class BadExit:
        def __enter__(self):
            return self

        def __exit__(self, *a):
            raise KeyError("exit")

    out = []
    for manager in (NoExit(), object(), Bad(), BadExit()):
        try:
            with manager:
                raise IndexError("body")
        except Exception as e:
            out.append(chain_of(e))
    return out


@program
def library_managers():
    out = []

    @contextlib.contextmanager
    def tag(name):
        out.append(f"<{name}>")
        try:
            yield name * 2
        except LookupError as e:
            out.append(f"!{e}")
        finally:
            out.append(f"</{name}>")

    with tag("a") as a, contextlib.suppress(ZeroDivisionError):
        out.append(a)
        1 / 0
    with tag("b"):
        raise KeyError("k")
    try:
        with tag("c"):
            raise TypeError("t")
    except TypeError as e:
        out.append(chain_of(e))
    with contextlib.ExitStack() as stack:
        names = [stack.enter_context(tag(n)) for n in "xy"]
        stack.callback(out.append, "callback")
        out.append(names)
    return out


@program
def exception_groups():
    out = []

    def run(*errors):
        try:
            raise ExceptionGroup("group", list(errors))
        except* ValueError as e:
            out.append(("value", [str(x) for x in e.exceptions]))
        except* (KeyError, IndexError) as e:
            out.append(("lookup", len(e.exceptions)))
        else:
            out.append("else")
        finally:
            out.append("finally")

    run(ValueError("a"), KeyError("b"), ValueError("c"))
    try:
        run(TypeError("t"), ValueError("v"))
    except ExceptionGroup as e:
        out.append((e.message, [type(x).__name__ for x in e.exceptions]))
    try:
        raise ValueError("bare")
    except* ValueError as e:
        out.append((type(e).__name__, e.exceptions[0].args))
    return out


@program
def exception_group_reraised():
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [KeyError(2), TypeError(3)])])
        except* KeyError:
            raise RuntimeError("new")
        except* TypeError:
            raise
    except ExceptionGroup as e:
        return shape_of(e)


def shape_of(e):
    return [shape_of(x) if isinstance(x, ExceptionGroup) else (type(x).__name__, x.args) for x in e.exceptions]


@program
def exception_group_wrong():
    try:
        try:
            raise ValueError
        except* ExceptionGroup:
            pass
    except TypeError as e:
        return str(e)
