# SPDX-License-Identifier: Apache-2.0
"""The binding of python/stof, by its name, for tests that need nothing else of that package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from stof.c_library import *  # noqa: E402, F403
