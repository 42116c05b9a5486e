"""Context managers, messages, texts, buffers, and the pure modules: what they do happens, in order, when the program runs."""

from __future__ import annotations

import base64
import bisect
import cmath
import collections
import contextlib
import datetime
import decimal
import difflib
import fractions
import heapq
import io
import json
import keyword
import logging
import math
import numbers
import pprint
import random
import re
import reprlib
import shlex
import statistics
import string
import struct
import sys
import textwrap
import unicodedata
import warnings

import torch

from tests.capture.twins import Cases

case = Cases()
LOG = []


# ---- contextlib ------------------------------------------------------------------------------------------------------


class Resource:
    def __init__(self, name="r"):
        self.name = name

    def close(self):
        LOG.append(f"close {self.name}")

    def __enter__(self):
        LOG.append(f"enter {self.name}")
        return self

    def __exit__(self, kind, error, trace):
        LOG.append(f"exit {self.name} {kind and kind.__name__}")


@contextlib.contextmanager
def scope(name, swallow=False):
    LOG.append(f"begin {name}")
    try:
        yield name
    except ValueError:
        if not swallow:
            raise
    finally:
        LOG.append(f"end {name}")


class Tracked(contextlib.ContextDecorator):
    def __enter__(self):
        LOG.append("in")
        return self

    def __exit__(self, *error):
        LOG.append("out")
        return False


class Abstract(contextlib.AbstractContextManager):
    def __exit__(self, *error):
        return True


@case
def context_suppress(x):
    with contextlib.suppress(KeyError, ValueError):
        x = x + 1
        {}["a"]
        x = x * 100
    try:
        with contextlib.suppress(KeyError):
            raise TypeError("other")
    except TypeError as error:
        return x, str(error)


@case
def context_null(x):
    with contextlib.nullcontext(3) as three, contextlib.nullcontext():
        return x * three


@case
def context_closing(x):
    r = Resource("c")
    with contextlib.closing(r) as same:
        LOG.append(same is r)
    try:
        with contextlib.closing(r):
            raise ValueError
    except ValueError:
        return x


@case
def context_exit_stack(x):
    with contextlib.ExitStack() as stack:
        r = stack.enter_context(Resource("s"))
        stack.callback(LOG.append, "called")
        stack.push(lambda *error: LOG.append("pushed"))
        name = stack.enter_context(scope("inner"))
        y = x + 1
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(ValueError))
        raise ValueError
    return y, r.name, name


@case
def context_exit_stack_moved(x):
    with contextlib.ExitStack() as stack:
        stack.callback(LOG.append, "later")
        kept = stack.pop_all()
    LOG.append("first")
    kept.close()
    return x


@case
def context_manager(x):
    with scope("a") as name, scope("b", swallow=True):
        x = x + len(name)
        raise ValueError("gone")
    return x


@case
def context_manager_that_raises(x):
    try:
        with scope("c"):
            raise ValueError("kept")
    except ValueError as error:
        return x, str(error)


@scope("decorator")
def decorated(x):
    LOG.append("body")
    return x * 2


@case
def context_manager_as_decorator(x):
    @scope("local")
    def local(x):
        return x + 1

    return decorated(x) + local(x)


@Tracked()
def tracked(x):
    return x - 1


@case
def context_decorator(x):
    with Tracked():
        return tracked(x)


@case
def context_abstract(x):
    with Abstract() as a:
        x = x + 1
        raise ValueError
    return x, isinstance(a, contextlib.AbstractContextManager)


@case
def context_order(x):
    with Resource("1"), Resource("2") as two:
        LOG.append(two.name)
        try:
            with Resource("3"):
                raise KeyError("k")
        except KeyError:
            return x


# ---- messages --------------------------------------------------------------------------------------------------------


class Own(UserWarning):
    pass


@case
def warnings_warn(x):
    warnings.warn("first", stacklevel=1)
    warnings.warn("second", DeprecationWarning, stacklevel=2)
    warnings.warn(Own("third"), stacklevel=1)
    warnings.warn("fourth", category=Own, stacklevel=1)
    LOG.append("warned")
    return x + 1


