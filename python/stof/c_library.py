# SPDX-License-Identifier: Apache-2.0
"""libstof.so through ctypes: structures and functions as docs/c_api.md describes them, without a header."""

import ctypes as c

F32, F16, BF16, I32, BOOL = range(5)
P = c.c_void_p


class Array(c.Structure):
    _fields_ = [("data", P), ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)),
                ("rank", c.c_int32), ("dtype", c.c_int32)]  # fmt: skip


class Shape(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("batch", c.c_int64), ("heads", c.c_int64), ("kv_heads", c.c_int64),
                ("queries", c.c_int64), ("keys", c.c_int64), ("head_dim", c.c_int64), ("dtype", c.c_int32),
                ("capped", c.c_int64), ("tree_queries", c.c_int64)]  # fmt: skip


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
                ("tree", P), ("tree_batch_stride", c.c_int64), ("tree_row_stride", c.c_int64), ("tree_queries", c.c_int64)]  # fmt: skip


TABLE_LISTS, TABLE_BLOCKS, TABLE_BITS, TABLE_PACKED = range(4)


class Table(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("kind", c.c_int32), ("batch", c.c_int64), ("heads", c.c_int64),
                ("block_q", c.c_int64), ("block_kv", c.c_int64), ("width", c.c_int64), ("capacity", c.c_int64)]  # fmt: skip


class TableContents(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("data", P), ("batch_stride", c.c_int64), ("head_stride", c.c_int64),
                ("row_stride", c.c_int64), ("status", P), ("stream", P)]  # fmt: skip


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
    "stof_plan_create": (c.c_int, [P, c.POINTER(Shape), c.c_char_p, c.c_char_p, c.POINTER(P)]),
    "stof_plan_create_table": (c.c_int, [c.POINTER(Table), P, c.POINTER(Shape), c.c_char_p, c.POINTER(P)]),
    "stof_plan_update": (c.c_int, [P, c.POINTER(TableContents)]),
    "stof_plan_prepare": (c.c_int, [P, c.c_int64, c.c_int64]),
    "stof_plan_description": (c.c_char_p, [P]),
    "stof_plan_workspace_size": (c.c_int, [P, c.POINTER(c.c_size_t)]),
    "stof_plan_destroy": (None, [P]),
    "stof_plan_run": (c.c_int, [P, c.POINTER(Call)]),
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


class Failure(Exception):
    """A call that failed, with the library's code and its text; InvalidArgument, Unsupported and DeviceFailure are the
    usual ones, one that is none of them is a bug of the library."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status, self.text = status, text


class InvalidArgument(Failure, ValueError):
    """What was given is wrong; the text names what was got and what is accepted."""


class Unsupported(Failure, NotImplementedError):
    """A valid request that nothing here can serve."""


class DeviceFailure(Failure, RuntimeError):
    """The device, its driver, or memory."""


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
