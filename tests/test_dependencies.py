"""pyproject.toml names what the package imports, no more and no less."""

from __future__ import annotations

import re
import sys
import tomllib

from import_graph import ROOT, imports_of, modules, parse


def test_dependencies_are_what_is_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["gpu"]]  # the extra of a part of the package
    named = {re.match(r"\w+", requirement)[0] for requirement in needed}
    imported = {target.split(".")[0] for name, path in modules().items() for target in imports_of(parse(path), name)}
    assert imported - sys.stdlib_module_names - {"onegraph"} == named


def test_every_dependency_is_pinned_for_development() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    wanted = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    names = {re.match(r"[\w-]+", requirement)[0].lower() for requirement in wanted}
    assert names - {"onegraph"} <= pinned


def test_what_builds_is_installed_before() -> None:
    """An editable install runs without isolation: what pyproject.toml asks for is there before."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    install = (ROOT / ".ci" / "install").read_text()
    assert [requirement for requirement in needed if f"'{requirement}'" not in install] == []
