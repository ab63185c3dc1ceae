// SPDX-License-Identifier: Apache-2.0
// out = softmax(scale q k^T) v, a query row at a time: allowed keys are gathered into chunks, scored with the head
// dimension in the lanes, and added up in one pass (online softmax). Nothing but allowed keys is touched.
#include "kernels/cpu/row_attention.h"

#include "kernels/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/row_attention.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/row_attention-inl.h"

#if HWY_ONCE
namespace stof::cpu {

HWY_EXPORT(attend_rows);

void row_attention(const AttentionNumbers& numbers, const RowTask& task) {
  HWY_DYNAMIC_DISPATCH(attend_rows)(numbers, task);
}

}  // namespace stof::cpu
#endif
