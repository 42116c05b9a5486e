"""The rules of the house, made executable: layers, imports, sizes and names, read from the source."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from import_graph import PACKAGE, ROOT, imported_names, imports_of, modules, package_imports, parse, run_time_nodes

# Each layer imports only layers of a lower rank, or itself; layers of one rank never import each other.
RANK = {
    "base": 0,
    "ir": 1,
    "torchlib": 2,
    "capture": 3,
    "autograd": 3,
    "compiler": 3,
    "support": 3,
    "autoload": 3,
    "eagerly": 4,
    "roles": 4,
    "reloading": 5,
    "pairs": 6,
    "backends": 7,
    "backend_registry": 8,
    "compile": 9,
    "ahead_of_time": 10,
    "export": 10,
    "install": 10,
    "spellings": 10,
    "stock_backend": 10,
    "tools": 11,
    "__main__": 12,
}
# The rooms of capture, in the order in which a frame comes to stand on them: each imports only those before it.
ROOMS = (
    "pyobject", "bytecode", "interp", "breaks", "calls", "guards", "directives", "heap", "symbolic", "graph", "resume",
    "policy", "residual", "tracer",
)  # fmt: skip
MAX_FOLDER_FILES = 16
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 80
FORBIDDEN_NAMES = {"util", "utils", "helper", "helpers", "misc", "manager", "managers", "common"}
STOCK_COMPILER = (
    "torch._dynamo",
    "torch._inductor",
    "torch.export",
    "torch.compile",
    "torch._C._dynamo",
    "torch._functorch.aot_autograd",
    "torch._functorch._aot_autograd",
    "torch._functorch.partitioners",
    "torch._functorch.compilers",
)
# Heavy packages that only some programs need.
LATE_IMPORTS = {"jinja2", "llvmlite", "networkx", "triton"}

# Where private names of torch are looked up.
PRIVATE = "onegraph.torchlib.private"
# Who reads the environment. autoload is called in every process that imports torch, and asks for one variable.
READERS = ("onegraph.base.config", "onegraph.autoload")

Rule = Callable[[str, ast.Module], Iterator[str]]


def layer(name: str) -> str:
    """`onegraph.capture.bytecode.frame` -> `capture`."""
    return name.split(".")[1] if "." in name else ""


def dotted(node: ast.AST) -> str:
    """`torch._C._nn` for that chain of attributes, else an empty string."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            base = dotted(value)
            return f"{base}.{attr}" if base else ""
    return ""


