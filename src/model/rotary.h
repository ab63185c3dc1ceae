// SPDX-License-Identifier: Apache-2.0
// Angles of positions (RoPE, Su et al. 2021): what a checkpoint says of them, for each layer.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stof {

// How pairs of columns turn more slowly than they were first trained to, so that longer texts are met by angles that
// are known. The number of times that a pair turns within the texts of that training decides: up to `few` turns it is
// slowed by the factor, from `many` on it is not. Of longrope each pair has a factor of its own, and a text that is
// longer than those of that training other ones: all its tokens turn by them.
struct RotaryScaling {
  enum class Kind : std::uint8_t {
    none,
    linear,    // all pairs are slowed
    llama3,    // between few and many by a line in the number of turns (Llama 3.1)
    yarn,      // by a line in the number of the pair (YaRN, Peng et al. 2023)
    longrope,  // by two lists (LongRoPE, Ding et al. 2024)
  };
  Kind kind = Kind::none;
  double factor = 1;
  double trained_positions = 0;                              // llama3, yarn, longrope
  double few = 1, many = 4;                                  // turns
  double amplitude = 1;                                      // yarn, longrope: of cosines and sines
  bool whole_pairs = true;                                   // yarn: the line begins and ends at a pair
  std::vector<float> short_factors = {}, long_factors = {};  // longrope: of each pair that turns

  // Texts of more tokens have angles of their own; 0: none have.
  std::int64_t long_after() const { return kind == Kind::longrope ? static_cast<std::int64_t>(trained_positions) : 0; }
  friend bool operator==(const RotaryScaling&, const RotaryScaling&) = default;
};

// Of a layer that turns q and k by their positions.
struct RotaryLayer {
  std::optional<std::int64_t> reach;  // how many keys to either side a query may see; nothing: all of them
  double theta = 1e4;
  RotaryScaling scaling = {};
  // Of a head how many pairs of columns turn: column i < pairs with column i + pairs, as the checkpoint has them, and
  // all others stay. Nothing: every column turns.
  std::optional<std::int64_t> pairs = {};
};

// Equal for equal values only; empty where nothing is scaled.
std::string text_of(const RotaryScaling& scaling);

}  // namespace stof
