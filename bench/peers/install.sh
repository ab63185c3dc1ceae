#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the peers of the CPU into .cache/peers/venv, a Python environment that no commit sees (several GB).
# Does nothing when it is there.
#   bench/peers/install.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=.cache/peers/venv
[[ -x $venv/bin/python && -e $venv/complete ]] && exit 0
echo "== peers: installing PyTorch, OpenVINO, CTranslate2 and ONNX Runtime into $venv" >&2
rm -rf "$venv" # half made, when an installation was interrupted
python3 -m venv "$venv" || { echo "install: python3 cannot make a virtual environment; Debian has that in python3-venv" >&2 && exit 1; }
"$venv/bin/pip" install --quiet torch transformers tokenizers safetensors openvino ctranslate2 onnxruntime onnx onnxscript
touch "$venv/complete"
