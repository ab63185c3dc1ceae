#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formats every C++ and CUDA file with .clang-format; with --check, only says which files differ.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v clang-format >/dev/null; then
  [[ ${1:-} == --check ]] && { echo "format: not checked, clang-format is missing (tools/install.sh lint)"; exit 0; }
  echo "format: clang-format is missing; run tools/install.sh lint" >&2
  exit 1
fi
folders=()
for folder in include kernels src cli tests bench examples; do
  [[ -d $folder ]] && folders+=("$folder")
done
mode=(-i)
[[ ${1:-} == --check ]] && mode=(--dry-run -Werror)
find "${folders[@]}" \( -name '*.h' -o -name '*.c' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 clang-format "${mode[@]}"
