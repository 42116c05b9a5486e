"""Raising, catching, chaining, tracebacks."""

# Odd on purpose.
# ruff: noqa: B012, B018, B019, B023, B030, B904, E501, E731, F632, F821, F841, I001, UP008, UP031

import contextlib
import sys
import traceback

from capture.interp.programs import program


def chain_of(e):
    """An exception with its causes and contexts, as data."""
    return (
        None
        if e is None
        else (type(e).__name__, e.args, chain_of(e.__cause__), chain_of(e.__context__), e.__suppress_context__)
    )


def lines_of(e):
    """The functions and lines of a traceback."""
    return [(entry.name, entry.lineno, entry.line) for entry in traceback.extract_tb(e.__traceback__)]


@program
def clauses():
    out = []
    for bad in (lambda: 1 / 0, lambda: [][1], lambda: {}["k"], lambda: int("x"), lambda: None):
        try:
            bad()
        except ZeroDivisionError:
            out.append("zero")
        except (IndexError, KeyError) as e:
            out.append(type(e).__name__)
        except Exception as e:
            out.append(str(e))
        else:
            out.append("fine")
        finally:
            out.append("|")
    return out


@program
def finally_order():
    log = []

    def f(mode):
        try:
            log.append("try")
            if mode == "return":
                return "value"
            if mode == "raise":
                raise KeyError(mode)
            if mode == "nested":
                try:
                    raise ValueError("inner")
                finally:
                    log.append("inner finally")
        except KeyError:
            log.append("except")
            return "caught"
        finally:
            log.append("finally")
        return "end"

    results = [f("return"), f("raise"), f("plain")]
    try:
        f("nested")
    except ValueError as e:
        results.append(str(e))
    return results, log


@program
def finally_overrides():
    def f():
        try:
            raise KeyError
        finally:
            return "kept"

    def g():
        for i in range(3):
            try:
                continue
            finally:
                if i == 1:
                    break
        return i

    def h():
        while True:
            try:
                return "first"
            finally:
                break
        return "second"

    return f(), g(), h()


@program
def implicit_context():
    try:
        try:
            {}["a"]
        except KeyError:
            [][3]
    except IndexError as e:
        return chain_of(e)


@program
def explicit_cause():
    out = []
    for cause in (None, ValueError("cause"), ValueError):
        try:
            try:
                1 / 0
            except ZeroDivisionError:
                raise RuntimeError("outer") from cause
        except RuntimeError as e:
            out.append(chain_of(e))
    return out


@program
def context_through_calls():
    def fails():
        raise KeyError("in callee")

    def handles():
        try:
            1 / 0
        except ZeroDivisionError:
            fails()

    try:
        handles()
    except KeyError as e:
        return chain_of(e)


@program
def context_in_finally():
    try:
        try:
            1 / 0
        finally:
            [][1]
    except IndexError as e:
        return chain_of(e)


@program
def context_after_handling():
    try:
        1 / 0
    except ZeroDivisionError:
        pass
    try:
        [][1]
    except IndexError as e:
        return chain_of(e)


@program
def context_of_natively_called():
    def key(x):
        raise LookupError(x)

    try:
        try:
            1 / 0
        except ZeroDivisionError:
            sorted([2, 1], key=key)
    except LookupError as e:
        return chain_of(e)


@program
def no_context_cycle():
    try:
        try:
            raise ValueError("a")
        except ValueError as a:
            try:
                raise KeyError("b")
            except KeyError:
                raise a
    except ValueError as e:
        return chain_of(e)


@program
def reraise():
    out = []
    try:
        try:
            1 / 0
        except ZeroDivisionError as e:
            out.append(e.__context__)
            raise
    except ZeroDivisionError as e:
        out.append(chain_of(e))
    try:
        raise
    except RuntimeError as e:
        out.append(str(e))
    return out


@program
def reraise_in_callee():
    def again():
        raise

    try:
        try:
            {}["x"]
        except KeyError:
            again()
    except KeyError as e:
        return chain_of(e)


@program
def raising_wrong_things():
    out = []
    for bad in (1, "text", None, int, object()):
        try:
            raise bad
        except TypeError as e:
            out.append(str(e))
    try:
        raise ValueError from 3
    except TypeError as e:
        out.append((str(e), chain_of(e.__context__)))
    try:
        try:
            1 / 0
        except 5:
            pass
    except TypeError as e:
        out.append((str(e), chain_of(e.__context__)))
    return out


@program
def exception_made_in_python():
    class Error(Exception):
        def __init__(self, code):
            super().__init__("made", code)
            self.code = code

        def __str__(self):
            return f"<{self.code}>"

    class Liar(Exception):
        def __new__(cls):
            return 5

    out = []
    try:
        raise Error(3)
    except Error as e:
        out.append((e.code, str(e), f"{e!r:>20}", e.args))
    try:
        raise Liar
    except TypeError as e:
        out.append(str(e).split(" object")[0].split(" at ")[0])
    return out


@program
def current_exception():
    out = [sys.exc_info()]
    try:
        1 / 0
    except ZeroDivisionError:
        out.append(sys.exc_info()[0])
        try:
            {}[0]
        except KeyError:
            out.append(type(sys.exception()))
        out.append(type(sys.exception()))
    out.append(sys.exception())
    return out


@program
def exception_name_is_unbound():
    try:
        1 / 0
    except ZeroDivisionError as e:
        pass
    try:
        return e
    except UnboundLocalError as f:
        return str(f)


@program
def traceback_lines():
    def inner(x):
        y = x + 1
        return y / 0

    def middle(x):
        return inner(x * 2)

    try:
        middle(4)
    except ZeroDivisionError as e:
        text = traceback.format_exc()
        return lines_of(e), "inner(x * 2)" in text, "capture/interp" in text.replace("tests/capture/interp", "")


@program
def traceback_through_native_code():
    def key(x):
        return 1 / x

    try:
        max([1, 0], key=key)
    except ZeroDivisionError as e:
        return lines_of(e)


@program
def traceback_of_reraised():
    def f():
        try:
            1 / 0
        except ZeroDivisionError:
            raise

    def g():
        try:
            f()
        except ZeroDivisionError as e:
            raise KeyError("k") from e

    try:
        g()
    except KeyError as e:
        return lines_of(e), lines_of(e.__cause__)


@program
def assertions():
    def check(x):
        assert x > 0, f"{x} is not positive"
        return x

    try:
        check(-1)
    except AssertionError as e:
        return check(1), str(e)


@program
def stop_iteration_is_no_exception_in_generators():
    def gen():
        yield 1
        raise StopIteration("early")

    try:
        list(gen())
    except RuntimeError as e:
        return chain_of(e)


@program
def uncaught():
    try:
        raise KeyError("first")
    except KeyError:
        raise ValueError("second")


@program
def exits():
    raise SystemExit(3)


@program
def deep_recursion():
    def depth(n):
        return 0 if n == 0 else 1 + depth(n - 1)

    def endless(n):
        return endless(n + 1)

    try:
        endless(0)
    except RecursionError as e:
        return depth(400), str(e)[:32]
