#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every rule of tools/check_source.py fires on a tree that breaks it, at the right line, and is silent on a sound one."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import check_source  # noqa: E402

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
HEADER = SPDX + "#pragma once\n"
BODY = "  work();\n"

SOUND = {
    "include/stof/mask.h": HEADER + "#include <memory>\n",
    "include/stof/c.h": HEADER + "#include <stdint.h>\n#ifdef __cplusplus\n#endif\n"
    "typedef struct call {\n" + "  int field;\n" * (check_source.FUNCTION_LIMIT + 1) + "} call;\n",
    "src/base/error.h": HEADER + '#include "stof/mask.h"\n',
    "src/mask/bind.h": HEADER + '#include "src/base/error.h"\n',
    "src/mask/bind.cpp": SPDX + '#include "src/mask/bind.h"\n\n// The parent of b; see bind.h.\n//   bind(1, 2);\n'
    "int bind(int a,\n         int b) {\n" + BODY * check_source.FUNCTION_LIMIT + "}\n",
    "src/backend/cpu/attention.cpp": SPDX,
    "src/backend/cpu/onednn.cpp": SPDX + "#include <dnnl.hpp>\n",
    "src/backend/cuda/attention.cpp": SPDX,
    "kernels/shared/layout.h": HEADER,
    "kernels/cpu/rows.h": HEADER + '#include "kernels/shared/layout.h"\n',
    "tools/build.sh": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n",
    "README.md": "# Title\n\n## A `part` of it\n\n[mask](include/stof/mask.h) [part](#a-part-of-it) [web](https://a.example)\n",
    "docs/masks.md": "[back](../README.md#title)\n```\n[not a link](nowhere)\n```\n",
    "build/generated.cpp": "no licence here\n",
}

