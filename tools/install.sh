#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian (or Ubuntu) packages that the project needs and that are missing.
#   tools/install.sh build     what `make build`, `make test` and `make demo` need
#   tools/install.sh lint      what `make format` and `make tidy` need
#   tools/install.sh sanitize  what `make sanitize` and `make fuzz` need
# Does nothing, and needs neither root nor a network, when nothing is missing.
set -euo pipefail

build_packages=(
  g++ cmake ninja-build pkg-config
  libfmt-dev nlohmann-json3-dev libcli11-dev libhwy-dev libdnnl-dev libutf8proc-dev libxxhash-dev libpng-dev libgtest-dev
  ocl-icd-opencl-dev  # not used: libdnnl-dev's CMake package looks for OpenCL, and only recommends it
  python3 python3-pip # source checks; fetching the checkpoint
)
lint_packages=(clang-format clang-tidy libomp-dev git)
sanitize_packages=("${build_packages[@]}" clang libclang-rt-dev libomp-dev)

case "${1:-}" in
  build) wanted=("${build_packages[@]}") ;;
  lint) wanted=("${lint_packages[@]}") ;;
  sanitize) wanted=("${sanitize_packages[@]}") ;;
  *)
    echo "usage: tools/install.sh build|lint|sanitize" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "install: this is neither Debian nor Ubuntu. Install by hand what these packages hold, then run cmake --preset release:" >&2
  echo "  ${wanted[*]}" >&2
  exit 1
fi

missing=()
for package in "${wanted[@]}"; do
  # A package may be provided by another one (pkg-config by pkgconf): ask for the status, not for the list of names.
  status=$(dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null || true)
  [[ $status == *"install ok installed"* ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  exit 0
fi

echo "== install: ${missing[*]}"
if ((EUID != 0)); then
  echo "install: these packages are missing and only root can install them; run:" >&2
  echo "  sudo apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
quietly() {
  if ! "$@" >"$log" 2>&1; then
    cat "$log" >&2
    echo "install: '$*' failed; its output is above" >&2
    exit 1
  fi
}
quietly apt-get update
quietly apt-get install -y --no-install-recommends "${missing[@]}"
