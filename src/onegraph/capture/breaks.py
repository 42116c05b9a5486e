"""Graph breaks: the catalogue of reasons, and the exception that carries one to the translator.

A new reason is one constant below. Its summary is a format string over the facts given where it is raised; the hints
say what removes the break.
"""

from __future__ import annotations

from dataclasses import dataclass

from onegraph.capture.interp.frame import Abort


@dataclass(frozen=True, slots=True)
class Reason:
    """One kind of graph break."""

    code: str
    summary: str
    explanation: str
    hints: tuple[str, ...] = ()
    #: Whether what breaks must run in its own frame, so that the call of that frame runs eagerly.
    whole_frame: bool = False


class GraphBreak(Abort):
    """Raised where tracing cannot go on. The user's `except` clauses do not see it."""

    def __init__(self, reason: Reason, **facts: object) -> None:
        self.reason = reason
        self.summary = reason.summary.format(**facts)
        super().__init__(self.summary)


CATALOGUE: dict[str, Reason] = {}


def reason(code: str, summary: str, explanation: str, *hints: str, whole_frame: bool = False) -> Reason:
    entry = Reason(code, summary, explanation, hints, whole_frame)
    CATALOGUE[code] = entry
    return entry


DATA_DEPENDENT_BRANCH = reason(
    "data-dependent-branch",
    "the truth of a tensor decides what runs next",
    "The condition is a tensor, whose value is not known before the graph has run.",
    "use torch.where, or compute both branches and select",
    "if the condition is really a constant, compute it from Python values",
)
DATA_DEPENDENT_VALUE = reason(
    "data-dependent-value",
    "{what} needs the contents of a tensor",
    "A Python value was made from tensor data (item, tolist, int, float, nonzero, a boolean mask ...).",
    "keep the value in a tensor",
    "move the conversion behind the compiled function",
)
UNKNOWN_NATIVE = reason(
    "unknown-native-function",
    "call of the native function {name}",
    "The function is written in C and is not known to be free of side effects, so it is not run while tracing.",
    "call it outside of the compiled function",
    "wrap it in torch.library.custom_op if it works on tensors",
)
OPAQUE_OBJECT = reason(
    "outside-native-object",
    "use of {what}, a native object from outside that has hidden state",
    "Using the object while tracing would change it for real.",
    "create the object inside of the compiled function",
    "pass a list instead of an iterator",
)
FORCED = reason(
    "forced-graph-break",
    "call of graph_break(){why}",
    "The program asked for a graph break here.",
    "remove the call",
    "call the function that contains it through onegraph.nonstrict_trace, if it works on tensors alone",
)
SKIPPED = reason(
    "skipped-frame",
    "call of skip_frame(){why}",
    "The program asked to run the function that contains the call eagerly.",
    "remove the call",
    whole_frame=True,
)
DISABLED = reason(
    "disabled-function",
    "call of {name}, which is marked to run eagerly{why}",
    "The function was wrapped with a disable decorator.",
    "remove the decorator",
)
OUTPUT = reason(
    "input-output",
    "call of {name}, which talks to the world outside",
    "Printing, reading or writing must happen when the program runs, in order, not while it is traced.",
    "move it out of the compiled function",
)
NONDETERMINISTIC = reason(
    "nondeterministic-function",
    "call of {name}, whose result differs from call to call",
    "Its value at tracing time would be frozen into the compiled program.",
    "compute the value outside and pass it in",
)
FAILED_OPERATOR = reason(
    "failing-operator",
    "{name} raised {error}",
    "The operator fails on inputs of these shapes and types; it probably fails in eager mode too.",
    "fix the arguments of the operator",
)
UNTRACEABLE_OPERATOR = reason(
    "untraceable-operator",
    "{name} cannot be traced: {error}",
    "The operator has no fake implementation, or its result's shape depends on data.",
    "register a fake implementation with torch.library.register_fake",
    "call it outside of the compiled function",
)
HIGHER_ORDER = reason(
    "higher-order-function",
    "call of {name}, which takes functions over tensors",
    "Differentiation and transformation inside of the compiled function are not captured yet.",
    "apply the transformation outside of the compiled function",
)
REAL_TENSORS = reason(
    "works-on-real-tensors",
    "call of {name}, which works on real tensors",
    "Optimizers, data loading and communication change tensors and process state outside of the graph.",
    "call it outside of the compiled function",
)
TENSOR_SUBCLASS = reason(
    "tensor-subclass",
    "a tensor of the subclass {name}",
    "Only plain tensors and parameters are captured.",
    "pass plain tensors",
)
TENSOR_ATTRIBUTE = reason(
    "tensor-attribute-write",
    "the attribute {name} is set on a tensor",
    "Python attributes of tensors are not replayed.",
    "keep the value beside the tensor",
)
PYTHON_FEATURE = reason(
    "python-feature",
    "{what}",
    "This part of Python is not captured.",
    "move it out of the compiled function",
)
FRAME_ACCESS = reason(
    "frame-access",
    "call of {name}, which looks at the variables of the function that calls it",
    "The function that calls it runs eagerly, so that the variables are all there.",
    "pass the values on by name",
    whole_frame=True,
)
OBSERVABLE_WRITE = reason(
    "observable-write",
    "write to {what}, which runs native code",
    "Others could observe the order of the writes, so they cannot be replayed behind the graph.",
    "make the write outside of the compiled function",
)
CANNOT_REBUILD = reason(
    "cannot-rebuild",
    "a live {what} cannot be rebuilt behind the graph",
    "The value must outlive the graph, and there is no recipe to make it again.",
    "do not keep it across the graph break, or do not return it",
)
STATE_CHANGE = reason(
    "state-change",
    "call of {name}, which changes the state of the process",
    "The change would leak out of tracing.",
    "call it before the compiled function",
)
