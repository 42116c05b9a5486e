"""Programs in which an exception crosses a graph break."""

from __future__ import annotations

from textwrap import dedent

RAISING: dict[str, str] = {}


def raising(name: str, source: str) -> None:
    RAISING[name] = dedent(source).strip() + "\n"


raising(
    "behind_the_break",
    """
    def f(x, log):
        y = x + 1
        BREAK
        log.append("behind")
        raise ValueError("out", 1)
    """,
)
raising(
    "from_an_operator",
    """
    def f(x, log):
        y = x + 1
        BREAK
        return y.reshape(3, 3)
    """,
)
raising(
    "through_inlined_frames",
    """
    def third(x, log):
        x = x + 1
        BREAK
        raise LookupError("deep")

    def second(x, log):
        try:
            return third(x * 2, log)
        finally:
            log.append("second")

    def f(x, log):
        y = second(x - 1, log)
        return y
    """,
)
raising(
    "in_a_handler",
    """
    def f(x, log):
        y = x + 1
        try:
            raise KeyError("first")
        except KeyError:
            y = y * 2
            BREAK
            raise ValueError("second")
    """,
)
raising(
    "from_a_cause",
    """
    def f(x, log):
        y = x + 1
        try:
            {}["missing"]
        except KeyError as error:
            BREAK
            y = y * 2
            raise ValueError("second") from error
    """,
)
raising(
    "raised_again",
    """
    def f(x, log):
        y = x + 1
        try:
            try:
                raise KeyError("first")
            except KeyError:
                BREAK
                y = y * 2
                raise
        finally:
            log.append("finally")
    """,
)
raising(
    "handled_in_an_outer_frame",
    """
    def second(x, log):
        x = x + 1
        BREAK
        raise ValueError("inner")

    def f(x, log):
        try:
            raise KeyError("outer")
        except KeyError:
            try:
                second(x, log)
            except ValueError as error:
                log.append(repr(error.__context__))
                x = x * 2
        return x
    """,
)
raising(
    "swallowed_by_a_context",
    """
    class Swallow:
        def __enter__(self):
            return self

        def __exit__(self, kind, value, tb):
            BREAK
            return isinstance(value, ValueError)

    def f(x, log):
        x = x + 1
        with Swallow():
            x = x * 2
            raise ValueError("swallowed")
        with Swallow():
            x = x - 3
            raise KeyError("not swallowed")
    """,
)
raising(
    "through_a_contextmanager",
    """
    @contextlib.contextmanager
    def scope(log):
        try:
            yield 1
        except ValueError as error:
            log.append(repr(error))
            raise KeyError("changed") from error

    def f(x, log):
        with scope(log) as one:
            x = x + one
            BREAK
            x = x * 2
            raise ValueError("body")
    """,
)
raising(
    "thrown_into_a_generator",
    """
    def steps(x, log):
        try:
            yield x + 1
        except ValueError as error:
            log.append(repr(error))
            raise

    def f(x, log):
        made = steps(x, log)
        y = next(made) * 2
        BREAK
        made.throw(ValueError("thrown"))
    """,
)
raising(
    "by_a_loop_at_its_third_step",
    """
    def f(x, log):
        for i in range(5):
            x = x + 1
            BREAK
            log.append(10 // (2 - i))
        return x
    """,
)
raising(
    "an_assertion",
    """
    def f(x, log):
        y = x + 1
        BREAK
        assert y.dim() == 2, f"{y.dim()} dimensions"
    """,
)
raising(
    "notes_and_groups",
    """
    def f(x, log):
        y = x + 1
        error = ValueError("noted")
        error.add_note("a note")
        BREAK
        log.append(error.__notes__)
        raise ExceptionGroup("group", [error, TypeError("other")])
    """,
)
