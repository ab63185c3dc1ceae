#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs what was built with CUDA (build/release), the libraries it needs and what tests read, for a machine that has a
# GPU and no compiler; tools/gpu_check.sh, which goes along, runs the tests there.
#   tools/gpu_package.sh PACKAGE.tar.xz
set -euo pipefail
cd "$(dirname "$0")/.."

package=$(realpath -m "${1:?usage: tools/gpu_package.sh PACKAGE.tar.xz}")
programs=(
  stof tests/attention/attention_tests tests/attention/attention_soak tests/attention/racecheck_tests
  tests/backend/backend_test tests/backend/operations_tests tests/codegen/codegen_test tests/runtime/cuda_session_tests
  tests/capi/capi_allocation_test bench/bench_device_plan bench/bench_gemm bench/bench_gemv bench/bench_model bench/bench_norms
  bench/bench_rows bench/bench_session_turns bench/bench_token_attention
)

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/bin" "$stage/lib" "$(dirname "$package")"
for program in "${programs[@]}"; do
  built=build/release/$program
  [[ -x $built ]] || { echo "gpu_package: no $built; make cuda builds it" >&2; exit 1; }
  strip -o "$stage/bin/$(basename "$program")" "$built"
done
strip -o "$stage/lib/libstof.so.0" build/release/libstof.so.0
ln -s libstof.so.0 "$stage/lib/libstof.so"
# All but what comes with the C and C++ compilers' run-time, which every machine has.
ldd "$stage"/bin/* | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
  grep -vE '/(libc|libm|libstdc\+\+|libgcc_s|libdl|libpthread|librt|libstof)\.so' | xargs -I{} cp -L {} "$stage/lib/"
cp tools/gpu_check.sh "$stage/"
cp -r --parents data python docs/python.md tests/data tests/capi tests/cli/npy.py tests/python "$stage/"
sed -n 's/^#define STOF_COMMIT "\(.*\)"$/\1/p' build/release/commit/stof_commit.h >"$stage/commit"  # what was built
# Every program has the kernels: a dictionary as long as all programs keeps them once.
tar -C "$stage" -c . | xz --lzma2=preset=1,dict=256MiB,mf=hc4,mode=fast,nice=64 >"$package"
echo "gpu_package: $package, $(du -h "$package" | cut -f1)"
