# SPDX-License-Identifier: Apache-2.0
"""Reads and writes small .npy files with the standard library alone."""

import ast
import math
import struct
from pathlib import Path

FORMATS = {"<f4": "f", "<f2": "e", "<i4": "i", "<i8": "q", "|b1": "?"}


def write(path, shape, values, descr="<f4"):
    header = str({"descr": descr, "fortran_order": False, "shape": tuple(shape)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    data = struct.pack(f"<{math.prod(shape)}{FORMATS[descr]}", *values)
    Path(path).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)
    return str(path)


def read(path):
    """(shape, descr, flat values)"""
    raw = Path(path).read_bytes()
    size = struct.unpack_from("<H", raw, 8)[0]
    header = ast.literal_eval(raw[10 : 10 + size].decode())
    assert raw[:8] == b"\x93NUMPY\x01\x00" and not header["fortran_order"]
    count = math.prod(header["shape"])
    values = struct.unpack(f"<{count}{FORMATS[header['descr']]}", raw[10 + size :])
    return header["shape"], header["descr"], values
