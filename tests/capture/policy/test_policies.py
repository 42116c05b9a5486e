"""Library functions that tracing treats in their own way: printing, caches, the environment, vmap, checks."""

from __future__ import annotations

import builtins
import contextlib
import copy
import dataclasses
import functools
import importlib
import importlib.util
import io
import itertools
import logging
import os
import statistics
import sys
import typing
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch

import onegraph
from onegraph.capture.policy.python.iteration import Calls, qualified

CALLS: list[int] = []


def whole(function: Callable[..., Any]) -> Callable[..., Any]:
    return onegraph.compile(function, fullgraph=True, backend="eager")


# ---- the text of a tensor --------------------------------------------------------------------------------------------


def prints(x: torch.Tensor) -> Any:
    total = x.sum()
    text = f"total: {total:.3f} {x!r} {x.shape}"
    return (
        total * 2,
        text,
        text + "!",
        "{} and {a}".format(total, a=x[0]),  # noqa: UP032
        "%s of %s" % (total, "x"),  # noqa: UP031
        ", ".join([f"{total}", "b"]),
        {text: 1},
    )


def test_printed_tensors_are_filled_in_behind_the_graph() -> None:
    compiled = whole(prints)
    for seed in (1, 2):
        x = torch.randn(3, generator=torch.Generator().manual_seed(seed))
        assert compiled(x) == prints(x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x if f"{x}" == "a" else x + 1,
        lambda x: x * len(f"{x}"),
        lambda x: (x, f"{x}".upper()),
        lambda x: x * ("1" in f"{x}"),
        lambda x: x * {"a": 1}.get(f"{x}", 2),
        lambda x: (x + 1, f"{[x]}"),
        lambda x: (x + 1, f"{x}", x.add_(1)),
    ],
    ids=["compared", "measured", "changed", "searched", "looked up", "in a list", "written to later"],
)
def test_decisions_by_a_tensors_text_are_graph_breaks(function: Callable[[torch.Tensor], Any]) -> None:
    with pytest.raises(onegraph.GraphBreakError):
        whole(function)(torch.ones(3))


def test_messages_print_the_values_of_each_call(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("onegraph.test")

    def program(x: torch.Tensor) -> torch.Tensor:
        log.warning("first %s", x[0])
        log.warning(f"total {x.sum()}")
        return x + 1

    compiled = whole(program)
    for value in (1.0, 2.0):
        caplog.clear()
        compiled(torch.full((2,), value))
        messages = [record.getMessage() for record in caplog.records]
        assert messages == [f"first {torch.tensor(value)!s}", f"total {2 * value}"]


# ---- other library functions -----------------------------------------------------------------------------------------


def test_the_environment_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        if os.environ.get("ONEGRAPH_TEST_ONE", "0") == "1":
            return x * 2
        return x * 3 if os.getenv("ONEGRAPH_TEST_TWO") else x

    compiled, x = whole(program), torch.ones(2)
    assert compiled(x).tolist() == [1, 1]
    monkeypatch.setenv("ONEGRAPH_TEST_ONE", "1")
    assert compiled(x).tolist() == [2, 2]
    monkeypatch.delenv("ONEGRAPH_TEST_ONE")
    monkeypatch.setenv("ONEGRAPH_TEST_TWO", "1")
    assert compiled(x).tolist() == [3, 3]


class Scaling:
    """An object of a library that is not looked into."""

    def __init__(self) -> None:
        self.options, self.numbers = {"alpha": 2}, [1, 2]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.options.copy()["alpha"] + len(self.numbers[:])


def test_a_library_object_that_is_called_sees_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scaling, "__module__", "torch.cuda.scaling")
    scaling, x = Scaling(), torch.ones(1)
    compiled = whole(lambda x: scaling(x))
    assert compiled(x).tolist() == [4]
    scaling.options["alpha"] = 5
    assert compiled(x).tolist() == [7]
    scaling.numbers.append(3)
    assert compiled(x).tolist() == [8]


