# SPDX-License-Identifier: Apache-2.0
"""Draft trees as a mask_mod of FlashAttention 4, which reads them where it runs. CuTe compiles from source files, so it has
one of its own; imported where that library is installed."""
import cutlass
import cutlass.cute as cute
from flash_attn.cute import utils


@cute.jit
def draft_tree(batch, head, q, k, seqlen_info, aux):
    """aux: first [items], the key of an item's query 0; and words [items, rows, words] of 32 keys from there on, with room for
    rows and keys of whole tiles."""
    first, words = aux[0], aux[1]
    item = batch[0]
    key = k[0] - first[item]
    allowed = cutlass.Int32(1)
    if key >= 0:
        allowed = (words[item, q[0], key >> 5] >> (key & 31)) & 1
    return utils.scalar_to_ssa(allowed, cutlass.Int32) != utils.scalar_to_ssa(0, cutlass.Int32)
