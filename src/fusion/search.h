// SPDX-License-Identifier: Apache-2.0
// Which scheme, and how each of its nodes is run: a search over what an oracle says. The search itself measures
// nothing, looks at no clock and is a function of its seed and of the oracle's answers.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/fusion/rules.h"

namespace stof {

// A node of a fused graph. What is measured for it holds for every node with the same text.
struct Work {
  std::string text;
  const Graph& graph;
  const Node& node;
};

struct Candidate {
  std::string setting;  // empty where there is no choice
  double predicted_us = 0;
};

struct SettingTime {
  std::string setting;
  double us = 0;
};

// Answers are always the same for the same question.
class Oracle {
 public:
  virtual ~Oracle() = default;
  // The shortest prediction first. None: a scheme with this work cannot win.
  virtual std::vector<Candidate> candidates(const Work& work) = 0;
  // Nothing: the result is wrong, or the device refuses; such a setting never wins.
  virtual std::optional<double> measure(const Work& work, const Candidate& candidate) = 0;
  // What was wrong with the last setting of the work that was.
  virtual std::string wrong_with(const std::string& /*work*/) const { return "there is none"; }
  virtual bool has_time() = 0;  // false: what is best so far is the answer
};

struct SearchOptions {
  std::uint64_t seed = 1;
  int samples = 3;            // settings of each work that a move is judged by
  int round = 8;              // settings of a round of stage 2
  int most_rounds = 16;       // of stage 2
  double least_gain = 0.003;  // of the whole, that a move must bring: less is noise
  double near = 0.05;         // of the whole, that rivals are slower at most
  bool change_scheme = true;  // false: stage 2 alone
  std::function<void(const std::string&)> explain = {};
  // After each answer of measure(): how many there were, and how many there may be as far as is known.
  std::function<void(int done, int total)> progress = {};
};

// A scheme with the best settings of its works that were tried.
struct SettledScheme {
  Scheme scheme;
  std::map<std::string, std::string> settings;  // by work, where there is a choice
  double us = 0;                                // of the whole model, as the sum of its works
};

struct SearchResult : SettledScheme {
  std::map<std::string, double> works;  // us of each
  // Of the starts those that come near it, the nearest first: sums of parts do not tell them apart.
  std::vector<SettledScheme> rivals;
  // Of all works of the scheme and of the rivals with a choice: what was tried and is right, the shortest time first.
  std::map<std::string, std::vector<SettingTime>> tried;
  int moves_tried = 0, moves_kept = 0, rounds = 0;
  bool finished = true;  // false: there was no time for more
};

// From the best of the schemes on. Throws unsupported where none of them has a right setting for each of its works.
SearchResult search(const Blocks& blocks, std::span<const Scheme> starts, Oracle& oracle, const SearchOptions& options);

}  // namespace stof