def test_an_operator_that_refuses_its_arguments_says_it_in_its_own_words() -> None:
    def program(x: torch.Tensor) -> str | None:
        try:
            torch.nn.functional.embedding(torch.tensor([0]), x)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return None

    x = torch.ones(2, 2, 2)
    assert onegraph.compile(program, backend="eager")(x) == program(x)


@functools.cache
def measured(size: int) -> torch.Tensor:
    CALLS.append(size)
    return torch.arange(size, dtype=torch.float32)


def test_a_cached_function_of_constants_is_called_once() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x + measured(3)

    CALLS.clear()
    measured.cache_clear()
    compiled = whole(program)
    assert compiled(torch.ones(3)).tolist() == [1, 2, 3]
    assert compiled(torch.zeros(3)).tolist() == [0, 1, 2]
    assert type(measured(3)) is torch.Tensor
    assert CALLS == [3]


def test_a_cached_function_of_tensors_is_run() -> None:
    @functools.lru_cache
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    x = torch.ones(2)
    assert whole(lambda x: double(x) + 1)(x).tolist() == [3, 3]
    assert double.cache_info().currsize == 0


class Lazy:
    def __init__(self) -> None:
        self.scale = 2.0

    @functools.cached_property
    def twice(self) -> float:
        CALLS.append(1)
        return self.scale * 2


def test_a_cached_property_is_computed_once() -> None:
    lazy = Lazy()
    compiled = whole(lambda x: x * lazy.twice * lazy.twice)
    assert compiled(torch.ones(1)).item() == 16
    assert vars(lazy) == {"scale": 2.0, "twice": 4.0}
    lazy.twice = 5.0
    assert compiled(torch.ones(1)).item() == 25


def test_numbers_of_numpy() -> None:
    x = torch.ones(2, dtype=torch.float64)
    assert whole(lambda x: x * numpy.sqrt(2.0) + numpy.int64(3))(x).tolist() == [2**0.5 + 3] * 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.vmap(torch.dot)(x, y),
        lambda x, y: torch.vmap(lambda a, b: a * b.sum(), in_dims=(1, None), out_dims=1)(x, y),
        lambda x, y: torch.vmap(torch.vmap(lambda a: a.exp() - 1))(x) + y,
        lambda x, y: torch.vmap(lambda pair: pair["a"] @ pair["b"])({"a": x, "b": y}),
    ],
    ids=["dot", "dimensions", "nested", "tree"],
)
def test_vmap(function: Callable[..., torch.Tensor]) -> None:
    compiled = whole(function)
    for seed in (1, 2):
        x, y = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(seed)).unbind(0)
        torch.testing.assert_close(compiled(x, y), function(x, y))
    assert torch._C._functorch.maybe_current_level() is None


class Doubled(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(output)


@torch.no_grad()
def test_a_custom_function_without_gradients_is_its_forward() -> None:
    x = torch.ones(2, 3)
    assert torch.equal(whole(lambda x: Doubled.apply(x) + 1)(x), x * 2 + 1)
    assert torch.equal(whole(lambda x: torch.vmap(Doubled.apply)(x) + 1)(x), x * 2 + 1)
    with torch.enable_grad():
        assert torch.equal(whole(lambda x: Doubled.apply(x) + 1)(x), x * 2 + 1)
        with pytest.raises(onegraph.GraphBreakError, match="raises NotImplementedError"):
            whole(lambda x: Doubled.apply(x))(x.requires_grad_())


def test_a_check_is_made_when_the_graph_runs() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        torch._check_tensor_all(x > 0, lambda: f"negative: {x.min()}")
        return x.log()

    compiled = whole(program)
    compiled(torch.ones(2))
    with pytest.raises(RuntimeError, match="negative"):
        compiled(-torch.ones(2))


def test_native_classes_that_act_outside_are_not_called_while_tracing(tmp_path) -> None:
    path = tmp_path / "made"

    def f(x, name):
        io.FileIO(name, "w").close()
        return x + 1

    with pytest.raises(onegraph.GraphBreakError, match="FileIO"):
        onegraph.compile(f, fullgraph=True)(torch.ones(2), str(path))
    assert not path.exists()
    compiled = onegraph.compile(f)
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2), str(path)), torch.full((2,), 2.0))
        assert path.exists()
        path.unlink()


