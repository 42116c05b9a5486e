"""What annotations are made of."""

from __future__ import annotations

import typing

#: The classes of type variables are written in C since Python 3.12.
TYPE_FORMS = {type(form) for form in vars(typing).values() if isinstance(form, typing._Final)} | {
    typing.TypeVar,
    typing.ParamSpec,
    typing.ParamSpecArgs,
    typing.ParamSpecKwargs,
    typing.TypeVarTuple,
}