@case
def warnings_with_values(x):
    warnings.warn(f"shape {tuple(x.shape)}", RuntimeWarning, stacklevel=1)
    return x


LOGGER = logging.getLogger("onegraph.whole")


@case
def loggers(x):
    LOGGER.debug("hidden %s", 1)
    LOGGER.setLevel if False else None
    return x, LOGGER.name


# ---- texts -----------------------------------------------------------------------------------------------------------


@case
def texts_of_shapes(x):
    n = x.shape[0]
    return (
        x,
        f"{n:>5}|{n!r}|{x.shape}|{tuple(x.shape)}|{x.size(0):03d}|{x.dtype}|{x.ndim}|{n / 3:.3f}|{n=}",
        "{:x} {}".format(n, x.shape),
        "%d %s" % (n, x.shape),
    )


@case
def texts_with_formats(x):
    width, value = 10, 3.14159
    return (
        x,
        f"{value:{width}.2f}",
        f"{'a':*^7}",
        f"{1234567:,}",
        f"{0.25:.1%}",
        f"{255:#x}",
        f"{'q'!r:>6}",
        f"{[1, 'a']}",
        f"{ {1: 2} }",
        f"{None}",
    )


@case
def texts_by_format(x):
    return (
        x,
        "{0} {1!r} {a[0]} {b.real:>4}".format(1, "z", a=[5], b=2),
        "{:>{w}}".format("a", w=4),
        "{}-{}".format(*"ab"),
        "{a}".format_map({"a": 1}),
        format(3, "b"),
    )


@case
def string_methods(x):
    s = "  Hello, World  "
    return (
        x, s.strip().split(", "), s.lower(), s.title(), s.replace("l", "L", 2), s.find("W"), s.strip().startswith(("He", "x")),
        "a,b".partition(","), "x".join(["1", "2"]), "abc"[::-1], "abc".translate(str.maketrans("ab", "xy")), s.encode(),
        "1.5".isdigit(), "a\tb".expandtabs(4), "%05.1f" % 2.25, "a-b_c".casefold(), "ß".upper(), b"ab".hex(), b"\x00".decode(),
        "ab".zfill(4), "aXbX".rsplit("X", 1), "l1\nl2".splitlines(), "abc".removeprefix("a"), "Q".isupper(), ord("a"), chr(98),
        ascii("é"), "a" < "b", "b" in "abc", "abc".count("b"), "x".center(5, "-"), str(1.5), repr("a"), bytes([1, 2]), bytearray(b"a"),
    )  # fmt: skip


@case
def text_modules(x):
    return (
        x, textwrap.dedent("  a\n  b"), textwrap.fill("word " * 8, 20), textwrap.shorten("some long text here", 12), textwrap.indent("a\nb", "> "),
        string.Template("$a and ${b}").substitute(a=1, b=2), string.capwords("a b"), string.ascii_lowercase[:3], shlex.split("a 'b c'"),
        pprint.pformat({"a": [1, 2]}), reprlib.repr(list(range(100))), unicodedata.name("a"), keyword.iskeyword("for"),
        string.Formatter().format("{0} {x}", 1, x=2), difflib.SequenceMatcher(None, "abc", "abd").ratio(),
    )  # fmt: skip


@case
def regular_expressions(x):
    match = re.match(r"(\w+)-(?P<n>\d+)", "ab-12")
    return (
        x, match.group(1), match["n"], match.groupdict(), re.sub(r"\d", lambda m: str(int(m[0]) + 1), "a1b2"), re.findall("[ab]", "abc"),
        re.split(r"[,;]", "a,b;c"), [m.start() for m in re.finditer("a", "banana")], re.compile("x*").fullmatch("xx") is not None, re.escape("a.b"),
    )  # fmt: skip


# ---- buffers ---------------------------------------------------------------------------------------------------------


