"""Takes each n-th private name of torch away, one at a time, and runs programs: a line of output for each name.

    eager NAME       onegraph runs, and its results are eager's
    sentence NAME    one sentence says that calls run eagerly, and they do
    wrong NAME WHY   anything else
    fixed NAME       the class that has it is written in C, and cannot be changed

Each name has a process of its own, a fork of one that has loaded torch, and none of onegraph. The argument is n.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import logging
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite.binding  # noqa: F401 - loaded once, for all forks
import torch

SOURCE = Path(importlib.util.find_spec("onegraph").origin or "").with_name("torchlib") / "private.py"
SENTENCE = "what is given to onegraph.compile runs eagerly, as it is written"


def looked_up() -> dict[tuple[int, str], tuple[Any, str]]:
    """(owner, name) of all that the file looks up, by running it beside the package and reading its source."""
    found: dict[tuple[int, str], tuple[Any, str]] = {}

    def add(owner: Any, name: str) -> None:
        where = owner.__name__ if isinstance(owner, ModuleType) else f"{owner.__class__.__module__}.{owner}"
        if (
            hasattr(owner, name)
            and not isinstance(getattr(owner, name), ModuleType)
            and name != "__version__"
            and (name.startswith("_") or "._" in where)
        ):
            found[id(owner), name] = (owner, name)

    def resolve(path: str, original: Callable[[str], Any] = pkgutil.resolve_name) -> Any:
        owner, _, name = path.rpartition(".")
        add(original(owner), name)
        return original(path)

    tree = ast.parse(SOURCE.read_text())
    namespace: dict[str, Any] = {"__name__": "beside"}
    original = pkgutil.resolve_name
    pkgutil.resolve_name = resolve
    try:
        exec(compile(tree, str(SOURCE), "exec"), namespace)
    finally:
        pkgutil.resolve_name = original
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
            for alias in node.names:
                add(sys.modules[node.module or ""], alias.name)
        elif isinstance(node, ast.Attribute):
            owner = owner_of(node.value, namespace)
            if owner is not None:
                add(owner, node.attr)
    for owner, names in namespace["ATTRIBUTES"]:
        for name in names.split():
            add(owner, name)
    for name in namespace["GLOBAL_HOOKS"]:
        add(namespace["module_internals"], name)
    return found


def owner_of(node: ast.expr, namespace: dict[str, Any]) -> Any:
    """The module or class of torch that a chain of names is."""
    try:
        owner = eval(compile(ast.Expression(node), "beside", "eval"), namespace)
    except Exception:
        return None
    name = owner.__name__ if isinstance(owner, ModuleType) else getattr(owner, "__module__", "")
    is_known = isinstance(owner, ModuleType | type) and str(name).split(".")[0] == "torch"
    return owner if is_known else None


def programs() -> Iterator[tuple[Callable[..., Any], str]]:
    """Functions of a matrix, and their backends. One is native: where a name is missing matters before kernels."""

    def plain(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 2 + 1, -1).sum(0)

    def batched(x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda row: row * row.sum())(x)

    def broken(x: torch.Tensor) -> Any:
        with torch.autocast("cpu"):
            y = x @ x
        print(end="")
        return y, torch.full_like(x, 2.0)

    def training(x: torch.Tensor) -> Any:
        weight = torch.linspace(-1, 1, 16).view(4, 4).requires_grad_()
        loss = (x @ weight).relu().square().mean()
        return torch.autograd.grad(loss, weight)

    yield plain, "native"
    yield batched, "aot_eager"
    yield broken, "eager"
    yield training, "aot_eager"


def outcome() -> str:
    text = io.StringIO()
    logging.getLogger("onegraph").addHandler(logging.StreamHandler(text))
    import onegraph

    compile = onegraph.compile
    restore.pop()()
    x = torch.linspace(0, 2, 16).view(4, 4)
    for program, backend in programs():
        torch.testing.assert_close(compile(program, backend=backend)(x), program(x))
    said = text.getvalue()
    if SENTENCE in said:
        return "sentence" if said.count("\n") == 1 else f"wrong {said!r}"
    return f"wrong {said!r}" if "defect" in said else "eager"


restore: list[Callable[[], None]] = []


def without(owner: Any, name: str) -> str:
    """What comes of a process in which a name is missing while onegraph is loaded."""
    value = vars(owner)[name] if name in vars(owner) else getattr(owner, name)
    try:
        delattr(owner, name)
    except (AttributeError, TypeError):
        return "fixed"
    restore.append(lambda: setattr(owner, name, value))
    try:
        return outcome()
    except BaseException as error:
        return f"wrong {type(error).__name__}: {error}".replace("\n", " ")


def in_a_fork(work: Callable[[], str]) -> str:
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        os.write(write, work().encode()[:4000])
        os._exit(0)
    os.close(write)
    with open(read) as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    return said if not status else f"wrong the process ended with {status}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    for program, _ in programs():  # loads what torch loads late, once for all forks
        torch.testing.assert_close(program(torch.ones(4, 4)), program(torch.ones(4, 4)))
    for owner, name in [*looked_up().values()][:: int(sys.argv[1])]:
        kind, _, why = in_a_fork(lambda owner=owner, name=name: without(owner, name)).partition(" ")
        print(kind, f"{getattr(owner, '__name__', type(owner).__name__)}.{name}", why, flush=True)
