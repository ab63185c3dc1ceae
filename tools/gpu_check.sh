#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of a package of tools/gpu_package.sh on a machine with a GPU: every case a process, the C API and
# the package for Python, and the memory and race checkers on small cases, JOBS at a time; then random problems. GPUs take turns. Prints
# what did not pass, at the end; table.txt in the folder LOGS (absent, empty or of an earlier run) has every job, beside whole outputs,
# and summary.txt there is what bench/results keeps. Sentences through a real checkpoint are run where the package is given one, as
# .cache/models/all-MiniLM-L6-v2.
#   gpu_check.sh [JOBS=8] [SECONDS of one case=100] [SECONDS of random problems=60] [LOGS=gpu_check_logs] [ONLY=.] \
#     [SECONDS of all cases]
# ONLY: of what `gpu_check.sh list` prints, on any machine, the lines that this extended regular expression finds. Cases that have no
# time left are not begun, and counted.
set -uo pipefail
package=$(cd "$(dirname "$0")" && pwd)
only_list=0
[[ ${1:-} != list ]] || { only_list=1 && shift; }
jobs=${1:-8}
limit=${2:-100}
random_seconds=${3:-60}
logs=$(realpath -m "${4:-gpu_check_logs}")
only=${5:-.}
last_second=$(($(date +%s) + ${6:-1000000}))
# An own folder of logs is emptied, another one never.
clear_logs() {
  local mark="# tools/gpu_check.sh: "
  if [[ -n $(ls -A "$logs" 2>/dev/null) && $(head -c ${#mark} "$logs/summary.txt" 2>/dev/null) != "$mark" ]]; then
    echo "gpu_check: '$logs' has files, and none of them is a summary.txt of this program; LOGS may be an absent or empty folder" >&2
    exit 2
  fi
  rm -rf "${logs:?}" && mkdir -p "$logs" && echo "${mark}not finished" >"$logs/summary.txt"
}
((only_list)) || clear_logs
cd "$package" || exit 1
# Tests of several GPUs see all of them.
gpus=${CUDA_VISIBLE_DEVICES:-$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | paste -sd,)}
# The run-time compiler and cuBLASLt of Python's packages, where the system has none.
wheels=$(python3 -c 'import glob, os, torch; root = os.path.dirname(os.path.dirname(torch.__file__)); print(
  ":".join(sorted({os.path.dirname(p) for name in ("nvrtc", "cublasLt")
    for p in glob.glob(f"{root}/nvidia/**/lib{name}.so*", recursive=True)})))' 2>/dev/null)
export LD_LIBRARY_PATH=$package/lib:${LD_LIBRARY_PATH:-}:$wheels PATH=$package/bin:$PATH
export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive XDG_CACHE_HOME=$logs/cache
export package limit logs last_second gpus
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
export sanitizer
bad=0

# A job is a line: what runs it, then a program of the package and a filter, or a Python test of the C API.
cases() {  # RUNNER PROGRAM FILTER: a job for each case
  "$2" --gtest_filter="$3" --gtest_list_tests |
    awk -v job="$1 $2" '/^[^ ]/ {suite = $1; next} /^ / {print job " " suite $1}' | grep -v ' Running'
}
# The longest first, behind what compiles the kernels that racecheck is given. What reads a whole checkout, or runs its
# compiler or its program, is left to the machine that has it.
list() {
  checked test racecheck_tests
  [[ -z $sanitizer && $only_list == 0 ]] || sanitized
  cases test attention_tests 'FarTensors*:Cuda/LongRows*:Cuda/SameBits*'
  cases test attention_tests 'Cuda/RandomProblem*'
  cases test attention_tests 'Cuda*:*cuda*:OnTwoGpus*:-Cuda/RandomProblem*:Cuda/LongRows*:Cuda/SameBits*'
  echo "test attention_tests Run.*:RunMessages.*:DeviceMessages.*:PlanMessages.*:PageMessages.*:Choose.*:TableOnCuda.*"
  # As GPUs of compute capability 8.0 run it.
  echo "older attention_tests Cuda/Decode.*d64*:Cuda/Decode.*d128*"
  echo "older attention_tests Cuda/Decode.*d72*:Cuda/Decode.*d136*:Cuda/Decode.*d256*"
  cases test operations_tests '*cuda*:*Gemm*:*Gelu*'
  if [[ -e .cache/models/all-MiniLM-L6-v2/model.safetensors ]]; then cases test cuda_session_tests '*'
  else cases test cuda_session_tests '-*RealSentences*'; fi
  echo "test backend_test *:-Every/*:*BestOfAllThatWereMeasured"
  echo "test backend_test Every/CompiledUnit.*"
  cases test backend_test 'Every/RunTimeUnit.*'
  echo "test codegen_test *:-*CompilePoolTest*:Embedded.*:EmitMask.Predicates*"
  echo "capi attention_test.py"
  echo "capi lengths_test.py"
  echo "capi table_test.py"
  echo "capi tree_test.py"
  echo "capi session_test.py"
  echo "capi generate_test.py"
  echo "python torch_test.py"
  echo "python tree_test.py"
  echo "python transformers_test.py"
  echo "python transformers_inputs_test.py"
  for class in Tokens Layers Plans; do echo "python continuous_batching_test.py $class"; done
  echo "python continuous_batching_inputs_test.py"
}
# Tests of every family of kernels, of stream_attention also the forms that hold q once. A checker takes 10 to 50 times as
# long as a test, racecheck up to 100 times: its long suites are a test a job. The longest first, as racecheck took on an
# H200 (bench/results/*-h200-tests.txt).
checked() {  # RUNNER PROGRAM
  local batch dtype head_dim kernel test
  local -a decode=('') lengths=(':-*stream_attention')
  [[ $1 != racecheck ]] || {
    decode=(LengthsOnTheDevice LongItems ForManyRows EveryMask EveryPageSize RowsOverPages ManyItems BitsTwice)
    lengths=(/{mma,gather,band,decode,row}_attention)
  }
  echo "$1 $2 Cuda/StackedRows.*WhereKeysAreSplit/d64_f16"
  for test in OnManyRowBlocks WhereKeysAreSplit SplitAndScoresCapped; do echo "$1 $2 Cuda/EveryPlan.*$test/d64_bf16"; done
  for batch in packed ragged equal one; do
    echo "$1 $2 Cuda/StackedRowsOfABatch.*/d64_f16_$batch"
    [[ $batch == one ]] || echo "$1 $2 Cuda/MixedHeadsOfABatch.*/d64_bf16_$batch"
    echo "$1 $2 Cuda/EveryPlanOfABatch.EqualsTheDefinition/d64_bf16_$batch"
    echo "$1 $2 Cuda/EveryPlanOfABatch.*Capped/d64_bf16_$batch"
  done
  for test in "${decode[@]}"; do
    for dtype in f16 bf16; do echo "$1 $2 Cuda/Decode.*$test/*d64_$dtype"; done
  done
  echo "$1 $2 CudaOthers/Counting.EveryKernelTileAndTerm/d16_f16"
  for kernel in "${lengths[@]}"; do echo "$1 $2 Cuda/DeviceLengthsCall.*$kernel"; done
  for head_dim in 256 192 128 96; do
    for batch in ragged one; do
      echo "$1 $2 Cuda/EveryPlanOfABatch.EqualsTheDefinition/d${head_dim}_bf16_$batch"
    done
    echo "$1 $2 Cuda/UnevenScores.OfRowsThatShareSteps*/d${head_dim}_bf16"
  done
  echo "$1 $2 Cuda/MixedHeads.*WhereItemsDifferToo/d64_bf16"
  echo "$1 $2 Cuda/DeviceLengthsCall.ServesManyItems*/stream_attention"
  echo "$1 $2 Cuda/DeviceLengthsCall.*/stream_attention:-*.EqualsTheDefinition/*:*.ServesManyItems*"
  echo "$1 $2 Cuda/DeviceLengthsCall.EqualsTheDefinition/stream_attention"
  echo "$1 $2 Cuda/Decode.EqualsTheDefinitionForEveryPageSize/*d256_f16"
  for kernel in auto stream_attention mma_attention; do
    echo "$1 $2 Cuda/CallsWithTrees.*Any*/${kernel}_d64_f16:Cuda/CallsWithTrees.*Few*/${kernel}_d64_f16"
  done
  echo "$1 $2 Cuda/SideBySideSteps.EqualTheDefinition/d64_pages"
  echo "$1 $2 TableOnCuda*"
}
# racecheck last: its kernels are compiled by then. Of row operations it is given those of kernels that share memory, a case a
# job, and no matmuls of cuBLASLt.
sanitized() {
  local tool
  for tool in memcheck initcheck synccheck; do
    checked "$tool" attention_tests
    echo "$tool operations_tests *Pool*cuda_f16:*CopyRows*/cuda:*HighestOf*cuda_f16:*Gemv.TakesAnyFewRows/f16_cuda:*Gemv.Mult*/f16_cuda:*Norm*cuda_f16:*TokenAttentionOf.Has*cuda_f16:*TokenAttentionOf.Need*cuda_f16:*TurnedHeadsOf*cuda_f16:*Matmul*/cuda"
    echo "$tool operations_tests *Gemm.*LargeMean*/f16:*GemmSameBits*_f16"
  done
  checked racecheck racecheck_tests
  cases racecheck operations_tests '*GemmSameBits*_f16:*Gemm.*LargeMean*/f16'
  cases racecheck operations_tests '*Pool*cuda_f16:*HighestOf*cuda_f16:*Gemv.TakesAnyFewRows/f16_cuda:*Gemv.Mult*/f16_cuda:*RmsNormOf.*/cuda_f16:*RowOperationsOf.L*Norm*/cuda_f16:*TokenAttentionOf.Has*cuda_f16:*TokenAttentionOf.Need*cuda_f16:-*NoRows*'
}
launch() {  # RUNNER PROGRAM FILTER, in the slot of xargs that is left to it
  local -a each beside=()
  IFS=, read -ra each <<<"$gpus"
  [[ $2 != session_test.py && $2 != generate_test.py ]] || beside=("$package/bin/stof")  # to compare with
  [[ ${#each[@]} -lt 2 || $3 == OnTwoGpus* ]] || export CUDA_VISIBLE_DEVICES=${each[slot % ${#each[@]}]}
  case $1 in
    test) timeout -k 5 "$limit" "$2" --gtest_filter="$3" --gtest_brief=1 ;;
    older) STOF_TEST_GPU=80 timeout -k 5 "$limit" "$2" --gtest_filter="$3" --gtest_brief=1 ;;
    capi) timeout -k 5 "$limit" python3 -B "tests/capi/$2" "$package/lib/libstof.so.0" "${beside[@]}" cuda ;;
    python) timeout -k 5 "$limit" python3 -B "tests/python/$2" "$package/lib/libstof.so.0" ${3:+"$3"} ;;
    *) timeout -k 5 "$limit" "$sanitizer" --tool "$1" --error-exitcode 9 "$(command -v "$2")" --gtest_filter="$3" --gtest_brief=1 ;;
  esac
}
one() {  # RUNNER PROGRAM FILTER
  local begin log status word took
  local left=$((last_second - $(date +%s)))
  if ((left <= 0)); then
    printf 'left        0 ms  %s %s %s\n' "$1" "$2" "${3:0:90}"
    return
  fi
  limit=$((left < limit ? left : limit))
  begin=$(date +%s%N)
  log=$logs/$(tr -c 'A-Za-z0-9_\n' '_' <<<"$1_$2_${3:-}" | cut -c1-120).log
  launch "$1" "$2" "${3:-}" >"$log" 2>&1
  status=$?
  took=$((($(date +%s%N) - begin) / 1000000))
  case $status in 0) word=pass ;; 124 | 137) word=time ;; 77) word=skip ;; *) word=FAIL ;; esac
  [[ $word != pass ]] || ! grep -q SKIPPED "$log" || word=skip
  ! grep -q ' 0 tests from 0 test suites ran' "$log" || word=FAIL  # a filter that finds nothing
  printf '%-5s %7d ms  %s %s %s %s\n' "$word" "$took" "$1" "$2" "${3:0:90}" \
    "$(grep -h 'SUMMARY' "$log" | tail -1 | tr -d '=')"
}
export -f one launch

