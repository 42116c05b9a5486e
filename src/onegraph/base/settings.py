"""`onegraph.config`: the settings of the process, which can be changed while it runs.

    onegraph.config.recompile_limit = 16

    with onegraph.config.patch(recompile_limit=1):
        ...

What a region is told by `options=` goes before what is set here, and that before the environment. A region asks when it
compiles, so what is set behind `@onegraph.compile` counts from the next compilation on.

The names of torch's own settings are known, too (`onegraph.base.torch_settings`): each is another spelling of one of
ours, or has no meaning here, which is said once, or is refused.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from contextlib import ContextDecorator
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from onegraph.base.config import Config
from onegraph.base.dataclass import dataclass
from onegraph.base.errors import InvalidArgument
from onegraph.base.setting_names import NAMES as names_of_torch
from onegraph.base.torch_settings import EXACT, GROUPS, Nothing, Refused, Same, row_of

LOGGER = logging.getLogger("onegraph")
NAMES = tuple(item.name for item in dataclasses.fields(Config))
NO_MEANING = "the setting %s of torch.compile has no meaning for onegraph: %s"
_told: set[str] = set()  # of which names that was said


def resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by the names of onegraph; what is torch's and has no meaning here keeps its name.

    Raises:
        InvalidArgument: for an unknown setting, one that is refused, or a value that is not accepted.
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        row = Same(name) if name in NAMES else row_of(name)
        match row:
            case Same(field, ours):
                found[field] = ours(value)
                Config().replace(**{field: found[field]})
                continue
            case Refused(instead) if not row.accepts(value):
                raise InvalidArgument(f"{name}={value!r} of torch.compile is refused: {instead}")
            case Nothing(why) if name not in _told:
                _told.add(name)
                LOGGER.warning(NO_MEANING, name, why)
            case None:
                raise InvalidArgument(f"unknown option '{name}'{near(name)}; accepted: {', '.join(sorted(NAMES))}")
        found[name] = value
    return found


def near(name: str) -> str:
    """What may have been meant by an unknown name."""
    found = get_close_matches(name, [*NAMES, *names_of_torch], n=1)
    return f" (did you mean '{found[0]}'?)" if found else ""


class Group:
    """The settings whose names begin with that of a group and a dot."""

    __slots__ = ("_name", "_settings")

    _name: str
    _settings: Settings

    def __init__(self, settings: Settings, name: str) -> None:
        object.__setattr__(self, "_settings", settings)
        object.__setattr__(self, "_name", name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._settings, f"{self._name}.{name}")

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._settings, f"{self._name}.{name}", value)

    def __delattr__(self, name: str) -> None:
        delattr(self._settings, f"{self._name}.{name}")


class Settings:
    """The fields of `onegraph.Config` as attributes, and those that torch has for its compiler.

    Reading one gives what a region would be compiled with that has no options of its own; None for one that was not set
    and has no meaning here. Setting one is checked; deleting it goes back to what the environment says.

    Raises:
        AttributeError: for the value of an unknown setting.
        InvalidArgument: where an unknown setting is set, one that is refused, or one to a value that is not accepted.
    """

    __slots__ = ("_values",)

    _values: Mapping[str, Any]

    def __init__(self) -> None:
        self._restore({})

    def __getattr__(self, name: str) -> Any:
        if name in NAMES:
            return getattr(self.over(Config.from_environment()), name)
        if name in GROUPS:
            return Group(self, name)
        row = None if name.startswith("__") else row_of(name)
        if row is None:
            raise AttributeError(f"onegraph.config has no setting '{name}'{near(name)}", name=name, obj=self)
        return row.theirs(getattr(self, row.field)) if isinstance(row, Same) else self.given(name)

    def __setattr__(self, name: str, value: object) -> None:
        self._set(resolved({name: value}))

    def __delattr__(self, name: str) -> None:
        getattr(self, name)
        row = row_of(name)
        held = row.field if isinstance(row, Same) else name
        self._restore({known: value for known, value in self._values.items() if known != held})

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *NAMES, *GROUPS, *(name for name in EXACT if "." not in name)})

    def __repr__(self) -> str:
        values = self.over(Config.from_environment())
        return "\n".join(f"{name} = {getattr(values, name)!r}" for name in NAMES)

    def meaning(self, name: str) -> str:
        """What a setting does, ours or torch's, in one line.

        Raises:
            InvalidArgument: for an unknown setting.
        """
        if name in NAMES:
            return str(Config.__dataclass_fields__[name].metadata["doc"])
        row = row_of(name)
        if row is None:
            raise InvalidArgument(f"no setting has the name '{name}'{near(name)}")
        return row.meaning

    def given(self, name: str) -> Any:
        """What a setting was set to in this process; None if it was not."""
        return self._values.get(name)

    def over(self, config: Config, options: Mapping[str, Any] = MappingProxyType({})) -> Config:
        """A configuration with what was set here in place of its own values, and options in place of that."""
        values = {name: value for name, value in {**self._values, **options}.items() if name in NAMES}
        return config.replace(**values) if values else config

    def patch(self, changes: str | Mapping[str, Any] | None = None, /, *value: Any, **named: Any) -> Patch:
        """Other values inside of a `with` block, or in each call of a function that this decorates.

        Args:
            changes: settings and their values, or the name of one setting, with its value behind it.
            named: the same, by name.

        Raises:
            InvalidArgument: as for a setting that is set.
        """
        if isinstance(changes, str):
            if len(value) != 1:
                raise InvalidArgument(f"config.patch('{changes}', ...) expects one value, got {len(value)}")
            changes = {changes: value[0]}
        elif value or not isinstance(changes, Mapping | None):
            raise InvalidArgument("config.patch expects a dict of settings, some by name, or one name and its value")
        return Patch(self, resolved({**(changes or {}), **named}))

    def _set(self, values: Mapping[str, Any]) -> None:
        self._restore({**self._values, **values})

    def _restore(self, values: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_values", MappingProxyType(dict(values)))


class Patch(ContextDecorator):
    """Some settings have other values until it is left. What else is set meanwhile stays."""

    def __init__(self, settings: Settings, values: Mapping[str, Any]) -> None:
        self._settings, self._given = settings, values
        self._before: list[Mapping[str, Any]] = []

    def _recreate_cm(self) -> Patch:
        return Patch(self._settings, self._given)  # for each call: they may be under way side by side

    def __enter__(self) -> Settings:
        self._before.append(self._settings._values)
        self._settings._set(self._given)
        return self._settings

    def __exit__(self, *error: object) -> None:
        before, now = self._before.pop(), self._settings._values
        others = {name: value for name, value in now.items() if name not in self._given}
        self._settings._restore({**others, **{name: before[name] for name in self._given if name in before}})


#: The settings of this process.
config = Settings()


@dataclass(frozen=True, slots=True)
class Layers:
    """The configuration of one region: its options, over what is set in the process, over what the environment said."""

    environment: Config
    options: Mapping[str, Any]

    def now(self) -> Config:
        """As it is at this moment."""
        return config.over(self.environment, self.options)
