# SPDX-License-Identifier: Apache-2.0
"""What comes behind prompts, told of as it is made: by a function that is called, and piece by piece from a thread."""

from __future__ import annotations

import atexit
import contextlib
import queue
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stof import c_library
from stof.library import library


class Pieces:
    """The text of ids that come one by one, behind those of a prompt."""

    def __init__(self, session: c_library.P, front: Sequence[int]):
        self.handle = library().text_stream(session, front)
        weakref.finalize(self, library().library.stof_text_stream_destroy, self.handle).atexit = False

    def add(self, token: int) -> str:
        return library().add_to_stream(self.handle, token)

    def finish(self) -> str:
        return library().finish_stream(self.handle)


class Told:
    """Of one call: tells `token` what each text grows by, which is text where there are `fronts`, the prompts' ids."""

    def __init__(self, session: c_library.P, fronts: list[list[int]] | None, token: Callable[[int, Any], Any] | None):
        self.session, self.fronts, self.token = session, fronts, token
        self.pieces = None if fronts is None or token is None else [Pieces(session, front) for front in fronts]
        self.texts = [""] * len(fronts or ())
        self.ended: set[int] = set()  # by `token`

    def tell(self, number: int, token: int) -> int:
        """Gives a stof_stop."""
        if self.pieces is None:
            heard = self.token(number, token)
        else:
            piece = self.pieces[number].add(token)
            self.texts[number] += piece
            heard = self.token(number, piece)
        if not _is_true(heard):
            return c_library.STOP_NOTHING
        self.ended.add(number)
        return c_library.STOP_TEXT

    def texts_of(self, made: list[list[int]]) -> list[str]:
        """What stayed incomplete is told of last."""
        if self.pieces is None:
            return [_whole(Pieces(self.session, front), ids) for front, ids in zip(self.fronts, made)]
        for number, pieces in enumerate(self.pieces):
            if rest := pieces.finish():
                self.texts[number] += rest
                if number not in self.ended:
                    self.token(number, rest)
        return self.texts


def _is_true(heard: Any) -> bool:
    """NumPy's too, and no number: sys.stdout.write gives how much it wrote."""
    return type(heard).__name__ in ("bool", "bool_") and bool(heard)


def _whole(pieces: Pieces, ids: list[int]) -> str:
    return "".join(map(pieces.add, ids)) + pieces.finish()


Tell = Callable[[int, int], int]  # of a text's number and a token; gives a stof_stop
Call = Callable[[Any], Any]  # of the library, with a c_library.TOKEN


def told(call: Call, tell: Tell | None) -> Any:
    """What call(token) gives, which asks `tell` in this thread. What that raises, and in the main thread what handlers of signals do,
    ends the call with the next token and is raised here: nothing may go through the library."""
    if threading.current_thread() is threading.main_thread():
        return _told_beside(call, tell)
    return call(c_library.TOKEN()) if tell is None else _told_here(call, tell)


def _told_here(call: Call, tell: Tell) -> Any:
    raised: list[BaseException] = []

    def as_it_is_made(user: Any, number: int, token: int) -> int:
        try:
            return tell(number, token)
        except BaseException as error:
            raised.append(error)
            return c_library.STOP_ALL

    try:
        made = call(c_library.TOKEN(as_it_is_made))
        if raised:
            raise raised[0]
        return made
    finally:
        raised.clear()  # an exception that its own traceback comes to would stay until garbage is collected


def _told_beside(call: Call, tell: Tell | None) -> Any:
    """The call has a thread of its own: no handler of a signal runs in that one, where what it raises would be lost."""
    came: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    said: queue.SimpleQueue[int] = queue.SimpleQueue()
    left = threading.Event()

    def as_it_is_made(user: Any, number: int, token: int) -> int:
        if left.is_set():
            return c_library.STOP_ALL
        if tell is None:
            return c_library.STOP_NOTHING
        came.put(("token", (number, token)))
        return said.get()

    def leave() -> None:
        left.set()
        said.put(c_library.STOP_ALL)

    with _working("stof.generate", lambda: call(c_library.TOKEN(as_it_is_made)), came, leave):
        while (one := _next(came))[0] == "token":
            said.put(tell(*one[1]))
        return one[1]


class _Left(Exception):
    """Nobody reads any more."""


def streamed(generate: Callable[[Callable[[int, Any], Any]], Any]) -> Iterator[Any]:
    """What generate(token) tells of, made in a thread from the first reading on. What it raises is raised here."""
    came: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    left = threading.Event()

    def tell(number: int, piece: Any) -> None:
        if left.is_set():
            raise _Left
        came.put(("piece", piece))

    with _working("stof.stream", lambda: generate(tell), came, left.set):
        while (one := _next(came))[0] == "piece":
            if one[1] != "":
                yield one[1]


@contextlib.contextmanager
def _working(name: str, work: Callable[[], Any], came: queue.SimpleQueue[tuple[str, Any]], leave: Callable[[], None]) -> Iterator[None]:
    """A thread that works, and puts what it has made or what was raised behind what came. leave() has it end soon, as it does at the
    end of the program: one that comes back from the library later would be ended in the middle of it."""

    def run() -> None:
        try:
            came.put(("made", work()))
        except BaseException as error:
            came.put(("raised", error))

    thread = threading.Thread(target=run, name=name, daemon=True)

    def end() -> None:
        leave()
        if thread.is_alive() and threading.current_thread() is not thread:  # where it is the one that collects garbage
            thread.join()

    atexit.register(end)
    try:
        thread.start()
        yield
    finally:
        end()
        atexit.unregister(end)
        while not came.empty():  # an exception in there would stay until garbage is collected
            came.get()


def _next(came: queue.SimpleQueue[tuple[str, Any]]) -> tuple[str, Any]:
    """Raises what was raised, and what handlers of signals raise, of one that another thread got too: that one wakes nobody."""
    while True:
        with contextlib.suppress(queue.Empty):
            what, value = came.get(timeout=0.1)
            break
    if what != "raised":
        return what, value
    try:
        raise value
    finally:
        del value  # as above
