// SPDX-License-Identifier: Apache-2.0
// Calls of decode_attention whose items have few keys, by another kernel: kernels/cuda/few_keys_attention.cuh.
#pragma once
#include <array>
#include <optional>

#include "kernels/shared/decode_layout.h"
#include "src/backend/contract.h"
#include "src/backend/cuda/attention/few_keys.h"
#include "src/backend/cuda/driver/device_memory.h"
#include "src/backend/cuda/driver/kernel.h"

namespace stof::cuda {

// What a mask that allows each row a prefix and one range looks like there.
class FewKeysMask {
 public:
  // Nothing of other masks. head_dim: of the instance.
  static std::optional<FewKeysMask> of(const Gpu& gpu, const PackedMask& packed, std::int64_t head_dim);

  // How a launch for items of at most so many queries and keys is shared out; nothing where it may take longer than
  // decode_attention_kernel, and where the call brings draft trees.
  std::optional<FewKeysSplit> split(const DecodeParams& call, std::int64_t queries, std::int64_t keys) const;
  void launch(const DecodeParams& call, const FewKeysSplit& split, std::int64_t queries, StreamHandle stream) const;

 private:
  std::int64_t slabs(std::int64_t rows) const { return rows > FewKeysGrid::kSlab ? 2 : 1; }

  const Gpu* gpu_ = nullptr;
  AttentionShape shape_ = {};
  std::int64_t head_dim_ = 0;
  std::int64_t most_keys_ = 0;  // that a row sees
  int first_position_ = 0;
  DeviceMemory spans_;
  std::array<const Kernel*, FewKeysGrid::kMostSlabs> kernels_ = {};
};

}  // namespace stof::cuda
