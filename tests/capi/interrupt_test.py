#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stof_set_interrupt: who is asked while a plan is made, and what is left of one that was ended.

usage: interrupt_test.py LIBSTOF.SO
"""

import ctypes as c
import sys
import threading
import unittest

import c_library
from c_library import F32

STOF = c_library.Stof(sys.argv.pop())
C = STOF.library
SLOW = "where(q * q * k * k % 1000003 < 500000)"  # pair by pair, and past 2^30


class Interrupts(unittest.TestCase):
    def setUp(self):
        self.addCleanup(C.stof_set_interrupt, c_library.ASK(), None)

    def ask(self, answers):
        """Gives one after the other, then 0; returns what it is asked with, a list that grows."""
        asked = []

        def answer(user):
            asked.append((user, threading.get_ident()))
            return answers[len(asked) - 1] if len(asked) <= len(answers) else 0

        self.function = c_library.ASK(answer)  # has to live
        C.stof_set_interrupt(self.function, 17)
        return asked

    def mask(self):
        mask = STOF.parse(SLOW)
        self.addCleanup(C.stof_mask_destroy, mask)
        return mask

    def plan(self, queries, keys):
        plan = STOF.plan(self.mask(), (1, 1, 1, queries, keys, 16, F32))
        self.addCleanup(C.stof_plan_destroy, plan)
        return plan

    def interrupted(self, work):
        with self.assertRaises(c_library.Failure) as ended:
            work()
        self.assertEqual((ended.exception.status, ended.exception.text), (5, "interrupted"))

    def test_a_number_ends_the_call(self):
        asked = self.ask([0, -7])
        shape, handle = c_library.Shape(c.sizeof(c_library.Shape), 1, 1, 1, 20000, 20000, 16, F32), c.c_void_p(1)
        self.assertEqual(C.stof_plan_create(self.mask(), shape, b"cpu", None, handle), 5)
        self.assertIsNone(handle.value)
        self.assertEqual(asked, [(17, threading.get_ident())] * 2)

    def test_0_lets_it_go_on(self):
        self.ask([])
        self.plan(1000, 1000)
        asked = self.ask([0, 0, 0, 1])
        self.interrupted(lambda: STOF.plan(self.mask(), (1, 1, 1, 20000, 20000, 16, F32)))
        self.assertEqual(len(asked), 4)

    def test_who_is_asked_may_plan(self):
        """And is not asked meanwhile."""
        asked = []

        def answer(user):
            asked.append(user)
            C.stof_plan_destroy(STOF.plan(mask, (1, 1, 1, 2000, 2000, 16, F32)))
            return len(asked) == 2

        mask = self.mask()
        self.function = c_library.ASK(answer)
        C.stof_set_interrupt(self.function, None)
        self.interrupted(lambda: STOF.plan(mask, (1, 1, 1, 20000, 20000, 16, F32)))
        self.assertEqual(len(asked), 2)

    def test_of_a_table(self):
        sizes = {"kind": c_library.TABLE_BLOCKS, "block_q": 20032, "block_kv": 20032}
        plan = STOF.table_plan((1, 1, 1, 20000, 20000, 16, F32), self.mask(), **sizes)
        self.addCleanup(C.stof_plan_destroy, plan)
        self.ask([1])
        self.interrupted(lambda: STOF.update(plan, c.addressof(c.c_uint8(1))))

    def test_a_plan_that_is_prepared_stays_as_it_was(self):
        plan = self.plan(64, 4000)
        asked = self.ask([1])
        before = STOF.workspace_size(plan)
        self.interrupted(lambda: STOF.prepare(plan, 64, 1))
        self.assertEqual((len(asked), STOF.workspace_size(plan)), (1, before))
        STOF.prepare(plan, 64, 1)  # and now it is all done

    def test_one_thread_is_asked(self):
        asked = self.ask([1])
        thread = threading.Thread(target=lambda: self.plan(2000, 2000))
        thread.start()
        thread.join()
        self.assertEqual(asked, [])
        C.stof_set_interrupt(c_library.ASK(), None)
        self.plan(2000, 2000)
        self.assertEqual(asked, [])


if __name__ == "__main__":
    unittest.main()
