"""The imports of the package and its tests, read from source: nothing is imported to find out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "onegraph"


def module_name(path: Path) -> str:
    """`src/onegraph/base/text.py` -> `onegraph.base.text`; a package is named by its folder."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    return {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def run_time_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING:`."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        if not is_type_checking(node):
            pending.extend(ast.iter_child_nodes(node))
        else:
            pending.extend(node.orelse)


def imported_names(node: ast.AST, package: str = "") -> list[str]:
    """The dotted names that one import asks for: `from a import b` asks for `a.b`, as `late_module("a.b")` does."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=module, names=names, level=level):
            base = module or ""
            if level:
                anchor = package.split(".")[: len(package.split(".")) - level + 1]
                base = ".".join([*anchor, *([module] if module else [])])
            return [f"{base}.{alias.name}" for alias in names]
        case ast.Call(func=ast.Name(id="late_module"), args=[ast.Constant(value=str(name))]):
            return [name]
    return []


def imports_of(tree: ast.AST, package: str = "") -> set[str]:
    return {name for node in run_time_nodes(tree) for name in imported_names(node, package)}


def resolve(name: str) -> str | None:
    """The module of the package that a dotted name lives in, or None."""
    while name:
        if name in modules():
            return name
        name = name.rpartition(".")[0]
    return None


@cache
def package_imports(name: str) -> frozenset[str]:
    """The modules of the package that a module imports, and be it to check types (parent packages are left out)."""
    path = modules()[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = {resolve(target) for node in ast.walk(parse(path)) for target in imported_names(node, package)}
    return frozenset(target for target in found if target not in (None, "onegraph", name))


@cache
def _everything() -> dict[str, Path]:
    """The modules of the package, of its tests and of the benchmarks; those of the tests by both of their names."""
    roots = ((ROOT, ROOT / "tests"), (ROOT / "tests", ROOT / "tests"), (ROOT, ROOT / "benchmarks"))
    return modules() | {
        ".".join(path.relative_to(root).with_suffix("").parts): path
        for root, folder in roots
        for path in folder.rglob("*.py")
    }


def _reached(name: str) -> Iterator[str]:
    """The modules of ours that a dotted name makes Python import: itself or what it is an attribute of, and parents."""
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        prefix = ".".join(parts[:i])
        yield from (known for known in (prefix, f"{prefix}.__init__") if known in _everything())


@cache
def _asked_of(name: str) -> tuple[frozenset[str], frozenset[str]]:
    """The packages that a module's own import statements ask for, and the modules of ours that these import."""
    source = _everything()[name]
    tree = parse(source)
    names = imports_of(tree, name if source.name == "__init__.py" else name.rpartition(".")[0])
    packages = {target.split(".")[0] for target in names} | ({"torch"} if _uses_lazy_api(tree) else set())
    return frozenset(packages), frozenset(reached for target in names for reached in _reached(target))


def foreign_packages(path: Path) -> set[str]:
    """The packages that are not ours which importing this test file imports, directly or through modules of ours."""
    pending = [".".join(path.relative_to(ROOT).with_suffix("").parts)]
    seen, foreign = set(pending), set()
    while pending:
        packages, reached = _asked_of(pending.pop())
        foreign |= packages
        pending += reached - seen
        seen |= reached
    return foreign - {name.split(".")[0] for name in _everything()}


def _uses_lazy_api(tree: ast.Module) -> bool:
    """`onegraph.compile(...)` after a plain `import onegraph` loads torch on first use."""
    lazy = {"compile", "explain", "reset", "is_compiling", "list_backends", "register_backend"}
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "onegraph"
        and node.attr in lazy
        for node in ast.walk(tree)
    )
