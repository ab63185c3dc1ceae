// SPDX-License-Identifier: Apache-2.0
// The two products of block-wise attention by matrix registers (AMX): tiles of 16 rows of 16 words, of pairs of bf16 or
// of sums. Scores take keys where they lie and the words of queries as they are packed; values take weights turned, a
// row for each query.
#if defined(STOF_KERNELS_CPU_MATRIX_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STOF_KERNELS_CPU_MATRIX_TILES_INL_H_
#undef STOF_KERNELS_CPU_MATRIX_TILES_INL_H_
#else
#define STOF_KERNELS_CPU_MATRIX_TILES_INL_H_
#endif
#include <algorithm>

#include "kernels/cpu/block_parts-inl.h"
#include "kernels/cpu/tile_matmul-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stof::cpu::HWY_NAMESPACE {

constexpr int kTileRows = 16, kTileWords = 16, kTileNumbers = 2 * kTileWords;

#if HWY_TARGET == HWY_AVX3
// PairWords where whole tiles go through the matrix registers, for head dimensions that are multiples of kTileNumbers.
struct TileWords : PairWords {
  static constexpr bool kTiles = true;
};

// The registers are this thread's as long as it lives; what other libraries had in them is lost.
class MatrixRegisters {
 public:
  MatrixRegisters() {
    struct alignas(64) Shapes {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t row_bytes[16] = {};
      std::uint8_t rows[16] = {};
    } shapes;
    std::fill_n(shapes.row_bytes, 8, std::uint16_t{4 * kTileWords});
    std::fill_n(shapes.rows, 8, std::uint8_t{kTileRows});
    asm volatile("ldtilecfg %0" : : "m"(shapes));
  }
  ~MatrixRegisters() { asm volatile("tilerelease"); }
  MatrixRegisters(const MatrixRegisters&) = delete;
  MatrixRegisters& operator=(const MatrixRegisters&) = delete;
};

// Rows `stride` bytes apart. Registers 0 to 3 have sums, [2 * row tile + column tile]; 4 and 5 the left operand's row
// tiles, 6 and 7 the right one's column tiles.
template <int kRegister>
HWY_INLINE void load_matrix(const void* at, std::ptrdiff_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(at), "r"(stride), "i"(kRegister) : "memory");
}
template <int kRegister>
HWY_INLINE void store_matrix(void* at, std::ptrdiff_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(at), "r"(stride), "i"(kRegister) : "memory");
}
HWY_INLINE void clear_sums() { asm volatile("tilezero %tmm0\n\ttilezero %tmm1\n\ttilezero %tmm2\n\ttilezero %tmm3"); }
template <bool kBothRows>
HWY_INLINE void multiply_add_matrices() {
  asm volatile("tdpbf16ps %tmm6, %tmm4, %tmm0\n\ttdpbf16ps %tmm7, %tmm4, %tmm1");
  if constexpr (kBothRows) asm volatile("tdpbf16ps %tmm6, %tmm5, %tmm2\n\ttdpbf16ps %tmm7, %tmm5, %tmm3");
}

// Scores of 16 or 32 keys from j on, without masks and factors.
template <bool kBothRows>
HWY_INLINE void multiply_keys(const Block& block, const Panel& panel, int j) {
  clear_sums();
  constexpr std::ptrdiff_t kPanelBytes = 4 * kPanel;
  for (int c = 0; c < block.head_dim / 2; c += kTileWords) {
    const std::byte* const k = block.k.row(j) + 4 * c;
    load_matrix<4>(k, block.k.stride);
    if constexpr (kBothRows) load_matrix<5>(k + kTileRows * block.k.stride, block.k.stride);
    load_matrix<6>(panel.q + c * kPanel, kPanelBytes);
    load_matrix<7>(panel.q + c * kPanel + kLanes, kPanelBytes);
    multiply_add_matrices<kBothRows>();
  }
  float* const s = panel.s + j * kPanel;
  store_matrix<0>(s, kPanelBytes);
  store_matrix<1>(s + kLanes, kPanelBytes);
  if constexpr (!kBothRows) return;
  store_matrix<2>(s + kTileRows * kPanel, kPanelBytes);
  store_matrix<3>(s + kTileRows * kPanel + kLanes, kPanelBytes);
}

// Scores of all live tiles into panel.s, as score_tile() has them: whole tiles by the matrix registers, the rest of the
// keys by pairs.
template <class Words>
void multiply_all_keys(const Block& block, const Panel& panel, const Live& live) {
  const auto lives = [&](int j) { return live.tile[j / kRows] || live.tile[j / kRows + 1]; };  // of 16 keys
  int j = 0;
  while (j + kTileRows <= block.keys) {
    const bool both = j + 2 * kTileRows <= block.keys && lives(j + kTileRows);
    if (!lives(j)) j += kTileRows;
    else if (both) multiply_keys<true>(block, panel, j), j += 2 * kTileRows;
    else multiply_keys<false>(block, panel, j), j += kTileRows;
  }
  for (; j < block.keys; j += kRows) {
    const std::byte* k[kRows];
    for (int r = 0; r < kRows; ++r) k[r] = block.k.row(std::min(j + r, block.keys - 1));
    Accumulators scores;
    score_tile<PairWords>(k, panel.q, block.head_dim / 2, scores);
    for (int r = 0; r < std::min(kRows, block.keys - j); ++r)
      for (int v = 0; v < kVectors; ++v) hn::Store(scores.at[r][v], Floats(), panel.s + (j + r) * kPanel + v * kLanes);
  }
}

