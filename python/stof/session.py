# SPDX-License-Identifier: Apache-2.0
"""A model: loaded once, called often, from any thread: texts to vectors, and what a decoder says behind them."""

from __future__ import annotations

import ctypes
import logging
import os
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from stof import c_library
from stof.arrays import NAMES, float_dtype, floats, split
from stof.batches import embed_in_batches, tokens_of
from stof.c_library import InvalidArgument
from stof.continuations import Told, streamed, told
from stof.given_numbers import number, whole
from stof.library import library
from stof.mask import Mask, mask_of
from stof.plans import device_name

_LOG = logging.getLogger("stof")


class _Loaded:
    """The library's session, destroyed when neither a Session nor a call has it."""

    def __init__(self, folder: bytes, mask: Mask | None, options: dict[str, Any]):
        self.log = c_library.LOG(lambda user, message: _LOG.warning("%s", message.decode(errors="replace")))
        handle = None if mask is None else mask.handle
        self.handle = library().load_session(folder, mask=handle, log=self.log, **options)
        # At the end of the process another thread may still be in a call.
        weakref.finalize(self, library().library.stof_session_destroy, self.handle).atexit = False
        self.info = library().describe(self.handle)
        self.device, self.device_name = self.info.device.decode(), self.info.device_name.decode()


