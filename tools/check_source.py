#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the rules of CONTRIBUTING.md that no compiler checks: who may include whom, twins, lengths, words, links.

usage: check_source.py [FOLDER]   checks the tree at FOLDER (default: the one this file is in); exit status 1 on failure,
                                  2 where there is nothing to check
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

LAYERS = ["base", "tensor", "mask", "layout", "codegen", "backend", "attention", "model", "graph", "fusion", "runtime", "capi"]
CPP = {".h", ".c", ".cpp", ".cu", ".cuh"}
CODE = CPP | {".py", ".sh", ".cmake"}
NAMED_CODE = {"Makefile", "CMakeLists.txt", "run", ".clang-tidy"}
SKIPPED = {".git", "build", ".cache", ".toolchain", "__pycache__", "data"}

FILE_WARN, FILE_LIMIT = 400, 500
FUNCTION_LIMIT = 50
TEMPLATE_LIMIT = 4

STALE_STEMS = re.compile(r"(^|_)(fast|new|opt|v2|utils?|helpers?|manager|misc|common)(_|$)")
STALE_TYPES = re.compile(r"\b(?:class|struct)\s+(\w*(?:Utils?|Helper|Manager|Fast|V2)\w*)")
# A letter in brackets, so that the pattern does not find itself.
UNFINISHED = re.compile(r"\b([T]ODO|[F]IXME|[X]XX|[H]ACK|[s]tubs?|[p]laceholders?)\b")
MACHINE_PATH = re.compile(r"(?<![\w.\-}$~)/])/(?:work|root|home|tmp|opt)/|(?<![\w/])\.\./shared\b")
REGISTRY = re.compile(r"\b(?:deb\.debian|pypi|pythonhosted|archive\.ubuntu|huggingface)\.(?:org|com|co)\b")
# Indented further, it is an example inside a comment.
COMMENTED_CODE = re.compile(r"\s*// ?(?:[\w:<>&*]+ ){0,2}[\w:.>\-\[\]]+(?: [-+*|&]?= |\().*;\s*$")
TALKS = re.compile(r"std::(?:cout|cerr|exit|abort)\b|(?<![\w:])(?:printf|puts|exit|abort)\(|fmt::print\(|fprintf\(")
OPENS_TO_WRITE = re.compile(r"\bstd::w?(?:ofstream|fstream|filebuf)\b|\bfopen\(|\bO_(?:WRONLY|RDWR|CREAT)\b")
NAMED_FILE = re.compile(r"(?<![\w/.-])(?:bench|cli|examples|include|kernels|src|tests|tools)/[a-z0-9_/.-]+\.(?:cuh?|cpp|[ch]|py|sh)\b")
OPEN_FILES = {"src/base/atomic_file.cpp", "src/base/append_file.cpp"}
STANDARD_HEADER = re.compile(r"[a-z0-9_]+|std(?:def|int)\.h")


@dataclass(frozen=True)
class Source:
    path: Path  # from the root, as in messages and includes
    lines: list

    @property
    def name(self):
        return self.path.as_posix()

    @property
    def is_cpp(self):
        return self.path.suffix in CPP

    @property
    def is_code(self):
        return self.path.suffix in CODE or self.path.name in NAMED_CODE


class Tree:
    """Every text file below a folder, read once."""

    def __init__(self, root):
        self.root = Path(root)
        self.sources = [
            Source(path.relative_to(self.root), path.read_text(encoding="utf-8").splitlines())
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and self._is_text(path.relative_to(self.root))
        ]

    @staticmethod
    def _is_text(path):
        if SKIPPED & set(path.parts):
            return False
        return path.suffix in CODE | {".md"} or path.name in NAMED_CODE

    def exists(self, name):
        return (self.root / name).exists()


def includes(source):
    for number, line in enumerate(source.lines, 1):
        if match := re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line):
            yield number, match[1], match[2]


# Rules about one file: each yields (line number, message).


def licence(tree, source):
    if source.is_code and not any("SPDX-License-Identifier: Apache-2.0" in line for line in source.lines[:2]):
        yield 1, "no 'SPDX-License-Identifier: Apache-2.0' in the first two lines"


def pragma_once(tree, source):
    if source.path.name.endswith("-inl.h"):
        return  # Highway includes these once per instruction set
    if source.path.suffix in {".h", ".cuh"} and "#pragma once" not in source.lines:
        yield 1, "no #pragma once"


