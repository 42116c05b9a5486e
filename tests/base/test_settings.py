"""`onegraph.config`: read, set, deleted, patched; what goes before what."""

from __future__ import annotations

import pytest

from onegraph.base.config import Config
from onegraph.base.errors import InvalidArgument
from onegraph.base.settings import Layers, Settings


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    made = Settings()
    monkeypatch.setattr("onegraph.base.settings.config", made)
    monkeypatch.setattr("onegraph.base.settings._told", set())
    return made


def test_a_setting_is_what_the_environment_says_until_it_is_set(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings.recompile_limit == Config().recompile_limit
    monkeypatch.setenv("ONEGRAPH_RECOMPILE_LIMIT", "3")
    assert settings.recompile_limit == 3
    settings.recompile_limit = 5
    assert settings.recompile_limit == 5
    del settings.recompile_limit
    assert settings.recompile_limit == 3


def test_options_go_before_settings_and_those_before_the_environment(settings: Settings) -> None:
    layers = Layers(Config(recompile_limit=3, verify=True, threads=2), {"recompile_limit": 7})
    settings.recompile_limit = 5
    settings.threads = 1
    now = layers.now()
    assert (now.recompile_limit, now.threads, now.verify) == (7, 1, True)


def test_wrong_names_and_values_are_refused(settings: Settings) -> None:
    with pytest.raises(AttributeError, match="onegraph.config has no setting 'recompile_limits' .did you mean"):
        settings.recompile_limits  # noqa: B018
    with pytest.raises(AttributeError):
        del settings.nothing
    with pytest.raises(InvalidArgument, match="unknown option 'recompile_limits' .did you mean 'recompile_limit'"):
        settings.recompile_limits = 3
    with pytest.raises(InvalidArgument, match="'recompile_limit' expects an integer of 0 or more, got -1"):
        settings.recompile_limit = -1
    for wrong in [lambda: settings.patch(nothing=1), lambda: settings.patch("verify"), lambda: settings.patch({}, 1)]:
        with pytest.raises(InvalidArgument):
            wrong()
    assert not hasattr(settings, "nothing")
    assert settings.over(Config()) == Config()


def test_patch_is_undone_and_what_else_was_set_is_kept(settings: Settings) -> None:
    settings.verify = True
    with settings.patch(recompile_limit=2, verify=False) as inside:
        assert inside is settings
        assert (settings.recompile_limit, settings.verify) == (2, False)
        with settings.patch("recompile_limit", 1), settings.patch({"verify": True}):
            assert (settings.recompile_limit, settings.verify) == (1, True)
        settings.threads = 1
    assert (settings.recompile_limit, settings.verify, settings.threads) == (8, True, 1)


def test_patch_is_undone_by_an_error(settings: Settings) -> None:
    with pytest.raises(KeyError), settings.patch(threads=3):
        raise KeyError
    assert settings.threads == 0


def test_patch_decorates_functions_that_call_themselves(settings: Settings) -> None:
    @settings.patch(recompile_limit=2)
    def turn(left: int) -> list[int]:
        seen = [settings.recompile_limit]
        settings.recompile_limit += 1
        return [*seen, *(turn(left - 1) if left else []), settings.recompile_limit]

    assert turn(1) == [2, 2, 3, 3]
    assert settings.recompile_limit == 8


def test_settings_are_listed(settings: Settings) -> None:
    assert "recompile_limit" in dir(settings)
    assert "recompile_limit = 8\n" in repr(settings)


def test_torchs_spelling_of_a_setting_of_ours(settings: Settings) -> None:
    settings.cache_size_limit = 3
    assert settings.recompile_limit == settings.cache_size_limit == 3
    with settings.patch({"cpp.threads": 2, "fx_graph_cache": False}):
        assert (settings.threads, settings.cpp.threads, settings.cache) == (2, 2, False)
        assert settings.force_disable_caches is True
    assert (settings.cpp.threads, settings.cache) == (-1, True)
    del settings.cache_size_limit
    assert settings.recompile_limit == 8
    with pytest.raises(InvalidArgument, match="'recompile_limit' expects an integer"):
        settings.cache_size_limit = "many"


def test_what_has_no_meaning_is_said_once(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    assert settings.triton.cudagraph_trees is None
    for _ in range(2):
        settings.triton.cudagraph_trees = True
    settings.shape_padding = False  # switched off, too: here it is neither on nor off
    assert [said.partition(" of torch.compile has no meaning for onegraph: ")[0] for said in caplog.messages] == [
        "the setting triton.cudagraph_trees",
        "the setting shape_padding",
    ]
    assert (settings.triton.cudagraph_trees, settings.shape_padding) == (True, False)
    del settings.triton.cudagraph_trees
    assert settings.triton.cudagraph_trees is None


def test_what_would_be_missed_is_refused(settings: Settings) -> None:
    settings.joint_custom_pre_pass = None
    with pytest.raises(InvalidArgument, match="joint_custom_pre_pass=.* is refused: write a backend"):
        settings.joint_custom_pre_pass = print
    settings.numpy_default_float = "float64"
    with pytest.raises(InvalidArgument, match="refused: give the dtype"):
        settings.patch(numpy_default_float="float32")
