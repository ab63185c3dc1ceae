#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs nvcc, and fails where its assembler found no registers for matmuls to run beside anything else: that is told in an
# information, which no option makes an error.
#   strict_nvcc.sh NVCC ARGUMENTS...
said=$("$@" 2>&1)
status=$?
[ -z "$said" ] || printf '%s\n' "$said" >&2
[ $status -eq 0 ] || exit $status
case $said in
  *"Potential Performance Loss"*) exit 1 ;;
esac
