from __future__ import annotations

from pathlib import Path

import pytest

from onegraph.base.config import Config
from onegraph.base.errors import InvalidArgument, OnegraphError


def test_environment_sets_fields() -> None:
    config = Config.from_environment(
        {"ONEGRAPH_LOGS": "guards, aten,", "ONEGRAPH_VERIFY": "1", "ONEGRAPH_CACHE_DIR": "/a/b", "OTHER": "x"}
    )
    assert config == Config(logs=("guards", "aten"), verify=True, cache_dir=Path("/a/b"))


def test_empty_environment_gives_the_defaults() -> None:
    assert Config.from_environment({}) == Config()


@pytest.mark.parametrize(
    ("variable", "text"),
    [("ONEGRAPH_VERIFY", "perhaps"), ("ONEGRAPH_RECOMPILE_LIMIT", "-1"), ("ONEGRAPH_RECOMPILE_LIMIT", "few")],
)
def test_a_wrong_variable_is_named(variable: str, text: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{variable}='{text}'.*expected"):
        Config.from_environment({variable: text})


def test_replace() -> None:
    assert Config().replace(recompile_limit=3).recompile_limit == 3


def test_an_unknown_option_is_named_and_the_nearest_suggested() -> None:
    with pytest.raises(
        InvalidArgument, match=r"unknown option 'recompile_limits' \(did you mean 'recompile_limit'\?\)"
    ):
        Config().replace(recompile_limits=3)


@pytest.mark.parametrize(("name", "value"), [("verify", 1), ("recompile_limit", True), ("logs", "guards")])
def test_a_value_of_the_wrong_kind_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=f"option '{name}' expects"):
        Config().replace(**{name: value})


def test_invalid_arguments_are_type_and_value_errors() -> None:
    for kind in (TypeError, ValueError, OnegraphError):
        assert issubclass(InvalidArgument, kind)
