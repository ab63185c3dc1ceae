# SPDX-License-Identifier: Apache-2.0
"""libstof.so through ctypes: structures and functions as docs/c_api.md describes them, without a header."""

import ctypes as c
from array import array as numbers_of
from itertools import accumulate, pairwise

F32, F16, BF16, I32, BOOL = range(5)
P = c.c_void_p


class Array(c.Structure):
    _fields_ = [("data", P), ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)),
                ("rank", c.c_int32), ("dtype", c.c_int32)]  # fmt: skip


class Shape(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("batch", c.c_int64), ("heads", c.c_int64), ("kv_heads", c.c_int64),
                ("queries", c.c_int64), ("keys", c.c_int64), ("head_dim", c.c_int64), ("dtype", c.c_int32),
                ("capped", c.c_int64), ("tree_queries", c.c_int64), ("biased", c.c_int64)]  # fmt: skip


class Tensor(c.Structure):
    _fields_ = [("data", P), ("batch_stride", c.c_int64), ("head_stride", c.c_int64), ("row_stride", c.c_int64)]


class Call(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("dtype", c.c_int32), ("batch", c.c_int64), ("queries", c.c_int64),
                ("keys", c.c_int64), ("q", Tensor), ("k", Tensor), ("v", Tensor), ("out", Tensor), ("lse", Tensor),
                ("scale", c.POINTER(c.c_float)), ("q_lengths", P), ("kv_lengths", P), ("cu_q", P), ("cu_kv", P),
                ("stream", P), ("workspace", P), ("workspace_bytes", c.c_size_t),
                ("page_table", P), ("page_table_stride", c.c_int64), ("page_size", c.c_int64), ("pages", c.c_int64),
                ("check_pages", c.c_int32), ("device_kv_lengths", P), ("softcap", c.POINTER(c.c_float)),
                ("device_q_lengths", P), ("device_cu_q", P), ("device_cu_kv", P), ("lengths_status", P),
                ("tree", P), ("tree_batch_stride", c.c_int64), ("tree_row_stride", c.c_int64), ("tree_queries", c.c_int64),
                ("relative_bias", P)]  # fmt: skip


TABLE_LISTS, TABLE_BLOCKS, TABLE_BITS, TABLE_PACKED = range(4)


class Table(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("kind", c.c_int32), ("batch", c.c_int64), ("heads", c.c_int64),
                ("block_q", c.c_int64), ("block_kv", c.c_int64), ("width", c.c_int64), ("capacity", c.c_int64)]  # fmt: skip


class TableContents(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("data", P), ("batch_stride", c.c_int64), ("head_stride", c.c_int64),
                ("row_stride", c.c_int64), ("status", P), ("stream", P)]  # fmt: skip


POOLINGS = ("of the model", "none", "cls", "mean", "max", "last")  # a stof_pooling by its number
STOP_NOTHING, STOP_TEXT, STOP_ALL = range(3)
TOKEN = c.CFUNCTYPE(c.c_int32, P, c.c_int64, c.c_int32)
LOG = c.CFUNCTYPE(None, P, c.c_char_p)
ASK = c.CFUNCTYPE(c.c_int32, P)
STATUS_INTERRUPTED = 5


class SessionOptions(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("device", c.c_char_p), ("dtype", c.c_int32), ("logits", c.c_int32), ("mask", P),
                ("threads", c.c_int32), ("untuned", c.c_int32), ("log", LOG), ("log_user", P), ("global_tokens", c.c_int64)]  # fmt: skip


class SessionInfo(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("hidden_size", c.c_int64), ("columns", c.c_int64), ("max_tokens", c.c_int64),
                ("positions", c.c_int64), ("vocabulary", c.c_int64), ("pooling", c.c_int32), ("normalizes", c.c_int32),
                ("device", c.c_char_p), ("device_name", c.c_char_p), ("pooled_columns", c.c_int64)]  # fmt: skip


class Statistics(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("calls", c.c_int64), ("plans", c.c_int64), ("planned_bytes", c.c_int64),
                ("held_bytes", c.c_int64)]  # fmt: skip


class Texts(c.Structure):
    _fields_ = [("data", c.POINTER(c.c_char_p)), ("sizes", c.POINTER(c.c_int64)), ("count", c.c_int64)]


class Tokens(c.Structure):
    _fields_ = [("ids", P), ("offsets", P), ("count", c.c_int64)]


class TokenBuffer(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("ids", P), ("capacity", c.c_int64), ("offsets", P), ("truncated", c.c_int64)]


class TextBuffer(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("data", P), ("capacity", c.c_int64), ("size", c.c_int64)]


