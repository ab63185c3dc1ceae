#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Planning that takes long, in Python: what handlers of signals raise ends it.

usage: interrupt_test.py LIBSTOF.SO
"""

import signal
import threading
import time
import unittest

import given

import stof

SLOW = "where(q * q * k * k % 1000003 < 500000)"  # pair by pair, and past 2^30
SIZES = {"batch": 1, "heads": 1, "head_dim": 16, "dtype": "f32", "device": "cpu"}
LONG, WHOLE = 20000, 20032  # tokens: half a minute; and a block of a table that has all of them


class Stopped(BaseException):
    pass


class Interrupts(unittest.TestCase):
    def soon(self, work, signals=1):
        """Signals while it works, which is not over by itself for long."""
        main, over = threading.main_thread().ident, threading.Event()

        def send():
            for _ in range(signals):
                if over.wait(0.2):
                    return
                signal.pthread_kill(main, signal.SIGINT)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            work()
        finally:
            over.set()
            sender.join()
        self.fail("it was over before the signals came, or went on")

    def handle(self, handler):
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, handler))

    def test_ctrl_c_ends_it(self):
        self.handle(signal.default_int_handler)
        few = stof.Attention(SLOW, queries=64, keys=LONG, **SIZES)
        table = stof.TableAttention("blocks", limit=SLOW, queries=LONG, keys=LONG, block_q=WHOLE, block_kv=WHOLE, **SIZES)
        block = given.Array((1, 1, 1, 1), [1], "|b1")
        for work in (lambda: stof.Attention(SLOW, queries=LONG, keys=LONG, **SIZES), lambda: few.prepare(64, 1), lambda: table.update(block)):
            began = time.monotonic()
            with self.assertRaises(KeyboardInterrupt) as ended:
                self.soon(work)
            self.assertLess(time.monotonic() - began, 5)
            self.assertIsNone(ended.exception.__cause__)
        few.prepare(64, LONG)  # as before
        self.assertEqual(stof.Attention(SLOW, queries=64, keys=64, **SIZES).description["shape"]["keys"], 64)

    def test_whatever_a_handler_raises(self):
        def stop(number, frame):
            raise Stopped

        self.handle(stop)
        with self.assertRaises(Stopped):
            self.soon(lambda: stof.Attention(SLOW, queries=LONG, keys=LONG, **SIZES))

    def test_a_handler_that_returns_lets_it_go_on(self):
        heard = []

        def listen(number, frame):
            heard.append(number)
            if len(heard) == 2:
                raise Stopped

        self.handle(listen)
        with self.assertRaises(Stopped):
            self.soon(lambda: stof.Attention(SLOW, queries=LONG, keys=LONG, **SIZES), signals=2)
        self.assertEqual(heard, [signal.SIGINT] * 2)

    def test_errors_stay_what_they_are(self):
        self.handle(signal.default_int_handler)
        with self.assertRaisesRegex(stof.InvalidArgument, "division by zero at q = 0, k = 0"):
            stof.Attention("where(1 / (q * k * k * k * k))", queries=64, keys=64, **SIZES)

    def test_other_threads_plan_as_before(self):
        made = []
        thread = threading.Thread(target=lambda: made.append(stof.Attention(SLOW, queries=1000, keys=1000, **SIZES)))
        thread.start()
        thread.join()
        self.assertEqual(len(made), 1)


if __name__ == "__main__":
    unittest.main()
