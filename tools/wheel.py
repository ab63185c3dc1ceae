#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs python/stof, the libstof.so of a build and the shared libraries that it needs into a wheel: `pip install` then needs
no compiler, no checkout and no package of the system but the C and C++ run-time libraries of the machine that built it, or
newer ones.

    tools/wheel.py BUILD_FOLDER OUT_FOLDER
"""

import argparse
import base64
import ctypes
import hashlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What every Linux has that runs C++: one more copy of it in a process would be wrong.
OF_SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s))\.so")


def needed(library: Path) -> dict[str, Path]:
    """The shared libraries that it needs, by the names under which it asks for them."""
    listed = subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"^\s*(\S+) => (\S+) \(", listed, re.M))
    if missing := re.findall(r"^\s*(\S+) => not found", listed, re.M):
        sys.exit(f"wheel: {library} needs {', '.join(missing)}, which this machine lacks")
    return {name: Path(place) for name, place in found.items() if not OF_SYSTEM.match(name)}


def license_of(library: Path) -> Path | None:
    """The notice of the Debian package that a library came with."""
    for place in (library, library.resolve()):  # /lib may be a link to /usr/lib
        owner = subprocess.run(["dpkg-query", "-S", place], capture_output=True, text=True, check=False).stdout
        notice = Path("/usr/share/doc") / owner.split(":")[0] / "copyright"
        if owner and notice.exists():
            return notice
    return None


def version_of(library: Path) -> str:
    function = ctypes.CDLL(str(library)).stof_version
    function.restype = ctypes.c_char_p
    return function().decode()


def contents(library: Path, version: str, tag: str, scratch: Path) -> dict[str, Path | str]:
    """Names in the wheel, and files or texts."""
    info = f"stof-{version}.dist-info"
    package = ROOT / "python/stof"
    files: dict[str, Path | str] = {f"stof/{one.name}": one for one in sorted([*package.glob("*.py"), package / "py.typed"])}
    files[f"{info}/licenses/LICENSE"] = ROOT / "LICENSE"
    for name, place in {"libstof.so": library, **needed(library)}.items():
        stripped = scratch / name
        subprocess.run(["strip", "--strip-unneeded", "-o", stripped, place.resolve()], check=True)
        files[f"stof/lib/{name}"] = stripped
        if notice := license_of(place):
            files[f"{info}/licenses/{name}"] = notice
        elif place != library:
            sys.exit(f"wheel: {place} came with no Debian package, whose notice has to go along")
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: stof\nVersion: {version}\nSummary: Transformers under any attention mask\n"
        "License: Apache-2.0\nRequires-Python: >=3.10\nProvides-Extra: torch\nRequires-Dist: torch; extra == 'torch'\n"
        "Provides-Extra: transformers\nRequires-Dist: torch; extra == 'transformers'\nRequires-Dist: transformers; extra == 'transformers'\n")  # fmt: skip
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tools/wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n"
    return files


def write(wheel: Path, files: dict[str, Path | str], record: str) -> None:
    lines = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, of in files.items():
            data = of.read_bytes() if isinstance(of, Path) else of.encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}\n")
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))  # the same files make the same wheel
            entry.external_attr = (0o100755 if ".so" in name else 0o100644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo(record, (2020, 1, 1, 0, 0, 0)), "".join(lines) + f"{record},,\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    library = given.build / "libstof.so"
    if not library.exists():
        sys.exit(f"wheel: no {library}; `make build && cmake --build --preset release --target stof_c`, or `make cuda`, builds it")
    version, scratch = version_of(library), Path(tempfile.mkdtemp())
    tag = f"py3-none-manylinux_{'_'.join(platform.libc_ver()[1].split('.')[:2])}_{platform.machine()}"
    given.out.mkdir(parents=True, exist_ok=True)
    wheel = given.out / f"stof-{version}-{tag}.whl"
    try:
        write(wheel, contents(library, version, tag, scratch), f"stof-{version}.dist-info/RECORD")
    finally:
        shutil.rmtree(scratch)
    print(wheel)


if __name__ == "__main__":
    main()