# ---- copies of tensors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
def test_copies_of_tensors_have_their_attributes(how: Callable[..., Any]) -> None:
    def f(x: torch.Tensor) -> Any:
        made = how(x)
        return made, getattr(made, "tag", None)

    compiled = onegraph.compile(f, backend="eager")
    plain, tagged = torch.ones(3), torch.ones(3)
    tagged.tag = ["a"]  # type: ignore[attr-defined]
    assert onegraph.explain(f)(plain).graph_break_count == 0
    for x in (plain, tagged, plain):
        assert compiled(x)[1] == f(x)[1]


@pytest.mark.parametrize("dynamic", [None, False, True])
@pytest.mark.parametrize("of", [copy.deepcopy, lambda x: copy.deepcopy(x[:])])
def test_a_copy_has_all_the_memory_of_what_is_copied(of: Callable[..., Any], dynamic: bool | None) -> None:
    compiled = onegraph.compile(of, backend="eager", dynamic=dynamic)
    for x in (torch.ones(3), torch.ones(6)[3:], torch.ones(6)[:3], torch.ones(3)):
        assert compiled(x).storage_offset() == of(x).storage_offset()
        assert compiled(x).untyped_storage().nbytes() == of(x).untyped_storage().nbytes()


def test_a_copy_counts_its_own_writes() -> None:
    def f(x: torch.Tensor) -> Any:
        made = copy.copy(x)
        made.add_(1)
        return made

    x = torch.ones(3)
    made = whole(f)(x)
    assert (x.tolist(), x._version) == ([2.0, 2.0, 2.0], 0)
    assert made.data_ptr() == x.data_ptr()


def test_a_size_given_to_the_old_constructor_is_no_contents() -> None:
    for backend in ("eager", "native"):
        compiled = onegraph.compile(lambda x: x.new(x.shape).fill_(3.0), fullgraph=True, backend=backend)
        assert compiled(torch.ones(2, 3)).tolist() == [[3.0] * 3] * 2


# ---- imports ---------------------------------------------------------------------------------------------------------


def by_name(x: torch.Tensor) -> Any:
    return x + importlib.import_module("colorsys").ONE_THIRD


def by_the_machinery(x: torch.Tensor) -> Any:
    return x + importlib._bootstrap._gcd_import("colorsys").ONE_THIRD  # type: ignore[attr-defined]


def by_its_specification(x: torch.Tensor) -> Any:
    specification = importlib.util.find_spec("colorsys")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return x + module.ONE_THIRD


@pytest.mark.parametrize("function", [by_name, by_the_machinery, by_its_specification])
def test_modules_are_imported_by_compiled_code(function: Callable[..., Any]) -> None:
    sys.modules.pop("colorsys", None)
    compiled = onegraph.compile(function, backend="eager")
    for _ in range(2):
        torch.testing.assert_close(compiled(torch.ones(1)), torch.ones(1) + 1 / 3)


# ---- operators -------------------------------------------------------------------------------------------------------


def test_operators_stay_the_objects_that_they_are() -> None:
    before = torch.ops.aten.add.Tensor
    assert whole(lambda x: torch.ops.aten.add.Tensor(x, 1))(torch.ones(2)).tolist() == [2.0, 2.0]
    assert torch.ops.aten.add.Tensor is before


# ---- annotations -----------------------------------------------------------------------------------------------------


