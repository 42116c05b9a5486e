"""Graph breaks because of a part of Python, or because the program asks for one."""

from __future__ import annotations

from onegraph.capture.breaks.reason import theme as _theme

_define = _theme("Python")

ASYNCHRONOUS = _define(
    "asynchronous-code",
    "{what}",
    "Coroutines are run by an event loop, which decides what runs next.",
    "compile the functions that the coroutine calls",
)
FRAME_ACCESS = _define(
    "frame-access",
    "call of {name}, which looks at the variables of the function that calls it",
    "The function that calls it runs eagerly, so that the variables are all there.",
    "pass the values on by name",
    whole_frame=True,
)
DYNAMIC_CODE = _define(
    "dynamic-code",
    "call of {name}, which runs code from a string",
    "The code can look at and change the variables of the function that calls it.",
    "write the code out, or make a function of it outside of the compiled function",
    whole_frame=True,
)
RAISED = _define(
    "raises-while-traced",
    "the program raised {error} while it was traced",
    "It was then run as it is written, and raised nothing: so what it does depends on being traced.",
    "do the same in both cases: do not ask is_compiling()",
)
CACHED_FUNCTION = _define(
    "cached-function",
    "call of {name}, which works with the cache of a function",
    "The cache has no result for these arguments yet, or it is asked for: what is done then is done once, in order.",
    "call the function once with these arguments before the compiled function",
    "use constants, and objects that live on, as the arguments",
    "look at the cache outside of the compiled function",
)
CODE_COMPILATION = _define(
    "code-compilation",
    "call of {name}, which compiles code from a string",
    "The code that is made would be frozen into the compiled program.",
    "compile the string outside of the compiled function",
)
LONG_TRACE = _define(
    "long-trace",
    "a trace that is too long: {what}",
    "Tracing unrolls loops. A loop of many thousands of steps, or a container of as many objects, takes longer to trace"
    " and to guard than to run: the function that it is in runs eagerly, and those that it calls are compiled each on"
    " its own. Marked with onegraph.disable, it does so without being traced first.",
    "do it in front of the compiled function",
    "if it gives the same each time, mark the function that it is in with onegraph.assume_constant_result",
    'allow longer traces: options={"trace_limit": 10_000_000}',
    whole_frame=True,
)
LONG_LOOP = _define(
    "long-loop",
    "a loop of more than {turns} turns, in a graph of {operations} operations so far",
    "Tracing unrolls loops, and compiling so many operations takes longer than running them. The graph ends behind the"
    " first turn, and each turn after it runs one more graph, the same for all.",
    "write the loop as one operation on the whole tensor",
    'unroll more of it: options={"loop_limit": 100_000}, or fullgraph=True',
)
FORCED = _define(
    "forced-graph-break",
    "call of graph_break(){why}",
    "The program asked for a graph break here.",
    "remove the call",
    "call the function that contains it through onegraph.nonstrict_trace, if it works on tensors alone",
)
SKIPPED = _define(
    "skipped-frame",
    "call of skip_frame(){why}",
    "The program asked to run the function that contains the call eagerly.",
    "remove the call",
    whole_frame=True,
)
DISABLED = _define(
    "disabled-function",
    "call of {name}, which is marked to run eagerly{why}",
    "The function was wrapped with a disable decorator.",
    "remove the decorator",
)
