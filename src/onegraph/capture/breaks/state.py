"""Graph breaks because a function changes the state of the process or of the interpreter."""

from __future__ import annotations

from onegraph.capture.breaks.reason import theme as _theme

_define = _theme("State of the process")

_LEAKS = "The change would leak out of tracing, or come too late for the graph."

DEFAULT_DEVICE = _define(
    "default-device",
    "call of {name} within a context that chooses a device",
    "The context goes before the default device, and the graph cannot show which of the two a tensor is made on.",
    "pass device= where tensors are made, or use `with torch.device(...)`",
)
STATE_CHANGE = _define(
    "torch-setting",
    "call of {name}, which changes a setting of torch",
    _LEAKS,
    "call it outside of the compiled function",
)
DEVICE_WORK = _define(
    "device-work",
    "use of {name}, which orders the work of a device, waits for it, or tells of it",
    "Operators of a graph know no streams and events; a graph runs on the stream that is the current one at its call.",
    "do it outside of the compiled function",
)
TORCH_CONTEXT = _define(
    "torch-context",
    "use of the context manager {name}",
    "It sets up something that watches or changes what PyTorch runs for real, which tracing does not.",
    "use it outside of the compiled function; what runs in it is not compiled",
)
ANOMALY_MODE = _define(
    "anomaly-mode",
    "use of {name}, which checks backward passes operator by operator",
    _LEAKS,
    "put it around the call of the compiled function",
)
CONTEXT_VARIABLE = _define(
    "context-variable",
    "use of the context variable {name}",
    "Its value belongs to the thread and the task that run the program.",
    "read and set it outside of the compiled function, and pass the value in",
)
SIGNALS = _define(
    "signals",
    "call of {name}, which handles signals",
    _LEAKS,
    "call it outside of the compiled function",
)
EXIT_HANDLER = _define(
    "exit-handler",
    "call of {name}, which registers what runs when the program ends",
    _LEAKS,
    "register it outside of the compiled function",
)
GARBAGE_COLLECTOR = _define(
    "garbage-collector",
    "call of {name}, which controls the garbage collector",
    "Objects of the trace are not those of the running program.",
    "call it outside of the compiled function",
)
INTERPRETER_STATE = _define(
    "interpreter-state",
    "call of {name}, which looks at or changes the interpreter",
    "The interpreter is busy with tracing, and not with the program.",
    "call it outside of the compiled function",
)