if ((only_list)); then
  list
  exit
fi
echo "== $(nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv,noheader | paste -sd';'), package of $(cat "$package/commit")"
list | grep -E -- "$only" | xargs -d '\n' --process-slot-var=slot -P "$jobs" -I{} bash -c 'set -f; one {}' >"$logs/table.txt"
# Chunks of 40 problems in each process until the time is over; a kernel's processes have seeds of their own.
soak() {  # KERNEL FIRST_SEED GPU
  local seed=$2
  while ((SECONDS < deadline)); do
    CUDA_VISIBLE_DEVICES=$3 timeout 120 attention_soak cuda "$1" "$seed" 40 >>"$logs/soak.txt" 2>&1 ||
      echo "$1 $seed: exit $?" >>"$logs/soak_failed.txt"
    echo 40 >>"$logs/soak_done_$1.txt"
    seed=$((seed + 40 * 60))
  done
}
count_cases() { echo "== cases: $(cut -d' ' -f1 "$logs/table.txt" | sort | uniq -c | tr '\n' ' ')"; }
random_problems() { wc -l "$logs"/soak_done_* | awk '{sub(".*soak_done_", "", $2); sub(".txt", "", $2); printf "%s %s  ", $2, $1}'; }
if ((random_seconds)); then
  count_cases
  deadline=$((SECONDS + random_seconds))
  seed=50000000
  IFS=, read -ra each <<<"${gpus:-0}"
  for kernel in auto auto auto auto stream_attention stream_attention band_attention gather_attention \
    mma_attention mma_attention decode_attention row_attention; do
    seed=$((seed + 1000000))
    soak "$kernel" "$seed" "${each[seed / 1000000 % ${#each[@]}]}" &
  done
  wait
  [[ ! -e $logs/soak_failed.txt ]] || bad=1
