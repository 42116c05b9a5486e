"""Objects."""

from __future__ import annotations

import hashlib
import io
import itertools
import threading
import types

import numpy
import torch

from onegraph.capture import breaks as b
from tests.capture.breaks.table import breaks


def with_argument(make):
    return lambda: (torch.linspace(0.5, 2.0, 4), make())


# ---- native objects from outside -------------------------------------------------------------------------------------


@breaks(b.OUTSIDE_ITERATOR, with_argument(lambda: itertools.pairwise([1, 2, 3])))
def draws(x, pairs):
    return x + next(pairs)[0]


@draws.fixed("pass what it iterates over")
def draws_inside(graph, x, pairs):
    return graph(lambda x, items: x + next(itertools.pairwise(items))[0])(x, [1, 2, 3])


@draws.fixed("draw from it outside")
def draws_before(graph, x, pairs):
    return graph(lambda x, pair: x + pair[0])(x, next(pairs))


def counting():
    yield from (3, 4)


@breaks(b.OUTSIDE_GENERATOR, with_argument(counting), uses=(counting,))
def draws_generated(x, numbers):
    return x + next(numbers)


@draws_generated.fixed("make the generator inside")
def generator_inside(graph, x, numbers):
    return graph(lambda x: x + next(counting()))(x)


@draws_generated.fixed("draw from it outside")
def generator_drawn_before(graph, x, numbers):
    return graph(lambda x, number: x + number)(x, next(numbers))


@breaks(b.OPEN_FILE, with_argument(lambda: io.TextIOWrapper(io.BytesIO(b"2"))))
def reads(x, file):
    return x * float(file.read())


@reads.fixed("read and write outside")
def reads_before(graph, x, file):
    return graph(lambda x, scale: x * scale)(x, float(file.read()))


@breaks(b.LOCK, with_argument(threading.Lock))
def locks(x, lock):
    with lock:
        return x + 1


@locks.fixed("take the lock around")
def locks_around(graph, x, lock):
    with lock:
        return graph(lambda x: x + 1)(x)


@breaks(b.NUMPY_ARRAY, with_argument(lambda: numpy.ones(4, dtype=numpy.float32)[::-1]))
def adds_array(x, array):
    return x + torch.from_numpy(array * 2)


@adds_array.fixed("pass array.copy()")
def adds_copy(graph, x, array):
    return graph(lambda x, y: x + torch.from_numpy(y * 2))(x, array.copy())


@breaks(b.BUFFER, with_argument(lambda: bytearray(b"ab")))
def adds_byte(x, data):
    return x + data[0]


@adds_byte.fixed("pass a list")
def adds_item(graph, x, data):
    return graph(lambda x, items: x + items[0])(x, list(data))


@breaks(b.OPAQUE_OBJECT, with_argument(lambda: hashlib.sha1(b"seed")))
def native_object(x, hashed):
    return x * hashed.digest()[0]


@native_object.fixed("use the object outside")
def native_object_outside(graph, x, hashed):
    return graph(lambda x, scale: x * scale)(x, hashed.digest()[0])


class Resource:
    """Closes itself."""

    def __init__(self) -> None:
        self.scale = 2

    def __del__(self) -> None:
        self.scale = 0


@breaks(b.FINALIZER, with_argument(Resource), uses=(Resource,))
def with_finalizer(x, resource):
    return x * resource.scale


@with_finalizer.fixed("pass what the object holds")
def without_finalizer(graph, x, resource):
    return graph(lambda x, scale: x * scale)(x, resource.scale)


def disordered():
    """A set that has grown and shrunk: its order is another than that of a fresh set."""
    numbers = set(range(40))
    for number in range(40):
        if number not in (9, 16):
            numbers.discard(number)
    return numbers


@breaks(b.SET_ORDER, with_argument(disordered), uses=(disordered,))
def in_order_of_set(x, numbers):
    return [x + number for number in numbers]


@in_order_of_set.fixed("pass a list")
def in_order_of_list(graph, x, numbers):
    return graph(lambda x, numbers: [x + number for number in numbers])(x, list(numbers))


