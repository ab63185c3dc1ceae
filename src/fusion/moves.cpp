// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/moves.h"

#include <algorithm>

namespace stof {
namespace {

class Moves {
 public:
  Moves(const Blocks& blocks, std::size_t kind, const std::string& bits)
      : blocks_(blocks), kind_(kind), segments_(segments_of(bits)) {}

  std::vector<Move> all() {
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      if (s + 1 < segments_.size()) expand(s);
      if (s + 1 < segments_.size()) shift(s, s + 1);
      if (s > 0) shift(s, s - 1);
      for (std::size_t cut = segments_[s].begin + 1; cut < segments_[s].end; ++cut) release(s, cut);
    }
    return std::move(moves_);
  }

 private:
  void expand(std::size_t s) {
    std::vector<FusionSegment> changed = segments_;
    const std::size_t before = moves_.size();
    while (s + 1 < changed.size() && moves_.size() == before) {
      changed[s].end = changed[s + 1].end;
      changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(s) + 1);
      add("expand", s, changed);
    }
  }

  // `taker` takes the operator of `giver` that is next to it.
  void shift(std::size_t taker, std::size_t giver) {
    const std::ptrdiff_t takes = matmuls(taker), gives = matmuls(giver);
    if (segments_[giver].size() < 2 || is_attention(giver)) return;
    if (takes + gives == 0 || (takes > 0 && gives > 0 && takes != 1)) return;
    std::vector<FusionSegment> changed = segments_;
    if (giver > taker) changed[taker].end = ++changed[giver].begin;
    else changed[taker].begin = --changed[giver].end;
    add(takes == 0 ? "yield" : gives == 0 ? "seize" : "compete", taker, changed);
  }

  void release(std::size_t s, std::size_t cut) {
    std::vector<FusionSegment> changed = segments_;
    changed[s].end = cut;
    changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(s) + 1, {cut, segments_[s].end});
    add("release", s, changed);
  }

  void add(std::string_view name, std::size_t s, const std::vector<FusionSegment>& changed) {
    const auto legal = [&](const FusionSegment& segment) { return blocks_.legal_template(kind_, segment) != nullptr; };
    if (std::all_of(changed.begin(), changed.end(), legal))
      moves_.push_back({name, kind_, segments_[s], bits_of(changed)});
  }

  std::ptrdiff_t count(std::size_t s, Bound bound) const {
    const auto operators = blocks_.view(kind_, segments_[s], 0).operators;
    return std::count_if(operators.begin(), operators.end(), [&](const Operator& op) { return op.bound == bound; });
  }
  std::ptrdiff_t matmuls(std::size_t s) const { return count(s, Bound::compute); }
  bool is_attention(std::size_t s) const { return count(s, Bound::attention) > 0; }

  const Blocks& blocks_;
  std::size_t kind_;
  std::vector<FusionSegment> segments_;
  std::vector<Move> moves_;
};

}  // namespace

std::vector<Move> moves_of(const Blocks& blocks, std::size_t kind, const std::string& bits) {
  return Moves(blocks, kind, bits).all();
}

}  // namespace stof
