"""Graph breaks because the contents of a tensor decide what Python does next."""

from __future__ import annotations

from onegraph.capture.breaks.reason import theme as _theme

_define = _theme("The contents of a tensor decide")

# ---- truth -----------------------------------------------------------------------------------------------------------

DATA_DEPENDENT_BRANCH = _define(
    "data-dependent-branch",
    "the truth of a tensor decides what runs next",
    "The condition is a tensor, whose value is not known before the graph has run.",
    "use torch.where, or compute both branches and select",
    "if the condition is really a constant, compute it from Python values",
)
DATA_DEPENDENT_LOOP = _define(
    "data-dependent-loop",
    "the truth of a tensor decides how often a loop runs",
    "The condition of the loop is a tensor, whose value is not known before the graph has run.",
    "run a fixed number of steps, and keep with torch.where what is settled",
)
DATA_DEPENDENT_ASSERT = _define(
    "data-dependent-assert",
    "a check of the contents of a tensor, {why}",
    "A check is an `assert`, or an `if` that only raises. The graph makes it, and where it fails the frame runs as it "
    "was written; so what comes before it must be such that it can be undone.",
    "make the check before tensors from outside are written to",
    "use torch._assert_async(condition, message): its own error is raised, whatever has happened before",
    "make the check outside of the compiled function",
)
DATA_DEPENDENT_LOGIC = _define(
    "data-dependent-logic",
    "`and`, `or` or `not` of a tensor",
    "These operators ask for the truth of their operand, which is not known before the graph has run.",
    "use torch.logical_and, torch.logical_or and torch.logical_not",
)
DATA_DEPENDENT_TRUTH = _define(
    "data-dependent-truth",
    "a function asks for the truth of a tensor",
    "bool, any, all, filter and assert functions need a Python bool, which is not known before the graph has run.",
    "keep the condition in a tensor, and use Tensor.all or Tensor.any",
)
DATA_DEPENDENT_ORDER = _define(
    "data-dependent-order",
    "{name} compares tensors",
    "The order of the tensors depends on their contents, which are not known before the graph has run.",
    "stack the tensors, and use torch.sort, Tensor.max or Tensor.min",
)
DATA_DEPENDENT_MEMBERSHIP = _define(
    "data-dependent-membership",
    "a container compares tensors with ==",
    "`in`, list.index, list.remove and == of containers ask whether tensors are equal, which is not known yet.",
    "compare by identity: any(item is x for item in items)",
)

# ---- numbers and other Python values ---------------------------------------------------------------------------------

