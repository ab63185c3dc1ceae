// SPDX-License-Identifier: Apache-2.0
// Text to token ids as in XLM-RoBERTa: of all ways to cut a text into pieces the likeliest one (Kudo 2018, "Subword
// Regularization"), each piece with a logarithm of its probability; by Viterbi's algorithm, as the Python package
// `tokenizers` does it, so that sums are the same bits.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/model/piece_trie.h"

namespace stof {

struct UnigramOptions {
  std::vector<Piece> pieces;   // none empty; ids are places in scores
  std::vector<double> scores;  // logarithms
  std::int32_t unknown = 0;    // for characters that no piece is: one for all that follow each other
};

class Unigram {
 public:
  explicit Unigram(UnigramOptions options);

  // `text` is well-formed UTF-8.
  void append_ids(std::string_view text, std::vector<std::int32_t>& ids) const;

 private:
  // The best way up to a place in the text.
  struct Best {
    double score = 0;
    std::int32_t begin = kNowhere, id = 0;  // of its last piece
  };
  static constexpr std::int32_t kNowhere = -1;
  std::vector<Best> best_ways(std::string_view text) const;

  PieceTrie trie_;
  std::vector<double> scores_;
  std::int32_t unknown_;
  double unknown_score_;
};

}  // namespace stof