def references(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Every dotted name that is imported or read as an attribute."""
    for node in run_time_nodes(tree):
        for name in imported_names(node):
            yield node, name
        if isinstance(node, ast.Attribute) and (name := dotted(node)):
            yield node, name


def starts_with(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def stock_compiler_is_not_used(name: str, tree: ast.Module) -> Iterator[str]:
    for node, target in references(tree):
        if any(starts_with(target, prefix) for prefix in STOCK_COMPILER):
            yield f"line {node.lineno}: {target} is part of the stock compiler"


def private_torch_in_one_file(name: str, tree: ast.Module) -> Iterator[str]:
    """Imports, and attributes of what is imported: `autocast_mode._x` behind `from torch.amp import autocast_mode`."""
    if name == PRIVATE:
        return
    imported = {local: target for node in run_time_nodes(tree) for local, target in bound_names(node)}
    for node in run_time_nodes(tree):
        for target in imported_names(node):
            if is_private(target):
                yield f"line {node.lineno}: {target} is private to torch; only torchlib/private.py imports it"
        if isinstance(node, ast.Attribute) and (written := dotted(node)):
            root, _, rest = written.partition(".")
            target = f"{imported.get(root, root)}.{rest}"
            if is_private(target) and not is_private(target.rpartition(".")[0]):
                yield f"line {node.lineno}: {target} is private to torch; torchlib/private.py has what is used"


def bound_names(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The names that an import statement binds, and what they are."""
    match node:
        case ast.Import(names=names):
            yield from ((a.asname or a.name.split(".")[0], a.name if a.asname else a.name.split(".")[0]) for a in names)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            yield from ((a.asname or a.name, f"{module}.{a.name}") for a in names)


def private_attributes_are_listed(name: str, tree: ast.Module) -> Iterator[str]:
    """`tensor._version`: what no class of the package has is torch's (or Python's), and is looked up at import."""
    if name == PRIVATE:
        return
    imported = {local: target for node in run_time_nodes(tree) for local, target in bound_names(node)}
    standard = {local for local, target in imported.items() if target.split(".")[0] in sys.stdlib_module_names}
    for node in run_time_nodes(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        written = dotted(node)
        if is_foreign_attribute(node.attr) and written.split(".")[0] not in standard and not is_operator(written):
            yield f"line {node.lineno}: {node.attr} is private to others; torchlib/private.py lists what is used"


def is_operator(name: str) -> bool:
    """`aten._softmax`, in the files that call `torch.ops.aten` so."""
    return name.removeprefix("torch.ops.").partition(".")[0] in ("aten", "mkldnn")


#: Private attributes of Python's own objects, and marks of the stock compiler, which are asked for where it is loaded.
OF_OTHERS = frozenset(
    "_fields _missing_ _find_and_load _get_polyfill_handlers _stance _torchdynamo_orig_callable".split()
)


def is_foreign_attribute(attribute: str) -> bool:
    own = attribute in attributes_of_package() or attribute in OF_OTHERS or attribute in listed_attributes()
    return attribute.startswith("_") and not attribute.startswith("__") and not own


@cache
def attributes_of_package() -> frozenset[str]:
    """The private names that the package gives to attributes, functions and variables of its own."""
    found = set()
    for path in modules().values():
        for node in ast.walk(parse(path)):
            match node:
                case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                    found.add(name)
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                    found.add(name)
    return frozenset(found)


@cache
def listed_attributes() -> frozenset[str]:
    (table,) = (
        node.value
        for node in parse(modules()[PRIVATE]).body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "ATTRIBUTES"
    )
    strings = (node.value for node in ast.walk(table) if isinstance(node, ast.Constant))
    return frozenset(name for text in strings for name in text.split())


def is_private(name: str) -> bool:
    """Whether a name is private to torch. (Names of operators are not, and the package has its own.)"""
    parts = name.split(".")
    private = any(part.startswith("_") and not part.startswith("__") for part in parts)
    return parts[0] == "torch" and parts[1:2] != ["ops"] and private


def environment_only_in_config(name: str, tree: ast.Module) -> Iterator[str]:
    """Calling `os.getenv` counts; naming it, as a table of native functions does, reads nothing."""
    if name in READERS:
        return
    called = [(node, dotted(node.func)) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for node, target in [*references(tree), *called]:
        if target == "os.environ" or isinstance(node, ast.Call) and target in ("os.getenv", "os.putenv"):
            yield f"line {node.lineno}: {target} is used only by {' and '.join(READERS)}"


def python_version_only_in_bytecode(name: str, tree: ast.Module) -> Iterator[str]:
    if starts_with(name, "onegraph.capture.bytecode"):
        return
    for node, target in references(tree):
        if target in ("sys.version_info", "sys.hexversion"):
            yield f"line {node.lineno}: {target} is asked only in capture/bytecode"


def imports_at_the_top(name: str, tree: ast.Module) -> Iterator[str]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                for target in imported_names(node):
                    if target.split(".")[0] not in LATE_IMPORTS:
                        yield f"line {node.lineno}: {target} is imported inside the function {function.name}"


def dataclasses_are_cheap(name: str, tree: ast.Module) -> Iterator[str]:
    """`onegraph.base.dataclass` compiles their methods when they are called."""
    if name in ("onegraph.base.dataclass", "onegraph.base.dim"):
        return
    for node, target in references(tree):
        if target == "dataclasses.dataclass":
            yield f"line {node.lineno}: {target} is in the place of the one in base/dataclass.py"


def no_global_statement(name: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield f"line {node.lineno}: global {', '.join(node.names)}"


def functions_are_short(name: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"line {node.lineno}: the function {node.name} has {lines} lines"


def layers_are_kept(name: str, tree: ast.Module) -> Iterator[str]:
    own = layer(name)
    if name == "onegraph":
        return
    if own not in RANK:
        yield f"the layer {own} is not in the table"
        return
    package = name if modules().get(name, Path()).name == "__init__.py" else name.rpartition(".")[0]
    for target in sorted(imports_of(tree, package)):
        if not starts_with(target, "onegraph") or starts_with(target, "onegraph._C"):
            continue
        other = layer(target)
        if own != other and RANK.get(other, 99) >= RANK[own]:
            yield f"{own} imports {target}"


def room(name: str) -> int:
    """The place of a module of capture in the order of its rooms; what is in no room stands on top of them."""
    part = name.split(".")[2]
    return ROOMS.index(part) if part in ROOMS else len(ROOMS)


def rooms_are_kept(name: str, tree: ast.Module) -> Iterator[str]:
    if layer(name) != "capture":
        return
    for target in sorted(imports_of(tree)):
        if layer(target) == "capture" and room(target) > room(name):
            yield f"{name.split('.')[2]} imports {target}"


RULES: list[Rule] = [
    stock_compiler_is_not_used,
    private_torch_in_one_file,
    private_attributes_are_listed,
    environment_only_in_config,
    python_version_only_in_bytecode,
    imports_at_the_top,
    dataclasses_are_cheap,
    no_global_statement,
    functions_are_short,
    layers_are_kept,
    rooms_are_kept,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(rule: Rule) -> None:
    broken = [f"{name}: {what}" for name, path in modules().items() for what in rule(name, parse(path))]
    assert not broken, "\n" + "\n".join(broken)


def import_cycle(edges: dict[str, frozenset[str]]) -> list[str]:
    """One cycle of the graph as a list of names, or an empty list."""
    state: dict[str, bool] = {}  # False: on the current path, True: done
    path: list[str] = []

    def visit(name: str) -> list[str]:
        state[name] = False
        path.append(name)
        for target in sorted(edges.get(name, ())):
            if state.get(target) is False:
                return [*path[path.index(target) :], target]
            if target not in state and (found := visit(target)):
                return found
        path.pop()
        state[name] = True
        return []

    for name in edges:
        if name not in state and (found := visit(name)):
            return found
    return []


def test_no_import_cycle() -> None:
    cycle = import_cycle({name: package_imports(name) for name in modules()})
    assert not cycle, " -> ".join(cycle)


def test_folders_of_capture_are_small() -> None:
    folders = {path.parent for path in (PACKAGE / "capture").rglob("*.py")}
    sizes = {folder.relative_to(PACKAGE): len([*folder.glob("*.py")]) for folder in folders}
    assert not {folder: files for folder, files in sizes.items() if files > MAX_FOLDER_FILES}


def test_each_room_has_its_tests() -> None:
    tested = {path.parent.name for path in (ROOT / "tests" / "capture").rglob("test_*.py")}
    assert {path.parent.name for path in (PACKAGE / "capture").glob("*/__init__.py")} <= tested


def test_files_are_small() -> None:
    sources = [*PACKAGE.rglob("*.py"), *(ROOT / "csrc").glob("*.[ch]")]
    sizes = {path.relative_to(ROOT): path.read_text().count("\n") for path in sources}
    assert not {path: lines for path, lines in sizes.items() if lines > MAX_FILE_LINES}


def test_names_say_what_a_file_is_about() -> None:
    vague = [name for name in modules() if FORBIDDEN_NAMES & set(name.replace("_", ".").split("."))]
    assert not vague


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (stock_compiler_is_not_used, "onegraph.base.x", "import torch._dynamo"),
        (stock_compiler_is_not_used, "onegraph.base.x", "import torch\ntorch.compile(f)"),
        (stock_compiler_is_not_used, "onegraph.torchlib.x", "from torch._functorch import partitioners"),
        (private_torch_in_one_file, "onegraph.capture.x", "from torch._subclasses import FakeTensorMode"),
        (private_torch_in_one_file, "onegraph.capture.x", "from torch.fx import _pytree"),
        (private_torch_in_one_file, "onegraph.capture.x", "torch._C._get_nested_int()"),
        (
            private_torch_in_one_file,
            "onegraph.torchlib.x",
            "from torch.amp import autocast_mode as m\nm._enter_autocast",
        ),
        (private_torch_in_one_file, "onegraph.torchlib.x", "from torch import Tensor\nTensor._make_subclass"),
        (private_attributes_are_listed, "onegraph.ir.x", "def f(tensor):\n    return tensor._typed_storage()"),
        (environment_only_in_config, "onegraph.ir.x", "import os\nos.environ['A']"),
        (environment_only_in_config, "onegraph.ir.x", "from os import environ"),
        (environment_only_in_config, "onegraph.ir.x", "import os\nos.getenv('A')"),
        (python_version_only_in_bytecode, "onegraph.capture.x", "import sys\nsys.version_info >= (3, 12)"),
        (imports_at_the_top, "onegraph.ir.x", "def f():\n    import torch"),
        (dataclasses_are_cheap, "onegraph.ir.x", "from dataclasses import dataclass"),
        (no_global_statement, "onegraph.ir.x", "def f():\n    global a\n    a = 1"),
        (functions_are_short, "onegraph.ir.x", "def f():\n" + "    a = 1\n" * 80),
        (layers_are_kept, "onegraph.ir.x", "import onegraph.torchlib.fake"),
        (layers_are_kept, "onegraph.capture.x", "from onegraph.compiler import lower"),
        (layers_are_kept, "onegraph.capture.x", "from onegraph import compile"),
        (layers_are_kept, "onegraph.base.x", "import onegraph"),
        (layers_are_kept, "onegraph.elsewhere.x", ""),
        (rooms_are_kept, "onegraph.capture.heap.x", "from onegraph.capture.policy.python import builtins"),
        (rooms_are_kept, "onegraph.capture.tracer.x", "from onegraph.capture.translate import translate"),
    ],
)
def test_each_rule_finds_what_it_forbids(rule: Rule, name: str, source: str) -> None:
    assert list(rule(name, ast.parse(source)))


def test_a_cycle_is_found() -> None:
    edges = {"a": frozenset({"b"}), "b": frozenset({"c"}), "c": frozenset({"b"}), "d": frozenset()}
    assert import_cycle(edges) == ["b", "c", "b"]
