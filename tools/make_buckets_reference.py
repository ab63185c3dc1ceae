#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Buckets of relative positions as transformers computes them, for tests/model/relative_positions_test.cpp: runs of
[first distance, how many, bucket]. usage: make_buckets_reference.py >../tests/data/buckets.json"""

import json
from itertools import groupby

import torch
import transformers
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder
from transformers.models.t5.modeling_t5 import T5Attention

REACH = 5000
# Of T5 and MPNet first. In double (18, 128), (20, 160) and (40, 320) are other buckets.
SETTINGS = ((32, 128), (16, 40), (32, 256), (64, 128), (64, 512), (128, 1024), (32, 32), (30, 64), (6, 8), (4, 8), (18, 128), (20, 160), (40, 320))


def main():
    distances = torch.arange(-REACH, REACH + 1)
    settings = []
    for buckets, furthest in SETTINGS:
        found = T5Attention._relative_position_bucket(distances, num_buckets=buckets, max_distance=furthest)
        assert torch.equal(found, MPNetEncoder.relative_position_bucket(distances, buckets, furthest))
        runs, first = [], -REACH
        for bucket, run in groupby(found.tolist()):
            count = len(list(run))
            runs.append([first, count, bucket])
            first += count
        settings.append({"buckets": buckets, "max_distance": furthest, "runs": runs})
    print(json.dumps({"transformers": transformers.__version__, "torch": torch.__version__, "settings": settings}))


main()