// to[row][word] = from[word][row]: 16 words of 16 rows; rows of `from` are kPanel apart, those of `to` 16.
HWY_INLINE void turn_words(const float* from, float* to) {
  __m512i a[16], b[16];
  HWY_UNROLL(16)
  for (int i = 0; i < 16; ++i) a[i] = _mm512_loadu_si512(from + i * kPanel);
  HWY_UNROLL(8)
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  }
  HWY_UNROLL(4)
  for (int i = 0; i < 16; i += 4) {
    a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
    a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
    a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
    a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
  }
  // a[4 w + r] has, in its part p of 128 bits, words 4 w to 4 w + 3 of row 4 p + r.
  HWY_UNROLL(4)
  for (int r = 0; r < 4; ++r) {
    const __m512i low01 = _mm512_shuffle_i32x4(a[r], a[4 + r], 0x44),
                  high01 = _mm512_shuffle_i32x4(a[r], a[4 + r], 0xEE);
    const __m512i low23 = _mm512_shuffle_i32x4(a[8 + r], a[12 + r], 0x44),
                  high23 = _mm512_shuffle_i32x4(a[8 + r], a[12 + r], 0xEE);
    _mm512_store_si512(to + (0 + r) * 16, _mm512_shuffle_i32x4(low01, low23, 0x88));
    _mm512_store_si512(to + (4 + r) * 16, _mm512_shuffle_i32x4(low01, low23, 0xDD));
    _mm512_store_si512(to + (8 + r) * 16, _mm512_shuffle_i32x4(high01, high23, 0x88));
    _mm512_store_si512(to + (12 + r) * 16, _mm512_shuffle_i32x4(high01, high23, 0xDD));
  }
}

// What is in o already, times its rows' factors.
HWY_INLINE void scale_outputs(const Block& block, const Panel& panel, const float* factor) {
  const Floats d;
  for (int row = 0; row < kPanel; ++row)
    for (int c = 0; c < block.depth; c += kLanes) {
      float* const at = panel.o + std::int64_t{row} * block.depth + c;
      hn::Store(hn::Mul(hn::Load(d, at), hn::Set(d, factor[row])), d, at);
    }
}

// Words of weights [word][kPanel] in panel.s times the words of values, which are 0 behind the last key to a multiple
// of kTileWords.
template <class Words>
void add_values_by_tiles(const Block& block, const Panel& panel, const Live& live, const float* factor) {
  if (factor != nullptr) scale_outputs(block, panel, factor);
  const int words = (block.keys + 1) / 2;
  const int begin = *std::min_element(live.begin, live.begin + kGroups) / kTileNumbers * kTileWords;
  const int end = std::min((*std::max_element(live.end, live.end + kGroups) + 1) / 2, words);
  constexpr int kTile = kTileRows * kTileWords;
  for (int word = words; word % kTileWords != 0; ++word)
    std::fill_n(panel.s + word * kPanel, kPanel, 0.f);  // of keys that are not there
  for (int word = begin; word < end; word += kTileWords) {
    float* const to = panel.turned + word / kTileWords * 2 * kTile;
    turn_words(panel.s + word * kPanel, to);
    turn_words(panel.s + word * kPanel + kLanes, to + kTile);
  }
  const std::ptrdiff_t o_bytes = std::ptrdiff_t{4} * block.depth;
  for (int c = 0; c < block.depth; c += 2 * kLanes) {
    float* const o = panel.o + c;
    load_matrix<0>(o, o_bytes);
    load_matrix<1>(o + kLanes, o_bytes);
    load_matrix<2>(o + kTileRows * std::int64_t{block.depth}, o_bytes);
    load_matrix<3>(o + kTileRows * std::int64_t{block.depth} + kLanes, o_bytes);
    for (int word = begin; word < end; word += kTileWords) {
      const float* const p = panel.turned + word / kTileWords * 2 * kTile;
      load_matrix<4>(p, 4 * kTileWords);
      load_matrix<5>(p + kTile, 4 * kTileWords);
      load_matrix<6>(block.v.words(word) + c, block.v.stride);
      load_matrix<7>(block.v.words(word) + c + kLanes, block.v.stride);
      multiply_add_matrices<true>();
    }
    store_matrix<0>(o, o_bytes);
    store_matrix<1>(o + kLanes, o_bytes);
    store_matrix<2>(o + kTileRows * std::int64_t{block.depth}, o_bytes);
    store_matrix<3>(o + kTileRows * std::int64_t{block.depth} + kLanes, o_bytes);
  }
}
#else
template <class Words>
void multiply_all_keys(const Block& block, const Panel& panel, const Live& live);
template <class Words>
void add_values_by_tiles(const Block& block, const Panel& panel, const Live& live, const float* factor);
#endif

}  // namespace stof::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