class Session:
    """The model of a folder with config.json, safetensors and a tokenizer. `device` is "cpu", "cuda", "cuda:N" or "auto", a GPU
    where models run on one; `dtype` "f32", "bf16" or, on a GPU, "f16"; attention allows what the model's own mask and `mask`
    allow: a stof.Mask, text of the mask language, or a function for Mask.where. `threads` are those of a call, 0 as many as
    OpenMP would take. With `logits` results are a decoder's scores of the vocabulary in place of hidden states; to generate.
    `tuned=False` leaves plans alone that `stof tune` has kept; why one of them is not used, the logger "stof" is told. Of Longformer
    the first `global_tokens` of each text see all others, and are seen by them, with weights of their own.

    Where a method takes texts it takes lists of token ids as well. Any number of threads may call a session."""

    def __init__(self, folder: str | os.PathLike, device: Any = "auto", dtype: Any = "f32",
                 mask: Mask | str | Callable[..., Any] | None = None, threads: int = 0, logits: bool = False, tuned: bool = True,
                 global_tokens: int = 0):  # fmt: skip
        if not isinstance(folder, (str, os.PathLike)):
            raise InvalidArgument(2, f"folder of type {type(folder).__name__}; accepted: a str, a path")
        if b"\0" in (path := os.fsencode(folder)):
            raise InvalidArgument(2, f"folder {folder!r} has a 0 character; accepted: the name of a folder")
        self.folder, self.dtype, self.logits = os.fspath(folder), float_dtype(dtype), bool(logits)
        options = {"device": device_name(device).encode(), "dtype": NAMES[self.dtype], "logits": self.logits, "untuned": not tuned,
                   "threads": whole("threads", threads, -(2**31), 2**31 - 1),
                   "global_tokens": whole("global_tokens", global_tokens, -(2**63), 2**63 - 1)}  # fmt: skip
        self._kept: _Loaded | None = _Loaded(path, None if mask is None else mask_of(mask), options)

    def close(self) -> None:
        """Frees the model, once calls that other threads are in have ended; more of them are refused. Twice is once."""
        self._kept = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a stof.Session is neither copied nor pickled: any number of threads may call one, and another process loads its own")

    def __repr__(self) -> str:
        about = "closed" if self._kept is None else f"device={self.device!r}, dtype={self.dtype!r}"
        return f"Session({str(self.folder)!r}, {about}{', logits=True' if self.logits else ''})"

    @property
    def hidden_size(self) -> int:
        return self._loaded().info.hidden_size

    @property
    def columns(self) -> int:
        """Of every token's result: hidden_size, or for logits the size of the vocabulary."""
        return self._loaded().info.columns

    @property
    def pooled_columns(self) -> int:
        """Of a pooled vector: of what dense layers of the checkpoint make, else as columns."""
        return self._loaded().info.pooled_columns

    @property
    def max_tokens(self) -> int:
        """Of a text, special tokens included."""
        return self._loaded().info.max_tokens

    @property
    def positions(self) -> int:
        """Tokens that a text may have which is given as ids."""
        return self._loaded().info.positions

    @property
    def vocabulary(self) -> int:
        """Ids are below it."""
        return self._loaded().info.vocabulary

    @property
    def pooling(self) -> str:
        """As the checkpoint says: "mean", "cls", "max", "last" or "none"."""
        return c_library.POOLINGS[self._loaded().info.pooling]

    @property
    def device(self) -> str:
        """ "cpu", or "cuda:0"."""
        return self._loaded().device

    @property
    def device_name(self) -> str:
        """What it is: "NVIDIA H200"."""
        return self._loaded().device_name

    @property
    def statistics(self) -> dict[str, int]:
        """Calls, plans of attention made since loading, and bytes of activations: docs/sessions.md."""
        loaded = self._loaded()
        found = library().statistics(loaded.handle)
        return {name: getattr(found, name) for name, _ in found._fields_[1:]}

    def embed(self, texts: Sequence[str] | Sequence[Sequence[int]], pooling: str | None = None, batch: int = 32, truncate: bool = True) -> Any:
        """A vector for each text, float32 [texts, pooled_columns] of NumPy (without NumPy a memoryview of that shape), of length 1
        where the checkpoint says so. `pooling` is "mean", "cls", "max" or "last", by default what the checkpoint says; with "none" there
        is a list of float32 [tokens, columns], one for each text. `batch` texts of similar length run together, and between batches
        handlers of signals run: what they raise, Ctrl-C for one, ends the call. Of texts with more
        than max_tokens the end is left out, and a warning says of how many; `truncate=False` refuses them. Lists of ids may have
        as many as there are positions."""
        loaded, given = self._loaded(), _given("texts", texts)
        options = c_library.EmbedOptions(ctypes.sizeof(c_library.EmbedOptions), _pooling(pooling), not truncate, whole("batch", batch, 1))
        tokens, cut = tokens_of(loaded.handle, given, options, loaded.info) if isinstance(given, c_library.Texts) else (given, 0)
        of_tokens = (pooling or c_library.POOLINGS[loaded.info.pooling]) == "none"
        lengths = [end - begin for begin, end in pairwise(tokens.kept[1])]
        columns = loaded.info.columns if of_tokens else loaded.info.pooled_columns
        values = embed_in_batches(loaded.handle, tokens, options, columns, lengths if of_tokens else [1] * len(lengths))
        if cut:
            warnings.warn(f"{cut} of {given.count} texts cut to {loaded.info.max_tokens} tokens", stacklevel=2)
        return split(values, lengths) if of_tokens else values

    def run(self, texts: Sequence[str] | Sequence[Sequence[int]]) -> list[Any]:
        """The last hidden states, or logits, of every token: float32 [tokens, columns] for each text, computed in one call, which
        signals wait for. embed(pooling="none") gives them in batches."""
        loaded, given = self._loaded(), _given("texts", texts)
        if isinstance(given, c_library.Texts):
            given = c_library.tokens(library().tokenize(loaded.handle, given)[0])
        ids, offsets = given.kept
        values, address = floats(len(ids), loaded.info.columns)
        library().run_session(loaded.handle, given, address, len(ids) * loaded.info.columns)
        lengths = [end - begin for begin, end in pairwise(offsets)]
        return split(values, lengths)

    def tokenize(self, texts: Sequence[str], most: int | None = None) -> list[list[int]]:
        """The token ids of each text, special ones included; of more than `most` the end is left out."""
        loaded, given = self._loaded(), _given("texts", texts)
        if not isinstance(given, c_library.Texts):
            raise InvalidArgument(2, "texts are lists of ids; accepted: a list of str")
        return library().tokenize(loaded.handle, given, 0 if most is None else whole("most", most, 1))[0]

    def decode(self, ids: Sequence[int] | Sequence[Sequence[int]]) -> Any:
        """The text of ids, or of each list of them, without special tokens and ids of the vocabulary that the tokenizer has nothing for."""
        loaded = self._loaded()
        if _is_sequence(ids) and len(ids) > 0 and _is_sequence(ids[0]):
            return [library().decode(loaded.handle, _ids(f"ids[{i}]", one)) for i, one in enumerate(ids)]
        return library().decode(loaded.handle, _ids("ids", ids))

    def generate(self, prompts: Sequence[str] | Sequence[Sequence[int]], tokens: int = 128, temperature: float = 0.0, *, top_k: int = 0,
                 top_p: float = 1.0, seed: int = 0, ends: Sequence[int] | None = None, batch: int = 32, truncate: bool = False,
                 token: Callable[[int, Any], Any] | None = None) -> list[Any]:  # fmt: skip
        """What a decoder says behind each prompt, of a session with `logits`: texts behind texts, lists of ids behind lists of
        ids, the one that ends it included. At most `tokens` each. A temperature of 0 takes the likeliest token, another draws
        among the `top_k` likeliest (0: all), of which those count that have `top_p` of the probability together, by `seed` and by
        the prompt's place in the list: equal prompts become different texts. A text ends behind one of `ends`, by default the
        checkpoint's; [] is none. `batch` prompts run together; a prompt that leaves no position for a token is refused, or with
        `truncate` cut, and a warning says how many were.

        `token(number, piece)` is called as each token is made: with the prompt's number and what its text grows by, which is
        "" while bytes of a character are missing, or the id. Where it gives True, that text ends, and it is not called for it again;
        what it raises ends the call and is raised by it, as is what handlers of signals raise, and the session is as good as
        before. All pieces of a text together are its result, to which belongs what stayed incomplete of one that it ended."""
        loaded, given = self._of_logits(), _given("prompts", prompts)
        options = _generate_options(tokens, temperature, top_k=top_k, top_p=top_p, seed=seed, ends=ends, batch=batch, truncate=truncate)
        if token is not None and not callable(token):
            raise InvalidArgument(2, f"token of type {type(token).__name__}; accepted: a function")
        fronts = library().tokenize(loaded.handle, given)[0] if isinstance(given, c_library.Texts) else None
        of_call = Told(loaded.handle, fronts, token)
        room = given.count * min(options.tokens, loaded.info.positions)

        def call(as_it_is_made: Any) -> tuple[list[list[int]], int]:
            options.token = as_it_is_made
            return library().generate(loaded.handle, given, options, room)

        made, cut = told(call, None if token is None else of_call.tell)
        if cut:
            longest = min(loaded.info.max_tokens, loaded.info.positions - 1)
            warnings.warn(f"{cut} of {given.count} prompts cut to {longest} tokens", stacklevel=2)
        return made if fronts is None else of_call.texts_of(made)

    def stream(self, prompt: str | Sequence[int], tokens: int = 128, temperature: float = 0.0, **options: Any) -> Iterator[Any]:
        """What generate() says behind one prompt, piece by piece: text behind a text, ids behind ids. A thread makes them ahead of
        who reads; a loop that is left, or close(), stops it behind the token that it is at."""
        if "token" in options:
            raise InvalidArgument(2, "stream has no token=; accepted: generate(..., token=)")
        prompts = [prompt] if isinstance(prompt, str) else [_ids("prompt", prompt)]
        loaded, _, how = self._of_logits(), _given("prompts", prompts), _generate_options(tokens, temperature, **options)
        library().generate(loaded.handle, c_library.tokens([]), how, 0)  # what is wrong is said at once
        return streamed(lambda token: self.generate(prompts, tokens, temperature, token=token, **options))

    def _of_logits(self) -> _Loaded:
        if not self.logits:
            raise InvalidArgument(2, "this session gives hidden states; accepted for generating: a decoder's, loaded with logits=True")
        return self._loaded()

    def _loaded(self) -> _Loaded:
        """What a call keeps while it runs."""
        if (kept := self._kept) is None:
            raise InvalidArgument(2, f"this session of {str(self.folder)!r} is closed")
        return kept


