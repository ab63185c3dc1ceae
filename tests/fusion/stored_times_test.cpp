// SPDX-License-Identifier: Apache-2.0
// The plan that is predicted to be best, judged by times of an H200 that were stored. Needs no GPU.
#include "tests/fusion/stored_times.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "cli/random_model.h"
#include "src/fusion/fuse.h"
#include "src/fusion/plan_model.h"
#include "src/fusion/work.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"

namespace stof {
namespace {

using Json = nlohmann::json;

struct Cost {
  double us = 0, stored_us = 0;
};

// What was never measured costs what is predicted.
Cost cost_of(const Graph& fused, const std::map<std::string, std::string>& settings, const CostContext& call,
             const StoredTimes& times) {
  Cost cost;
  for (const Node& node : fused.nodes) {
    if (std::holds_alternative<op::Input>(node.op)) continue;
    const Work work{work_text(fused, node), fused, node};
    const auto setting = settings.find(work.text);
    const std::string chosen = setting == settings.end() ? "" : setting->second;
    if (const std::optional<double> us = times.of(work, chosen, call.rows)) {
      cost.us += *us;
      cost.stored_us += *us;
      continue;
    }
    for (const Candidate& candidate : candidates_of(work, call))
      if (candidate.setting == chosen) {
        cost.us += candidate.predicted_us;
        break;
      }
  }
  return cost;
}

// Of the grid's rows, each with its graph on an H200.
struct StoredRow {
  const Json& row;
  const Blocks& blocks;
  CostContext call;
};

int for_each_row(const char* file, const std::function<void(const StoredRow&)>& see) {
  const Device device = open_device("cuda:h200");
  const Json fusion = stored_results(file);
  int tuned = 0;
  for (const Json& row : fusion.at("rows")) {
    if (row.at("ablation") != "both") continue;
    ++tuned;
    const Json& key = row.at("plan").at("key");
    const Model model = cli::described_model(row.at("model"), row.at("shape")[1]);
    const Graph graph = restrict_attention(simplify(build_graph(model)), parse(row.at("mask").get<std::string>()));
    const Blocks blocks(graph, {&device, DType::f16});
    see({row, blocks, {&device, DType::f16, key.at("rows"), key.at("texts"), key.at("longest")}});
  }
  return tuned;
}

TEST(StoredTimes, WhatIsPredictedBestIsNearlyWhatWasFoundByMeasuring) {
  const StoredTimes times;
  const int tuned = for_each_row("h200-fusion.json", [&](const StoredRow& stored) {
    const auto& [row, blocks, call] = stored;
    const Json& plan = row.at("plan");
    const SearchResult predicted = analytical_search(blocks, call);
    std::map<std::string, std::string> settings;
    for (const Json& work : plan.at("works")) settings[work.at("work")] = work.at("setting");
    const Scheme measured =
        parse_scheme(plan.at("scheme").get<std::string>(), blocks.scheme_shape(), default_scheme(blocks));
    const Cost best = cost_of(fuse(blocks, measured), settings, call, times),
               chosen = cost_of(fuse(blocks, predicted.scheme), predicted.settings, call, times);
    const std::string id = row.at("id");
    EXPECT_LE(chosen.us, 1.10 * best.us) << id << "\n" << predicted.scheme.text() << "\n" << measured.text();
    // Matmuls of BERT-large and of 32768 rows were measured by the tuned plan alone; what else is chosen there is
    // judged by predictions.
    const double least_share = row.at("model") == "bert-large" || call.rows > 16384 ? 0 : 0.8;
    EXPECT_GE(chosen.stored_us, least_share * chosen.us) << id;
  });
  EXPECT_EQ(tuned, 7);
}

// Sums of nodes do not tell: of BERT-large they are alike with norms left to the matmuls and without, and the whole
// takes a tenth longer with. And of 32768 rows, since norms have a kernel that keeps warps, 6 %: by the second file.
TEST(StoredTimes, TheSchemeThatIsPredictedBestIsNearlyTheFastestAsAWhole) {
  for (const char* file : {"h200-fusion.json", "h200-fusion-ablations.json"}) {
    const int tuned = for_each_row(file, [](const StoredRow& stored) {
      const auto& [row, blocks, call] = stored;
      const std::string predicted = analytical_search(blocks, call).scheme.text(), id = row.at("id");
      double best = std::numeric_limits<double>::infinity(), chosen = best;
      for (const Json& time : row.at("plan").at("confirmed")) {
        best = std::min(best, time.at("us").get<double>());
        if (time.at("scheme") == predicted) chosen = std::min(chosen, time.at("us").get<double>());
      }
      EXPECT_LE(chosen, 1.05 * best) << id << "\n" << predicted;
    });
    EXPECT_EQ(tuned, 7) << file;
  }
}

}  // namespace
}  // namespace stof