def test_forms_of_typing_are_what_they_are() -> None:
    def f(x: torch.Tensor) -> Any:
        @dataclasses.dataclass
        class Config:
            scale: int
            names: typing.ClassVar[list] = ["a"]  # noqa: RUF012

        return x * Config(3).scale

    assert whole(f)(torch.ones(2)).tolist() == [3.0, 3.0]


# ---- partial functions -----------------------------------------------------------------------------------------------


def test_partial_functions_with_attributes_are_not_flattened() -> None:
    def f(inner: Any) -> Any:
        made = functools.partial(inner, 3)
        return type(made.func), made.args

    plain, tagged = functools.partial(max, 1), functools.partial(max, 1)
    tagged.tag = "a"  # type: ignore[attr-defined]
    for inners in ((plain, tagged), (tagged, plain)):
        compiled = onegraph.compile(f, backend="eager")
        for inner in inners:
            assert compiled(inner) == f(inner)


# ---- subclasses of native iterators ----------------------------------------------------------------------------------


class Echo(itertools.repeat):
    def __new__(cls, value: Any, times: int, tag: str) -> Any:
        self = super().__new__(cls, value, times)
        self.tag = tag
        return self


def test_a_subclass_of_a_native_iterator_is_made_behind_the_graph() -> None:
    def f(x: torch.Tensor) -> Any:
        echo = Echo(2, 3, tag="t")
        next(echo)
        onegraph.graph_break()
        return echo.tag, list(echo)

    assert onegraph.compile(f, backend="eager")(torch.ones(2)) == ("t", [2, 2])


def test_a_subclass_of_a_native_iterator_cannot_be_rebuilt() -> None:
    with pytest.raises(onegraph.GraphBreakError, match=r"a live .*Echo cannot be rebuilt"):
        onegraph.compile(lambda x: (x + 1, Echo(2, 3, tag="t")), fullgraph=True)(torch.ones(2))


# ---- iterators that call the program ---------------------------------------------------------------------------------


def small(x: int) -> bool:
    return x < 10


CALLING_ITERATORS: list[Callable[[], Any]] = [
    lambda: itertools.accumulate([1, 2, 30], lambda a, b: a * b + 1),
    lambda: itertools.accumulate([1, 2, 30], lambda a, b: a * b + 1, initial=4),
    lambda: itertools.dropwhile(small, [1, 30, 2]),
    lambda: itertools.filterfalse(small, [1, 30, 2, 40]),
    lambda: itertools.filterfalse(None, [0, 30, 2]),
    lambda: itertools.groupby([1, 30, 2], small),
    lambda: itertools.starmap(divmod, [(7, 2), (30, 4)]),
    lambda: itertools.takewhile(small, [1, 2, 30, 4]),
]


@pytest.mark.parametrize("make", CALLING_ITERATORS)
@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
def test_copies_of_iterators_that_call_the_program(make: Callable[[], Any], how: Callable[[Any], Any]) -> None:
    def f(x: torch.Tensor) -> Any:
        iterator = make()
        next(iterator)
        try:
            copied: Any = [str(item)[:5] for item in how(iterator)]
        except TypeError as error:  # they cannot be copied from Python 3.14 on
            copied = str(error)
        return x + 1, copied, len([*iterator])

    assert repr(whole(f)(torch.ones(2))) == repr(f(torch.ones(2)))


@pytest.mark.parametrize("kind", [itertools.dropwhile, itertools.filterfalse, itertools.takewhile])
def test_an_iterator_says_which_function_of_the_program_it_calls(kind: Any) -> None:
    def f(x: torch.Tensor) -> Any:
        iterator = kind(small, [1, 30, 2])
        try:
            return x + 1, iterator.__reduce__()[1][0] is small, iterator.__reduce_ex__(4)[1][0] is small
        except TypeError as error:  # they say nothing from Python 3.14 on
            return x + 1, str(error)

    assert repr(whole(f)(torch.ones(2))) == repr(f(torch.ones(2)))


