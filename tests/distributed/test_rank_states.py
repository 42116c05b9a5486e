"""Where a collective fails: which rank this is, where in the program, and what has become of the others."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo  # processes would import it one by one
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed import distributed_c10d

import onegraph
from onegraph.base import events as ev
from onegraph.base.events import Location
from onegraph.compile import EVENTS
from onegraph.torchlib import rank_states, ranks
from onegraph.torchlib.announced import join
from onegraph.torchlib.rank_states import State, machine
from tests.distributed.processes import two_processes
from tests.distributed.test_ranks import Kept

GONE = "is gone: it was killed, has crashed, or has left the group and ended"


def state(process: int, what: str = "", host: str = "host") -> str:
    return str(State(host, machine(), process, time.time() - 7, what))


def ended_process() -> int:
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def test_states_in_words() -> None:
    own, gone = os.getpid(), ended_process()
    assert state(own) == f"(process {own} on host) has not failed: it is elsewhere in the program, or hangs"
    assert state(own, "compiling f") == f"(process {own} on host) has been compiling f for 7 s"
    assert state(gone) == f"(process {gone} on host) {GONE}"
    assert state(gone, "compiling f").endswith(f"{GONE}, while compiling f")
    assert state(gone, "has ended") == f"(process {gone} on host) has ended, 7.0 s ago"


def test_a_stopped_process_and_one_of_another_machine() -> None:
    pid = os.fork()
    if not pid:
        signal.pause()
    try:
        os.kill(pid, signal.SIGSTOP)
        os.waitpid(pid, os.WUNTRACED)
        assert state(pid).endswith("is stopped by a signal")
        assert "has not failed" in str(State("other", "elsewhere", pid, 0.0, ""))
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def be_impatient(group: Any) -> None:
    """From now on, when all is compiled."""
    dist.barrier()
    distributed_c10d._set_pg_timeout(timedelta(seconds=1), group)


def second(group: Any, y: torch.Tensor) -> torch.Tensor:
    return functional.all_reduce(y + 1, "sum", group)


def lines_of(function: Any) -> tuple[list[str], float]:
    """The notes on the error that a function raises, and after how long that was."""
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="(?i)time.?d? ?out|closed") as caught:
        function()
    return [line for note in caught.value.__notes__ for line in note.splitlines()], time.monotonic() - began


def left_alone_in_a_graph(folder: Path) -> Any:
    group = dist.new_group([0, 1])

    @onegraph.compile(fullgraph=True, options={"cache_dir": folder, "verify": False})
    def f(x: torch.Tensor) -> torch.Tensor:
        y = functional.all_reduce(x * 2, "sum", group)
        return second(group, y) * 3

    f(torch.ones(3))
    be_impatient(group)
    if dist.get_rank() == 1:
        functional.all_reduce(torch.ones(3), "sum", group).sum()  # the first one only
        return None
    return lines_of(lambda: f(torch.ones(3)))


def test_the_line_that_communicates_is_named(tmp_path: Path) -> None:
    line = second.__code__.co_firstlineno + 1
    for _ in range(2):  # compiled, and from disk
        (place, own, other), _ = two_processes(left_alone_in_a_graph, tmp_path)[0]
        assert re.fullmatch(rf"in the compiled graph of .*f \(.*\), at {__file__}:{line} in second", place)
        assert own == "this is rank 0 of 2. Of the others:"
        assert re.fullmatch(r"  rank 1 \(process \d+ on .*\) has not failed: it is elsewhere .*", other)


def left_alone_in_backward() -> Any:
    group, again = dist.new_group([0, 1]), []
    EVENTS.subscribe(lambda event: again.append(event) if isinstance(event, ev.OperatorFellBack) else None)
    gather = functional.all_gather_tensor_autograd

    @onegraph.compile(fullgraph=True, options={"smallest_recorded_graph": 0})
    def f(x: torch.Tensor) -> torch.Tensor:
        return gather(x * 2, 0, group) + 1

    x = torch.ones(3, requires_grad=True)
    f(x).sum().backward()
    be_impatient(group)
    y = f(x).sum()
    if dist.get_rank() == 1:
        return None
    again.clear()
    lines, seconds = lines_of(y.backward)
    return lines, seconds, [event.operator for event in again]


def test_a_backward_pass_that_fails_to_communicate_is_not_made_again() -> None:
    """Its second run would communicate alone, and could meet what others send each other next."""
    lines, seconds, again = two_processes(left_alone_in_backward)[0]
    assert not again and seconds < 10
    assert lines[0].startswith(f"this is rank 0 of 2, at {__file__}:") and lines[0].endswith("Of the others:")


def left_alone_in_eager() -> Any:
    group = dist.new_group([0, 1])
    be_impatient(group)

    @onegraph.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(x, group=group)
        return x

    if dist.get_rank() == 1:
        return None
    with onegraph.set_stance("force_eager"):
        return lines_of(lambda: f(torch.ones(3)))


def test_what_is_called_between_graphs_fails_likewise() -> None:
    lines, _ = two_processes(left_alone_in_eager)[0]
    assert re.fullmatch(rf"this is rank 0 of 2, at {__file__}:\d+ in f. Of the others:", lines[0])
    assert lines[1].startswith("  rank 1 ")


def other_errors() -> Any:
    @onegraph.compile
    def raising(kind: type[Exception]) -> None:
        raise kind("of the program")

    @onegraph.compile(fullgraph=True)
    def indexing(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return functional.all_reduce(x[index], "sum", dist.group.WORLD)

    notes: list[Any] = []
    for kind in (RuntimeError, ValueError):
        with pytest.raises(kind) as caught, onegraph.set_stance("force_eager"):
            raising(kind)
        notes.append(getattr(caught.value, "__notes__", []))
    indexing(torch.ones(3), torch.tensor([1]))
    with pytest.raises(IndexError) as caught:
        indexing(torch.ones(3), torch.tensor([7]))
    return [*notes, caught.value.__notes__]


def test_other_errors_are_told_nothing_of_the_others() -> None:
    for *raised, (note,) in two_processes(other_errors):
        assert raised == [[], []]
        assert re.fullmatch(rf"in the compiled graph of .*indexing \({__file__}:\d+\)", note)


def hanging_store() -> Any:
    class Hangs:
        def set(self, *_: Any) -> None: ...

        def check(self, *_: Any) -> None:
            time.sleep(60)

    class Gone:
        def set(self, *_: Any) -> None: ...

        def check(self, *_: Any) -> None:
            raise dist.DistNetworkError("Connection reset by peer")

    found, rank_states.LIMIT = [], 0.2
    for store in (Hangs, Gone):
        rank_states.default_store = store
        error, began = dist.DistBackendError("of gloo"), time.monotonic()
        rank_states.explain(error)
        found.append((error.__notes__[0].splitlines()[1:], time.monotonic() - began))
    return found


def test_a_store_that_hangs_or_is_gone_holds_nobody_up() -> None:
    for hangs, gone in two_processes(hanging_store):
        assert hangs[0] == ["  the store of the group does not answer: rank 0 holds it, where torchrun does not"]
        assert gone[0][0].startswith("  the store of the group is gone, which rank 0 holds where torchrun does not")
        assert hangs[1] < 5 and gone[1] < 5


def told_by_others() -> Any:
    """What rank 0 reads of rank 1 as that compiles, has compiled, and has raised an error that nobody has caught."""
    kept, group = Kept(), dist.group.WORLD
    logging.getLogger("onegraph").addHandler(kept)
    rank_states.LONG, rank_states.ALONE = 0.2, 1.0
    compiled = onegraph.compile(lambda x: x + 1, backend=lambda module, _: time.sleep(3) or module.forward)
    dist.barrier()
    if dist.get_rank() == 1:
        compiled(torch.ones(3))
        dist.barrier(group)
        dist.barrier(group)
        with contextlib.redirect_stderr(io.StringIO()):
            sys.excepthook(ValueError, ValueError("of the program"), None)
        dist.barrier(group)
        return kept.messages
    found, store = [], rank_states.default_store()
    while not found or "compiling" not in found[0]:
        found[:] = [str(rank_states.read(store, 1))]
        time.sleep(0.05)
    dist.barrier(group)
    found.append(str(rank_states.read(store, 1)))
    dist.barrier(group)
    dist.barrier(group)
    found.append(str(rank_states.read(store, 1)))
    return found


def test_a_rank_that_compiles_for_long_is_seen_by_the_others_and_warned_of() -> None:
    (compiling, compiled, raised), (message,) = two_processes(told_by_others)
    assert re.search(r"has been compiling .*<lambda> .* for \d s", compiling)
    assert "has not failed" in compiled
    assert "has raised ValueError: of the program, " in raised
    assert re.match(r"rank 1 has been compiling .*<lambda> .* for \d s. Ranks that do not compile \(0\) wait", message)


def in_a_forked_child() -> Any:
    read, write = os.pipe()
    if not os.fork():
        join()
        os.write(write, f"{ranks.rank()}".encode())
        os._exit(0)
    return ranks.rank(), os.read(read, 100).decode()


def test_a_child_of_a_rank_does_not_use_its_connections() -> None:
    assert two_processes(in_a_forked_child) == [(0, "None"), (1, "None")]


def test_a_line_is_known_by_its_text() -> None:
    line = Location.of_code(second.__code__)
    found = rank_states.text_of(line.filename, line.line, "second", line.source_line())
    assert found == f"at {__file__}:{line.line} in second"
    assert rank_states.text_of(line.filename, line.line, "second", "moved()") == "at `moved()` in second"


def test_processes_that_are_started_again_read_nothing_of_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    before = ranks.key("rank/0")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert ranks.key("rank/0") != before
