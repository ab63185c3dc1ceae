# SPDX-License-Identifier: Apache-2.0
"""Planning that Ctrl-C ends: what handlers of signals raise while the library plans ends it, and is raised behind it."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Generator, Iterator

from stof.c_library import ASK, STATUS_INTERRUPTED, Failure


@contextlib.contextmanager
def interruptible(library: ctypes.CDLL) -> Iterator[None]:
    """Around calls that plan, as stof_set_interrupt has them. Handlers of signals run in the main thread
    alone, so that others are not asked."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    raised: list[BaseException] = []
    answers = _answers(raised)
    next(answers)
    ask = ASK(answers.send)  # has to live as long as it may be called
    try:
        library.stof_set_interrupt(ask, None)
        yield
    except Failure as failure:
        if failure.status == STATUS_INTERRUPTED and raised:
            raise raised.pop() from None
        raise
    finally:
        library.stof_set_interrupt(ASK(), None)


def _answers(raised: list[BaseException]) -> Generator[int, None, None]:
    """Whether to end, for each time that the library asks. A generator, since the interpreter runs handlers where it is resumed, which is
    inside the try; a function's begin, where it would run them, is in front of any, and ctypes drops what is raised there."""
    while True:
        try:
            yield 0
        except GeneratorExit:
            return
        except BaseException as error:
            raised.append(error)
            yield 1