class EmbedOptions(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("pooling", c.c_int32), ("refuse_long", c.c_int32), ("batch", c.c_int64)]


class Embeddings(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("values", P), ("capacity", c.c_int64), ("lengths", P), ("rows", c.c_int64),
                ("truncated", c.c_int64)]  # fmt: skip


class GenerateOptions(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("tokens", c.c_int64), ("temperature", c.c_double), ("top_k", c.c_int64),
                ("top_p", c.c_double), ("seed", c.c_uint64), ("ends", P), ("end_count", c.c_int64), ("batch", c.c_int64),
                ("truncate", c.c_int32), ("token", TOKEN), ("user", P)]  # fmt: skip


class Generated(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("ids", P), ("capacity", c.c_int64), ("offsets", P), ("needed", c.c_int64),
                ("truncated", c.c_int64)]  # fmt: skip


FUNCTIONS = {
    "stof_version": (c.c_char_p, []),
    "stof_last_error": (c.c_char_p, []),
    "stof_mask_parse": (c.c_int, [c.c_char_p, c.c_char_p, c.POINTER(P)]),
    "stof_mask_bits": (c.c_int, [c.POINTER(Array), c.POINTER(P)]),
    "stof_mask_blocks": (c.c_int, [c.c_int64, c.POINTER(Array), c.POINTER(P)]),
    "stof_mask_document_ids": (c.c_int, [c.POINTER(Array), c.POINTER(P)]),
    "stof_mask_and": (c.c_int, [P, P, c.POINTER(P)]),
    "stof_mask_or": (c.c_int, [P, P, c.POINTER(P)]),
    "stof_mask_not": (c.c_int, [P, c.POINTER(P)]),
    "stof_mask_text": (c.c_char_p, [P]),
    "stof_mask_depends_on_length": (c.c_int32, [P]),
    "stof_mask_destroy": (None, [P]),
    "stof_relative_bias_create": (c.c_int, [P, c.c_int64, c.c_int64, c.c_char_p, c.POINTER(P)]),
    "stof_relative_bias_destroy": (None, [P]),
    "stof_plan_create": (c.c_int, [P, c.POINTER(Shape), c.c_char_p, c.c_char_p, c.POINTER(P)]),
    "stof_set_interrupt": (None, [ASK, P]),
    "stof_plan_create_table": (c.c_int, [c.POINTER(Table), P, c.POINTER(Shape), c.c_char_p, c.POINTER(P)]),
    "stof_plan_update": (c.c_int, [P, c.POINTER(TableContents)]),
    "stof_plan_prepare": (c.c_int, [P, c.c_int64, c.c_int64]),
    "stof_plan_description": (c.c_char_p, [P]),
    "stof_plan_workspace_size": (c.c_int, [P, c.POINTER(c.c_size_t)]),
    "stof_plan_destroy": (None, [P]),
    "stof_plan_run": (c.c_int, [P, c.POINTER(Call)]),
    "stof_session_load": (c.c_int, [c.c_char_p, c.POINTER(SessionOptions), c.POINTER(P)]),
    "stof_session_describe": (c.c_int, [P, c.POINTER(SessionInfo)]),
    "stof_session_statistics": (c.c_int, [P, c.POINTER(Statistics)]),
    "stof_session_destroy": (None, [P]),
    "stof_session_tokenize": (c.c_int, [P, c.POINTER(Texts), c.c_int64, c.POINTER(TokenBuffer)]),
    "stof_session_decode": (c.c_int, [P, P, c.c_int64, c.POINTER(TextBuffer)]),
    "stof_text_stream_create": (c.c_int, [P, P, c.c_int64, c.POINTER(P)]),
    "stof_text_stream_add": (c.c_int, [P, c.c_int32, c.POINTER(P), c.POINTER(c.c_int64)]),
    "stof_text_stream_finish": (c.c_int, [P, c.POINTER(P), c.POINTER(c.c_int64)]),
    "stof_text_stream_destroy": (None, [P]),
    "stof_session_embed_texts": (c.c_int, [P, c.POINTER(Texts), c.POINTER(EmbedOptions), c.POINTER(Embeddings)]),
    "stof_session_embed": (c.c_int, [P, c.POINTER(Tokens), c.POINTER(EmbedOptions), c.POINTER(Embeddings)]),
    "stof_session_run": (c.c_int, [P, c.POINTER(Tokens), P, c.c_int64]),
    "stof_session_generate_texts": (c.c_int, [P, c.POINTER(Texts), c.POINTER(GenerateOptions), c.POINTER(Generated)]),
    "stof_session_generate": (c.c_int, [P, c.POINTER(Tokens), c.POINTER(GenerateOptions), c.POINTER(Generated)]),
}