@pytest.mark.parametrize(
    "shown",
    [repr, lambda it: f"{it!r}", lambda it: f"{it}", lambda it: "%r" % it, lambda it: str([it])],  # noqa: UP031
)
@pytest.mark.parametrize("make", [lambda: itertools.count(3, 5), lambda: itertools.repeat(7, 2)])
def test_an_outside_iterator_shows_itself(make: Callable[[], Any], shown: Callable[[Any], str]) -> None:
    def f(x: torch.Tensor, iterator: Any) -> Any:
        first = next(iterator)
        return x + first, shown(iterator), next(iterator)

    compiled = onegraph.compile(f, backend="eager", options={"raise_compiler_errors": True})
    assert repr(compiled(torch.ones(2), make())) == repr(f(torch.ones(2), make()))


def test_an_outside_iterator_is_copied_deeply() -> None:
    def f(x: torch.Tensor, iterator: Any) -> Any:
        return x + 1, list(copy.deepcopy(iterator)), list(iterator)

    compiled = onegraph.compile(f, backend="eager", options={"raise_compiler_errors": True})
    for items in ([1, 2], {1: 2}, (1, 2)):
        assert repr(compiled(torch.ones(2), iter(items))) == repr(f(torch.ones(2), iter(items)))


def test_to_trace_the_tracer_is_a_defect() -> None:
    calls = Calls(None, small)
    for f in (lambda x: (x + 1, calls is None), lambda x: (x + 1, qualified(int))):
        compiled = onegraph.compile(f, backend="eager", options={"raise_compiler_errors": True})
        with pytest.raises(AssertionError, match="trace"):
            compiled(torch.ones(2))


# ---- containers whose members compare themselves ---------------------------------------------------------------------


class Comparing:
    """Each equals none but itself, and notes that it was asked."""

    asked: list[Any] = []

    def __eq__(self, other: object) -> bool:
        Comparing.asked.append(other)
        return self is other

    def __hash__(self) -> int:
        return 0


@pytest.mark.parametrize(
    "make", [set, frozenset, dict.fromkeys, lambda members: {member: member for member in members}]
)
def test_a_container_is_not_copied_where_its_members_compare_themselves(make: Callable[[Any], Any]) -> None:
    def f(x: torch.Tensor, members: Any) -> Any:
        y = x + 1
        return y, len(members), [type(member).__name__ for member in members]

    for count in (1, 2, 5):
        members = make([Comparing() for _ in range(count)])
        Comparing.asked.clear()
        compiled = onegraph.compile(f, backend="eager", options={"raise_compiler_errors": True})
        assert repr(compiled(torch.ones(2), members)) == repr(f(torch.ones(2), members))
        assert not Comparing.asked


# ---- builtins --------------------------------------------------------------------------------------------------------


def test_a_builtin_is_replaced_for_a_while() -> None:
    def f(x: torch.Tensor) -> Any:
        plain = builtins.len
        try:
            builtins.len = functools.lru_cache(4)(len)  # which takes no list
            found = [len("ab"[:number]) for number in (0, 1, 2)]
        finally:
            builtins.len = plain
        return x + 1, found

    compiled = onegraph.compile(f, backend="eager", options={"raise_compiler_errors": True})
    for _ in range(2):
        assert repr(compiled(torch.ones(2))) == repr(f(torch.ones(2)))


# ---- finalizers ------------------------------------------------------------------------------------------------------


def test_an_object_with_a_finalizer_is_not_made_while_tracing() -> None:
    class Counted:
        count = 0

        def __new__(cls) -> Any:
            cls.count += 1
            return object.__new__(cls)

        def __del__(self) -> None:
            type(self).count -= 1

    def f(x: torch.Tensor) -> Any:
        held = [Counted(), Counted()]
        before = Counted.count
        del held
        return x + 1, before, Counted.count

    assert onegraph.compile(f, backend="eager")(torch.ones(2))[1:] == f(torch.ones(2))[1:] == (2, 0)


