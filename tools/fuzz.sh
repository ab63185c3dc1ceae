#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzz target of build/fuzz for SECONDS, as many at a time as there are cores, from the seeds of
# tests/fuzz/corpus and what earlier runs found (build/fuzz/corpus). An input that breaks a target is kept in
# build/fuzz/findings and shown. What a run took and saw is a line of build/fuzz/runs.jsonl, which tools/fuzz_table.py keeps;
# STOF_COMMIT names the commit where there is no git. A target that is told to end (SIGTERM to the process of
# build/fuzz/TARGET.pid) has its line, too.
#   tools/fuzz.sh SECONDS [target...]
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?usage: tools/fuzz.sh SECONDS [target...]}
shift
targets=("$@")
((${#targets[@]})) || targets=(mask tokenizer byte_level safetensors shards config npy)

commit=${STOF_COMMIT:-$(git describe --always --abbrev=7 --exclude='*' 2>/dev/null || echo unknown)}
processor=$(awk -F ': ' '/^model name/ {print $2; exit}' /proc/cpuinfo)

# keep_run TARGET BEGIN FOUND: inputs and edges of the log, and the processor's seconds of this shell's children, which
# are fewer than those of the clock on a busy machine.
keep_run() {
  times >>"build/fuzz/$1.log"
  awk -v who="\"target\": \"$1\", \"begin\": \"$2\", \"found\": \"$3\"" \
    -v where="\"commit\": \"$commit\", \"processor\": \"$processor\"" '
    /^stat::number_of_executed_units/ {runs = $2}
    / cov: / {for (i = 1; i < NF; ++i) if ($i == "cov:") covered = $(i + 1)}
    /^[0-9]+m[0-9.]+s [0-9]+m[0-9.]+s$/ {split($0, part, /[ms ]+/); spent = 60 * part[1] + part[2] + 60 * part[3] + part[4]}
    END {printf "{%s, %s, \"seconds\": %.1f, \"inputs\": %d, \"edges\": %d}\n", who, where, spent, runs, covered}
    ' "build/fuzz/$1.log" >>build/fuzz/runs.jsonl
}

fuzz() {
  local target=$1 seconds=$2 dictionary=json begin
  local grown=build/fuzz/corpus/$target findings=build/fuzz/findings log=build/fuzz/$target.log
  begin=$(date -u +%FT%TZ)
  mkdir -p "$grown" "$findings"
  case $target in
    mask) dictionary=mask ;;
    npy) dictionary= ;;
  esac
  # Longer inputs only repeat what shorter ones say. 25 s: a slow input is a finding, a busy machine is not.
  build/fuzz/tests/fuzz/"${target}_fuzz" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 -max_len=4096 \
    -print_final_stats=1 -artifact_prefix="$findings/$target-" ${dictionary:+-dict=tests/fuzz/$dictionary.dict} \
    "$grown" tests/fuzz/corpus/"$target" >"$log" 2>&1 &
  echo $! >"build/fuzz/$target.pid"
  local status=0
  wait $! || status=$?
  if ((status == 0 || status == 72)); then  # 72: libFuzzer was told to end
    keep_run "$target" "$begin" ""
    awk -v target="$target" '/^stat::number_of_executed_units/ {runs = $2} /^stat::peak_rss_mb/ {rss = $2}
      / cov: / {for (i = 1; i < NF; ++i) if ($i == "cov:") covered = $(i + 1)}
      END {printf "%-12s %9d inputs, %5d edges, %4d MB, nothing found\n", target, runs, covered, rss}' "$log"
  else
    keep_run "$target" "$begin" "$(find "$findings" -name "$target-*" -newer "build/fuzz/$target.pid" -printf '%f\n' | head -n 1)"
    tail -n 60 "$log"
    echo "$target: an input breaks it; it is kept in $findings"
    return 1
  fi
}
export -f fuzz keep_run
export commit processor

printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'set -euo pipefail; fuzz "$1" "$0"' "$seconds"