def load(path):
    library = c.CDLL(path)
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def array(values, shape, dtype, strides=None):
    """An Array and what it points to, which has to live as long as it is used."""
    kind = {BOOL: c.c_uint8, I32: c.c_int32, F32: c.c_float}[dtype]
    data = (kind * max(1, len(values)))(*values)
    dims = (c.c_int64 * len(shape))(*shape)
    steps = (c.c_int64 * len(strides))(*strides) if strides else None
    found = Array(c.cast(data, P), dims, steps, len(shape), dtype)
    found.kept = data
    return found


def texts(encoded):
    """Texts of bytes, which have to live as long as they are used: they do in what is returned."""
    found = Texts((c.c_char_p * len(encoded))(*encoded), (c.c_int64 * len(encoded))(*map(len, encoded)), len(encoded))
    found.kept = encoded
    return found


def int32s(numbers):
    """Raises OverflowError for one that is none, and TypeError for what is no integer."""
    listed = numbers_of("i", numbers)
    return (c.c_int32 * len(listed)).from_buffer(listed) if listed else (c.c_int32 * 0)()


def tokens(lists):
    """Tokens of lists of ids, or of what int32s made of them, and what they point to."""
    arrays = [one if isinstance(one, c.Array) else int32s(one) for one in lists]
    joined = bytearray().join(map(bytes, arrays))  # number by number would take longer than a model does
    ids = (c.c_int32 * (len(joined) // 4)).from_buffer(joined) if joined else (c.c_int32 * 0)()
    return tokens_in(ids, int32s(accumulate(map(len, arrays), initial=0)))


def tokens_in(ids, offsets):
    """Of arrays of ctypes."""
    found = Tokens(c.cast(ids, P), c.cast(offsets, P), len(offsets) - 1)
    found.kept = ids, offsets
    return found


def some_of(of_tokens, texts):
    """Tokens of these texts, in this order."""
    ids, offsets = of_tokens.kept
    data = memoryview(ids).cast("B")
    chosen = bytearray().join(data[4 * offsets[text] : 4 * offsets[text + 1]] for text in texts)
    counts = accumulate((offsets[text + 1] - offsets[text] for text in texts), initial=0)
    return tokens_in((c.c_int32 * (len(chosen) // 4)).from_buffer(chosen), int32s(counts))


def lists_of(ids, offsets):
    """Texts that lie one after the other in arrays of ctypes, as lists."""
    return [ids[begin:end] for begin, end in pairwise(offsets)]


class Failure(Exception):
    """A call that failed, with the library's code and its text; InvalidArgument, Unsupported and DeviceFailure are the
    usual ones, one that is none of them is a bug of the library."""

    __module__ = "stof"  # as its users have it

    def __init__(self, status, text):
        super().__init__(text)
        self.status, self.text = status, text

    def __reduce__(self):
        return type(self), (self.status, self.text)


class InvalidArgument(Failure, ValueError):
    """What was given is wrong; the text names what was got and what is accepted."""

    __module__ = "stof"


class Unsupported(Failure, NotImplementedError):
    """A valid request that nothing here can serve."""

    __module__ = "stof"


class DeviceFailure(Failure, RuntimeError):
    """The device, its driver, or memory."""

    __module__ = "stof"


FAILURES = {2: InvalidArgument, 3: Unsupported, 4: DeviceFailure}


class Stof:
    """The library, with failures as exceptions. Handles are their users' to destroy."""

    def __init__(self, path):
        self.library = load(path)

    def check(self, status):
        if status != 0:
            raise FAILURES.get(status, Failure)(status, self.library.stof_last_error().decode())

    def mask(self, kind, *arguments):
        """mask("parse", b"causal", None), mask("and", a, b)"""
        handle = P()
        self.check(getattr(self.library, "stof_mask_" + kind)(*arguments, c.byref(handle)))
        return handle

    def parse(self, text):
        return self.mask("parse", text.encode(), None)

    def relative_bias(self, address, heads, reach, device="cpu"):
        """Of f32 [heads, 2 * reach + 1] of the host, which is copied."""
        handle = P()
        self.check(self.library.stof_relative_bias_create(address, heads, reach, device.encode(), handle))
        return handle

    def plan(self, mask, shape, device="cpu", kernel=None):
        handle = P()
        whole = Shape(c.sizeof(Shape), *shape)
        self.check(self.library.stof_plan_create(mask, whole, device.encode(), kernel and kernel.encode(), handle))
        return handle

    def table_plan(self, shape, limit=None, device="cpu", **table):
        handle = P()
        form = Table(c.sizeof(Table), **{"batch": 1, "heads": 1, "block_q": 64, "block_kv": 64, **table})
        whole = Shape(c.sizeof(Shape), *shape)
        self.check(self.library.stof_plan_create_table(form, limit, whole, device.encode(), handle))
        return handle

    def update(self, plan, data, strides=(0, 0, 0), status=None, stream=None):
        contents = TableContents(c.sizeof(TableContents), data, *strides, status, stream)
        self.check(self.library.stof_plan_update(plan, contents))

    def prepare(self, plan, queries, keys):
        self.check(self.library.stof_plan_prepare(plan, queries, keys))

    def workspace_size(self, plan):
        size = c.c_size_t()
        self.check(self.library.stof_plan_workspace_size(plan, size))
        return size.value

    def run(self, plan, call):
        self.check(self.library.stof_plan_run(plan, call))

    def load_session(self, folder, **options):
        handle = P()
        self.check(self.library.stof_session_load(folder, SessionOptions(c.sizeof(SessionOptions), **options), handle))
        return handle

    def describe(self, session):
        info = SessionInfo(c.sizeof(SessionInfo))
        self.check(self.library.stof_session_describe(session, info))
        return info

    def statistics(self, session):
        found = Statistics(c.sizeof(Statistics))
        self.check(self.library.stof_session_statistics(session, found))
        return found

    def tokenize(self, session, of_texts, most=0):
        """The ids of each text, and how many texts were cut."""
        ids, offsets, cut = self.tokens_of(session, of_texts, most)
        return lists_of(ids, offsets), cut

    def tokens_of(self, session, of_texts, most=0):
        """The same in arrays: ids, where those of each text begin, and how many texts were cut."""
        offsets = (c.c_int32 * (of_texts.count + 1))()
        bytes_of_texts = sum(of_texts.sizes[: of_texts.count]) if of_texts.sizes else 0
        room = bytes_of_texts + 8 * of_texts.count  # nearly always enough: a token has a byte or more
        while True:
            ids = (c.c_int32 * room)()
            to = TokenBuffer(c.sizeof(TokenBuffer), c.cast(ids, P), room, c.cast(offsets, P))
            status = self.library.stof_session_tokenize(session, of_texts, most, to)
            if status == 0 or offsets[-1] <= room:
                self.check(status)
                return (c.c_int32 * offsets[-1]).from_buffer_copy(ids), offsets, to.truncated  # not all that there was room for
            room = offsets[-1]

    def decode(self, session, ids):
        listed = int32s(ids)
        to = TextBuffer(c.sizeof(TextBuffer))
        self.check(self.library.stof_session_decode(session, c.cast(listed, P), len(listed), to))
        data = c.create_string_buffer(max(1, to.size))
        to.data, to.capacity = c.addressof(data), to.size
        self.check(self.library.stof_session_decode(session, c.cast(listed, P), len(listed), to))
        return data.raw[: to.size].decode()

    def text_stream(self, session, ids=()):
        handle, listed = P(), int32s(ids)
        self.check(self.library.stof_text_stream_create(session, c.cast(listed, P), len(listed), handle))
        return handle

    def add_to_stream(self, stream, token):
        return self._text(self.library.stof_text_stream_add, stream, token)

    def finish_stream(self, stream):
        return self._text(self.library.stof_text_stream_finish, stream)

    def _text(self, function, *given):
        text, size = P(), c.c_int64()
        self.check(function(*given, text, size))
        return c.string_at(text, size.value).decode()

    def embed(self, session, given, options, to):
        """Of Texts or Tokens, into Embeddings."""
        named = "stof_session_embed_texts" if isinstance(given, Texts) else "stof_session_embed"
        self.check(getattr(self.library, named)(session, given, options, to))

    def run_session(self, session, of_tokens, address, capacity):
        self.check(self.library.stof_session_run(session, of_tokens, address, capacity))

    def generate(self, session, given, options, room):
        """What comes behind Texts or Tokens, in room for so many ids of all together, as lists, and how many texts were cut."""
        ids, offsets = (c.c_int32 * max(1, room))(), (c.c_int32 * (given.count + 1))()
        to = Generated(c.sizeof(Generated), c.cast(ids, P), room, c.cast(offsets, P))
        named = "stof_session_generate_texts" if isinstance(given, Texts) else "stof_session_generate"
        self.check(getattr(self.library, named)(session, given, options, to))
        return lists_of(ids, offsets), to.truncated
