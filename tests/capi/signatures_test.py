#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls in the tests of this folder fit what they call, also those that only a GPU comes to."""

import ast
import unittest
from pathlib import Path

HERE = Path(__file__).parent


def parsed(name):
    return ast.parse((HERE / name).read_text(encoding="utf-8"))


def methods(tree):
    """Of each class, with their names."""
    return {one.name: {f.name: f.args for f in one.body if isinstance(f, ast.FunctionDef)}
            for one in ast.walk(tree) if isinstance(one, ast.ClassDef)}  # fmt: skip


def fits(call, taken):
    """Whether a method with these parameters, the first of them self, takes the call."""
    if any(isinstance(given, ast.Starred) for given in call.args) or any(word.arg is None for word in call.keywords):
        return True
    names = [one.arg for one in taken.args[1:]]
    if taken.vararg is None and len(call.args) > len(names):
        return False
    given = [*names[: len(call.args)], *(word.arg for word in call.keywords)]
    known = taken.kwarg is not None or set(given) <= {*names, *(one.arg for one in taken.kwonlyargs)}
    needed = names[: len(names) - len(taken.defaults)]
    return known and len(set(given)) == len(given) and set(needed) <= set(given)


class Signatures(unittest.TestCase):
    def test_every_call_fits(self):
        inherited = methods(parsed("given.py"))["Plans"] | methods(parsed("models.py"))["Sessions"]
        library = methods(parsed("../../python/stof/c_library.py"))["Stof"]
        seen = 0
        for path in sorted(HERE.glob("*_test.py")):
            tree = parsed(path.name)
            own = {name: taken for of_class in methods(tree).values() for name, taken in of_class.items()}
            known = {"self": {**inherited, **own}, "STOF": library}
            for call in ast.walk(tree):
                match call:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id=who), attr=name)) if name in known.get(who, {}):
                        seen += 1
                        with self.subTest(f"{path.name}:{call.lineno}"):
                            self.assertTrue(fits(call, known[who][name]), ast.unparse(call))
        self.assertGreater(seen, 50)


if __name__ == "__main__":
    unittest.main()
