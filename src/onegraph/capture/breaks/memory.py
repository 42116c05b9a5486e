"""Graph breaks because a tensor is used as memory, or is not a plain tensor."""

from __future__ import annotations

from onegraph.capture.breaks.reason import theme as _theme

_define = _theme("Tensors as objects")

TENSOR_MEMORY = _define(
    "tensor-memory",
    "{what} looks at the memory of a tensor",
    "Tensors have no memory while they are traced, and compiled code places them as it likes.",
    "ask for it outside of the compiled function",
)
MEMORY_CHANGE = _define(
    "tensor-memory-change",
    "{what} gives a tensor other memory",
    "Other tensors may share the memory, and compiled code has planned it.",
    "write into the memory that is there, with Tensor.copy_",
    "make a new tensor, and use that one from here on",
)
INPUT_SHAPE_CHANGE = _define(
    "input-shape-change",
    "{what} gives a tensor that was passed in another shape",
    "A graph knows its inputs by their shapes, and computes new tensors: the caller's would stay as it was.",
    "make a view, and use that one from here on: x = x.unsqueeze(0)",
    "change the shape outside of the compiled function",
)
OVERLAPPING_WRITE = _define(
    "overlapping-write",
    "{what} writes to memory that it reads in another place, or writes to an element twice",
    "The result depends on the order in which the elements are computed; most operators raise an error.",
    "copy what is read first: x[1:].add_(x[:-1].clone())",
    "compute without writing: y = x[1:] + x[:-1]",
)
TENSOR_PLACE = _define(
    "tensor-placement",
    "{what} moves a tensor to special memory",
    "Pinned and shared memory is the business of the process, not of a graph.",
    "do it outside of the compiled function",
)
TENSOR_COPY = _define(
    "tensor-copy",
    "copy of a tensor by the copy module: {why}",
    "The copy would be a leaf of autograd, share its memory with other copies, or have attributes in Python, which a"
    " graph cannot say.",
    "copy the values: x.detach().clone()",
    "copy outside of the compiled function",
)
TENSOR_HISTORY = _define(
    "tensor-history",
    "{what} looks at how autograd has made a tensor",
    "While a function is traced, its tensors have no history that could be shown.",
    "ask for requires_grad, which is known",
    "look at it outside of the compiled function",
)
TENSOR_ATTRIBUTE = _define(
    "tensor-attribute-write",
    "the attributes of a tensor that the graph makes are asked for as a dict",
    "There is no tensor yet that could have it. Single attributes are read and set in graphs.",
    "ask for the attributes by their names",
)
GRAD_WRITE = _define(
    "gradient-write",
    "the attribute {name} of a tensor is set",
    "It belongs to autograd, which runs outside of the graph.",
    "set it outside of the compiled function",
)
TENSOR_SUBCLASS = _define(
    "tensor-subclass",
    "a tensor of the subclass {name}",
    "It does as it likes in the place of operators, and does not say what it is made of.",
    "give the class __tensor_flatten__ and __tensor_unflatten__",
)
SUBCLASS_ATTRIBUTE = _define(
    "tensor-subclass-attribute",
    "the attribute {name} of a tensor of the subclass {cls}",
    "The graph has the elements of such a tensor, which have a history of their own.",
    "ask for it, or set it, outside of the compiled function",
)
SUBCLASS_MADE = _define(
    "tensor-subclass-made",
    "{what} makes a tensor of a subclass",
    "It does as it likes in the place of operators, and does not say what it is made of.",
    "make it outside of the compiled function",
)
PARAMETER_MADE = _define(
    "parameter-made",
    "a parameter of a class of its own is made by {name}",
    "Only plain tensors and parameters are captured: a subclass may do anything in the place of an operator.",
    "make modules and parameters outside of the compiled function",
)
TENSOR_LAYOUT = _define(
    "tensor-layout",
    "a tensor that is not dense: {error}",
    "Sparse, quantized, nested and opaque tensors are not captured.",
    "pass a dense tensor",
)
GENERATOR_ARGUMENT = _define(
    "random-generator",
    "a draw from a torch.Generator",
    "The state of the generator is no part of the graph.",
    "draw outside of the compiled function, and pass the tensor in",
    "draw from the default generator, which follows torch.manual_seed",
)
GENERATOR_MADE = _define(
    "generator-made",
    "a torch.Generator is made",
    "Its numbers are drawn outside of the graph, and it would be another generator at each call.",
    "make the generator outside of the compiled function, and pass in what is drawn from it",
)
