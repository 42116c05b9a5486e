"""What somebody may write into an entry of a capture: each deed changes its parts so that they must be refused.

What is as good as what was there (a text of a message, a number for another one of the same meaning) is left alone:
nothing can tell it from what this package has written, as little as code can be told from other code.
"""

from __future__ import annotations

import base64
import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compiler.hostile_entries import places

Parts = dict[str, Any]
BAD_NUMBERS = (-1, -7, 1 << 40, 1 << 63, -(1 << 63), 10**30, 1 << 31)
#: What stands at no place of an entry.
WRONG: tuple[Any, ...] = ({"eval": "exit()"}, {}, 1.5, "?", {"a": []}, [[[[]]]], "nested", -1, None, [None], True)
#: What is more than it looks, by what stands for it in the parts.
HUNGRY = {
    "nested": "[" * 5000 + "]" * 5000, "very nested": "[" * 100_000 + "]" * 100_000,
    "unclosed": '{"a":' * 100_000, "digits": "9" * 10_000, "negative digits": "-" + "9" * 10_000,
    "long": '"' + "x" * 100_000_000 + '"', "many": "[" + "[]," * 8_000_000 + "0]", "far": "1e400",
}  # fmt: skip
#: What would be run if reading an entry ran anything: it makes this file, in the folder of the process.
TRACE = "hostile_trace"
COMMAND = f"touch {TRACE}"
#: A module that is nowhere loaded, and says so by the same file when it is.
MODULE = "hostile_module"
#: Rows of what an entry may not name, or not so; a number stands for that of the row before, in which it is a row.
FOREIGN_ROWS: tuple[list[Any], ...] = (
    ["named", MODULE, "value", ""], ["named", "onegraph.__main__", "main", ""],
    ["named", "onegraph.autoload", "load", ""],
    ["named", "antigravity", "", ""], ["named", "os", "system.nothing", ""], ["made", "os:system", 0],
    ["made", "onegraph.__main__:main"], ["made", "builtins:exec", 0], ["made", "onegraph.tools.cli:main", 0],
    ["made", "onegraph.compile:compile", 0], ["made", "onegraph.capture.guards.source:describe", 0],
    ["made", "onegraph.capture.guards.guard:GuardSet"], ["made", "onegraph.capture.guards.source:Arg", 0, 0],
    ["made", "onegraph.capture.guards.source:Attr", 0, 0], ["made", "onegraph.capture.guards.source:nothing"],
    ["made", "onegraph.capture.resume.resumed:Jump", 0, 0], ["made", "onegraph.nothing:Nothing"],
    ["object", "onegraph.capture.guards.source:Arg"], ["object", "onegraph.capture.guards.predicates:Predicate", 0],
    ["object", "os:PathLike"], ["unknown", 0], [], ["int", "x"], ["int", None], ["float", "?"], ["bytes", "?"],
    ["torch", "dtype", "os"], ["torch", "device", "nowhere"], ["member", 0, "x"], ["code", 0, 1 << 40],
    ["tuple", 1 << 40],
    ["tuple", "x"],
    ["dict", 0], ["partial", 0, 0, 0], ["frame", 0, 0, 0, 0], ["resume", 0, 0, 0], ["resuming", 0, 0],
    ["owner", "of", 0], ["at", 0, ""], ["namespace", "nothing"], ["namespace", MODULE], ["const"], ["globals", "a"],
)  # fmt: skip
#: The kinds of rows in the place of which something else is seen: what they are is asked of them.
ASKED = frozenset(
    {"made", "object", "code", "torch", "partial", "frame", "resume", "resuming", "owner", "dict", "home"}
)


def opened(content: bytes) -> Parts:
    return json.loads(zlib.decompress(content))  # type: ignore[no-any-return]


def closed(parts: Parts) -> bytes:
    text = json.dumps(parts)
    for name, hungry in HUNGRY.items():
        text = text.replace(f'"{name}"', hungry, 1)
    return zlib.compress(text.encode(), 1)


Deed = Callable[[random.Random, Parts], bool]


def foreign_row(chance: random.Random, parts: Parts) -> bool:
    """One row names what is not there, or may not be named."""
    number = chance.choice([n for n, row in enumerate(parts["rows"]) if row[0] in ASKED])
    row = chance.choice(FOREIGN_ROWS)
    if row[:2] == parts["rows"][number][:2]:
        return False
    parts["rows"][number] = [max(number - 1, 0) if value == 0 and type(value) is int else value for value in row]
    return True


