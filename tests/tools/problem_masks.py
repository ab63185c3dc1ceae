# SPDX-License-Identifier: Apache-2.0
"""What the masks of problems of bench/peers/decode.py allow: as peers are given them, and as STOF reads their text."""

import subprocess
import tempfile
from pathlib import Path


def allowed(problem):
    """Of the queries at the last positions, row after row."""
    first = problem.keys - problem.queries
    return bytes(bool(problem.mask.allows(first + i, key)) for i in range(problem.queries) for key in range(problem.keys))


def said_by(stof, problem):
    """The same by the program."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "mask.npy"
        subprocess.run([stof, "mask", problem.mask.text, "--seq", f"{problem.queries}x{problem.keys}", "--out", str(out)],
                       check=True, capture_output=True)  # fmt: skip
        return out.read_bytes()[-problem.queries * problem.keys:]
