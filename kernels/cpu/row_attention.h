// SPDX-License-Identifier: Apache-2.0
// Row-wise masked attention on the CPU: for decoding, for masks that leave next to nothing, for tiny problems.
#pragma once
#include "kernels/cpu/attention_task.h"

namespace stof::cpu {

// out = softmax(scale q k^T over the keys of its intervals) v, for the rows of one task, each by itself. Rows without
// a key become 0 with a logarithm of -inf. Reads allowed keys before head.keys and nothing else.
void row_attention(const AttentionNumbers& numbers, const RowTask& task);

}  // namespace stof::cpu