def caller(chance: random.Random, parts: Parts) -> bool:
    """Something is called when a guard, or a place, is looked at: commands, code, or what loads a module."""
    rows = parts["rows"]
    function, argument = chance.choice([
        (["named", "os", "system", ""], COMMAND), (["named", "builtins", "exec", ""], f"open({TRACE!r}, 'w')"),
        (["named", "builtins", "__import__", ""], MODULE), (["named", "importlib", "import_module", ""], MODULE),
        (["named", "posix", "system", ""], COMMAND), (["named", "subprocess", "getoutput", ""], COMMAND),
        (["named", "builtins", "eval", ""], f"open({TRACE!r}, 'w')"),
    ])  # fmt: skip
    first = len(rows)
    rows += [function, ["str", argument], ["const", "text", first + 1], ["none"]]
    called, place, nothing = first, first + 2, first + 3
    match chance.randrange(6):
        case 0:  # a guard that calls it
            parts["guards"].insert(0, ["check", place, nothing, called])
        case 1:  # a place that is found through it
            rows.append(["made", "onegraph.capture.guards.source:Through", place, called])
            parts["guards"].append(["equal", first + 4, nothing, nothing])
        case 2:
            rows.append(["made", "onegraph.capture.guards.source:Through", place, called])
            parts["values"].append([first + 4, nothing])
        case 3:
            rows.append(["made", "onegraph.capture.guards.source:Through", place, called])
            rows.append(["at", first + 4, ""])
        case 4:  # a question, which asks for something else
            rows += [
                ["tuple", first + 1],
                ["dict"],
                ["partial", called, first + 4, first + 5],
                ["str", "ask"],
                ["str", "answer"],
            ]
            path = "onegraph.capture.policy.torch.questions:Answers"
            rows.append(["object", path, first + 7, first + 6, first + 8, nothing])
            parts["guards"].insert(0, ["check", place, nothing, first + 9])
        case 5:  # numbers
            path = "onegraph.capture.policy.python.calculations:Calculation"
            rows += [["tuple", first + 1], ["tuple"], ["made", path, called, first + 4, first + 5]]
            parts["guards"].insert(0, ["check", place, nothing, first + 6])
    return True


def pointer(chance: random.Random, parts: Parts) -> bool:
    """A row, or a guard, is made of a row that is not there."""
    rows = [
        row
        for row in parts["rows"]
        if row[0] in ("tuple", "dict", "made", "object", "const", "globals", "at", "resume")
    ]
    found = [(row, n) for row in [*rows, *parts["guards"]] for n in range(1, len(row)) if type(row[n]) is int]
    row, place = chance.choice(found)
    row[place] = chance.choice([len(parts["rows"]), 1 << 40, 10**30, "0", None, 0.5, [0]])
    return True


def part(chance: random.Random, parts: Parts) -> bool:
    """A part is something else, or is not there."""
    name = chance.choice(sorted(parts.keys() - {"symbols", "size", "hashes", "effects", "nonlocals"}))
    if chance.random() < 0.3:
        del parts[name]
        return True
    value = chance.choice(WRONG)
    parts[name] = value
    return True


def guard(chance: random.Random, parts: Parts) -> bool:
    """A guard of another kind, or with fewer parts, or more."""
    row = chance.choice(parts["guards"])
    match chance.randrange(4):
        case 0:
            row[0] = chance.choice(["unknown", "", None, "memory", "names", "class", "together", "tensor"])
            return True
        case 1:
            del row[1 + chance.randrange(len(row) - 1) :]
        case 2:
            row.append(0)
        case 3:
            parts["guards"][chance.randrange(len(parts["guards"]))] = chance.choice([[], None, "guard", [None], 7])
    return True


def body(chance: random.Random, parts: Parts) -> bool:
    """Residual code that is none, knows constants that are not there, or names of the program and of Python."""
    lines = parts["body"]
    lines[chance.randrange(len(lines))] = chance.choice(
        [
            "return (",
            "k99_(1)",
            f"__import__('os').system({COMMAND!r})",
            "return print",
            "import os",
            "\0",
            "return __name__",
        ]
    )
    return True


def constants(chance: random.Random, parts: Parts) -> bool:
    """Fewer constants than the residual code knows."""
    if not parts["consts"]:
        return False
    del parts["consts"][chance.randrange(len(parts["consts"])) :]
    return True


def bad_number(chance: random.Random, parts: Parts) -> bool:
    """A number that no row has: arguments, places in code, stacks, values, sizes."""
    made = {number for row in parts["rows"] if row[0] == "made" for number in row[2:] if type(number) is int}
    inner = {n for at in made if parts["rows"][at][0] == "tuple" for n in parts["rows"][at][1:] if type(n) is int}
    found = [row for at, row in enumerate(parts["rows"]) if row[0] == "int" and at in made | inner]
    if not found:
        return False
    chance.choice(found)[1] = chance.choice(BAD_NUMBERS)
    return True


def compiled(chance: random.Random, parts: Parts) -> bool:
    """What was compiled of the graph is cut, exchanged, or something else."""
    if parts["made"] is None:
        return False
    data = base64.b64decode(parts["made"])
    changed = chance.choice(
        [data[: chance.randrange(len(data))], b"", b"{}", b'{"KeptEager":[1]}', b"[" * 9000, b'{"eval":[]}']
    )
    parts["made"] = chance.choice([base64.b64encode(changed).decode(), "?", 7])
    return True


