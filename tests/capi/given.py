# SPDX-License-Identifier: Apache-2.0
"""What tests of this folder are given on their command line, LIBSTOF.SO cpu|cuda, and plans that go with a test. Who
imports it where the device is not there ends with exit status 77."""

import sys
import unittest

import c_library
from memory import open_memory

DEVICE, PATH = sys.argv.pop(), sys.argv.pop()
try:
    MEMORY = open_memory(DEVICE)
except OSError as missing:
    print(f"skipped: no GPU to test on: {missing}")
    sys.exit(77)
STOF = c_library.Stof(PATH)


class Plans(unittest.TestCase):
    def parse(self, text):
        mask = STOF.parse(text)
        self.addCleanup(STOF.library.stof_mask_destroy, mask)
        return mask

    def plan(self, text, problem, **given):
        return self.planned(self.parse(text), problem, **given)

    def planned(self, mask, problem, **given):
        plan = STOF.plan(mask, problem.shape, DEVICE, **given)
        self.addCleanup(STOF.library.stof_plan_destroy, plan)
        return plan

    def plan_by(self, kernel, text, problem):
        """None on a GPU that the kernel is not written for."""
        try:
            return self.plan(text, problem, kernel=kernel)
        except c_library.Failure as refused:
            self.assertEqual((DEVICE, refused.status), ("cuda", 3))
            return None
