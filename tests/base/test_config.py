from __future__ import annotations

import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from onegraph.base.config import Config
from onegraph.base.errors import InvalidArgument, OnegraphError


def test_environment_sets_fields() -> None:
    config = Config.from_environment(
        {"ONEGRAPH_LOGS": "guards, aten,", "ONEGRAPH_VERIFY": "1", "ONEGRAPH_CACHE_DIR": "/a/b", "OTHER": "x"}
    )
    assert config == Config(logs=("guards", "aten"), verify=True, cache_dir=Path("/a/b"))


def test_an_environment_without_variables_of_ours_gives_the_defaults() -> None:
    assert Config.from_environment({"HOME": "/h"}) == Config(cache_dir=Path("/h/.cache/onegraph"))
    assert Config().cache_dir == Config.from_environment(os.environ).cache_dir


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"HOME": "/h"}, "/h/.cache/onegraph"),
        ({"HOME": "/"}, "/.cache/onegraph"),
        ({"HOME": "/h", "XDG_CACHE_HOME": "/x/y"}, "/x/y/onegraph"),
        ({"XDG_CACHE_HOME": "/x/y"}, "/x/y/onegraph"),
        ({"HOME": "/h", "XDG_CACHE_HOME": ""}, "/h/.cache/onegraph"),
        ({"HOME": "/h", "XDG_CACHE_HOME": "x/y"}, "/h/.cache/onegraph"),
        ({"HOME": "/h", "XDG_CACHE_HOME": "~/y"}, "/h/.cache/onegraph"),
        ({"HOME": ""}, None),
        ({"HOME": "h"}, None),
        ({"HOME": "", "XDG_CACHE_HOME": "y"}, None),
        ({"HOME": "", "ONEGRAPH_CACHE_DIR": "/c"}, "/c"),
        ({"XDG_CACHE_HOME": "/x", "ONEGRAPH_CACHE_DIR": "/c"}, "/c"),
    ],
)
def test_the_folder_of_the_cache(environment: dict[str, str], folder: str | None) -> None:
    assert Config.from_environment(environment).cache_dir == (folder if folder is None else Path(folder))


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without HOME the entry in passwd tells, if there is one."""
    monkeypatch.setattr(pwd, "getpwuid", lambda user: SimpleNamespace(pw_dir=f"/home/of/{user}"))
    assert Config.from_environment({}).cache_dir == Path(f"/home/of/{os.getuid()}/.cache/onegraph")

    def missing(user: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {user}")

    monkeypatch.setattr(pwd, "getpwuid", missing)
    assert Config.from_environment({}).cache_dir is None
    assert Config.from_environment({"ONEGRAPH_CACHE_DIR": "/c"}).cache_dir == Path("/c")


def test_a_folder_is_named_from_where_the_process_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Config.from_environment({"ONEGRAPH_CACHE_DIR": "here"}).cache_dir == tmp_path / "here"


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("ONEGRAPH_VERIFY", "perhaps"),
        ("ONEGRAPH_RECOMPILE_LIMIT", "-1"),
        ("ONEGRAPH_RECOMPILE_LIMIT", "few"),
        ("ONEGRAPH_CACHE_DIR", ""),
        ("ONEGRAPH_CACHE_DIR", "~no_such_user/cache"),
    ],
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


def test_variables_of_torch_count_where_ours_say_nothing() -> None:
    environment = {
        "TORCH_COMPILE_DISABLE": "0",
        "TORCHDYNAMO_DISABLE": "1",
        "TORCHDYNAMO_DYNAMIC_SHAPES": "0",
        "TORCHDYNAMO_SUPPRESS_ERRORS": "all",
        "TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS": "1",
    }
    config = Config.from_environment(environment)
    assert (config.disable, config.automatic_dynamic_shapes) == (False, False)
    assert (config.suppress_errors, config.capture_scalar_outputs) == (False, True)
    assert not Config.from_environment(environment | {"ONEGRAPH_CAPTURE_SCALAR_OUTPUTS": "0"}).capture_scalar_outputs
