"""The guards on inputs that are written to: which others share their memory, and whether autograd lets them be written.

Tensors that are slices of one buffer, with no element in common, are as good as tensors apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import torch

from onegraph import _C
from onegraph.capture.graph.record import GraphInput, Recorder
from onegraph.capture.guards.predicates import Predicate, unpaired
from onegraph.capture.guards.source import Source, is_drawn
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.torchlib.histories import has_plain_base, is_view, is_view_of_leaf, storage_of
from onegraph.torchlib.private import DisableTorchFunction
from onegraph.torchlib.shapes import Computed


def guard_memory(recorder: Recorder, inputs: Sequence[GraphInput], guard: Callable[[Source, str, Any], None]) -> None:
    """Guard which of the inputs of a graph overlap, as far as the graph writes to one of them."""
    places = placed(inputs)
    written = tuple(given.written is not None for given, _ in places)
    if len(places) < 2 or not any(written):
        return
    varying = tuple(varies(given.fake) for given, _ in places)
    memory = _C.Memory(tuple(given.example for given, _ in places), written, varying)
    first, *others = (source for _, source in places)
    guard(first, "memory", (tuple(others), memory))
    if any(given.is_given_history for given in recorder.inputs):
        places = placed(recorder.inputs)  # the program may ask those that the graph does not use
        recorded = tuple(given.is_given_history for given, _ in places)
        first, *others = (source for _, source in places)
        guard(first, "together", (tuple(others), OwnStorages(recorded)))


def placed(inputs: Sequence[GraphInput]) -> list[tuple[GraphInput, Source]]:
    """The tensors among the inputs that the program has given, with their sources."""
    given = [(given, given.source) for given in inputs if has_address(given.example)]
    return [(given, source) for given, source in given if not isinstance(source, Computed) and not is_drawn(source)]


def guard_histories(inputs: Sequence[GraphInput], guard: Callable[[Source, str, Any], None]) -> None:
    """Guard that autograd lets the graph write to the inputs with a history."""
    for given in inputs:
        if given.had_history and not isinstance(given.source, Computed) and not is_drawn(given.source):
            guard(given.source, "check", Rewritable(is_view(given.example)))


def guard_places(recorder: Recorder, guard: Callable[[Source, str, Any], None]) -> None:
    """Guard where the inputs are in their storages, where the program has asked."""
    for given in recorder.placed_inputs():
        if not isinstance(given.source, Computed) and not is_drawn(given.source) and has_address(given.example):
            # A fake of symbolic size has a storage that ends with it.
            guard(given.source, "check", AtPlace(given.example, whole_storage=not varies(given.fake)))


class AtPlace(Predicate):
    """The tensor begins there, in a storage of that size."""

    def __init__(self, tensor: torch.Tensor, whole_storage: bool) -> None:
        self.whole_storage = whole_storage
        self.place = self.place_of(tensor)

    def place_of(self, tensor: torch.Tensor) -> tuple[int, int | None]:
        with DisableTorchFunction():
            return int(tensor.storage_offset()), tensor.untyped_storage().nbytes() if self.whole_storage else None

    def __call__(self, tensor: torch.Tensor) -> bool:
        return self.place_of(tensor) == self.place

    def text(self, *what: str) -> str:
        offset, size = self.place
        return f"{what[0]} begins at element {offset} of a storage" + ("" if size is None else f" of {size} bytes")


def guard_bases(recorder: Recorder, guard: Callable[[Source, str, Any], None]) -> None:
    """Guard whether a view in `no_grad` takes part in gradients: it does if what the input views does."""
    for given in recorder.inputs:
        is_parameter = type(given.example) is torch.nn.Parameter  # which is no view
        if given.is_viewed_plainly and not (is_parameter or isinstance(given.source, Computed)):
            guard(given.source, "check", PlainBase(has_plain_base(given.example)))


class PlainBase(Predicate):
    """Gradients are recorded for what the tensor is a view of, or they are not."""

    def __init__(self, plain: bool) -> None:
        self.plain = plain

    def __call__(self, tensor: torch.Tensor) -> bool:
        return has_plain_base(tensor) is self.plain

    def text(self, *what: str) -> str:
        return f"{what[0]} is {'a' if self.plain else 'no'} view of a tensor that requires no gradients"


class Rewritable(Predicate):
    """The tensor may get a new history: it is no view, or the view of a tensor that is no leaf."""

    def __init__(self, view: bool) -> None:
        self.view = view

    def __call__(self, tensor: torch.Tensor) -> bool:
        return is_view(tensor) is self.view and not is_view_of_leaf(tensor)

    def text(self, *what: str) -> str:
        return f"{what[0]} is {'a view of a tensor that is no leaf' if self.view else 'no view'}"


class OwnStorages(Predicate):
    """The tensors that a write gives a history have storages of their own: views of what they view would get it too."""

    def __init__(self, recorded: tuple[bool, ...]) -> None:
        self.recorded = recorded

    def __call__(self, tensors: Any) -> bool:
        storages = list(map(storage_of, unpaired(tensors, len(self.recorded))))
        return all(storages.count(own) == 1 for own in compress(storages, self.recorded))

    def text(self, *what: str) -> str:
        names = list(compress(what, self.recorded))
        return f"{' and '.join(names)} {'have storages of their' if len(names) > 1 else 'has a storage of its'} own"


def has_address(value: Any) -> bool:
    """Whether a value is a tensor that is found in memory."""
    return isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_meta


def varies(fake: torch.Tensor) -> bool:
    """Whether the sizes of an input are symbols."""
    return any(isinstance(number, torch.SymInt) for number in (*fake.shape, *fake.stride()))
