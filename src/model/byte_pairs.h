// SPDX-License-Identifier: Apache-2.0
// Byte pair encoding (Sennrich et al. 2016) on symbols, which stand for bytes or characters: of all neighbours that may
// merge, those that come first in the list of merges do, the leftmost of equals, until none may.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stof {

struct Merge {
  std::int32_t left, right, merged;  // ids
};

class BytePairs {
 public:
  // A pair that is listed twice has its later place.
  explicit BytePairs(const std::vector<Merge>& merges);

  // What one word after another is put and merged in; kept by the caller, so that a text allocates once.
  class Work {
   public:
    // One more symbol of the word.
    void add(std::int32_t id);

   private:
    friend class BytePairs;
    struct Symbol {
      std::int32_t id, previous, next;  // neighbours: places, or kNone
    };
    struct Candidate {
      std::int32_t rank, place, merged;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> candidates;  // a heap
  };
  // Leaves `work` empty.
  void append_ids(Work& work, std::vector<std::int32_t>& ids) const;

 private:
  static constexpr std::int32_t kNone = -1;
  struct Rule {
    std::uint64_t pair = 0;
    std::int32_t rank = kNone, merged = kNone;
  };
  static std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t slot_of(std::uint64_t pair) const;
  const Rule* find(std::int32_t left, std::int32_t right) const;
  void consider(Work& work, std::int32_t place) const;

  std::vector<Rule> rules_;  // a hash table with at least half of its slots free; their number is a power of two
};

}  // namespace stof
