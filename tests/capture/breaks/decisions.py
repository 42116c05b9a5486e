"""The contents of a tensor decide."""

from __future__ import annotations

import random

import numpy
import torch

from onegraph.capture import breaks as b
from tests.capture.breaks.table import breaks

# ---- truth -----------------------------------------------------------------------------------------------------------


@breaks(b.DATA_DEPENDENT_BRANCH)
def branch(x):
    if x.sum() > 3:
        return x * 2
    return x - 1


@branch.fixed("use torch.where")
def branch_selects(x):
    return torch.where(x.sum() > 3, x * 2, x - 1)


@branch.fixed("if the condition is really a constant")
def branch_on_size(x):
    if x.shape[0] > 3:
        return x * 2
    return x - 1


@breaks(b.DATA_DEPENDENT_LOOP)
def loop(x):
    while x.sum() < 30:
        x = x * 2
    return x


@loop.fixed("run a fixed number of steps")
def loop_of_known_length(x):
    for _ in range(8):
        x = torch.where(x.sum() < 30, x * 2, x)
    return x


@breaks(b.DATA_DEPENDENT_ASSERT)
def checked(x):
    x += 1
    assert (x > 0).all(), "not positive"
    return x.log()


@checked.fixed("make the check before")
def checked_first(x):
    assert (x + 1 > 0).all(), "not positive"
    x += 1
    return x.log()


@checked.fixed("use torch._assert_async")
def checked_in_graph(x):
    x += 1
    torch._assert_async((x > 0).all(), "not positive")
    return x.log()


@checked.fixed("make the check outside")
def checked_outside(graph, x):
    x += 1
    assert (x > 0).all(), "not positive"
    return graph(lambda x: x.log())(x)


@breaks(b.DATA_DEPENDENT_LOGIC)
def logic(x):
    small = x.sum() > 0 and x.sum() < 10
    return x * small


@logic.fixed("use torch.logical_and")
def logic_of_tensors(x):
    small = torch.logical_and(x.sum() > 0, x.sum() < 10)
    return x * small


@breaks(b.DATA_DEPENDENT_TRUTH)
def truth(x):
    large = [value > 1 for value in x]
    return x * any(large)


@truth.fixed("keep the condition in a tensor")
def truth_in_tensor(x):
    return x * (x > 1).any()


@breaks(b.DATA_DEPENDENT_ORDER)
def order(x):
    return sorted([x.sum(), x.prod(), x.mean()])[0]


@order.fixed("stack the tensors")
def order_of_stack(x):
    return torch.stack([x.sum(), x.prod(), x.mean()]).min()


@breaks(b.DATA_DEPENDENT_MEMBERSHIP)
def membership(x):
    total = x.sum()
    return x * (total in [x.prod(), total])


@membership.fixed("compare by identity")
def membership_by_identity(x):
    total = x.sum()
    return x * any(item is total for item in [x.prod(), total])


# ---- numbers and other Python values ---------------------------------------------------------------------------------


@breaks(b.DATA_DEPENDENT_VALUE)
def value(x):
    return x * torch.equal(x, x.abs())


@value.fixed("keep the answer in a tensor")
def value_in_tensor(x):
    return x * (x == x.abs()).all()


@breaks(b.CHANGING_NUMBER, later=True)
def digits(x):
    for number in range(6):
        print("step", number)
        x = x + len(str(number))
    return x


@digits.fixed("remove the graph break inside")
def digits_without_break(x):
    for number in range(6):
        x = x + len(str(number))
    return x


@breaks(b.DRAWN_NUMBER, same=False)
def chance(x):
    return x.sin() if random.random() < 0.5 else x.cos()


@chance.fixed("draw with torch")
def chance_of_torch(x):
    return torch.where(torch.rand(()) < 0.5, x.sin(), x.cos())


@chance.fixed("draw outside")
def chance_before(graph, x):
    return graph(lambda x, number: x.sin() if number < 0.5 else x.cos())(x, random.random())


@breaks(b.TENSOR_ITEM)
def item(x):
    return x / x.sum().item()


@item.fixed("keep the value in a tensor")
def item_in_tensor(x):
    return x / x.sum()


@item.fixed("return the tensor, and call item()")
def item_behind(graph, x):
    total = graph(lambda x: x.sum())(x)
    return x / total.item()


@item.fixed("let the graph compute")
def item_in_graph(graph, x):
    return graph(lambda x: x / x.sum().item(), options={"capture_scalar_outputs": True})(x)


@breaks(b.TENSOR_TO_LIST)
def numbers(x):
    return [value + 1 for value in x.repeat(10).tolist()]


@numbers.fixed("iterate over the tensor itself")
def numbers_as_tensors(graph, x):
    return [value.item() for value in graph(lambda x: [value + 1 for value in x.repeat(10)])(x)]


@numbers.fixed("return the tensor, and call tolist()")
def numbers_behind(graph, x):
    return graph(lambda x: x.repeat(10) + 1)(x).tolist()


