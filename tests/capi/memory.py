# SPDX-License-Identifier: Apache-2.0
"""Memory of the device that a test runs on, and numbers as they are stored there."""

import ctypes as c
import struct

import c_library

SIZES = {c_library.F32: 4, c_library.F16: 2, c_library.BF16: 2}


def pack(values, dtype):
    if dtype == c_library.BF16:
        bits = struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))
        rounded = [b >> 16 | 64 if b & 0x7FFFFFFF > 0x7F800000 else b + 0x7FFF + (b >> 16 & 1) >> 16 for b in bits]
        return struct.pack(f"<{len(values)}H", *rounded)
    return struct.pack(f"<{len(values)}{'fe'[dtype]}", *values)


def pack_i32(numbers):
    return struct.pack(f"<{len(numbers)}i", *numbers)


def unpack(data, dtype):
    if dtype == c_library.BF16:
        halves = struct.unpack(f"<{len(data) // 2}H", data)
        return struct.unpack(f"<{len(halves)}f", struct.pack(f"<{len(halves)}I", *(h << 16 for h in halves)))
    return struct.unpack(f"<{len(data) // SIZES[dtype]}{'fe'[dtype]}", data)


class Host:
    """Bytes of the host at a multiple of 64."""

    name = "cpu"

    def allocate(self, data):
        return HostBytes(data)

    def synchronize(self):
        pass


class HostBytes:
    def __init__(self, data):
        self.size = len(data)
        self.block = (c.c_uint8 * (self.size + 64))()
        self.address = -(-c.addressof(self.block) // 64) * 64
        c.memmove(self.address, data, self.size)

    def read(self):
        return c.string_at(self.address, self.size)


class Cuda:
    """The first GPU, through the driver. Raises OSError where there is none."""

    name = "cuda"

    def __init__(self):
        self.driver = c.CDLL("libcuda.so.1")
        context, device = c.c_void_p(), c.c_int()
        if self.driver.cuInit(0) != 0 or self.driver.cuDeviceGet(c.byref(device), 0) != 0:
            raise OSError("the NVIDIA driver finds no device")
        self.call("cuDevicePrimaryCtxRetain", c.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        status = getattr(self.driver, name)(*arguments)
        assert status == 0, f"{name}: CUDA error {status}"

    def allocate(self, data):
        return CudaBytes(self, data)

    def synchronize(self):
        self.call("cuCtxSynchronize")

    def stream(self):
        stream = c.c_void_p()
        self.call("cuStreamCreate", c.byref(stream), 1)  # CU_STREAM_NON_BLOCKING
        return stream

    def recorded(self, stream, work):
        """What `work` puts on the stream, whose address this is, as a function that launches it."""
        graph, runnable, stream = c.c_void_p(), c.c_void_p(), c.c_void_p(stream)
        self.call("cuStreamBeginCapture_v2", stream, 0)  # CU_STREAM_CAPTURE_MODE_GLOBAL: allocating breaks it
        work()
        self.call("cuStreamEndCapture", stream, c.byref(graph))
        self.call("cuGraphInstantiateWithFlags", c.byref(runnable), graph, c.c_ulonglong(0))
        return lambda: self.call("cuGraphLaunch", runnable, stream)

    def keeps_memory(self, prepare, tries=5):
        """Whether the first call of what prepare() returns leaves as much memory free as there was. Other processes on the
        GPU may change that, and kernels that none has launched yet: there are several tries, each with a call of its own."""

        def unchanged():
            work = prepare()
            self.synchronize()
            before = self.free_bytes()
            work()
            self.synchronize()
            return self.free_bytes() == before

        return any(unchanged() for _ in range(tries))

    def free_bytes(self):
        free, total = c.c_size_t(), c.c_size_t()
        self.call("cuMemGetInfo_v2", c.byref(free), c.byref(total))
        return free.value


class CudaBytes:
    def __init__(self, cuda, data):
        self.cuda, self.size = cuda, len(data)
        address = c.c_uint64()
        cuda.call("cuMemAlloc_v2", c.byref(address), c.c_size_t(max(1, self.size)))
        self.address = address.value
        self.write(data)

    def write(self, data):
        self.cuda.call("cuMemcpyHtoD_v2", c.c_uint64(self.address), data, c.c_size_t(self.size))
        self.cuda.synchronize()  # it may return before the last bytes are there, and some streams do not wait for it

    def read(self):
        data = (c.c_uint8 * self.size)()
        self.cuda.synchronize()
        self.cuda.call("cuMemcpyDtoH_v2", data, c.c_uint64(self.address), c.c_size_t(self.size))
        return bytes(data)


def open_memory(device):
    return Cuda() if device.startswith("cuda") else Host()
