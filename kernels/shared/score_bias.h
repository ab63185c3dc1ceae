// SPDX-License-Identifier: Apache-2.0
// What is added to scores by how far a key is from its query.
#pragma once

namespace stof::cuda {

// Of a key `back` positions in front of its query, for head h of the launch: factor * values[h * head_stride + zero +
// back]. There are kMargin places behind `reach` to either side, with the furthest values. Place i + shifted has what
// place i - 1 has, so that any two neighbours are somewhere at a multiple of 8 bytes; head_stride and shifted are even.
// All heads together have 2^30 places at most.
struct ScoreBias {
  static constexpr int kMargin = 256;
  const float* values;  // null: nothing is added
  int head_stride, zero, shifted;
  int reach;
  float factor;  // from units of log2 to those that scores are in
};

}  // namespace stof::cuda