@breaks(b.TENSOR_TO_NUMPY)
def array(x):
    return numpy.exp(x) + 1


@array.fixed("use the operator of torch")
def array_as_tensor(x):
    return torch.exp(x) + 1


@array.fixed("return the tensor, and call numpy()")
def array_behind(graph, x):
    return torch.from_numpy(numpy.exp(graph(lambda x: x * 1)(x).numpy())) + 1


@breaks(b.TENSOR_TO_NUMBER)
def number(x):
    return x + int(x.max())


@number.fixed("use Tensor.to(dtype)")
def number_as_tensor(x):
    return x + x.max().to(torch.int64)


@breaks(b.TENSOR_AS_INDEX)
def index(x):
    return [x, x + 1, x + 2, x + 3][x.argmax()]


@index.fixed("stack the items")
def index_of_stack(x):
    return torch.stack([x, x + 1, x + 2, x + 3]).index_select(0, x.argmax()).squeeze(0)


@index.fixed("pass the number")
def index_passed(graph, x):
    pick = graph(lambda x, number: [x, x + 1, x + 2, x + 3][number])
    return pick(x, x.argmax().item())


def lengths():
    return torch.linspace(0.5, 2.0, 4), torch.tensor(2)


@breaks(b.TENSOR_AS_SIZE, lengths)
def prefix(x, length):
    return x[:length].sum()


@prefix.fixed("work at full size")
def prefix_masked(x, length):
    return torch.where(torch.arange(4) < length, x, 0).sum()


@prefix.fixed("pass the size")
def prefix_of_number(graph, x, length):
    return graph(lambda x, length: x[:length].sum())(x, length.item())


@breaks(b.TEXT_DECIDES)
def text(x):
    return x * (2 if "nan" in str(x) else 3)


@text.fixed("decide by the tensor")
def text_not_needed(x):
    return x * torch.where(x.isnan().any(), 2, 3)


@breaks(b.TEXT_OF_CONTAINER)
def container_text(x):
    return f"values: {[x, x + 1]}"


@container_text.fixed("print the tensors one by one")
def single_texts(x):
    return f"values: [{x!r}, {x + 1!r}]"


@breaks(b.TENSOR_OF_TENSORS)
def tensor_of_tensors(x):
    return torch.tensor([x.sum(), x.mean()])


@tensor_of_tensors.fixed("use torch.stack")
def stacked(x):
    return torch.stack([x.sum(), x.mean()])


# ---- sizes that depend on contents -----------------------------------------------------------------------------------


def selected(x: torch.Tensor) -> torch.Tensor:
    return x[x > 1].clone()


select = torch.library.custom_op("table_of_breaks::select", selected, mutates_args=())


@select.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@breaks(b.DYNAMIC_SIZE, uses=(selected,))
def dynamic_size(x):
    chosen = select(x + 1)
    return chosen.sum() if len(chosen) > 1 else torch.zeros(())


@dynamic_size.fixed("return its input")
def dynamic_size_behind(graph, x):
    return select(graph(lambda x: x + 1)(x)).sum()


@breaks(b.BOOLEAN_MASK)
def masked(x):
    chosen = x[x > 1]
    return chosen.sum() if len(chosen) > 1 else torch.zeros(())


@masked.fixed("keep all elements")
def masked_by_where(x):
    return torch.where(x > 1, x, 0).sum()


@breaks(b.NONZERO)
def places(x):
    found = (x > 1).nonzero()
    return x[found].sum() if len(found) > 1 else torch.zeros(())


@places.fixed("give the number")
def known_number_of_places(x):
    return x[torch.nonzero_static(x > 1, size=2)].sum()


@places.fixed("select with torch.where")
def no_places(x):
    return torch.where(x > 1, x, 0).sum()


@breaks(b.UNIQUE)
def different(x):
    count = len(x.floor().unique())
    return torch.tensor(count if count > 1 else 1)


@different.fixed("sort, and compare neighbours")
def neighbours_differ(x):
    ordered = x.floor().sort().values
    return (ordered[1:] != ordered[:-1]).sum() + 1


def repeats():
    return torch.linspace(0.5, 2.0, 4), torch.tensor([1, 2, 0, 3])


@breaks(b.REPEAT_INTERLEAVE, repeats)
def repeated(x, counts):
    found = torch.repeat_interleave(x, counts)
    return found if len(found) > 1 else x


@repeated.fixed("say how many elements")
def repeated_to_size(x, counts):
    return torch.repeat_interleave(x, counts, output_size=6)


def labels():
    return (torch.tensor([0, 2, 1, 2]),)


@breaks(b.COUNTS, labels)
def classes(label):
    counts = torch.bincount(label)
    return counts if len(counts) > 2 else label


@classes.fixed("say how many classes")
def known_classes(label):
    return torch.nn.functional.one_hot(label, num_classes=3).sum(0)


@classes.fixed("count with torch.zeros")
def counted(label):
    return torch.zeros(3, dtype=torch.int64).scatter_add_(0, label, torch.ones_like(label))
