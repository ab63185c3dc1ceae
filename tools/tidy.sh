#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs clang-tidy (checks and reasons: .clang-tidy) on the COUNT sources that most commits touch, or on all of them.
#   tools/tidy.sh COUNT|all
# Needs build/release/compile_commands.json and, for a COUNT, the git history.
set -euo pipefail
cd "$(dirname "$0")/.."

sources() { find src cli kernels examples bench -name '*.cpp' -not -path 'bench/cuda/*' | sort; }  # of build/release
most_changed() {
  git log --format= --name-only -- '*.cpp' | sort | uniq -c | sort -k1,1nr -k2 | awk '{print $2}' |
    grep -Fxf <(sources) | head -n "$1"
}

case "${1:-}" in
  all) mapfile -t files < <(sources) ;;
  [1-9]*) mapfile -t files < <(most_changed "$1") ;;
  *)
    echo "usage: tools/tidy.sh COUNT|all" >&2
    exit 2
    ;;
esac
echo "== tidy: ${#files[@]} files"
# -Wno-unknown-warning-option: the compile commands are gcc's. The count of suppressed warnings is not news.
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build/release --quiet --extra-arg=-Wno-unknown-warning-option \
    2> >(grep -v 'warnings\? generated' >&2)
