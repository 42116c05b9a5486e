"""numpy's scalars and functions of arrays: immutable, so they are used as they are."""

from __future__ import annotations

import numpy

from onegraph.capture.admit import ADMISSIONS, admit_identity, admit_value

ADMISSIONS[numpy.ufunc] = admit_identity
for kind in {*numpy.sctypeDict.values()}:
    if issubclass(kind, numpy.number | numpy.bool_):
        ADMISSIONS[kind] = admit_value
