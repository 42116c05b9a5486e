"""Graph breaks because an operator or a function written in C cannot be run while tracing."""

from __future__ import annotations

from onegraph.capture.breaks.reason import theme as _theme

_define = _theme("Operators and native functions")

FAILED_OPERATOR = _define(
    "failing-operator",
    "{name} raised {error}",
    "The operator fails on inputs of these shapes and types. Where it fails in eager mode too, that error is raised.",
    "correct its fake implementation, which must accept what the operator accepts",
)
OPERATOR_WARNING = _define(
    "operator-warning",
    "{name} warns: {error}",
    "The operator gives a warning each time that it is called like this, and a graph would be silent. A warning that "
    "PyTorch gives once in a process breaks no graph: it is given when the function is compiled.",
    "call it as the warning asks for",
)
UNTRACEABLE_OPERATOR = _define(
    "untraceable-operator",
    "{name} cannot be traced: {error}",
    "The operator has no implementation that computes only the shape of its result.",
    "register a fake implementation with torch.library.register_fake",
    "call it outside of the compiled function",
)
NUMBER_OF_OPERATOR = _define(
    "number-of-operator",
    "{name} gives a Python value",
    "A custom operator is not run while tracing, and what its fake implementation gives stands for tensors only.",
    "let the operator give a tensor of no dimensions",
    "call it outside of the compiled function, and pass the value in",
)
SPARSE_RESULT = _define(
    "layout-change",
    "{name} makes a tensor that is not dense",
    "Sparse, quantized and opaque tensors are not captured.",
    "stay with dense tensors",
)
CONTROL_FLOW_OPERATOR = _define(
    "control-flow-operator",
    "call of {name} {why}",
    "The functions that it runs become graphs of their own, which take tensors, give tensors, and change nothing else.",
    "let the functions return all that they compute, as tensors of their own",
    "compute both branches, and select with torch.where",
)
SCRIPTED = _define(
    "scripted-function",
    "call of {name}, compiled by TorchScript",
    "What TorchScript has compiled has no Python code that could be traced.",
    "call the Python function that was scripted or traced",
)
UNSEEN = _define(
    "unseen-operation",
    "{name} makes a tensor out of sight",
    "Operators that TorchScript or C++ code calls are not seen while tracing, so the tensor has no place in the graph.",
    "wrap what makes it in torch.library.custom_op",
)
UNKNOWN_NATIVE = _define(
    "unknown-native-function",
    "call of the native function {name}",
    "The function is written in C and is not known to be free of side effects, so it is not run while tracing.",
    "call it outside of the compiled function",
    "wrap it in torch.library.custom_op if it works on tensors",
)
UNKNOWN_NATIVE_CLASS = _define(
    "unknown-native-class",
    "making a {name}",
    "The class is written in C and is not known to be free of side effects, so it is not made while tracing.",
    "make it outside of the compiled function",
)
NUMPY = _define(
    "numpy-function",
    "call of {name} ({why})",
    "NumPy's functions are captured as operators of torch, and there are none that do this.",
    "use the function of torch with the same name",
    "call it outside of the compiled function, and pass a tensor in",
)
FOREIGN_LIBRARY = _define(
    "foreign-library",
    "call of {name}, which loads or calls a C library",
    "What the library does is not known.",
    "wrap the call in torch.library.custom_op",
)
PICKLING = _define(
    "pickling",
    "call of {name}, which pickles objects",
    "Pickling calls methods of any object, and would write tensors that have no contents yet.",
    "pickle outside of the compiled function",
)
