// SPDX-License-Identifier: Apache-2.0
// Calls of decode_attention whose items have few keys, by another kernel: kernels/cuda/few_keys_attention.cuh.
#pragma once
#include <optional>

#include "kernels/shared/decode_layout.h"
#include "src/backend/contract.h"
#include "src/backend/cuda/attention/few_keys.h"
#include "src/backend/cuda/driver/device_memory.h"
#include "src/backend/cuda/driver/kernel.h"

namespace stof::cuda {

// A call of decode_attention_kernel, as few_keys_attention_kernel would have it.
struct FewKeysCall {
  std::int64_t items, heads, kv_heads;
  std::int64_t queries, keys;  // of an item, at most
  std::int64_t head_dim;       // of the instance
  bool trees = false;
};
// How the launch is shared out; nothing where it may take longer than decode_attention_kernel, or was not measured: for
// several queries, more heads than a CTA has rows for, many keys, CTAs that do not all run at once. Nor with draft
// trees.
std::optional<FewKeysSplit> split_few_keys(const FewKeysCall& call, const DeviceCaps& caps);

// What a mask that allows each row a prefix and one range looks like there.
class FewKeysMask {
 public:
  // Nothing of other masks. head_dim: of the instance.
  static std::optional<FewKeysMask> of(const Gpu& gpu, const PackedMask& packed, std::int64_t head_dim);

  std::optional<FewKeysSplit> split(const DecodeParams& call, std::int64_t queries, std::int64_t keys) const;
  void launch(const DecodeParams& call, const FewKeysSplit& split, StreamHandle stream) const;

 private:
  const Gpu* gpu_ = nullptr;
  AttentionShape shape_ = {};
  std::int64_t head_dim_ = 0;
  std::int64_t most_keys_ = 0;  // that a row sees
  int first_position_ = 0;
  DeviceMemory spans_;
  const Kernel* kernel_ = nullptr;
};

}  // namespace stof::cuda
