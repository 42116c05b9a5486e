"""Graph breaks because of what the program says about a function with one of the escape hatches."""

from __future__ import annotations

from onegraph.capture.breaks.reason import theme as _theme

_define = _theme("Marked functions")

DISALLOWED = _define(
    "disallowed-function",
    "call of {name}, which disallow_in_graph keeps out of graphs",
    "The program asked to run the function between two graphs.",
    "undo it with onegraph.allow_in_graph",
)
FORBIDDEN = _define(
    "forbidden-function",
    "call of {name}, which must not be called in compiled code",
    "The function was marked with forbid_in_graph, or it changes what the compiler itself does.",
    "call it outside of the compiled function",
    fatal=True,
)
ABOUT_COMPILER = _define(
    "call-of-the-compiler",
    "call of {name}, which is about what is compiled",
    "It reads or changes what the compiler itself knows, so it runs between two graphs.",
    "call it outside of the compiled function",
)
NOT_A_TREE = _define(
    "not-a-pytree",
    "{name} {what} a {kind}, which is no tensor, no constant and no registered container",
    "What goes in and out of a function that is traced without looking at its Python code must be known to the graph.",
    "register the class with torch.utils._pytree.register_pytree_node or register_dataclass",
)
LOCAL_FUNCTION = _define(
    "local-marked-function",
    "{name} is given the function {function}, which compiled code has made",
    "The function would keep values of the trace.",
    "define the function outside of the compiled function",
)
CAPTURED_TENSOR = _define(
    "captured-tensor",
    "{name}, an opaque node of the graph, reads a tensor that is not an argument: {error}",
    "A function that allow_in_graph puts into the graph as it is may depend on its arguments alone.",
    "pass the tensor as an argument",
    "mark the function with onegraph.nonstrict_trace instead, for which outer tensors are constants",
)
NOT_CONSTANT = _define(
    "not-a-constant",
    "{name}, whose result is assumed to be constant, is called with {what}",
    "The function is called once, while the program is traced, so its arguments must be known then.",
    "call it with constants and with objects from outside that the compiled function has not changed",
)
TRITON_KERNEL = _define(
    "triton-kernel",
    "the launch of the Triton kernel {name} cannot be a node of the graph: {what}",
    "A node launches a kernel from outside, and is given tensors and constants.",
    "pass tensors, numbers and strings to the kernel",
)
