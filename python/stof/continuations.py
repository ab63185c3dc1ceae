# SPDX-License-Identifier: Apache-2.0
"""What comes behind prompts, told of as it is made: by a function that is called, and piece by piece from a thread."""

from __future__ import annotations

import contextlib
import queue
import signal
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
    """Of one call: tells `token` what each text grows by, which is text where there are `fronts`, the prompts' ids, and keeps
    what it raises: nothing may go through the library."""

    def __init__(self, session: c_library.P, fronts: list[list[int]] | None, token: Callable[[int, Any], Any] | None):
        self.session, self.fronts, self.token = session, fronts, token
        self.pieces = None if fronts is None or token is None else [Pieces(session, front) for front in fronts]
        self.texts = [""] * len(fronts or ())
        self.raised: BaseException | None = None
        self.telling = self.interrupted = False
        self.minds_interrupts = _is_interrupted_by_default()
        listens = token is not None or self.minds_interrupts
        self.as_it_is_made = c_library.TOKEN(self._tell) if listens else c_library.TOKEN()

    @contextlib.contextmanager
    def told_of_interrupts(self) -> Iterator[None]:
        """Python would raise KeyboardInterrupt at the first line of what the library calls, where it is lost: it is noted, and
        ends the call with the next token. The user's own function is interrupted at once."""
        if not self.minds_interrupts:
            yield
            return

        def note(number: int, frame: Any) -> None:
            if self.telling:
                raise KeyboardInterrupt
            self.interrupted = True

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _tell(self, user: Any, number: int, token: int) -> int:
        try:
            self.telling = True
            heard = self._heard(number, token)
            self.telling = False
        except BaseException as error:
            self.telling, self.raised = False, error
        if self.interrupted or self.raised is not None:
            return c_library.STOP_ALL
        return c_library.STOP_TEXT if heard is True else c_library.STOP_NOTHING  # sys.stdout.write gives how much it wrote

    def _heard(self, number: int, token: int) -> Any:
        if self.token is None:
            return None
        if self.pieces is None:
            return self.token(number, token)
        piece = self.pieces[number].add(token)
        self.texts[number] += piece
        return self.token(number, piece)

    def raise_what_was_raised(self) -> None:
        if self.raised is not None:
            raise self.raised
        if self.interrupted:
            raise KeyboardInterrupt

    def texts_of(self, made: list[list[int]]) -> list[str]:
        """What stayed incomplete is told of last."""
        if self.pieces is None:
            return [_whole(Pieces(self.session, front), ids) for front, ids in zip(self.fronts, made)]
        for number, pieces in enumerate(self.pieces):
            if rest := pieces.finish():
                self.texts[number] += rest
                self.token(number, rest)
        return self.texts


def _is_interrupted_by_default() -> bool:
    """Others' handlers stay; a handler is the main thread's to set."""
    return threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _whole(pieces: Pieces, ids: list[int]) -> str:
    return "".join(map(pieces.add, ids)) + pieces.finish()


class _Left(Exception):
    """Nobody reads any more."""


def streamed(generate: Callable[[Callable[[int, Any], Any]], Any]) -> Iterator[Any]:
    """What generate(token) tells of, made in a thread from the first reading on. What it raises is raised here."""
    came: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()  # is it a piece; else what was raised, or None at the end
    left = threading.Event()

    def tell(number: int, piece: Any) -> None:
        if left.is_set():
            raise _Left
        came.put((True, piece))

    def work() -> None:
        try:
            generate(tell)
            came.put((False, None))
        except BaseException as error:
            came.put((False, error))

    thread = threading.Thread(target=work, name="stof.stream")
    thread.start()
    try:
        while (next_one := came.get())[0]:
            if next_one[1] != "":
                yield next_one[1]
        if next_one[1] is not None:
            raise next_one[1]
    finally:
        left.set()
        if threading.current_thread() is not thread:  # where it is the one that collects garbage
            thread.join()