DATA_DEPENDENT_VALUE = _define(
    "data-dependent-value",
    "{what} makes a Python value of the contents of a tensor",
    "The contents are not known before the graph has run. A check (`if not torch.equal(a, b): raise`) is made in the "
    "graph, and so is the answer for a tensor and itself, for two that the same operators make, and for two inputs.",
    "keep the answer in a tensor: (a == b).all() instead of torch.equal(a, b)",
)
CHANGING_NUMBER = _define(
    "changing-number",
    "the {what} of a number that changes from step to step",
    "A loop that a graph break has interrupted computes the number, so that it is not known before the loop runs.",
    "remove the graph break inside of the loop",
)
DRAWN_NUMBER = _define(
    "drawn-number",
    "the program needs a number that is drawn at random",
    "Each call draws another one. It may be computed with, returned and stored, and be given to operators. No branch "
    "and no text can take it.",
    "draw with torch, and choose with torch.where",
    "draw outside of the compiled function, and pass the value in",
)
TENSOR_ITEM = _define(
    "tensor-item",
    "the program needs the number that Tensor.item takes out of a tensor",
    "The number is not known before the graph has run. It may be computed with, returned and stored, and an integer "
    "may be a size or an index. No branch or text can take it, and no operator one with a fraction.",
    "keep the value in a tensor of no dimensions: operators take it in the place of a number",
    "return the tensor, and call item() behind the compiled function",
    'let the graph compute with the number: options={"capture_scalar_outputs": True}',
)
TENSOR_TO_LIST = _define(
    "tensor-to-list",
    "Tensor.tolist makes Python numbers of a tensor",
    "The numbers are not known before the graph has run. If there are 32 or less, and no truths, they are taken out "
    "one by one, as by item().",
    "iterate over the tensor itself, or use Tensor.unbind",
    "return the tensor, and call tolist() behind the compiled function",
)
TENSOR_TO_NUMPY = _define(
    "tensor-to-numpy",
    "{what} makes a numpy array of a tensor",
    "The contents of the array are not known before the graph has run.",
    "use the operator of torch instead of numpy's",
    "return the tensor, and call numpy() behind the compiled function",
)
TENSOR_TO_NUMBER = _define(
    "tensor-to-number",
    "{what} makes a Python number of a tensor",
    "The number is not known before the graph has run.",
    "use Tensor.to(dtype), which stays a tensor",
)
TENSOR_AS_INDEX = _define(
    "tensor-as-index",
    "a tensor is used as a Python integer",
    "Lists, tuples and range need the number itself, which is not known before the graph has run. So does an item of a "
    "tensor (x[t]) that is returned or written to, or is not contiguous: it is a view, and the graph makes a copy.",
    "stack the items, and take one with Tensor.index_select",
    "pass the number as a Python integer",
)
TENSOR_AS_SIZE = _define(
    "tensor-as-size",
    "{what} takes a size or another number from a tensor",
    "The number of elements is not known before the graph has run.",
    "work at full size, and mask: torch.where(torch.arange(n) < length, x, 0)",
    "pass the size as a Python integer",
)
TEXT_DECIDES = _define(
    "text-of-tensor-decides",
    "the program looks into the text of a tensor",
    "A string that shows a tensor is made when the graph has run; until then it can be joined, kept and returned.",
    "decide by the tensor, and make the text behind the compiled function",
)
TEXT_OF_CONTAINER = _define(
    "text-of-container",
    "the text of a container of tensors",
    "Native code prints the container, and would print tensors that have no contents yet.",
    'print the tensors one by one: f"{a} {b}"',
)
TENSOR_OF_TENSORS = _define(
    "tensor-of-tensors",
    "{name} copies the numbers out of tensors",
    "A tensor is made of Python numbers, and the numbers are not known before the graph has run.",
    "use torch.stack",
)

# ---- sizes that depend on contents -----------------------------------------------------------------------------------

GOES_ON = (
    "Operators go on with the result in the same graph. A branch, a loop or a text that needs its size cannot, and "
    "there is no such size behind a write to a tensor from outside."
)
DYNAMIC_SIZE = _define(
    "data-dependent-size",
    "the size of the result of {what} depends on the contents of a tensor",
    "It is not known before the graph has run. " + GOES_ON,
    "return its input, and call it behind the compiled function",
)
BOOLEAN_MASK = _define(
    "boolean-mask",
    "{what} selects elements by a mask",
    "How many elements are selected is not known before the graph has run. " + GOES_ON,
    "keep all elements, and use torch.where(mask, x, 0)",
)
NONZERO = _define(
    "nonzero",
    "{what} looks for the elements that are not zero",
    "How many there are is not known before the graph has run. " + GOES_ON,
    "give the number: torch.nonzero_static(x, size=n)",
    "select with torch.where(condition, a, b), which needs no indices",
)
UNIQUE = _define(
    "unique",
    "{what} looks for different elements",
    "How many there are is not known before the graph has run. " + GOES_ON,
    "sort, and compare neighbours: the result has the size of its input",
)
REPEAT_INTERLEAVE = _define(
    "repeats-in-a-tensor",
    "{what} repeats elements as often as a tensor says",
    "The size of the result is the sum of the tensor, which is not known before the graph has run. " + GOES_ON,
    "say how many elements the result has: torch.repeat_interleave(x, repeats, output_size=n)",
)
COUNTS = _define(
    "number-of-classes",
    "{what} has as many classes as the largest element says",
    "The largest element is not known before the graph has run. " + GOES_ON,
    "say how many classes there are: torch.nn.functional.one_hot(x, num_classes=n)",
    "count with torch.zeros(n).scatter_add_(0, x, ones)",
)