fi
grep -qE '^(FAIL|time|left)' "$logs/table.txt" && bad=1

# A program's passed cases of each suite, the others in brackets; then what failed or took too long, by name.
totals() {
  awk '{
         runner = $4 == "test" ? "" : $4 " "
         program = runner ~ /^(capi|python) $/ ? $4 : runner $5; suite = runner ~ /^(capi|python) $/ ? $5 : $6
         sub(/[.].*/, "", suite); key = program "\t" suite
         seen[key]; n[key, $1]++; ms[program] += $2
       }
       END {for (key in seen) {
         others = ""; split("skip skipped FAIL failed time over_time left not_begun", word, " ")
         for (i = 1; i < 8; i += 2)
           if (n[key, word[i]]) others = others (others ? ", " : "") n[key, word[i]] " " word[i + 1]
         gsub("_", " ", others); split(key, part, "\t")
         printf "%s\t%s %d%s\t%.0f\n", part[1], part[2], n[key, "pass"], others ? " (" others ")" : "", ms[part[1]] / 1000
       }}' "$logs/table.txt" | LC_ALL=C sort |
    awk -F '\t' '$1 != last {if (last != "") print "; " s " s"; printf "%s: %s", $1, $2; last = $1; s = $3; next}
       {printf ", %s", $2} END {if (last != "") print "; " s " s"}'
}
not_passed() { grep -E '^(FAIL|time)' "$logs/table.txt" | sort -r | head -40; }
summary() {
  echo "# tools/gpu_check.sh: tests of $(cat "$package/commit") on $(nvidia-smi --query-gpu=name --format=csv,noheader | head -1), driver" \
    "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1), $(date -u +%F); $jobs at a time, $limit s a case"
  totals
  [[ -n $sanitizer ]] || echo "no compute-sanitizer here"
  not_passed
  ! ((random_seconds)) || echo "random problems, 40 each: $(random_problems)"
}
summary >"$logs/summary.txt"

# The end is what is seen of a long output: what matters most comes last.
grep -h -m3 -A6 -E 'Failure|C\+\+ exception' "$logs"/*.log | head -60
sort -k2,2nr "$logs/table.txt" | head -3
! ((random_seconds)) || echo "== random problems, 40 each: $(random_problems)"
[[ ! -e $logs/soak_failed.txt ]] || head -20 "$logs/soak_failed.txt" "$logs/soak.txt"
not_passed
count_cases
exit $bad
