#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Provides the CUDA compiler, its headers and NVRTC: those of the machine if they are there, else NVIDIA's Python
# packages in .toolchain/cuda (about 200 MB to fetch, 500 MB on disk). Needs no GPU. Prints the compiler's path.
set -euo pipefail
cd "$(dirname "$0")/.."

# One minor version of the toolkit: compiler, headers and run-time compiler have to match.
version='13.0.*'
packages=(nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cuda-nvrtc)
folder=.toolchain/cuda
ours=$folder/nvidia/cu13

# A toolkit counts when it has all that the build wants; one without NVRTC, or older than 12.8, does not.
complete() {
  local root=$1 release
  [[ -x $root/bin/nvcc && -f $root/include/cuda.h ]] || return 1
  compgen -G "$root/lib*/libnvrtc.so.1[23]" >/dev/null || return 1
  release=$("$root/bin/nvcc" --version | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\).*/\1\2/p')
  ((${release:-0} >= 128))
}

for nvcc in "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
  [[ -n $nvcc && -x $nvcc ]] || continue
  root=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  if [[ ${1:-} != --fetch ]] && complete "$root"; then
    echo "$root/bin/nvcc"
    exit 0
  fi
done

if ! complete "$ours"; then
  echo "== cuda: fetching ${packages[*]} $version into $folder" >&2
  rm -rf "$folder" "$folder.part"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target "$folder.part" \
    "${packages[@]/%/==$version}" >&2
  mv "$folder.part" "$folder" # appears whole or not at all
fi
if ! complete "$ours"; then
  echo "install_cuda: $folder lacks nvcc, cuda.h or NVRTC although its packages are installed" >&2
  exit 1
fi
echo "$PWD/$ours/bin/nvcc"
