#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries PROBLEMS random attention problems against the definition, JOBS processes at a time, each kernel in turn, with 1
# to 3 threads a process. None of them are those of the test: their seeds begin at FIRST, 1 million if not given.
# What a run tried is a line of build/soak/runs.jsonl, which tools/soak_table.py keeps; STOF_COMMIT names the commit where
# there is no git.
#   tools/soak.sh PROBLEMS JOBS [FIRST] [DEVICE kernel...]
set -euo pipefail
cd "$(dirname "$0")/.."

problems=${1:?usage: tools/soak.sh PROBLEMS JOBS [FIRST] [DEVICE kernel...]}
jobs=${2:?usage: tools/soak.sh PROBLEMS JOBS [FIRST] [DEVICE kernel...]}
first=${3:-1000000}
device=${4:-cpu}
kernels=("${@:5}")
((${#kernels[@]})) || kernels=(auto block_attention row_attention)

chunk_size=1000                 # problems of a process: some seconds
seeds=$((60 * chunk_size))      # that attention_soak may look at for them
program=build/release/tests/attention/attention_soak
chunks=$(((problems + chunk_size - 1) / chunk_size))

begin=$SECONDS
began=$(date -u +%FT%TZ)
commit=${STOF_COMMIT:-$(git describe --always --abbrev=7 --exclude='*' 2>/dev/null || echo unknown)}
processor=$(awk -F ': ' '/^model name/ {print $2; exit}' /proc/cpuinfo)
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
list() {
  local chunk
  for ((chunk = 0; chunk < chunks; ++chunk)); do
    echo "$((1 + chunk % 3)) ${kernels[chunk % ${#kernels[@]}]} $((first + chunk * seeds))"
  done
}
one() {
  OMP_NUM_THREADS=$1 OMP_WAIT_POLICY=passive "$program" "$device" "$2" "$3" "$chunk_size" || echo "$2 $3" >>"$log/failed"
  echo "$2" >>"$log/done"
  local count
  count=$(wc -l <"$log/done")
  if ((count % 20 == 0 || count == chunks)); then echo "  $((count * chunk_size)) problems"; fi
}
keep_run() {
  mkdir -p build/soak
  sort "$log/done" | uniq -c | awk -v size="$chunk_size" -v failed="$(wc -l <"$log/failed")" \
    -v run="\"device\": \"$device\", \"begin\": \"$began\", \"commit\": \"$commit\", \"processor\": \"$processor\"" \
    -v how="\"processes\": $jobs, \"seconds\": $((SECONDS - begin)), \"first_seed\": $first" '
    {kernels = kernels (NR > 1 ? ", " : "") "\"" $2 "\": " size * $1}
    END {printf "{%s, %s, \"problems\": {%s}, \"failed\": %d}\n", run, how, kernels, failed}' >>build/soak/runs.jsonl
}
export -f one
export program device chunk_size chunks log
touch "$log/failed"
list | xargs -P "$jobs" -L 1 bash -c 'set -euo pipefail; one "$@"' soak
keep_run
[[ ! -s $log/failed ]] || { echo "soak: see above"; exit 1; }
echo "soak: $((chunks * chunk_size)) problems in $((SECONDS - begin)) s, seeds from $first on: nothing differs"
