"""The code around a graph knows no names of Python's: the program may have given them to something else."""

from __future__ import annotations

from typing import Any

import torch

import onegraph


def of_program(*args: Any) -> Any:
    raise AssertionError("a name of the program was called")


def test_names_of_python_may_be_those_of_the_program() -> None:
    names: dict[str, Any] = {"slice": of_program, "len": of_program, "list": of_program}
    exec("def function(x, items):\n    items.insert(0, x.shape[0])\n    del items[1]\n    return x + 1", names)
    items, wanted = [1, 2, 3], [1, 2, 3]
    compiled = onegraph.compile(names["function"], fullgraph=True)
    assert compiled(torch.ones(2), items).tolist() == names["function"](torch.ones(2), wanted).tolist()
    assert items == wanted
