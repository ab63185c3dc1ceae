#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzz target of build/fuzz for SECONDS, as many at a time as there are cores, from the seeds of
# tests/fuzz/corpus and what earlier runs found (build/fuzz/corpus). An input that breaks a target is kept in
# build/fuzz/findings and shown.
#   tools/fuzz.sh SECONDS [target...]
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?usage: tools/fuzz.sh SECONDS [target...]}
shift
targets=("$@")
((${#targets[@]})) || targets=(mask tokenizer byte_level safetensors shards config npy)

fuzz() {
  local target=$1 seconds=$2 dictionary=json
  local grown=build/fuzz/corpus/$target findings=build/fuzz/findings log=build/fuzz/$target.log
  mkdir -p "$grown" "$findings"
  case $target in
    mask) dictionary=mask ;;
    npy) dictionary= ;;
  esac
  # Longer inputs only repeat what shorter ones say. 25 s: a slow input is a finding, a busy machine is not.
  if build/fuzz/tests/fuzz/"${target}_fuzz" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 -max_len=4096 \
    -print_final_stats=1 -artifact_prefix="$findings/$target-" ${dictionary:+-dict=tests/fuzz/$dictionary.dict} \
    "$grown" tests/fuzz/corpus/"$target" >"$log" 2>&1; then
    awk -v target="$target" '/^stat::number_of_executed_units/ {runs = $2} /^stat::peak_rss_mb/ {rss = $2}
      / cov: / {for (i = 1; i < NF; ++i) if ($i == "cov:") covered = $(i + 1)}
      END {printf "%-12s %9d inputs, %5d edges, %4d MB, nothing found\n", target, runs, covered, rss}' "$log"
  else
    tail -n 60 "$log"
    echo "$target: an input breaks it; it is kept in $findings"
    return 1
  fi
}
export -f fuzz

printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'set -euo pipefail; fuzz "$1" "$0"' "$seconds"