@case
def string_buffers(x):
    out = io.StringIO()
    out.write("a")
    out.write(f"{x.shape[0]}")
    print("b", file=out, end=";")
    lines = io.StringIO("l1\nl2\n")
    with io.StringIO("z") as closing:
        z = closing.read()
    return x, out.getvalue(), lines.readline(), list(lines), out.tell(), z, io.StringIO("q").read()


@case
def byte_buffers(x):
    raw = io.BytesIO(b"abc")
    raw.seek(1)
    first = raw.read(1)
    raw.write(b"!")
    return x, first, raw.getvalue(), raw.tell(), struct.unpack("<h", io.BytesIO(struct.pack("<h", 5)).read())[0]


# ---- numbers and algorithms ------------------------------------------------------------------------------------------


@case
def math_functions(x):
    return (
        x, math.sqrt(2), math.floor(2.5), math.ceil(2.5), math.gcd(12, 8), math.factorial(5), math.isclose(1, 1.0), math.prod([1, 2]), math.fsum([0.1] * 10),
        math.log(8, 2), math.hypot(3, 4), math.comb(5, 2), math.inf, math.isnan(math.nan), math.dist([0, 0], [3, 4]), math.copysign(1, -0.0), cmath.sqrt(-1),
        math.sqrt(x.shape[0]), math.trunc(2.7), math.frexp(8.0), math.modf(1.5), math.lcm(4, 6), math.perm(5, 2), math.degrees(math.pi), math.isqrt(17),
        round(2.567, 2), divmod(7, 3), pow(2, 5, 7), abs(-3), min(3, 1), sum([1, 2], 3), hash((1, 2)) == hash((1, 2)), int("ff", 16), float("1e3"), complex(1, 2), bin(5),
    )  # fmt: skip


@case
def heaps(x):
    heap = [5, 1, 4]
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    smallest = heapq.heappop(heap)
    pairs = []
    heapq.heappush(pairs, (2, "b"))
    heapq.heappush(pairs, (1, "a"))
    return (
        x, heap, smallest, heapq.nlargest(2, [3, 1, 2]), heapq.nsmallest(2, ["bb", "a"], key=len), list(heapq.merge([1, 4], [2, 3])), pairs,
        heapq.heappushpop(heap, 9), heapq.heapreplace(heap, 7),
    )  # fmt: skip


SORTED = [1, 3, 5]


@case
def bisections(x):
    bisect.insort(SORTED, 4)
    own = [1, 2, 3]
    bisect.insort_left(own, 2)
    return (
        x,
        SORTED,
        bisect.bisect(own, 2),
        bisect.bisect_left(own, 2),
        bisect.bisect_right([(1, "a")], 1, key=lambda p: p[0]),
        own,
    )


@case
def statistics_functions(x):
    data = [1.0, 2.0, 4.0, 4.0]
    return (
        x,
        statistics.mean(data),
        statistics.median(data),
        statistics.mode(data),
        statistics.stdev(data),
        statistics.pvariance(data),
        statistics.fmean(data),
        statistics.quantiles(data),
    )


@case
def exact_numbers(x):
    d, f = decimal.Decimal("1.10"), fractions.Fraction(1, 3)
    return (
        x,
        str(d + 1),
        f + 1,
        float(f),
        f.limit_denominator(2),
        isinstance(1, numbers.Integral),
        isinstance(f, numbers.Rational),
        str(d.quantize(decimal.Decimal("0.1"))),
    )


@case
def encodings(x):
    return (
        x, json.dumps({"a": [1, None, True]}, sort_keys=True), json.loads('{"b": 2.5}'), base64.b64encode(b"ab"),
        struct.pack(">I", 7), json.dumps([1], indent=1),
    )  # fmt: skip


@case
def dates(x):
    d = datetime.date(2024, 2, 28) + datetime.timedelta(days=2)
    return (
        x,
        d.isoformat(),
        d.weekday(),
        datetime.datetime(2024, 1, 1, 5).strftime("%Y-%m"),
        (d - datetime.date(2024, 1, 1)).days,
        datetime.date.fromisoformat("2024-01-05").day,
    )