def file_length(tree, source):
    if source.is_code and len(source.lines) > FILE_LIMIT:
        yield FILE_LIMIT + 1, f"{len(source.lines)} lines; the limit is {FILE_LIMIT}"


def function_length(tree, source):
    """Top-level functions as the formatter lays them out: from the line that opens the brace to a '}' in column 0."""
    if not source.is_cpp:
        return
    opened, in_type = None, False
    for number, line in enumerate(source.lines, 1):
        if line.startswith(("class", "struct", "typedef struct")) and line.endswith("{"):
            in_type = True
        elif in_type:
            in_type = not line.startswith("}")
        elif line.endswith("{") and not line.startswith((" ", "namespace", "class", "struct", "enum", "union", "extern", "#")):
            opened = number
        elif line.startswith("    ") and line.endswith("{") and opened is None and source.lines[number - 2].endswith((",", "(")):
            opened = number  # a signature of several lines
        elif line.startswith("}"):
            if opened and number - opened - 1 > FUNCTION_LIMIT:
                yield opened, f"function of {number - opened - 1} lines; the limit is {FUNCTION_LIMIT}"
            opened = None
        elif line and not line.startswith((" ", "}")) and line.endswith((";", "}")):
            opened = None


def template_parameters(tree, source):
    for number, line in enumerate(source.lines, 1):
        if source.is_cpp and (match := re.match(r"\s*template <(.*)>", line)):
            flat = re.sub(r"<[^<>]*>|\([^()]*\)", "", match[1])
            if flat.count(",") + 1 > TEMPLATE_LIMIT:
                yield number, f"{flat.count(',') + 1} template parameters; the limit is {TEMPLATE_LIMIT}"


def resolved_includes(tree, source):
    if not source.is_cpp:
        return
    for number, quote, target in includes(source):
        if quote == '"' and not tree.exists(target) and not tree.exists(f"include/{target}"):
            yield number, f'"{target}" is neither a file from the root nor one of include/'
        if target == "dnnl.hpp" and source.name != "src/backend/cpu/onednn.cpp":
            yield number, "only src/backend/cpu/onednn.cpp includes dnnl.hpp"


def layers(tree, source):
    parts = source.path.parts
    if not source.is_cpp or parts[0] not in {"src", "include", "kernels"}:
        return
    layer = parts[1] if parts[0] == "src" and len(parts) > 2 else None
    if layer and layer not in LAYERS:
        yield 1, f"src/{layer} is not one of the layers {' '.join(LAYERS)}"
        return
    for number, quote, target in includes(source):
        folder = target.split("/")
        if quote == "<":
            continue
        if parts[0] == "kernels" and folder[0] != "kernels":
            yield number, f'kernels/ stands alone and may not include "{target}"'
        if parts[0] == "include" and folder[0] != "stof":
            yield number, f'a public header may not include "{target}"'
        if parts[0] == "src" and folder[0] in {"cli", "tests", "bench", "examples"}:
            yield number, f'src/ may not include "{target}"'
        if layer not in {None, "backend"} and re.match(r"src/backend/(cpu|cuda)/", target):
            yield number, f"{layer} may not include {target}: src/backend/contract.h is the door"
        if layer and folder[0] == "src" and folder[1] in LAYERS and LAYERS.index(folder[1]) > LAYERS.index(layer):
            yield number, f"{layer} may not include {folder[1]}: it comes later"


def public_headers(tree, source):
    if source.path.parts[0] != "include":
        return
    for number, quote, target in includes(source):
        if quote == "<" and not STANDARD_HEADER.fullmatch(target):
            yield number, f"a public header may not include <{target}>: only the standard library"
    for number, line in enumerate(source.lines, 1):
        if re.match(r"\s*#\s*if", line) and line != "#ifdef __cplusplus":  # the C header's linkage
            yield number, "a public header has no #if"


def header_namespaces(tree, source):
    for number, line in enumerate(source.lines, 1):
        if source.path.suffix in {".h", ".cuh"} and re.match(r"\s*using namespace\b", line):
            yield number, "using namespace in a header"


