"""Make a program that shows a difference small: drop statements and replace expressions while it still shows one."""

from __future__ import annotations

import ast
import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

#: Expressions that are tried in the place of others.
PLAIN = ("0", "1", "x", "None", "True", "[]")


def shrink(text: str, differs: Callable[[str], bool], most: int = 600, seconds: float = 120.0) -> str:
    """The smallest text found with at most so many tries, in so many seconds."""
    tries, end = 0, time.monotonic() + seconds
    tree = ast.parse(text)
    went = True
    while went and tries < most and time.monotonic() < end:
        went = False
        for change in changes(tree):
            if tries >= most or time.monotonic() > end:
                break
            before = copy.deepcopy(tree)
            if not change():
                continue
            tries += 1
            candidate = ast.unparse(tree)
            if valid(candidate) and differs(candidate):
                went = True
            else:
                restore(tree, before)
    return ast.unparse(tree) + "\n"


def valid(text: str) -> bool:
    try:
        compile(text, "<program>", "exec")
    except SyntaxError:
        return False
    return "def f(" in text and "def call_0(" in text


def restore(tree: ast.Module, before: ast.Module) -> None:
    tree.body = before.body


def changes(tree: ast.Module) -> Iterator[Callable[[], bool]]:
    """What may be tried, in an order that drops much first. Each answers whether it changed anything.

    Places are paths from the root: a change that was refused has put a copy in the place of the tree.
    """
    for size in (8, 4, 2, 1):
        for path in reversed(list(bodies(tree, ()))):
            index = 0
            while index < len(at(tree, path) or ()):
                length = len(at(tree, path))
                yield lambda path=path, index=index, size=size: drop(tree, path, index, size)
                index += len(at(tree, path) or ()) == length
    for path in list(bodies(tree, ())):
        for index in range(len(at(tree, path) or ())):
            yield lambda path=path, index=index: unwrap(tree, path, index)
            yield lambda path=path, index=index: simpler(tree, path, index)
    for path in list(expressions(tree, ())):
        for number in range(9):
            yield lambda path=path, number=number: substitute(tree, path, number)


Path = tuple[tuple[str, int | None], ...]


def children(node: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    for name, value in ast.iter_fields(node):
        if isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield name, index, item
        elif isinstance(value, ast.AST):
            yield name, None, value


def bodies(node: ast.AST, path: Path) -> Iterator[Path]:
    """Where lists of statements stand: paths that end with the field's name."""
    for name, value in ast.iter_fields(node):
        if isinstance(value, list) and value and (isinstance(value[0], ast.stmt | ast.ExceptHandler | ast.match_case)):
            yield (*path, (name, None))
    for name, index, child in children(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from bodies(child, (*path, (name, index)))


def expressions(node: ast.AST, path: Path) -> Iterator[Path]:
    for name, index, child in children(node):
        here = (*path, (name, index))
        if isinstance(child, ast.JoinedStr):
            yield here
            continue
        if isinstance(child, ast.expr) and not isinstance(getattr(child, "ctx", None), ast.Store | ast.Del):
            if not isinstance(child, ast.Constant | ast.Name):
                yield here
        yield from expressions(child, here)


def at(tree: ast.AST, path: Path) -> Any:
    node: Any = tree
    for name, index in path:
        node = getattr(node, name, None)
        if index is not None and node is not None:
            node = node[index] if isinstance(node, list) and index < len(node) else None
        if node is None:
            return None
    return node


def drop(tree: ast.Module, path: Path, index: int, size: int) -> bool:
    body = at(tree, path)
    if not isinstance(body, list) or index + size > len(body) or (size > 1 and len(body) < size):
        return False
    if len(body) == size and isinstance(body[0], ast.Pass):
        return False
    needed = path[-1][0] == "body" and isinstance(body[0], ast.stmt)
    del body[index : index + size]
    if needed and not body:
        body.append(ast.Pass())
    return True


def unwrap(tree: ast.Module, path: Path, index: int) -> bool:
    """A compound statement becomes its body."""
    body = at(tree, path)
    if not isinstance(body, list) or index >= len(body):
        return False
    match body[index]:
        case ast.If() | ast.For() | ast.While() | ast.With() | ast.Try() as compound:
            body[index : index + 1] = compound.body
            return True
    return False


def simpler(tree: ast.Module, path: Path, index: int) -> bool:
    """`a = b` becomes `b`, a function loses its decorators, a `with` its first item."""
    body = at(tree, path)
    if not isinstance(body, list) or index >= len(body):
        return False
    match body[index]:
        case ast.FunctionDef(decorator_list=[_, *_]) as function:
            function.decorator_list = []
            return True
        case ast.With(items=[_, _, *_]) as block:
            del block.items[0]
            return True
        case ast.If(test=ast.expr(), orelse=[_, *_]) as choice:
            body[index : index + 1] = choice.orelse
            return True
    return False


def substitute(tree: ast.Module, path: Path, number: int) -> bool:
    """An expression becomes one of its parts, or a plain one."""
    node, owner = at(tree, path), at(tree, path[:-1])
    if not isinstance(node, ast.expr) or owner is None:
        return False
    parts = [child for _, _, child in children(node) if isinstance(child, ast.expr)]
    parts = [] if isinstance(node, ast.JoinedStr) else parts
    texts = [ast.parse(plain, mode="eval").body for plain in PLAIN]
    options = [*parts, *texts]
    if number >= len(options):
        return False
    name, index = path[-1]
    if index is None:
        setattr(owner, name, options[number])
    else:
        getattr(owner, name)[index] = options[number]
    return True
