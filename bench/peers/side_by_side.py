# SPDX-License-Identifier: Apache-2.0
"""What takes long to compile: each case in a process of its own, all at once; times are taken one case after the other, with nothing
else running."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

READY = "ready"


def wait_for_turn() -> bool:
    """Of a case's process. False: who would have said go is gone."""
    print(READY, flush=True)
    return bool(sys.stdin.readline())


class Contender:
    """A process that compiles a case, waits for its turn and prints what it found, or why not, as JSON in a line."""

    def __init__(self, key: dict, command: list):
        self.key, self.first = key, None
        self.process = subprocess.Popen([sys.executable, *map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"})  # fmt: skip
        self.reader = threading.Thread(target=self.read_first, daemon=True)
        self.reader.start()

    def said(self):
        """Its next line; what libraries print is none. None at its end."""
        for line in self.process.stdout:
            if line.strip() == READY or line.startswith("{"):
                return line.strip()
        return None

    def read_first(self):
        self.first = self.said()

    def ready_by(self, deadline):
        self.reader.join(max(0.0, deadline - time.monotonic()))
        return not self.reader.is_alive()

    def found(self):
        last = self.first
        if last == READY:
            print("go", file=self.process.stdin, flush=True)
            last = self.said()
        self.process.wait()
        return json.loads(last) if last else {"failed": f"ended with status {self.process.returncode}"}


def in_turn(contenders, seconds):
    """Each with what it found, once all have compiled; those that have not after `seconds` are left out."""
    deadline = time.monotonic() + seconds
    late = [one for one in contenders if not one.ready_by(deadline)]
    for one in late:
        one.process.kill()
        print(f"{one.key}: not compiled after {seconds:.0f} s", flush=True)
    for one in contenders:
        if one not in late:
            yield one.key, one.found()
