"""Python, and breaks that the program asks for."""

from __future__ import annotations

import asyncio
import functools

import onegraph
from onegraph.capture import breaks as b
from tests.capture.breaks.table import breaks


@breaks(b.ASYNCHRONOUS)
def runs_coroutine(x):
    async def add():
        return x + 1

    coroutine = add()
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value


@runs_coroutine.fixed("compile the functions that the coroutine calls")
def coroutine_outside(graph, x):
    async def add():
        return graph(lambda x: x + 1)(x)

    return asyncio.run(add())


@breaks(b.FRAME_ACCESS)
def looks_at_locals(x):
    scale = 2
    return x * locals()["scale"]


@looks_at_locals.fixed("pass the values on by name")
def names_them(x):
    scale = 2
    return x * scale


SEEN = []


@functools.lru_cache
def scale_of(name):
    return len(name) / 2


@breaks(b.CACHED_FUNCTION)
def counts_misses(x):
    return x * scale_of("abc") + scale_of.cache_info().currsize


@counts_misses.fixed("call the function once")
def warmed(graph, x):
    def remembered(x):
        SEEN.append(1)
        return x * scale_of("abc")

    scale_of.cache_clear()
    scale_of("abc")
    return graph(remembered)(x) + scale_of.cache_info().currsize


@counts_misses.fixed("use constants")
def by_name(x):
    return x * scale_of("abc") + 1


@counts_misses.fixed("look at the cache outside")
def counts_outside(graph, x):
    scale_of("abc")
    count = scale_of.cache_info().currsize
    return graph(lambda x: x * scale_of("abc") + count)(x)


@breaks(b.DYNAMIC_CODE)
def evaluates(x):
    return eval("x * 2 + 1")


@evaluates.fixed("write the code out")
def written_out(x):
    return x * 2 + 1


@breaks(b.RAISED, runs=False)
def differs_when_traced(x):
    if onegraph.is_compiling():
        raise NotImplementedError("not in compiled code")
    return x + 1


@differs_when_traced.fixed("do the same in both cases")
def same_when_traced(x):
    return x + 1


@breaks(b.CODE_COMPILATION)
def compiles(x):
    code = compile("2", "<text>", "eval")
    return x * code.co_consts[0]


@compiles.fixed("compile the string outside")
def compiles_before(graph, x):
    code = compile("2", "<text>", "eval")
    return graph(lambda x, number: x * number)(x, code.co_consts[0])


@breaks(b.LONG_TRACE, options={"trace_limit": 10_000})
def long_loop(x):
    total = 0
    for number in range(5_000):
        total += number
    return x * total


@long_loop.fixed("do it in front")
def loop_before(graph, x):
    total = 0
    for number in range(5_000):
        total += number
    return graph(lambda x, total: x * total)(x, total)


@onegraph.assume_constant_result
def sum_of_numbers():
    total = 0
    for number in range(5_000):
        total += number
    return total


@long_loop.fixed("if it gives the same each time", uses=(sum_of_numbers,))
def loop_once(x):
    return x * sum_of_numbers()


@long_loop.fixed("allow longer traces")
def longer_trace(graph, x):
    def long_loop(x):
        total = 0
        for number in range(5_000):
            total += number
        return x * total

    return graph(long_loop, options={"trace_limit": 10_000_000})(x)


@breaks(b.LONG_LOOP, strict=False, options={"loop_limit": 100})
def many_turns(x):
    total = x
    for turn in range(300):
        total = total + x * turn
    return total


@many_turns.fixed("write the loop as one operation")
def one_operation(x):
    return x + x * sum(range(300))


@many_turns.fixed("unroll more of it")
def unrolled(graph, x):
    def many_turns(x):
        total = x
        for turn in range(300):
            total = total + x * turn
        return total

    return graph(many_turns)(x)


@breaks(b.FORCED)
def asks_for_break(x):
    y = x + 1
    onegraph.graph_break()
    return y * 2


@asks_for_break.fixed("remove the call")
def asks_for_none(x):
    y = x + 1
    return y * 2


def stops_half_way(x):
    y = x + 1
    onegraph.graph_break()
    return y * 2


@asks_for_break.fixed("call the function that contains it", uses=(stops_half_way,))
def traced_nonstrictly(x):
    return onegraph.nonstrict_trace(stops_half_way)(x)


@breaks(b.SKIPPED)
def asks_to_be_skipped(x):
    onegraph.skip_frame()
    return x * 2


@asks_to_be_skipped.fixed("remove the call")
def not_skipped(x):
    return x * 2


@onegraph.disable
def eager_part(x):
    return x + 1


def part(x):
    return x + 1


@breaks(b.DISABLED, uses=(eager_part,))
def calls_disabled(x):
    return eager_part(x) * 2


@calls_disabled.fixed("remove the decorator", uses=(part,))
def calls_part(x):
    return part(x) * 2