def plan_numbers(chance: random.Random, parts: Parts) -> bool:
    """A number in the plan of a compiled graph that no plan has: slots, registers, kernels, offsets, sizes."""
    whole = json.loads(base64.b64decode(parts["made"] or "bnVsbA=="))
    graphs = [] if whole is None else [each for each in places(whole) if is_graph(each)]
    if not graphs:
        return False
    container, index = chance.choice(graphs)
    graph = json.loads(base64.b64decode(container[index]))
    plan = graph["KeptGraph"][0]
    found = [(c, i) for c, i in places(plan) if type(c[i]) is int and i not in ("moved", "flops")]
    at, key = chance.choice(found)
    at[key] = chance.choice([number for number in BAD_NUMBERS if number != 1 << 31])  # which an input may have
    container[index] = base64.b64encode(json.dumps(graph).encode()).decode()
    parts["made"] = base64.b64encode(json.dumps(whole).encode()).decode()
    return True


def call_numbers(chance: random.Random, parts: Parts) -> bool:
    """A number in how the compiled graphs are called: inputs, results, positions."""
    whole = json.loads(base64.b64decode(parts["made"] or "bnVsbA=="))
    found = [(c, i) for c, i in places(whole) if type(c[i]) is int]
    if not found:
        return False
    container, index = chance.choice(found)
    container[index] = chance.choice(BAD_NUMBERS)
    parts["made"] = base64.b64encode(json.dumps(whole).encode()).decode()
    return True


def plan_steps(chance: random.Random, parts: Parts) -> bool:
    """A plan that lacks a step, or makes one twice, or in another order."""
    whole = json.loads(base64.b64decode(parts["made"] or "bnVsbA=="))
    graphs = [] if whole is None else [each for each in places(whole) if is_graph(each)]
    if not graphs:
        return False
    container, index = chance.choice(graphs)
    graph = json.loads(base64.b64decode(container[index]))
    steps = graph["KeptGraph"][0]["ExecPlan"][5]
    needed = [n for n, step in enumerate(steps) if next(iter(step)) in ("Alloc", "ViewOf", "ExternCall", "Return")]
    del steps[chance.choice(needed)]
    container[index] = base64.b64encode(json.dumps(graph).encode()).decode()
    parts["made"] = base64.b64encode(json.dumps(whole).encode()).decode()
    return True


def hungry(chance: random.Random, parts: Parts) -> bool:
    """A text that is long or deep, numbers without end, values in values that double with each row, large tables."""
    rows, first = parts["rows"], len(parts["rows"])
    match chance.randrange(6):
        case 0:
            rows.append([chance.choice(["int", "str", "tuple"]), chance.choice([*HUNGRY])])
        case 1:
            container, index = chance.choice(places(parts))
            container[index] = chance.choice([*HUNGRY])
        case 2:  # equal halves, of which each is another object
            kind = chance.choice(["tuple", "dict", "slice"])
            rows += [["int", 1], ["int", 2]]
            for n in range(first, first + 200, 2):
                extra = [n] * (kind == "slice")
                rows += [[kind, n, n + 1, *extra], [kind, n + 1, n, *extra]]
            rows.append(["frozenset", len(rows) - 1, len(rows) - 2])
        case 3:
            path = "onegraph.capture.guards.source:Item"
            rows += [["globals", "home", chance.randrange(first)]]
            rows += [["made", path, n, n] for n in range(first, first + 200)]
            rows.append(["frozenset", len(rows) - 1])
        case 4:
            rows += [["str", "x" * 100_000]] * 300 + [["tuple", *range(first, first + 300)]] * 300
            rows.append(["made", "onegraph.capture.guards.source:Attr", len(rows) - 1, first])
        case 5:
            return hungry_table(chance, parts)
    return True


def hungry_table(chance: random.Random, parts: Parts) -> bool:
    """A constant of the graph that says that it is large, and has few elements."""
    whole = json.loads(base64.b64decode(parts["made"] or "bnVsbA=="))
    graphs = [] if whole is None else [each for each in places(whole) if is_graph(each)]
    if not graphs:
        return False
    container, index = chance.choice(graphs)
    graph = json.loads(base64.b64decode(container[index]))
    elements = chance.choice([{"bytes": ""}, {"bytes": "AAAA"}])
    shape = chance.choice([[1 << 40], [1 << 31, 4], [1 << 62, 1 << 62], [-1], [0, -1], [1] * 100_000])
    graph["KeptGraph"][2].append(["table", {"Table": ["float32", shape, elements]}])
    container[index] = base64.b64encode(json.dumps(graph).encode()).decode()
    parts["made"] = base64.b64encode(json.dumps(whole).encode()).decode()
    return True


def is_graph(place: tuple[Any, Any]) -> bool:
    container, index = place
    if index != "bytes":
        return False
    try:
        return "KeptGraph" in json.loads(base64.b64decode(container[index]))
    except ValueError:
        return False


def is_untouched(folder: Path) -> bool:
    """Whether nothing was run that is no part of the program."""
    return not (folder / TRACE).exists()


DEEDS: tuple[Deed, ...] = (
    foreign_row, caller, pointer, part, guard, body, constants, bad_number, compiled, plan_numbers, plan_steps,
    call_numbers, hungry,
)  # fmt: skip