def _generate_options(tokens: int, temperature: float, *, top_k: int = 0, top_p: float = 1.0, seed: int = 0, ends: Sequence[int] | None = None,
                      batch: int = 32, truncate: bool = False) -> c_library.GenerateOptions:  # fmt: skip
    """As Session.generate takes them, and checked as far as that needs no model."""
    options = c_library.GenerateOptions(
        ctypes.sizeof(c_library.GenerateOptions), whole("tokens", tokens, 1), number("temperature", temperature),
        whole("top_k", top_k, 0), _share(top_p), whole("seed", seed, 0, 2**64 - 1), None, 0, whole("batch", batch, 1), bool(truncate))  # fmt: skip
    if ends is not None:
        of_ends = _ids("ends", ends)
        options.kept = of_ends if len(of_ends) else (ctypes.c_int32 * 1)()  # NULL would be the checkpoint's
        options.ends, options.end_count = ctypes.addressof(options.kept), len(of_ends)
    return options


def _given(name: str, values: Any) -> c_library.Texts | c_library.Tokens:
    """Texts, or lists of ids, as the library takes them."""
    accepted = "accepted: a list of str, or of lists of token ids"
    if not _is_sequence(values):
        raise InvalidArgument(2, f"{name} of type {type(values).__name__}; {accepted}")
    listed = list(values)
    if listed and not isinstance(listed[0], str):
        return c_library.tokens([_ids(f"{name}[{i}]", one, accepted) for i, one in enumerate(listed)])
    for i, one in enumerate(listed):
        if not isinstance(one, str):
            raise InvalidArgument(2, f"{name}[{i}] of type {type(one).__name__}, and {name}[0] is a str; {accepted}")
    return c_library.texts([_encoded(name, i, one) for i, one in enumerate(listed)])


def _is_sequence(values: Any) -> bool:
    """Not of characters; an element of a tensor is none, which has a length all the same."""
    return hasattr(values, "__len__") and not isinstance(values, (str, bytes, bytearray)) and getattr(values, "shape", None) != ()


def _encoded(name: str, place: int, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(2, f"{name}[{place}] has the lone surrogate {text[error.start]!a} at {error.start}; accepted: text of Unicode") from None


def _ids(name: str, ids: Any, accepted: str = "accepted: a list of token ids") -> Any:
    if not _is_sequence(ids):
        raise InvalidArgument(2, f"{name} of type {type(ids).__name__}; {accepted}")
    try:
        return c_library.int32s(ids)
    except (TypeError, OverflowError) as error:
        raise InvalidArgument(2, f"{name}: {error}; accepted: integers of 32 bits") from None


def _pooling(pooling: str | None) -> int:
    if pooling is None:
        return 0
    if pooling not in c_library.POOLINGS[1:]:
        raise InvalidArgument(2, f"pooling {pooling!r}; accepted: {', '.join(c_library.POOLINGS[1:])}")
    return c_library.POOLINGS.index(pooling)


def _share(top_p: Any) -> float:
    """In C 0 is the default, and here it is wrong."""
    if (found := number("top_p", top_p)) == 0:
        raise InvalidArgument(2, "top_p = 0; accepted: above 0, up to 1")
    return found
