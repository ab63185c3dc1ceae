#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a precompiled prelude saves NVRTC on instances of the GEMM kernel: with and without in turns, in the process that
made it, in one forked from it, and in another one. Needs NVRTC, no GPU.

usage: prelude.py LIBNVRTC OUT.json
"""

import ctypes
import json
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADERS = sorted(file for folder in ("kernels/cuda", "kernels/shared") for file in (ROOT / folder).rglob("*.*h"))
SHAPES = ["64, 64, 6, 1, 1, 1", "128, 192, 4, 2, 1, 1", "128, 128, 5, 2, 1, 1", "128, 64, 8, 2, 1, 1", "64, 128, 8, 1, 1, 1",
          "64, 64, 4, 1, 1, 4", "128, 256, 3, 2, 1, 1", "128, 192, 4, 1, 2, 1"]  # fmt: skip
INSTANCE = """#include "kernels/cuda/gemm.cuh"
namespace stof::cuda {{
struct Instance : GemmTraits<Half, GemmShape{{{}}}, GemmEpilogue{{1, true, false, false, false, false}}> {{}};
template __global__ void gemm_kernel<Instance>(const __grid_constant__ GemmMaps, const __grid_constant__ GemmParams);
}}
"""
ROUNDS = 5


class Nvrtc:
    def __init__(self, library):
        self.api = ctypes.CDLL(library)
        self.api.nvrtcSetPCHHeapSize.argtypes = [ctypes.c_size_t]
        self.api.nvrtcSetPCHHeapSize(512 << 20)
        self.names = [str(file.relative_to(ROOT)).encode() for file in HEADERS]
        self.texts = [file.read_bytes() for file in HEADERS]

    def version(self):
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.api.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        return f"NVRTC {major.value}.{minor.value}"

    def compiled(self, source, options, target="sm_90a"):
        """Seconds of the compilation, by the clock and of a processor in user mode, and what the compiler says."""
        program, count = ctypes.c_void_p(), len(self.names)
        texts, names = (ctypes.c_char_p * count)(*self.texts), (ctypes.c_char_p * count)(*self.names)
        assert self.api.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", count, texts, names) == 0
        words = [word.encode() for word in (f"--gpu-architecture={target}", "--std=c++20", *options)]
        begin, used = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
        status = self.api.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
        seconds, user = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_utime - used
        size = ctypes.c_size_t()
        self.api.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self.api.nvrtcGetProgramLog(program, log)
        self.api.nvrtcDestroyProgram(ctypes.byref(program))
        assert status == 0, log.value.decode()
        return seconds, user, log.value.decode()

    def seconds(self, source, options):
        seconds, _, log = self.compiled(source, options)
        return seconds, log


def in_a_child(kind, function, *arguments):
    context = multiprocessing.get_context(kind)
    mine, its = context.Pipe()
    process = context.Process(target=function, args=(its, *arguments))
    process.start()
    answer = mine.recv()
    process.join()
    return answer


def forked(pipe, nvrtc, options):
    answers = [nvrtc.seconds(INSTANCE.format(shape), options) for shape in SHAPES]
    pipe.send({"seconds": statistics.mean(seconds for seconds, _ in answers), "taken": all("using" in log for _, log in answers)})


def another(pipe, library, options):
    seconds, log = Nvrtc(library).seconds(INSTANCE.format(SHAPES[0]), options)
    pipe.send({"seconds": seconds, "taken": "using" in log})


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    nvrtc = Nvrtc(sys.argv[1])
    sources = [INSTANCE.format(shape) for shape in SHAPES]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--pch", f"--pch-dir={folder}", "--pch-messages=true"]
        nvrtc.seconds(sources[0], [])
        nvrtc.seconds(sources[0], options)
        times = {"plain": {}, "prelude": {}}  # of each instance the least
        for _ in range(ROUNDS):
            for source in sources:
                for name, words in (("plain", []), ("prelude", options)):
                    times[name][source] = min(nvrtc.seconds(source, words)[0], times[name].get(source, float("inf")))
        report = {"compiler": nvrtc.version(), "target": "sm_90a", "instances": len(sources), "rounds": ROUNDS,
                  "seconds_a_kernel": {name: statistics.mean(taken.values()) for name, taken in times.items()},
                  "headers_alone_s": min(nvrtc.seconds('#include "kernels/cuda/gemm.cuh"\n', [])[0] for _ in range(ROUNDS)),
                  "empty_kernel_s": min(nvrtc.seconds('extern "C" __global__ void f() {}\n', [])[0] for _ in range(ROUNDS)),
                  "forked": in_a_child("fork", forked, nvrtc, options),
                  "another_process": in_a_child("spawn", another, sys.argv[1], options)}  # fmt: skip
    Path(sys.argv[2]).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
