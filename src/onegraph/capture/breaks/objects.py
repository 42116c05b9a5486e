"""Graph breaks because an object cannot be used, changed or made again behind the graph."""

from __future__ import annotations

from onegraph.capture.breaks.reason import theme as _theme

_define = _theme("Objects")

_HIDDEN = "Its state is hidden, and using it while tracing would change it for real."

# ---- native objects from outside -------------------------------------------------------------------------------------

OUTSIDE_ITERATOR = _define(
    "outside-iterator",
    "use of {what}, an iterator from outside",
    _HIDDEN,
    "pass what it iterates over, and make the iterator inside of the compiled function",
    "draw from it outside of the compiled function, and pass the items in",
)
OUTSIDE_GENERATOR = _define(
    "outside-generator",
    "use of a generator from outside",
    "The generator is suspended in the middle of its code, and going on would change it for real.",
    "make the generator inside of the compiled function",
    "draw from it outside of the compiled function, and pass the items in",
)
OPEN_FILE = _define(
    "open-file",
    "use of {what}, an open file",
    "Reading and writing must happen when the program runs, in order.",
    "read and write outside of the compiled function",
)
LOCK = _define(
    "lock",
    "use of {what}, a lock from outside",
    "Another thread may hold it, or wait for it.",
    "take the lock around the call of the compiled function",
)
NUMPY_ARRAY = _define(
    "numpy-array",
    "use of a numpy array ({why})",
    "Arrays are captured as tensors of the same memory, and no tensor is like this, or does this.",
    "pass array.copy(), which may be written to and has no negative strides",
)
BUFFER = _define(
    "outside-buffer",
    "use of {what}, whose memory is shared with others",
    _HIDDEN,
    "pass a list, a bytes object or a tensor",
)
OPAQUE_OBJECT = _define(
    "outside-native-object",
    "use of {what}, a native object from outside that has hidden state",
    "Using the object while tracing would change it for real.",
    "use the object outside of the compiled function, and pass the result in",
)
FINALIZER = _define(
    "object-with-finalizer",
    "use of {what}, an object with a finalizer",
    "A copy of the object would run `__del__` too, at another time. What makes such an object runs eagerly.",
    "pass what the object holds, and keep the object outside of the compiled function",
    whole_frame=True,
)
SET_ORDER = _define(
    "set-order",
    "use of a set whose order depends on its past",
    "A copy of the set has its elements in another order, and the program could see it.",
    "pass a list, a tuple or a dict, whose order is defined",
)
FOREIGN_CONTEXT = _define(
    "outside-context",
    "{what}, a context that was entered outside, is left inside",
    "Where autocast, or the context of a device, begins and ends must be seen as a whole.",
    "enter and leave the context in the same function, with `with`",
)

# ---- writes that others can see --------------------------------------------------------------------------------------

OBSERVABLE_WRITE = _define(
    "native-attribute-write",
    "write to {what}, which runs native code",
    "Others could observe the order of the writes, so they cannot be replayed behind the graph.",
    "make the write outside of the compiled function",
)
CLASS_WRITE = _define(
    "class-attribute-write",
    "write to {what}, an attribute of a class",
    "Data that a class of the program has may be written. A new name, a method, what a descriptor or a metaclass "
    "writes, and attributes of classes of libraries may not: native code looks at them, and types are not copied.",
    "keep the value in an instance",
)
MODULE_WRITE = _define(
    "module-attribute-write",
    "write to {what}, an attribute of a module",
    "The whole process sees what is written to a module of a library, and a class of modules decides what is written.",
    "use a global variable of the function's own module, with `global`",
    "make the write outside of the compiled function",
)
FUNCTION_WRITE = _define(
    "function-attribute-write",
    "write to {what}, an attribute of a function",
    "Functions are not copied while tracing.",
    "keep the value in an object, a list or a dict",
)

# ---- objects that cannot be made again -------------------------------------------------------------------------------

CANNOT_REBUILD = _define(
    "cannot-rebuild",
    "a live {what} cannot be rebuilt behind the graph",
    "The object must outlive the graph, and there is no recipe to make it again.",
    "make it outside of the compiled function",
    "return what it is made of, and make it behind the compiled function",
)
ESCAPING_CLASS = _define(
    "escaping-class",
    "a live class {what}, made here, cannot be rebuilt behind the graph",
    "The class must outlive the graph, and a class that is made again is another one.",
    "define the class outside of the compiled function",
)
ESCAPING_IDENTITY = _define(
    "escaping-identity",
    "the identity of an object made here is kept",
    "id() and hash() of an object that only the trace has are not those of the object that the program gets.",
    "use identities of objects that come from outside, or number the objects yourself",
)
SELF_CONTAINING = _define(
    "self-containing-object",
    "a live {what} that contains itself cannot be rebuilt behind the graph",
    "There is no order in which its parts could be made.",
    "close the circle behind the compiled function",
)
CHANGED_TEXT = _define(
    "text-of-changed-tensor",
    "the text of a tensor that was written to later",
    "Texts are made behind the graph, when the tensor has its last contents only.",
    "make the text of a copy: x.clone()",
)