# What is added to the sound tree, and the complaint that it must bring, alone.
BROKEN = {
    "licence": ("src/base/a.cpp", "int a;\n",
                "src/base/a.cpp:1: no 'SPDX-License-Identifier: Apache-2.0' in the first two lines"),
    "pragma once": ("src/base/a.h", SPDX, "src/base/a.h:1: no #pragma once"),
    "file length": ("src/base/a.cpp", SPDX + "\n" * 500, "src/base/a.cpp:501: 501 lines; the limit is 500"),
    "function length": ("src/base/a.cpp", SPDX + "int f(int a) {\n" + BODY * 51 + "}\n",
                        "src/base/a.cpp:2: function of 51 lines; the limit is 50"),
    "length of a wrapped signature": ("src/base/a.cpp", SPDX + "int f(int a,\n      int b) {\n" + BODY * 51 + "}\n",
                                      "src/base/a.cpp:3: function of 51 lines; the limit is 50"),
    "template parameters": ("src/base/a.h", HEADER + "template <class A, int B, int C, class D, class E>\nstruct F;\n",
                            "src/base/a.h:3: 5 template parameters; the limit is 4"),
    "include by a relative name": ("src/base/a.cpp", SPDX + '#include "error.h"\n',
                                   'src/base/a.cpp:2: "error.h" is neither a file from the root nor one of include/'),
    "oneDNN elsewhere": ("src/backend/cpu/onednn.h", HEADER + "#include <dnnl.hpp>\n",
                         "src/backend/cpu/onednn.h:3: only src/backend/cpu/onednn.cpp includes dnnl.hpp"),
    "upward include": ("src/base/a.cpp", SPDX + '#include "src/mask/bind.h"\n',
                       "src/base/a.cpp:2: base may not include mask: it comes later"),
    "around the contract": ("src/attention/a.cpp", SPDX + '#include "src/backend/cpu/attention.cpp"\n',
                            "src/attention/a.cpp:2: attention may not include src/backend/cpu/attention.cpp: "
                            "src/backend/contract.h is the door"),
    "unknown layer": ("src/extra/a.cpp", SPDX,
                      "src/extra/a.cpp:1: src/extra is not one of the layers " + " ".join(check_source.LAYERS)),
    "kernels stand alone": ("kernels/cpu/a.h", HEADER + '#include "src/base/error.h"\n',
                            'kernels/cpu/a.h:3: kernels/ stands alone and may not include "src/base/error.h"'),
    "a file written in place": (
        "cli/a.cpp", SPDX + "std::ofstream file(path);\n",
        "cli/a.cpp:2: only src/base opens files to write: they appear whole, or grow line by line"),
    "public header sees src": ("include/stof/a.h", HEADER + '#include "src/base/error.h"\n',
                               'include/stof/a.h:3: a public header may not include "src/base/error.h"'),
    "public header sees a library": (
        "include/stof/a.h", HEADER + "#include <fmt/format.h>\n",
        "include/stof/a.h:3: a public header may not include <fmt/format.h>: only the standard library"),
    "public header branches": ("include/stof/a.h", HEADER + "#ifdef A\n", "include/stof/a.h:3: a public header has no #if"),
    "using namespace": ("src/base/a.h", HEADER + "using namespace std;\n", "src/base/a.h:3: using namespace in a header"),
    "library prints": ("src/base/a.cpp", SPDX + '  fmt::print("x");\n',
                       "src/base/a.cpp:2: the library never prints and never exits"),
    "library exits": ("src/base/a.cpp", SPDX + "  std::exit(1);\n",
                      "src/base/a.cpp:2: the library never prints and never exits"),
    "environment": ("src/base/a.cpp", SPDX + '  std::getenv("A");\n',
                    "src/base/a.cpp:2: only src/base/env.cpp reads the environment"),
    "stale file name": ("src/base/mask_utils.cpp", SPDX,
                        "src/base/mask_utils.cpp:1: 'utils' in a file name says nothing about its contents"),
    "stale type name": ("src/base/a.cpp", SPDX + "class MaskManager;\n",
                        "src/base/a.cpp:2: 'MaskManager' says nothing about what the type is"),
    "unfinished": ("src/base/a.cpp", SPDX + "// TO" "DO later\n", "src/base/a.cpp:2: 'TO" "DO': finish it or leave it out"),
    "machine path": ("README.md", "see /ho" "me/me/x\n", "README.md:1: a path of one machine"),
    "registry": ("README.md", "from pypi" ".org\n", "README.md:1: a registry's host name"),
    "commented-out code": ("src/base/a.cpp", SPDX + "  // int x = f(a->b);\n", "src/base/a.cpp:2: commented-out code"),
    "a comment on a file that is gone": ("src/base/a.cpp", SPDX + "// See src/base/error.h and tests/base/error_test.cpp.\n",
                                         "src/base/a.cpp:2: names tests/base/error_test.cpp, which does not exist"),
    "a page on a file that is gone": ("docs/a.md", "`src/base/gone.h`\n", "docs/a.md:1: names src/base/gone.h, which does not exist"),
    "dead link": ("docs/a.md", "[x](../missing.md)\n", "docs/a.md:1: link to ../missing.md, which does not exist"),
    "dead anchor": ("docs/a.md", "[x](../README.md#nope)\n",
                    "docs/a.md:1: link to ../README.md#nope: README.md has no such heading"),
    "a script that cannot be run": ("bench/a.sh", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n",
                                    "bench/a.sh:1: a script that may not be executed: chmod +x"),
    "executable without a program": ("bench/run", "# SPDX-License-Identifier: Apache-2.0\n",
                                     "bench/run:1: executable without '#!': chmod -x"),
    "missing twin": ("src/backend/cuda/memory.cpp", SPDX, "src/backend: memory exists on one side only"),
}  # fmt: skip

EXECUTABLE = {"tools/build.sh", "bench/run"}


class CheckSource(unittest.TestCase):
    def complaints(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                path.chmod(0o755 if name in EXECUTABLE else 0o644)
            return list(check_source.complaints(check_source.Tree(folder)))

    def test_sound_tree_has_no_complaints(self):
        self.assertEqual(self.complaints(SOUND), [])

    def test_each_rule_fires_alone(self):
        for rule, (name, text, complaint) in BROKEN.items():
            with self.subTest(rule):
                files = {**SOUND, name: text}
                if name == "README.md":
                    files.pop("docs/masks.md")  # it links to the heading that is replaced
                self.assertEqual(self.complaints(files), [complaint])

    def test_exit_status(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(check_source.main([folder]), 2)
            Path(folder, "a.cpp").write_text(SPDX)
            self.assertEqual(check_source.main([folder]), 0)
            Path(folder, "b.cpp").write_text("")
            self.assertEqual(check_source.main([folder]), 1)


if __name__ == "__main__":
    unittest.main()
