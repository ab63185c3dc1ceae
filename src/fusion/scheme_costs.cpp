// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/scheme_costs.h"

#include <algorithm>
#include <limits>

#include "src/fusion/fuse.h"
#include "src/fusion/work.h"

namespace stof {

const SchemeCosts::Counts& SchemeCosts::counts_of(const Scheme& scheme) {
  const std::string text = scheme.text();
  if (const auto found = counts_.find(text); found != counts_.end()) return found->second;
  const Graph& graph = graphs_[text] = fuse(blocks_, scheme);
  Counts& counts = counts_[text];
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const std::string work = work_text(graph, graph.nodes[n]);
    ++counts[work];
    const auto [place, is_new] = tried_.try_emplace(work);
    if (!is_new) continue;
    Tried& tried = place->second;
    tried = {
        .graph = &graph, .node = n, .left = {}, .right = {}, .best = {}, .us = std::numeric_limits<double>::infinity()};
    tried.left = oracle_.candidates(tried.work(work));
    tried.is_choice = !tried.left.empty() && !tried.left.front().setting.empty();
  }
  return counts;
}

double SchemeCosts::of(const Scheme& scheme) {
  double sum = 0;
  for (const auto& [work, count] : counts_of(scheme)) {
    const Tried& tried = tried_.at(work);
    while (tried.us == std::numeric_limits<double>::infinity() && !tried.left.empty()) {
      const std::size_t samples = std::min(static_cast<std::size_t>(options_.samples), tried.left.size());
      for (std::size_t sample = 0; sample < samples; ++sample) try_one(work, 0);
    }
    sum += count * tried.us;
  }
  return sum;
}

void SchemeCosts::try_one(const std::string& work, std::size_t index) {
  Tried& tried = tried_.at(work);
  const Candidate candidate = tried.left.at(index);
  tried.left.erase(tried.left.begin() + static_cast<std::ptrdiff_t>(index));
  const std::optional<double> us = oracle_.measure(tried.work(work), candidate);
  if (us) tried.right.push_back({candidate.setting, *us});
  if (us && *us < tried.us) {
    tried.us = *us;
    tried.best = candidate.setting;
  }
  ++asked_;
  if (!options_.progress) return;
  std::size_t left = 0;
  for (const auto& [other, state] : tried_) left += state.left.size();
  options_.progress(asked_, asked_ + static_cast<int>(left));
}

}  // namespace stof
