# SPDX-License-Identifier: Apache-2.0
"""Where libstof.so is, and the one of it that this process has."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from stof.c_library import Stof

_HERE = Path(__file__).resolve().parent
_NAME = "libstof.so"


def places() -> list[Path]:
    """Where it is looked for, in this order, before the system's loader is asked: in a wheel, beside an installed package, and
    in a checkout where `make build` or `make cuda` leave it."""
    return [_HERE / "lib" / _NAME, _HERE.parents[1] / _NAME, _HERE.parents[1] / "build/release" / _NAME]


@functools.cache
def library() -> Stof:
    """Loaded at the first use. STOF_LIBRARY names another one."""
    if given := os.environ.get("STOF_LIBRARY"):
        try:
            return Stof(given)
        except OSError as error:
            raise OSError(f"STOF_LIBRARY is {given!r}: {error}; accepted: a {_NAME} that can be loaded") from error
    for place in places():
        if place.exists():
            return Stof(str(place))
    try:
        return Stof(_NAME)
    except OSError as error:
        looked = ", ".join(str(place) for place in places())
        raise OSError(f"{_NAME} is neither at {looked} nor where the system's loader looks; STOF_LIBRARY=FILE names one, "
                      "`make build` builds one") from error  # fmt: skip