def entered():
    """A context that is entered: leaving it by hand is not what the program is about."""
    context = torch.autocast("cpu")
    context.__enter__()
    context.__exit__(None, None, None)
    return context


@breaks(b.FOREIGN_CONTEXT, with_argument(entered), runs=False)
def leaves_autocast(x, context):
    context.__exit__(None, None, None)
    return x + 1


@leaves_autocast.fixed("enter and leave the context")
def whole_autocast(x, context):
    with torch.autocast("cpu"):
        return x + 1


# ---- writes that others can see --------------------------------------------------------------------------------------


@breaks(b.OBSERVABLE_WRITE, with_argument(io.StringIO))
def writes_natively(x, file):
    file.note = 1
    return x + 1


@writes_natively.fixed("make the write outside")
def writes_natively_outside(graph, x, file):
    file.note = 1
    return graph(lambda x: x + 1)(x)


class Counter:
    """Counts its calls, for all instances together."""

    calls = 0


@breaks(b.CLASS_WRITE, with_argument(Counter), uses=(Counter,))
def counts_in_class(x, counter):
    Counter.limit = property(lambda counter: 5)
    return x + counter.limit


@counts_in_class.fixed("keep the value in an instance")
def counts_in_instance(x, counter):
    counter.calls = 5
    return x + counter.calls


class Module(types.ModuleType):
    """What is written to it may go elsewhere."""


SETTINGS = Module("settings")
scale = 1


@breaks(b.MODULE_WRITE, uses=(Module,))
def writes_module(x):
    SETTINGS.scale = 3
    return x * SETTINGS.scale


@writes_module.fixed("use a global variable")
def writes_global(x):
    global scale
    scale = 3
    return x * scale


@writes_module.fixed("make the write outside")
def writes_module_outside(graph, x):
    SETTINGS.scale = 3
    return graph(lambda x: x * SETTINGS.scale)(x)


def helper(x):
    return x + 1


@breaks(b.FUNCTION_WRITE, uses=(helper,))
def counts_in_function(x):
    helper.calls = 1
    return helper(x) * helper.calls


CALLS = {"helper": 0}


@counts_in_function.fixed("keep the value in an object")
def counts_in_dict(x):
    CALLS["helper"] = 1
    return helper(x) * CALLS["helper"]


# ---- objects that cannot be made again -------------------------------------------------------------------------------


@breaks(b.CANNOT_REBUILD, same=False)
def returns_pairs(x):
    return x + 1, itertools.pairwise("abc")


@returns_pairs.fixed("make it outside")
def pairs_outside(graph, x):
    pairs = itertools.pairwise("abc")
    return graph(lambda x: x + 1)(x), pairs


@returns_pairs.fixed("return what it is made of")
def pairs_behind(graph, x):
    y, text = graph(lambda x: (x + 1, "abc"))(x)
    return y, itertools.pairwise(text)


@breaks(b.ESCAPING_CLASS, same=False)
def returns_class(x):
    class Result:
        pass

    return Result, x + 1


@returns_class.fixed("define the class outside")
def returns_known_class(x):
    return Counter, x + 1


@breaks(b.ESCAPING_IDENTITY, same=False)
def returns_identity(x):
    key = id([x])
    return key, x + 1


@returns_identity.fixed("use identities of objects")
def returns_outside_identity(x):
    return id(CALLS), x + 1


@breaks(b.SELF_CONTAINING, same=False)
def contains_itself(x):
    items = [x + 1]
    pair = (items, x)
    items.append(pair)
    return pair


@contains_itself.fixed("close the circle")
def circle_closed_behind(graph, x):
    pair = graph(lambda x: ([x + 1], x))(x)
    pair[0].append(pair)
    return pair


@breaks(b.CHANGED_TEXT)
def text_before_write(x):
    y = x * 2
    text = f"before: {y}"
    y.add_(1)
    return text, y


@text_before_write.fixed("make the text of a copy")
def text_of_copy(x):
    y = x * 2
    text = f"before: {y.clone()}"
    y.add_(1)
    return text, y
