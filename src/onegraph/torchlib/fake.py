"""Fake tensors: tensors with every property but data.

`FakeMode` keeps PyTorch's `FakeTensor` class and its table of special operators, and brings its own constructor,
conversion and dispatch. The stock ones import the stock compiler (constructor, conversion, dispatch of any operator
with a plain meta kernel) and sympy, and spend several times the needed time per operator.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.weak import WeakTensorKeyDictionary

from onegraph.ir.index import ZERO
from onegraph.torchlib import compilerless, fake_convolution, private
from onegraph.torchlib.aten import PURE_NAMESPACES, has_effect, is_mutable, is_random, leaves, map_leaves
from onegraph.torchlib.data_sizes import NotOfData
from onegraph.torchlib.fake_cache import LIMIT, STATIC, Described, Key, Result, Several, call_key, describe
from onegraph.torchlib.fake_of_data import OF_DATA, run_kernel
from onegraph.torchlib.fake_routes import (
    CORRECTIONS,
    LIFTS,
    Converter,
    common_device,
    is_foreign,
    is_plain,
    refuse_unsupported,
    static_route,
)
from onegraph.torchlib.foreach import over_each
from onegraph.torchlib.general_sizes import ASKING, general_layout, general_view, is_itself
from onegraph.torchlib.given import are_settled, bounded_arguments, has_symbols, symbols_of, with_numbers
from onegraph.torchlib.histories import recorded_as
from onegraph.torchlib.layouts import OF_SYMBOLS
from onegraph.torchlib.meta_tensors import laid_over, unreadable
from onegraph.torchlib.private import (
    FAKE_MODE_KEY,
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    HigherOrderOperator,
    OpOverload,
    TorchDispatchMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    decomposition_table,
    fake_impls,
    meta_table,
    should_allow_numbers_as_tensors,
    tree_flatten,
)
from onegraph.torchlib.quick_meta import fits_in_place, is_elementwise, is_lenient, quick_layout, try_on_numbers
from onegraph.torchlib.refused_calls import refuse
from onegraph.torchlib.shapes import Condition, NumbersWanted, Sizes
from onegraph.torchlib.side_effects import SideEffects
from onegraph.torchlib.state import Faking
from onegraph.torchlib.strides import extent_of, symbolic_strides
from onegraph.torchlib.wrappers import ragged_size

__all__ = [
    "DATA_DEPENDENT_ERRORS", "LIFTS", "UNSUPPORTED_ERRORS", "DynamicOutputShapeException", "FakeMode", "FakeTensor",
]  # fmt: skip

# What an operator raises on fakes when its result depends on data, and when it cannot run on fakes at all.
DATA_DEPENDENT_ERRORS = (DataDependentOutputException, DynamicOutputShapeException)
UNSUPPORTED_ERRORS = (UnsupportedFakeTensorException, UnsupportedOperatorException)

CONSTANT_LIMIT = 64  # elements: the fake of a fresh literal keeps its value up to this size

aten = torch.ops.aten
_NO_KWARGS: Mapping[str, Any] = MappingProxyType({})
_META = torch.device("meta")
_CPU = torch.device("cpu")


class DispatchMode(TorchDispatchMode):
    """A mode without torch's compiler: torch would wrap `__torch_dispatch__` in a function that imports it."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class FakeMode(Faking, DispatchMode, FakeTensorMode):
    """Runs operators on fake tensors. One per compilation: it remembers the fake of every real tensor it was shown."""

    def __init__(self) -> None:
        compilerless.prepare()
        TorchDispatchMode.__init__(self)
        self.sizes = Sizes()
        self.effects = SideEffects()
        self.shape_env = None  # that would be the stock mode's symbolic sizes
        self.static_shapes = True
        # What the stock constructor would set: `FakeTensor` and the table of special operators read these.
        self.allow_fallback_kernels = True
        self.allow_non_fake_inputs = False
        self.allow_scalar_outputs = False
        self.allow_meta = True
        self.propagate_real_tensors = False
        self.cache_enabled = False
        self.cache_crosscheck_enabled = False
        self._allow_unsafe_data_ptr_access = False
        self.in_kernel_invocation = False
        self.enter_stack = []
        self._stack = ""
        self._mode_key = FAKE_MODE_KEY
        self.fake_tensor_converter = Converter()
        self._fakes = WeakTensorKeyDictionary()
        self._storages: dict[StorageWeakRef, torch.UntypedStorage] = {}
        self._symbolic_storages: dict[StorageWeakRef, torch.UntypedStorage] = {}
        self._constants: list[FakeTensor] = []
        self._known: dict[Key, Result] = {}
        self._states: dict[torch.device, dict[str, Any]] = {}
        self.gives_numbers = True

    def create_symbolic_nested_int(self, *, nt_tensor_id: int | None = None) -> torch.SymInt:
        """The length of sequences that only a fake of offsets knows: equal to itself alone."""
        return ragged_size()

    def fakeify(self, tensor: Tensor, symbolic_dims: Mapping[Any, torch.SymInt] = _NO_KWARGS) -> FakeTensor:
        """The fake of a real tensor: always the same one for the same tensor.

        It has the tensor's sizes (those in `symbolic_dims` replaced), strides, offset, dtype, device, `requires_grad`,
        leafness and Parameter-ness. Tensors that share storage get fakes that share storage.
        """
        if isinstance(tensor, FakeTensor):
            return tensor
        known: FakeTensor | None = self._fakes.get(tensor)
        if known is not None:
            return known
        refuse_unsupported(tensor)
        with torch.inference_mode(tensor.is_inference()):
            fake = self._fakes[tensor] = self._make_fake(tensor, symbolic_dims)
        return fake

    def _make_fake(self, tensor: Tensor, symbolic_dims: Mapping[int, torch.SymInt]) -> FakeTensor:
        with private.disable_current_modes():
            with private.DisableTorchDispatch():
                fake = FakeTensor(self, self._elem(tensor, symbolic_dims), tensor.device)
            fake = recorded_as(tensor, fake)
        if isinstance(tensor, torch.nn.Parameter):
            fake._is_param = True
        if isinstance(tensor, torch.nn.Buffer):
            vars(fake)["_is_buffer"] = True
        return fake

    def _elem(self, tensor: Tensor, symbolic_dims: Mapping[int, torch.SymInt]) -> Tensor:
        """The meta tensor under the fake of `tensor`."""
        if symbolic_dims:
            # A storage of symbolic size: comparing with that of a plain size would guard the sizes.
            sizes: list[Any] = [symbolic_dims.get(dim, size) for dim, size in enumerate(tensor.size())]
            strides = symbolic_strides(tensor, sizes)
            for size, step in zip(sizes, tensor.stride(), strict=True):
                if step == 0 and isinstance(size, torch.SymInt):  # kernels read it before the loop over this dimension
                    self.sizes.holds(Condition("<", ZERO, size.node.index))
            whole = self._symbolic_storage(tensor, tensor.storage_offset() + extent_of(sizes, strides))
            with self.sizes.trusted():
                elem = laid_over(whole, tensor.dtype, tensor.storage_offset(), sizes, strides)
        else:
            whole = self._storage(tensor)
            elem = laid_over(whole, tensor.dtype, tensor.storage_offset(), tensor.size(), tensor.stride())
        if tensor.is_conj():
            private.set_conj(elem, True)
        if tensor.is_neg():
            private.set_neg(elem, True)
        return elem

    def _storage(self, tensor: Tensor) -> torch.UntypedStorage:
        real = tensor.untyped_storage()
        key = StorageWeakRef(real)
        if key not in self._storages:
            self._storages[key] = torch.UntypedStorage(real.nbytes(), device=_META)
            self.effects.real[self._storages[key]._cdata] = real._cdata
        return self._storages[key]

    def _symbolic_storage(self, tensor: Tensor, length: int | torch.SymInt) -> torch.UntypedStorage:
        """A storage of at least so many elements: that of another tensor of symbolic size, if the tensor shares it."""
        real = tensor.untyped_storage()
        key = StorageWeakRef(real)
        known = self._symbolic_storages.get(key)
        if known is None or known.nbytes() < length * tensor.element_size():
            with self.sizes.trusted():
                known = torch.empty(length, dtype=tensor.dtype, device=_META).untyped_storage()
            self._symbolic_storages.setdefault(key, known)
            self.effects.real[known._cdata] = real._cdata
        return known

    # --- dispatch ------------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        if private.count_function_modes() and not is_mutable(func):
            # Called by TorchScript or C++, past all function modes: what is called here is none of their business.
            # Writes must not be missed, and the modes see what is called for them.
            with private.DisableTorchFunction():
                return self._dispatch(func, args, kwargs or _NO_KWARGS)
        return self._dispatch(func, args, kwargs or _NO_KWARGS)

    def _dispatch(self, func: Any, args: Any, kwargs: Any) -> Any:
        if (answer := private.META_HANDLERS.get(func)) is not None:
            if self.gives_numbers or func is not aten.size.default:
                return answer(args)
            raise NumbersWanted
        if func in private.HANDLED_DIRECTLY:
            return self._meta(func, args, kwargs)
        tensors: list[Any] = [leaf for leaf in leaves(args, kwargs) if isinstance(leaf, Tensor)]
        if any(is_foreign(tensor) for tensor in tensors):
            return NotImplemented
        self.effects.note(func, args, kwargs)
        if isinstance(func, HigherOrderOperator):
            return self._higher_order(func, args, kwargs)
        if func in LIFTS and type(tensors[0]) is Tensor:
            return self._constant(tensors[0])
        if not tensors and should_allow_numbers_as_tensors(func):
            with private.DisableTorchDispatch():
                return self._constant(func(*args, **kwargs))
        for tensor in tensors:
            if not isinstance(tensor, FakeTensor) or tensor.fake_mode is not self:
                raise RuntimeError(
                    f"{func} met a tensor of shape {tuple(tensor.shape)} that is not a fake of this trace"
                )
        if self._constants:
            folded = self._fold(func, args, kwargs, tensors)
            if folded is not NotImplemented:
                return folded
        if func in OF_DATA and all(map(is_plain, tensors)):
            if (of_data := self._of_data(func, args, kwargs)) is not NotImplemented:
                return of_data
        found = call_key(func, args, kwargs)
        if found is None:
            return self._run(func, args, kwargs, tensors, not self.sizes.is_static and has_symbols(args, kwargs))
        key, symbolic = found
        known = self._known if symbolic else STATIC
        result = known.get(key)
        if result is not None:
            with self.sizes.trusted():  # they are those of a call like this one, which has asked
                return self._recall(result)
        value = self._run(func, args, kwargs, tensors, symbolic)
        described = None if self.sizes.data.newborn else describe(value, args, kwargs)
        if described is not None:
            if len(known) >= LIMIT:
                known.clear()
            known[key] = described
        return value

    def _of_data(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        try:
            return OF_DATA[func](self, *args, **kwargs)
        except NotOfData:
            raise DynamicOutputShapeException(func) from None

    def _run(self, func: OpOverload, args: Any, kwargs: Any, tensors: list[FakeTensor], symbolic: object) -> Any:
        if not self.sizes.is_static:
            args, kwargs = bounded_arguments(func, args, kwargs, tensors)
            symbolic = symbolic and has_symbols(args, kwargs)
        plain = all(is_plain(tensor) for tensor in tensors)
        refuse(func, args, kwargs, plain)
        if (listed := over_each(func)) is not None:
            with self, private.DisableTorchFunction():
                return listed(*args, **kwargs)
        if plain and is_lenient(func) and (symbolic or is_mutable(func)):
            with private.DisableTorchDispatch():
                try_on_numbers(func, args, kwargs)
                if not symbolic and fits_in_place(func, tensors):
                    return args[0]
        if symbolic:
            found = self._of_any_size(func, args, kwargs, tensors) if plain else None
            if found is not None:
                return found
            if func not in ASKING and func.namespace in PURE_NAMESPACES:  # other kernels ask for themselves
                self.sizes.narrow(symbols_of(args, kwargs))
                if are_settled(args, kwargs) and not is_mutable(func):
                    return self._settled(func, args, kwargs)
        if tensors and plain and (not symbolic or func in OF_SYMBOLS or is_elementwise(func)):
            with private.DisableTorchDispatch():
                layout = quick_layout(func, args, kwargs, tensors)
            if layout is not None:
                return self._laid_out(layout)
        if symbolic:
            return self._dispatch_symbolic(func, args, kwargs, tensors)
        return self._dispatch_static(func, args, kwargs, tensors)

    def _of_any_size(self, func: OpOverload, args: Any, kwargs: Any, tensors: list[FakeTensor]) -> Any:
        """The results of an operator, if they are known without asking whether sizes are 0 and 1."""
        with private.DisableTorchDispatch():
            if is_itself(func, args, kwargs, tensors):
                return args[0]
            if (view := general_view(self.sizes, func, args, kwargs)) is not None:
                return [self._wrap(each, _CPU) for each in view] if type(view) is list else self._wrap(view, _CPU)
            layout = general_layout(func, args, kwargs, tensors)
        with self.sizes.trusted():
            return None if layout is None else self._laid_out(layout)

    def _laid_out(self, layout: Any) -> Any:
        """New fakes on the CPU with these sizes, strides and types; None where there is no such result."""
        if layout is None:
            return None
        if not isinstance(layout[-1], torch.dtype):
            return tuple([self._laid_out(each) for each in layout])
        size, stride, dtype = layout
        with private.DisableTorchDispatch():
            elem = torch.empty_strided(size, stride, dtype=dtype, device=_META)
        return self._wrap(elem, _CPU)

    def _recall(self, result: Result) -> Any:
        """New fakes with the properties of earlier ones."""
        if isinstance(result, Several):
            return result.kind([self._recall(item) if isinstance(item, Described) else item for item in result.items])
        with private.DisableTorchDispatch():
            elem = torch.empty_strided(result.size, result.stride, dtype=result.dtype, device=_META)
        return self._wrap(elem, result.device)

    def _wrap(self, elem: Tensor, device: torch.device) -> FakeTensor:
        """A fake over a fresh meta tensor, like `FakeTensor(self, elem, device)` at a tenth of its cost."""
        elem = unreadable(elem, self.sizes)
        state = self._states.get(device)
        if state is None:
            fake = FakeTensor(self, elem, device)
            self._states[device] = dict(fake.__dict__)
            return fake
        fake = private.make_subclass(FakeTensor, elem, False, dispatch_device=True, device_for_backend_keys=device)
        private.set_throw_on_mutable_data_ptr(fake)
        fake.__dict__.update(state)
        return fake

    def _dispatch_static(self, func: OpOverload, args: Any, kwargs: Any, tensors: list[FakeTensor]) -> Any:
        match static_route(func):
            case "constructor":
                device = kwargs.get("device") or (tensors[0].device if tensors else torch.get_default_device())
                elem = self._meta(func, args, {**kwargs, "device": _META})
                return FakeTensor(self, elem, torch.device(device))
            case "meta":
                return self._run_meta(func, args, kwargs, tensors)
            case "convolution":
                elem = fake_convolution.convolution(self, args, kwargs)
                if elem is not None:
                    return self._wrap(elem, tensors[0].fake_device)
            case "decompose":
                with self:
                    result = func.decompose(*args, **kwargs)
                    return CORRECTIONS[func](result, *args, **kwargs) if func in CORRECTIONS else result
            case "table":
                with self:
                    result = decomposition_table[func](*args, **kwargs)
                    return CORRECTIONS[func](result, *args, **kwargs) if func in CORRECTIONS else result
        return self._dispatch_special(func, args, kwargs, tensors)

    def _dispatch_symbolic(self, func: OpOverload, args: Any, kwargs: Any, tensors: list[FakeTensor]) -> Any:
        """Where the operator cannot take symbolic sizes, it is given the numbers, which become guards."""
        try:
            if (found := fake_convolution.of_symbols(self, func, args, kwargs)) is not None:
                return map_leaves(lambda it: it if it is None else self._wrap(it, tensors[0].fake_device), found)
            return self._run_symbolic(func, args, kwargs, tensors)
        except DATA_DEPENDENT_ERRORS:
            raise
        except (RuntimeError, NotImplementedError):
            return self._settled(func, args, kwargs)

    def _settled(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        args, kwargs = with_numbers(self, args), with_numbers(self, dict(kwargs))
        tensors: list[Any] = [leaf for leaf in leaves(args, kwargs) if isinstance(leaf, FakeTensor)]
        return self._run(func, args, kwargs, tensors, False)

    def _run_symbolic(self, func: OpOverload, args: Any, kwargs: Any, tensors: list[FakeTensor]) -> Any:
        """As the stock mode orders it: C++ meta kernels mostly cannot take symbolic sizes, Python ones can."""
        if (fast := fake_impls.get_fast_op_impls().get(func)) is not None:
            return fast(self, *args, **kwargs)
        special = self._unbacked_special_fake_handling_ops
        # Of this one, torch keeps the Python kernel to itself.
        known = func in meta_table and func is not aten.constant_pad_nd.default
        if not known and not self.cpp_meta_supports_symint(func) and func not in special:
            with self:
                if func in decomposition_table:
                    result = decomposition_table[func](*args, **kwargs)
                    return CORRECTIONS[func](result, *args, **kwargs) if func in CORRECTIONS else result
                result = func.decompose(*args, **kwargs)
                if result is not NotImplemented:
                    return result
        return self._dispatch_special(func, args, kwargs, tensors)

    def _dispatch_special(self, func: OpOverload, args: Any, kwargs: Any, tensors: list[FakeTensor]) -> Any:
        if func.namespace == "prims" and hasattr(func, "prim_meta_impl"):
            with self:
                return func.prim_meta_impl(*args, **kwargs)
        kernel = private.operator_registry.find(func.name()).fake_impl.kernel
        if kernel is not None:
            return run_kernel(self, func, kernel, args, kwargs)
        for accepts, implementation in fake_impls.op_implementations_checks:
            if accepts(func):
                result = implementation(self, func, *args, **kwargs)
                if result is not NotImplemented:
                    return result
        if fake_impls.has_meta(func):
            return self._run_meta(func, args, kwargs, tensors)
        return self._fallback(func, args, kwargs, UnsupportedOperatorException(func))

    def _meta(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run the meta kernel: fakes answer as meta tensors meanwhile."""
        outer = self.in_kernel_invocation
        with private.DisableTorchDispatch(), private.PreserveDispatchKeyGuard():
            self.in_kernel_invocation = True
            private.set_meta_included(True)
            try:
                return func(*args, **kwargs)
            finally:
                self.in_kernel_invocation = outer

    def _run_meta(self, func: OpOverload, args: Any, kwargs: Any, tensors: list[FakeTensor]) -> Any:
        try:
            result = self._meta(func, args, kwargs)
        except NotImplementedError as error:
            return self._fallback(func, args, kwargs, error)
        if func in CORRECTIONS:
            result = CORRECTIONS[func](result, *args, **kwargs)
        device = kwargs.get("device")
        if device is not None:
            device = private.normalized_device(device)

        def wrap(value: Any) -> Any:
            if not isinstance(value, Tensor) or isinstance(value, FakeTensor):
                return value
            return self._wrap(value, device or common_device(func, tensors))

        return map_leaves(wrap, result)

    def _fallback(self, func: OpOverload, args: Any, kwargs: Any, error: Any) -> Any:
        """No meta kernel: run the real one on zeros, where that is safe."""
        if private.has_trivial_fake(func):
            return private.trivial_fake(func, *args, **kwargs)
        if has_symbols(args, kwargs) or not self.can_run_unsafe_fallback(func):
            raise UnsupportedOperatorException(func)
        flat, spec = tree_flatten((args, dict(kwargs)))
        if not is_random(func):
            return private.run_fallback_kernel(self, func, flat, spec, error)
        with torch.random.fork_rng():
            return private.run_fallback_kernel(self, func, flat, spec, error)

    def _higher_order(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func not in private.HIGHER_ORDER:
            raise UnsupportedOperatorException(func)
        with self:
            return private.HIGHER_ORDER[func](*args, **kwargs)

    # --- constants -----------------------------------------------------------------------------------------------

    def _constant(self, value: Tensor) -> FakeTensor:
        """The fake of a tensor made from literals while tracing: it remembers its value while nobody writes to it."""
        small = value.numel() <= CONSTANT_LIMIT
        with private.DisableTorchDispatch():
            fake = FakeTensor(
                self,
                torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=_META),
                value.device,
                constant=value.clone() if small else None,
            )
        if small:
            self._constants.append(fake)
        return fake

    def forget_value(self, written: torch.Tensor) -> None:
        """A tensor is written to: whatever shares its storage has no known value any more."""
        if not self._constants:
            return
        storage = written.untyped_storage()._cdata
        for fake in self._constants:
            if fake.untyped_storage()._cdata == storage:
                fake.constant = None
        self._constants = [fake for fake in self._constants if fake.constant is not None]

    def _fold(self, func: OpOverload, args: Any, kwargs: Any, tensors: list[FakeTensor]) -> Any:
        """Compute on known values, tensors and plain numbers; forget the values of what is written to."""
        known = [tensor for tensor in tensors if tensor.constant is not None]
        if not known:
            return NotImplemented
        if is_mutable(func):
            for tensor in known:
                self.forget_value(tensor)
            return NotImplemented
        numbers = any(isinstance(leaf, torch.SymFloat) for leaf in leaves(args, kwargs))
        if len(known) < len(tensors) or numbers or has_effect(func):
            return NotImplemented
        if func is aten._local_scalar_dense.default:
            value: Any = known[0].constant
            return value.item()
        result = self._dispatch_static(func, args, kwargs, tensors)
        if isinstance(result, FakeTensor) and result.numel() <= CONSTANT_LIMIT:
            with private.DisableTorchDispatch(), contextlib.suppress(Exception):  # which the graph raises
                value = lambda leaf: leaf.constant if isinstance(leaf, FakeTensor) else leaf  # noqa: E731
                result.constant = func(*map_leaves(value, args), **map_leaves(value, dict(kwargs)))
            self._constants.append(result)
        return result
