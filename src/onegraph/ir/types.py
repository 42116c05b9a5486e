"""Element types and tensor types. A type here is a fact about memory; what an operation does with it is in `scalar`."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from onegraph.base.dataclass import dataclass
from onegraph.ir.index import ONE, ZERO, Index, greatest

Kind = Literal["bool", "int", "uint", "float", "opaque"]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type. There is one object per type: compare with `is`.

    `opaque` types (complex, quantized, 8-bit floats) are carried through a program, but no kernel computes with them.
    """

    name: str
    torch_name: str
    size: int
    kind: Kind

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    @property
    def bits(self) -> int:
        return self.size * 8

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_native(self) -> bool:
        """Whether kernels can load, compute with, and store this type."""
        return self.kind != "opaque"

    @property
    def digits(self) -> int:
        """How many binary digits a number of this type has at most; of a float, those that are exact."""
        if self.is_float:
            return {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}[self.name]
        return 1 if self.kind == "bool" else self.bits - (self.kind == "int")

    @property
    def compute(self) -> DType:
        """The type in which arithmetic on this type is done: 16-bit floats are computed in f32, as eager does."""
        return F32 if self in (F16, BF16) else self


BOOL = DType("bool", "bool", 1, "bool")
U8 = DType("u8", "uint8", 1, "uint")
U16 = DType("u16", "uint16", 2, "uint")
U32 = DType("u32", "uint32", 4, "uint")
U64 = DType("u64", "uint64", 8, "uint")
I8 = DType("i8", "int8", 1, "int")
I16 = DType("i16", "int16", 2, "int")
I32 = DType("i32", "int32", 4, "int")
I64 = DType("i64", "int64", 8, "int")
F16 = DType("f16", "float16", 2, "float")
BF16 = DType("bf16", "bfloat16", 2, "float")
F32 = DType("f32", "float32", 4, "float")
F64 = DType("f64", "float64", 8, "float")

NATIVE = (BOOL, U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32, F64)
_OPAQUE = (
    DType("c32", "complex32", 4, "opaque"),
    DType("c64", "complex64", 8, "opaque"),
    DType("c128", "complex128", 16, "opaque"),
)
_BY_NAME = {dtype.name: dtype for dtype in (*NATIVE, *_OPAQUE)}
_BY_TORCH_NAME = {dtype.torch_name: dtype for dtype in (*NATIVE, *_OPAQUE)}


def dtype_named(name: str) -> DType:
    """The element type with this short name; a name of torch that has no short one names an opaque type."""
    found = _BY_NAME.get(name)
    return found if found is not None else dtype_of_torch(name)


def dtype_of_torch(name: str, size: int = 1) -> DType:
    """The element type of `torch.<name>`. A type that is not in the table gets an opaque entry of its own."""
    found = _BY_TORCH_NAME.get(name)
    if found is None:
        found = _BY_TORCH_NAME.setdefault(name, DType(name, name, size, "opaque"))
    return found


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type, sizes and strides (in elements) of a tensor."""

    dtype: DType
    shape: tuple[Index, ...]
    strides: tuple[Index, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    def offset(self, coordinates: tuple[Index, ...]) -> Index:
        """How many elements after the first one the element at these coordinates stands."""
        return sum((c * s for c, s in zip(coordinates, self.strides, strict=True)), Index.of(0))

    @property
    def span(self) -> Index:
        """How many elements of memory it takes: from its first element to behind its last one, gaps included."""
        return _span(self)


# Most types of a network come again in each of its layers.
@lru_cache(maxsize=1 << 10)
def _span(type: TensorType) -> Index:
    if ZERO in type.shape:
        return ZERO
    return type.offset(tuple([size - 1 for size in type.shape])) + 1


@lru_cache(maxsize=1 << 10)
def contiguous_strides(shape: tuple[Index, ...]) -> tuple[Index, ...]:
    """Row-major strides; those of a dimension of size 0 count as size 1, as in torch."""
    strides: list[Index] = []
    step = ONE
    for size in reversed(shape):
        strides.append(step)
        step = step * (ONE if size == ZERO else size)
    return tuple(reversed(strides))


@lru_cache(maxsize=1 << 10)
def strides_of_new(type: TensorType) -> tuple[Index, ...]:
    """The strides in which a tensor is allocated: also where there are no elements, if it is contiguous else."""
    if type.strides != contiguous_strides(type.shape):
        return type.strides
    strides: list[Index] = []
    step = ONE
    for size in reversed(type.shape):
        strides.append(step)
        step = step * greatest(size, ONE)
    return tuple(reversed(strides))
