"""Region and disabled behave as the function they wrap; contexts nest and are restored."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import traceback
import weakref
from typing import Any

import pytest
from native.swap import Swapper, swapped

from onegraph import _C


def documented(a: int, /, b: str = "b", *rest: int, c: float = 1.0, **names: Any) -> tuple[Any, ...]:
    """What it does."""
    return a, b, rest, c, names


region_of_documented = functools.update_wrapper(_C.Region(documented, _C.Context(lambda *args: None)), documented)
disabled_documented = functools.update_wrapper(_C.disabled(documented), documented)
BOTH = pytest.mark.parametrize("wrapper", [region_of_documented, disabled_documented], ids=["Region", "disabled"])


@BOTH
def test_calls_bind_as_the_function_does(wrapper: Any) -> None:
    assert wrapper(1) == documented(1)
    assert wrapper(1, "x", 3, 4, c=2, z=5) == documented(1, "x", 3, 4, c=2, z=5)
    assert wrapper(*(1, 2), **{"z": 3}) == documented(1, 2, z=3)
    assert functools.partial(wrapper, 1)("y") == documented(1, "y")
    for args in [(), (1, 2)]:
        kwargs = {} if not args else {"b": 3}
        with pytest.raises(TypeError) as mine:
            wrapper(*args, **kwargs)
        with pytest.raises(TypeError) as theirs:
            documented(*args, **kwargs)
        assert str(mine.value) == str(theirs.value)


@BOTH
def test_attributes_are_those_of_the_function(wrapper: Any) -> None:
    assert wrapper.__wrapped__ is documented
    assert (wrapper.__name__, wrapper.__qualname__, wrapper.__module__, wrapper.__doc__) == (
        documented.__name__,
        documented.__qualname__,
        documented.__module__,
        documented.__doc__,
    )
    assert wrapper.__code__ is documented.__code__ and wrapper.__globals__ is documented.__globals__
    assert wrapper.__defaults__ == ("b",) and wrapper.__kwdefaults__ == {"c": 1.0} and wrapper.__closure__ is None
    assert inspect.signature(wrapper) == inspect.signature(documented)
    assert inspect.unwrap(wrapper) is documented
    assert callable(wrapper) and "documented" in repr(wrapper)
    wrapper.note = 1
    assert wrapper.__dict__["note"] == 1
    del wrapper.note
    assert weakref.ref(wrapper)() is wrapper
    with pytest.raises(AttributeError):
        wrapper.nothing  # noqa: B018


@BOTH
def test_copied_and_pickled_by_name(wrapper: Any) -> None:
    assert copy.copy(wrapper) is wrapper and copy.deepcopy({"f": wrapper})["f"] is wrapper
    name = "region_of_documented" if wrapper is region_of_documented else "disabled_documented"
    wrapper.__qualname__ = name
    try:
        assert pickle.loads(pickle.dumps(wrapper)) is wrapper
    finally:
        wrapper.__qualname__ = "documented"


@pytest.mark.parametrize("wrap", [lambda f: _C.Region(f, _C.Context(lambda *args: None)), _C.disabled])
def test_binds_as_a_method(wrap: Any) -> None:
    class Thing:
        def __init__(self, value):
            self.value = value

        @wrap
        def method(self, x, *, y=0):
            return self.value, x, y

        @classmethod
        @wrap
        def of_class(cls, x):
            return cls, x

        @staticmethod
        @wrap
        def of_none(x):
            return x

        prop = property(wrap(lambda self: self.value))

    thing = Thing(7)
    assert thing.method(1, y=2) == (7, 1, 2) and Thing.method(thing, 3) == (7, 3, 0)
    bound = thing.method
    assert bound.__self__ is thing and bound(4) == (7, 4, 0) and bound == thing.method
    assert thing.of_class(1) == (Thing, 1) and Thing.of_none(2) == 2 and thing.prop == 7
    assert str(inspect.signature(Thing.method)) == "(self, x, *, y=0)"


def test_any_callable_may_be_wrapped_and_nothing_else() -> None:
    context = _C.Context(lambda *args: None)
    assert _C.Region(len, context)([1, 2]) == 2
    assert _C.disabled(functools.partial(max, 3))(1) == 3
    with pytest.raises(TypeError, match="Region needs a callable, not int"):
        _C.Region(1, context)
    with pytest.raises(TypeError, match="disabled needs a callable, not NoneType"):
        _C.disabled(None)
    with pytest.raises(TypeError, match="must be onegraph._C.Context, not int"):
        _C.Region(len, 1)
    with pytest.raises(TypeError, match="the callback must be callable, not int"):
        _C.Context(1)


def test_contexts_nest_and_are_restored_also_by_exceptions() -> None:
    seen: list[Any] = []
    outer, inner = Swapper(), Swapper()

    def look() -> None:
        seen.append(_C.current_context())

    def fail() -> None:
        look()
        raise ValueError

    def work() -> None:
        look()
        inner.region(look)()
        _C.disabled(look)()
        with pytest.raises(ValueError):
            inner.region(fail)()
        with pytest.raises(ValueError):
            _C.disabled(fail)()
        look()

    outer.region(work)()
    o, i = outer.context, inner.context
    assert seen == [o, i, None, i, None, o]
    assert _C.current_context() is None


def test_disabled_hides_frames_and_a_region_within_shows_them_again() -> None:
    def helper() -> str:
        return "old"

    swapper = Swapper({helper: lambda: "new"})

    def work() -> list[str]:
        return [helper(), _C.disabled(helper)(), _C.disabled(swapper.region(helper))()]

    assert swapper.region(work)() == ["new", "old", "new"]


def test_a_region_may_end_while_its_function_runs() -> None:
    regions: list[Any] = []

    def work() -> str:
        regions.clear()
        return "done"

    regions.append(Swapper().region(work))
    assert regions[0]() == "done"


def test_the_replacement_of_a_region_in_a_region() -> None:
    inner = swapped(lambda x: x, lambda x: ("inner", x))
    outer = swapped(lambda f, x: None, lambda f, x: ("outer", f(x)))
    assert outer(inner, 1) == ("outer", ("inner", 1))


@pytest.fixture
def heard():
    found: list[BaseException] = []
    _C.on_failure(found.append)
    yield found
    _C.on_failure(None)


def test_errors_that_leave_compiled_code_are_told_once(heard) -> None:
    def fail(kind: type[Exception]) -> None:
        raise kind("of the program")

    inner = _C.Region(fail, _C.Context(lambda *_: None))
    outer = _C.Region(lambda kind: inner(kind), _C.Context(lambda *_: None))
    with pytest.raises(RuntimeError) as caught:
        outer(RuntimeError)
    assert heard == [caught.value]
    assert [frame.name for frame in traceback.extract_tb(heard[0].__traceback__)][-1] == "fail"
    with pytest.raises(ValueError, match="of the program"):
        outer(ValueError)
    assert len(heard) == 1


def test_what_is_raised_while_an_error_is_told_goes_on(heard) -> None:
    def interrupt(_: BaseException) -> None:
        raise KeyboardInterrupt

    def fail() -> None:
        raise RuntimeError("of the program")

    _C.on_failure(interrupt)
    with pytest.raises(KeyboardInterrupt):
        _C.Region(fail, _C.Context(lambda *_: None))()
