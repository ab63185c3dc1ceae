// SPDX-License-Identifier: Apache-2.0
// What schemes cost as far as is known: each of their works by the best of the settings that were tried.
#pragma once
#include "src/fusion/search.h"

namespace stof {

class SchemeCosts {
 public:
  SchemeCosts(const Blocks& blocks, Oracle& oracle, const SearchOptions& options)
      : blocks_(blocks), oracle_(oracle), options_(options) {}

  using Counts = std::map<std::string, int>;  // how often each work is done

  // After at least `samples` settings of each work that is new. Infinite where a work has none that is right.
  double of(const Scheme& scheme);
  const Counts& counts_of(const Scheme& scheme);

  struct Tried {
    const Graph* graph = nullptr;
    std::size_t node = 0;
    std::vector<Candidate> left;     // not measured yet; the shortest prediction first
    std::vector<SettingTime> right;  // in the order in which they were asked for
    std::string best;
    double us = 0;  // of the best; infinite: none was right
    bool is_choice = false;
    Work work(const std::string& text) const { return {text, *graph, graph->nodes[node]}; }
  };
  // Of a scheme that of() was asked about.
  const Tried& tried(const std::string& work) const { return tried_.at(work); }
  // Measures the `index`-th of what is left.
  void try_one(const std::string& work, std::size_t index);

 private:
  const Blocks& blocks_;
  Oracle& oracle_;
  const SearchOptions& options_;
  std::map<std::string, Graph> graphs_;   // by the scheme's text
  std::map<std::string, Counts> counts_;  // the same
  std::map<std::string, Tried> tried_;
  int asked_ = 0;
};

}  // namespace stof
