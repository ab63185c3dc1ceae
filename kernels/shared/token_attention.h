// SPDX-License-Identifier: Apache-2.0
// Attention of one token for each text, with what stands around it in a step of a decoder.
#pragma once

namespace stof::cuda {

struct TokenAttentionGrid {
  static constexpr int kMostHeads = 8;     // of q for one of k
  static constexpr int kMostKeys = 32768;  // of a text that its token sees
};

// Row i of x, a token, becomes row i of out. Its own key and value, row places[i] of `cache`, are the last of
// lengths[i]. It sees keys [0, prefix_end) and [position + begin, position + end), of those that there are.
struct TokenAttentionParams {
  const void* x;                            // [texts][(heads + 2 kv_heads) * head_dim]: heads of q, of k, of v
  void* out;                                // [texts][heads * head_dim]
  void* cache;                              // rows of k of all key heads, and then v
  const float* angles;                      // [positions][2][head_dim / 2]: cosines, sines; or null: nothing turns
  const float *q_scale, *k_scale;           // [head_dim] each: heads are divided by their root mean square; or null
  const int *positions, *places, *lengths;  // [texts]
  long long text_stride;                    // of the cache, in elements
  float epsilon, scale_log2;
  int heads, kv_heads;
  int prefix_end, begin, end;
  int stages, warp_bytes;  // as of FewKeysParams
};

}  // namespace stof::cuda
