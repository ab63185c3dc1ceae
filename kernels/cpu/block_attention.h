// SPDX-License-Identifier: Apache-2.0
// Block-wise masked attention on the CPU, for the instruction set of the machine it runs on.
#pragma once
#include "kernels/cpu/attention_task.h"

namespace stof::cpu {

// Bytes of 64-byte aligned scratch memory that a task needs; its contents do not matter.
std::size_t block_attention_scratch(const AttentionNumbers& numbers, const BlockTiles& tiles);

// out = softmax(scale q k^T over the visited, allowed keys) v for the rows of one task. Rows without a key become 0
// with a logarithm of -inf. Reads no key at or past head.keys and no row outside the task.
void block_attention(const AttentionNumbers& numbers, const BlockTiles& tiles, const BlockTask& task, void* scratch);

}  // namespace stof::cpu