def library_is_quiet(tree, source):
    if not source.is_cpp or source.path.parts[0] != "src":
        return
    for number, line in enumerate(source.lines, 1):
        code = line.split("//")[0]
        if TALKS.search(code):
            yield number, "the library never prints and never exits"
        if re.search(r"\bgetenv\(", code) and source.path.stem != "env":
            yield number, "only src/base/env.cpp reads the environment"


def files_appear_whole(tree, source):
    if not source.is_cpp or source.path.parts[0] not in {"src", "cli"} or source.name in OPEN_FILES:
        return
    for number, line in enumerate(source.lines, 1):
        if OPENS_TO_WRITE.search(line.split("//")[0]):
            yield number, "only src/base opens files to write: they appear whole, or grow line by line"


def words(tree, source):
    if source.is_code and (match := STALE_STEMS.search(source.path.stem)):
        yield 1, f"'{match[2]}' in a file name says nothing about its contents"
    for number, line in enumerate(source.lines, 1):
        if match := UNFINISHED.search(line):
            yield number, f"'{match[1]}': finish it or leave it out"
        if MACHINE_PATH.search(line):
            yield number, "a path of one machine"
        if REGISTRY.search(line):
            yield number, "a registry's host name"
        if source.is_cpp and COMMENTED_CODE.match(line):
            yield number, "commented-out code"
        if source.is_cpp and (match := STALE_TYPES.search(line.split("//")[0])):
            yield number, f"'{match[1]}' says nothing about what the type is"


def named_files(tree, source):
    """Files of ours that comments and pages name, by their path from the root."""
    page = source.path.suffix == ".md"
    for number, line in enumerate(source.lines, 1) if page or source.is_cpp else ():
        for name in NAMED_FILE.findall(line if page else line.partition("//")[2]):
            if not tree.exists(name):
                yield number, f"names {name}, which does not exist"


def slug(heading):
    text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def scripts(tree, source):
    path = tree.root / source.path
    begins = bool(source.lines) and source.lines[0].startswith("#!")
    if begins != bool(path.stat().st_mode & 0o100):
        yield 1, "a script that may not be executed: chmod +x" if begins else "executable without '#!': chmod -x"


def links(tree, source):
    if source.path.suffix != ".md":
        return
    fenced = False
    for number, line in enumerate(source.lines, 1):
        fenced ^= line.startswith("```")
        for target in [] if fenced else re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            path = tree.root / source.path.parent / name if name else tree.root / source.path
            if not path.exists():
                yield number, f"link to {target}, which does not exist"
            elif anchor and path.suffix == ".md":
                headings = re.findall(r"^#+\s+(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
                if anchor not in map(slug, headings):
                    yield number, f"link to {target}: {path.name} has no such heading"


# Rules about the whole tree: each yields a message.


def twins(tree):
    """CPU and CUDA sides of the backend have the same stems; what one side only has lives where the contract says."""
    stems = {"cpu": set(), "cuda": set()}
    for source in tree.sources:
        parts = source.path.parts
        if source.is_cpp and parts[:2] == ("src", "backend") and len(parts) == 4 and parts[2] in stems:
            stems[parts[2]].add(source.path.stem)
    if stems["cuda"]:
        for stem in sorted((stems["cpu"] - {"onednn"}) ^ stems["cuda"]):
            yield f"src/backend: {stem} exists on one side only"


FILE_RULES = [licence, pragma_once, file_length, function_length, template_parameters, resolved_includes, layers,
              public_headers, header_namespaces, library_is_quiet, files_appear_whole, words, named_files, scripts, links]  # fmt: skip
TREE_RULES = [twins]


def complaints(tree):
    for source in tree.sources:
        for rule in FILE_RULES:
            for number, message in rule(tree, source):
                yield f"{source.name}:{number}: {message}"
    for rule in TREE_RULES:
        yield from rule(tree)


def main(arguments):
    tree = Tree(arguments[0] if arguments else Path(__file__).resolve().parent.parent)
    for source in tree.sources:
        if source.is_code and FILE_WARN < len(source.lines) <= FILE_LIMIT:
            print(f"{source.name}: {len(source.lines)} lines, look for the seam", file=sys.stderr)
    found = list(complaints(tree))
    for complaint in found:
        print(complaint)
    print(f"check_source: {len(tree.sources)} files, {len(found)} complaints", file=sys.stderr)
    if not tree.sources:
        print(f"check_source: no source in {tree.root}", file=sys.stderr)
        return 2
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
