// SPDX-License-Identifier: Apache-2.0
#include "src/model/unigram.h"

#include <algorithm>

#include "src/model/unicode.h"

namespace stof {

Unigram::Unigram(UnigramOptions options)
    : trie_(options.pieces),
      scores_(std::move(options.scores)),
      unknown_(options.unknown),
      unknown_score_(*std::ranges::min_element(scores_) - 10.0) {}

// Pieces come in the order of their beginnings, and then of their lengths: of equal ways the first one stays.
std::vector<Unigram::Best> Unigram::best_ways(std::string_view text) const {
  std::vector<Best> best(text.size() + 1);
  for (std::size_t begin = 0; begin < text.size();) {
    const double so_far = best[begin].score;
    const auto offer = [&](std::size_t end, double score, std::int32_t id) {
      Best& there = best[end];
      if (there.begin == kNowhere || score + so_far > there.score)
        there = {.score = score + so_far, .begin = static_cast<std::int32_t>(begin), .id = id};
    };
    const std::size_t next = begin + unicode::decode(text.data() + begin).bytes;
    bool is_known = false;
    std::int32_t node = PieceTrie::kRoot;
    for (std::size_t end = begin; end < text.size();) {
      node = trie_.child(node, text[end++]);
      if (node == PieceTrie::kNone) break;
      const std::int32_t id = trie_.id(node);
      if (id == PieceTrie::kNone) continue;
      offer(end, scores_[static_cast<std::size_t>(id)], id);
      is_known |= end == next;
    }
    if (!is_known) offer(next, unknown_score_, unknown_);
    begin = next;
  }
  return best;
}

// From the end. What is unknown together may be a piece after all, one that was less likely.
void Unigram::append_ids(std::string_view text, std::vector<std::int32_t>& ids) const {
  const std::vector<Best> best = best_ways(text);
  const std::size_t first = ids.size();
  for (std::size_t end = text.size(); end > 0;) {
    std::size_t begin = static_cast<std::size_t>(best[end].begin);
    std::int32_t id = best[end].id;
    if (id == unknown_) {
      while (begin > 0 && best[begin].id == unknown_) begin = static_cast<std::size_t>(best[begin].begin);
      id = trie_.find(text.substr(begin, end - begin)).value_or(unknown_);
    }
    ids.push_back(id);
    end = begin;
  }
  std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end());
}

}  // namespace stof
