# SPDX-License-Identifier: Apache-2.0
"""A file that opens late, as on a slow disk."""

import contextlib
import fcntl
import os
import signal
import threading


@contextlib.contextmanager
def opens_after(seconds, file):
    """Whoever opens the file for the first time waits: this process has a lease on it, and gives it back so long after."""
    descriptor = os.open(file, os.O_RDONLY)
    give_back = threading.Timer(seconds, fcntl.fcntl, (descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK))
    before = signal.signal(signal.SIGIO, lambda number, frame: give_back.start())  # the kernel says that it is wanted
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)  # OSError where the file system has none
    try:
        yield
    finally:
        if give_back.ident:
            give_back.join()
        os.close(descriptor)
        signal.signal(signal.SIGIO, before)
