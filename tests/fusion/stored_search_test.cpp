// SPDX-License-Identifier: Apache-2.0
// The search as it runs on an H200, with stored times of one in the place of the device: which settings it finds, and
// how many it has to ask for. Needs no GPU.
#include <gtest/gtest.h>

#include "cli/random_model.h"
#include "src/fusion/fuse.h"
#include "src/fusion/plan_model.h"
#include "src/fusion/work.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/measured_times.h"
#include "tests/fusion/stored_times.h"

namespace stof {
namespace {

// What was never stored takes as long as is predicted.
class StoredOracle final : public Oracle {
 public:
  StoredOracle(const StoredTimes& times, const CostContext& call) : times_(times), call_(call) {}
  std::vector<Candidate> candidates(const Work& work) override { return promising(work, call_); }
  std::optional<double> measure(const Work& work, const Candidate& candidate) override {
    const std::optional<double> us = times_.of(work, candidate.setting, call_.rows);
    ++asked;
    known += us ? 1 : 0;
    return us.value_or(candidate.predicted_us);
  }
  bool has_time() override { return true; }
  int asked = 0, known = 0;

 private:
  const StoredTimes& times_;
  CostContext call_;
};

struct Call {
  const char* model;
  const char* mask;
  std::int64_t texts, tokens;
};

class StoredSearch : public ::testing::TestWithParam<Call> {};

TEST_P(StoredSearch, FindsTheBestSettingOfNearlyEveryMatmul) {
  const auto& [name, mask, texts, tokens] = GetParam();
  const StoredTimes times(false);
  const Device device = open_device("cuda:h200");
  const Graph graph = restrict_attention(simplify(build_graph(cli::described_model(name, tokens))), parse(mask));
  const Blocks blocks(graph, {&device, DType::f16});
  const CostContext call{&device, DType::f16, texts * tokens, texts, tokens};
  std::vector<Scheme> starts = known_schemes(blocks);
  starts.push_back(analytical_search(blocks, call).scheme);
  StoredOracle oracle(times, call);
  const SearchResult found = search(blocks, starts, oracle, {});
  EXPECT_GE(oracle.known, 15);
  EXPECT_LE(oracle.asked, 120);  // 10 ms each, and a kernel to compile for most
  const Graph fused = fuse(blocks, found.scheme);
  double lost = 0;
  int compared = 0;
  for (const Node& node : fused.nodes) {
    const Work work{work_text(fused, node), fused, node};
    const auto setting = found.settings.find(work.text);
    if (setting == found.settings.end()) continue;
    // Of what the search may choose from.
    double best = found.works.at(work.text);
    for (const Candidate& candidate : promising(work, call))
      if (const auto us = times.of(work, candidate.setting, call.rows)) best = std::min(best, *us);
    ++compared;
    lost += found.works.at(work.text) - best;
    EXPECT_LE(found.works.at(work.text), 1.03 * best) << work.text << ": " << setting->second;
  }
  EXPECT_EQ(compared, 4 * 12);
  EXPECT_LE(lost, 0.005 * found.us);
}

INSTANTIATE_TEST_SUITE_P(Calls, StoredSearch,
                         ::testing::Values(Call{"bert-base", "all", 1, 128}, Call{"bert-base", "all", 8, 512},
                                           Call{"bert-base", "bigbird(64,3,2,3,1)", 8, 2048},
                                           Call{"gpt2", "causal & window(32)", 1, 1024},
                                           Call{"gpt2", "causal & window(64)", 8, 2048}));

}  // namespace
}  // namespace stof
