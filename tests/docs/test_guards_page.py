"""The table of what a trace can ask of the world: each row has its guards, its change is seen, the page shows it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any
from unittest import mock

import pytest
import torch
from import_graph import ROOT

import onegraph
from onegraph.capture import assumptions
from onegraph.capture.guards.guard import KINDS, Guard, ShapeCondition
from onegraph.capture.guards.program import GuardProgram, Reason, assemble
from tests.capture.test_small_programs import tree_equal
from tests.docs.answer_guards import QUESTIONS, Question

PAGE = ROOT / "docs" / "programming_model" / "guards.md"


@contextmanager
def restored() -> Iterator[None]:
    """What the rows change is put back."""
    precision = torch.get_float32_matmul_precision()
    with (
        mock.patch.object(torch, "sin", torch.sin),
        mock.patch("builtins.abs", abs),
        mock.patch.dict(torch.nn.modules.module._global_forward_hooks),
        torch.set_grad_enabled(True),
    ):
        yield
        torch.set_float32_matmul_precision(precision)
        sys.modules.pop("made", None)


def answers(question: Question, compile: Callable[..., Any]) -> list[Any]:
    """What the program gives before and after the change."""
    names: dict[str, Any] = {"torch": torch, "__name__": "asking"}
    with restored():
        exec(question.given, names)
        exec(f"def program(x):\n    return {question.program}", names)
        program = compile(names["program"])
        results = [program(torch.ones(2)), program(torch.ones(2))]
        exec(question.change, names)
        return [*results, program(torch.ones(2))]


def guards(question: Question) -> tuple[list[Any], list[Reason]]:
    """The same of the compiled program, and what was guarded."""
    made: list[GuardProgram] = []

    def watched(*args: Any) -> GuardProgram:
        made.append(assemble(*args))
        return made[-1]

    with mock.patch.object(assumptions, "assemble", watched):
        results = answers(question, lambda program: onegraph.compile(program, backend="eager"))
    return results, [reason for each in made for reason in each.explanations]


def kind_of(reason: Reason) -> str:
    if isinstance(reason, Guard):
        return reason.kind
    return "sizes" if isinstance(reason, ShapeCondition) else "process"


def held_by(question: Question, reasons: list[Reason]) -> list[str]:
    """The guards of a row, as a person reads them."""
    found = dict.fromkeys(shown(reason) for reason in reasons if kind_of(reason) in question.kinds)
    return [line for line in found if "the class Tensor" not in line]


def shown(reason: Reason) -> str:
    match reason:
        case Guard():
            return re.sub(r" (object )?at 0x[0-9a-f]+", "", str(reason))
        case ShapeCondition():
            return reason.text
        case _:
            return "the state of the process"


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: f"{question.theme}, {question.asked}")
def test_an_answer_is_guarded(question: Question) -> None:
    expected = answers(question, lambda program: program)
    results, reasons = guards(question)
    assert tree_equal(results, expected)
    assert not tree_equal(expected[1], expected[2]), "the change is to make a difference"
    assert set(question.kinds) <= set(map(kind_of, reasons))


def test_every_kind_of_guard_answers_a_question() -> None:
    kinds = {kind for question in QUESTIONS for kind in question.kinds}
    assert kinds == {*KINDS, "sizes", "process"}


HEAD = """# What is guarded

A trace asks the world many things, and compiled code relies on the answers. Each answer is guarded, also the answer
that there is nothing: a key that a dict lacks, an attribute that an object has not, a class that is no subclass yet.
Where the answer is another in a later call, the program is traced again. The table is made from
`tests/docs/answer_guards.py`; the tests run every row, and look whether the change is seen.

What Python's and torch's own modules keep is guarded as the program's own. Not guarded is what functions of torch ask
that run as they are, and the code and the defaults of functions that a library has defined in its modules."""


def page() -> str:
    """The page of the table."""
    parts = [HEAD]
    for theme, rows in groupby(QUESTIONS, key=lambda question: question.theme):
        parts.append(f"## {theme}")
        for question in rows:
            changed = question.change.replace("\n", "\n#        ")
            source = [question.given, f"def program(x):\n    return {question.program}", f"# later: {changed}"]
            held = "\n".join(f"- `{line}`" for line in held_by(question, guards(question)[1]))
            code = "\n\n".join(filter(None, source))
            parts += [f"**{question.asked}**", f"```py\n{code}\n```", held]
    return "\n\n".join(parts) + "\n"


def test_the_page_shows_the_table(golden: Callable[..., None]) -> None:
    golden(PAGE, page())
