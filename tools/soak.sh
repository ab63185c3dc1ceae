#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries PROBLEMS random attention problems against the definition, JOBS processes at a time, each kernel in turn, with 1
# to 3 threads a process. None of them are those of the test: their seeds begin at FIRST, 1 million if not given.
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
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
list() {
  local chunk
  for ((chunk = 0; chunk < chunks; ++chunk)); do
    echo "$((1 + chunk % 3)) ${kernels[chunk % ${#kernels[@]}]} $((first + chunk * seeds))"
  done
}
one() {
  OMP_NUM_THREADS=$1 OMP_WAIT_POLICY=passive "$program" "$device" "$2" "$3" "$chunk_size" || touch "$log/failed"
  echo >>"$log/done"
  local count
  count=$(wc -l <"$log/done")
  if ((count % 20 == 0 || count == chunks)); then echo "  $((count * chunk_size)) problems"; fi
}
export -f one
export program device chunk_size chunks log
list | xargs -P "$jobs" -L 1 bash -c 'set -euo pipefail; one "$@"' soak
[[ ! -e $log/failed ]] || { echo "soak: see above"; exit 1; }
echo "soak: $((chunks * chunk_size)) problems in $((SECONDS - begin)) s, seeds from $first on: nothing differs"