# ---- labels for the profiler -----------------------------------------------------------------------------------------


def labelled(x):
    with torch.profiler.record_function("part", "with arguments") as label:
        y = x + 1
    return y, label.name, label.args


def labelled_around_an_exception(x):
    try:
        with torch.profiler.record_function("outer"), torch.autograd.profiler.record_function(name=f"{x.dim()}"):
            x = x + 1
            raise ValueError
    except ValueError:
        return x * 2


@torch.compiler.disable
def native(x):
    return x


def labelled_over_breaks(x):
    with torch.profiler.record_function("outer"):
        x = x + 1
        onegraph.graph_break()
        with torch.profiler.record_function("inner"):
            x = native(x * 2)
        x = x + x.sum().item()
    return x


def labelled_in_a_frame_that_is_skipped(x):
    with torch.profiler.record_function("outer"):
        onegraph.graph_break()
        onegraph.skip_frame()
        return x + 1


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("function", [labelled, labelled_around_an_exception])
def test_labels_are_captured(function: Callable[..., Any], fullgraph: bool) -> None:
    compiled = onegraph.compile(function, backend="eager", fullgraph=fullgraph)
    assert onegraph.explain(function)(torch.ones(2)).graph_break_count == 0
    with torch.profiler.profile(), torch.profiler.record_function("around"):
        for _ in range(2):
            assert repr(compiled(torch.ones(2))) == repr(function(torch.ones(2)))


@pytest.mark.parametrize("function", [labelled_over_breaks, labelled_in_a_frame_that_is_skipped])
@pytest.mark.parametrize("profiled", [True, False])
def test_labels_go_over_breaks(function: Callable[..., Any], profiled: bool) -> None:
    compiled = onegraph.compile(function, backend="eager")
    with torch.profiler.profile() if profiled else contextlib.nullcontext():
        for _ in range(2):
            assert torch.equal(compiled(torch.ones(2)), function(torch.ones(2)))


# ---- what is long ----------------------------------------------------------------------------------------------------


@pytest.mark.timeout(60)
def test_a_long_iteration_of_a_native_function_is_not_traced() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, any(itertools.repeat(None, 5_000_000))

    assert onegraph.compile(f, backend="eager")(torch.ones(2))[1] is False


def test_quantiles_of_the_normal_distribution() -> None:
    def f(x: torch.Tensor, p: float) -> torch.Tensor:
        return x * statistics.NormalDist(1.0, 2.0).inv_cdf(p)

    compiled = onegraph.compile(f, backend="eager", fullgraph=True, options={"check_unchanged": True})
    for p in (0.25, 0.5, 0.75):
        assert torch.equal(compiled(torch.ones(2), p), f(torch.ones(2), p))


class Compared:
    """A value that tells when it is compared."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __lt__(self, other: Any) -> bool:
        CALLS.append(self.value)
        return self.value < other.value

    __gt__ = __lt__


@pytest.mark.parametrize("break_at", [0, 1, 2, 9])
@pytest.mark.parametrize("extreme", [min, max])
def test_extremes_compare_each_item_before_the_next(extreme: Callable[..., Any], break_at: int) -> None:
    def draws() -> Any:
        for value in (2, 3, 1):
            CALLS.append(10 + value)
            yield Compared(value)

    def key(value: int) -> Compared:
        CALLS.append(20 + value)
        if value == break_at:
            torch._dynamo.graph_break()
        return Compared(value)

    def program(x: torch.Tensor) -> Any:
        return x + 1, extreme(draws()).value, extreme([2, 3, 1], key=key), extreme(2, 3, 1, key=key)

    CALLS.clear()
    expected, told = program(torch.ones(2))[1:], list(CALLS)
    CALLS.clear()
    assert onegraph.compile(program, backend="eager")(torch.ones(2))[1:] == expected
    assert told == CALLS
