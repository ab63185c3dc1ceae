#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of a package of tools/gpu_package.sh on a machine with a GPU: every case a process, JOBS at a time,
# then random problems, then the memory and race checkers on small cases. Prints what did not pass; whole outputs lie in
# the folder LOGS. Run it in the root of a checkout of the packed commit: tests read their data there.
#   gpu_check.sh [JOBS=8] [SECONDS of one case=100] [SECONDS of random problems=60] [LOGS=gpu_check_logs]
set -uo pipefail
package=$(cd "$(dirname "$0")" && pwd)
jobs=${1:-8}
limit=${2:-100}
random_seconds=${3:-60}
logs=$(realpath -m "${4:-gpu_check_logs}")
rm -rf "$logs"
mkdir -p "$logs"
export LD_LIBRARY_PATH=$package/lib:${LD_LIBRARY_PATH:-} PATH=$package/bin:$PATH
export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive XDG_CACHE_HOME=$logs/cache
bad=0

cases() {  # PROGRAM FILTER: a line for each case
  "$1" --gtest_filter="$2" --gtest_list_tests |
    awk -v p="$1" '/^[^ ]/ {suite = $1; next} /^ / {print p " " suite $1}' | grep -v ' Running'
}
list() {
  cases attention_tests 'Cuda/RandomProblem*'
  cases attention_tests 'Cuda*:*cuda*:-Cuda/RandomProblem*'
  echo "attention_tests Run.*:RunMessages.*:DeviceMessages.*:PlanMessages.*:PageMessages.*:Choose.*:TableOnCuda.*"
  cases operations_tests '*cuda*'
  cases cuda_session_tests '*'
  echo "backend_test *:-Every/*"
  echo "backend_test Every/CompiledUnit.*"
  echo "backend_test Every/RunTimeUnit.*"
  echo "codegen_test *"
  echo "racecheck_tests Storage/Counting*cuda_f16:Cuda/EveryPlan*d64_bf16"  # compiles them, too
}
one() {  # PROGRAM FILTER
  local begin log status word took
  begin=$(date +%s%N)
  log=$logs/$(tr -c 'A-Za-z0-9_\n' '_' <<<"$1_$2" | cut -c1-120).log
  timeout -k 5 "$limit" "$1" --gtest_filter="$2" --gtest_brief=1 >"$log" 2>&1
  status=$?
  took=$((($(date +%s%N) - begin) / 1000000))
  case $status in 0) word=pass ;; 124 | 137) word=time ;; *) word=FAIL ;; esac
  [[ $word != pass ]] || ! grep -q SKIPPED "$log" || word=skip
  printf '%-5s %7d ms  %s %s\n' "$word" "$took" "$1" "${2:0:90}"
}
export -f one
export limit logs

echo "== $(nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv,noheader), package of $(cat "$package/commit")"
list | xargs -d '\n' -P "$jobs" -I{} bash -c 'set -f; one {}' >"$logs/table.txt"
echo "== cases: $(cut -d' ' -f1 "$logs/table.txt" | sort | uniq -c | tr '\n' ' ')"
grep -v '^pass' "$logs/table.txt" | sort
sort -k2,2nr "$logs/table.txt" | head -3
grep -h -m3 -A6 -E 'Failure|C\+\+ exception' "$logs"/*.log | head -60
grep -qE '^(FAIL|time)' "$logs/table.txt" && bad=1

# Chunks of 40 problems in each process until the time is over; a kernel's processes have seeds of their own.
soak() {  # KERNEL FIRST_SEED
  local seed=$2
  while ((SECONDS < deadline)); do
    timeout 120 attention_soak cuda "$1" "$seed" 40 >>"$logs/soak.txt" 2>&1 || echo "$1 $seed: exit $?" >>"$logs/soak_failed.txt"
    echo 40 >>"$logs/soak_done_$1.txt"
    seed=$((seed + 40 * 60))
  done
}
if ((random_seconds)); then
  deadline=$((SECONDS + random_seconds))
  seed=50000000
  for kernel in auto auto auto auto stream_attention stream_attention band_attention gather_attention \
    mma_attention mma_attention decode_attention row_attention; do
    seed=$((seed + 1000000))
    soak "$kernel" "$seed" &
  done
  wait
  echo "== random problems, 40 each: $(wc -l "$logs"/soak_done_* | awk '{sub(".*soak_done_", "", $2); printf "%s %s  ", $2, $1}')"
  [[ ! -e $logs/soak_failed.txt ]] || { bad=1; head -20 "$logs/soak_failed.txt" "$logs/soak.txt"; }
fi

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
check() {  # TOOL PROGRAM FILTER
  local log status
  log=$logs/$1_$(tr -c 'A-Za-z0-9_\n' '_' <<<"$3" | cut -c1-80).txt
  timeout 150 "$sanitizer" --tool "$1" --error-exitcode 9 "$(command -v "$2")" --gtest_filter="$3" --gtest_brief=1 >"$log" 2>&1
  status=$?
  echo "$1 exit $status $(grep -h 'SUMMARY' "$log" | tail -1 | tr -d '=') : $2 $3"
}
export -f check
export sanitizer
if [[ -n $sanitizer ]]; then
  for tool in memcheck racecheck initcheck synccheck; do
    tests=attention_tests
    [[ $tool != racecheck ]] || tests=racecheck_tests
    echo "$tool $tests Storage/Counting*cuda_f16"
    echo "$tool $tests Cuda/EveryPlan*d64_bf16"
    echo "$tool attention_tests Cuda/Decode*d64*:TableOnCuda*"
    echo "$tool operations_tests *PoolTexts*cuda_f16:*Norm*cuda_f16:*Matmul*cuda_f16"
  done | xargs -d '\n' -P "$jobs" -I{} bash -c 'set -f; check {}' | tee "$logs/sanitizer.txt"
  grep -q 'exit 9' "$logs/sanitizer.txt" && bad=1
else
  echo "== no compute-sanitizer here"
fi
exit $bad
