// SPDX-License-Identifier: Apache-2.0
// The cost model of the GPU's attention kernels: its schedule against a simulation, its table, the file of one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <queue>
#include <random>

#include "src/attention/planned.h"
#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/cost.h"
#include "src/backend/cuda/attention/cost_table.h"
#include "src/backend/cuda/attention/instances.h"
#include "src/backend/cuda/attention/price_plan.h"
#include "src/backend/cuda/attention/schedule.h"
#include "src/layout/pack.h"
#include "src/mask/bind.h"
#include "tests/temporary_folder.h"

namespace stof::cuda {
namespace {

double simulate(std::vector<double> costs, int teams) {
  std::sort(costs.begin(), costs.end(), std::greater());
  std::priority_queue<double, std::vector<double>, std::greater<>> idle_at;
  for (int team = 0; team < teams; ++team) idle_at.push(0);
  double last = 0;
  for (const double cost : costs) {
    const double end = idle_at.top() + cost;
    idle_at.pop();
    idle_at.push(end);
    last = std::max(last, end);
  }
  return last;
}

std::vector<SamePieces> pieces_of(const BlockStats& stats, int slices) {
  std::vector<SamePieces> pieces;
  for (auto bin = stats.row_blocks.rbegin(); bin != stats.row_blocks.rend(); ++bin)
    pieces.push_back({2.5 + bin->full + 0.9 * bin->partial, static_cast<double>(bin->count * slices)});
  std::sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.cost > b.cost; });
  return pieces;
}

TEST(GpuSchedule, TheEstimateIsWithinFivePercentOfTheSchedule) {
  for (const char* text : {"all", "causal", "window(64)", "longformer(32,32)", "bigbird(64,3,2,3,1)", "prefix(700)",
                           "documents([0,110,200,630]) & causal", "causal & window(200) | global(16)"})
    for (const std::int64_t length : {128, 640, 1024, 4096})
      for (const int slices : {1, 12, 32, 192}) {
        if (length < 640 && std::string_view(text).starts_with("documents")) continue;
        const BoundMask bound(parse(text), {.queries = length, .keys = length});
        const MaskStats stats = measure(bound, std::array{BlockSize{64, 64}});
        const std::vector<SamePieces> pieces = pieces_of(stats.blocks[0], slices);
        std::vector<double> costs;
        for (const SamePieces& same : pieces)
          costs.insert(costs.end(), static_cast<std::size_t>(same.count), same.cost);
        for (const int teams : {108, 132, 264, 528})
          EXPECT_NEAR(makespan(pieces, teams) / simulate(costs, teams), 1, 0.05)
              << text << " " << length << " " << slices << " " << teams;
      }
}

TEST(GpuSchedule, FewRoundsAreFollowedExactly) {
  std::mt19937 random(3);
  const auto below = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  for (int n = 0; n < 3000; ++n) {
    std::vector<SamePieces> pieces;
    std::vector<double> costs;
    for (int cost = 1 + below(400); cost > 0 && pieces.size() < 64; cost -= below(1 + below(20))) {
      pieces.push_back({0.25 * cost, static_cast<double>(1 + below(1 + below(60)))});
      costs.insert(costs.end(), static_cast<std::size_t>(pieces.back().count), pieces.back().cost);
    }
    const int teams = static_cast<int>(costs.size()) / 20 + 1 + below(1 + below(300));
    ASSERT_EQ(makespan(pieces, teams), simulate(costs, teams)) << n;
    for (SamePieces& same : pieces) same.count *= below(2) == 0 ? 1 : 1 / 3.0;
    ASSERT_GE(most_makespan(pieces, teams), makespan(pieces, teams)) << n;
    ASSERT_GE(most_makespan(pieces, 0.01 * teams), makespan(pieces, 0.01 * teams)) << n << ", which is not followed";
  }
}

TEST(GpuSchedule, TheSecondRoundIsDealtBackwards) {
  const std::vector<SamePieces> pieces{{5, 2}, {3, 3}, {1, 2}};  // 5 5 3 3 3 1 1
  EXPECT_EQ(makespan_dealt(pieces, 4), 3 + 3) << "5, 5 + 1, 3 + 1, 3 + 3";
  EXPECT_EQ(makespan_dealt(pieces, 5), 5) << "5, 5, 3, 3 + 1, 3 + 1";
  EXPECT_EQ(makespan_dealt(pieces, 7), 5) << "there is one round";
  EXPECT_EQ(makespan_dealt({}, 7), 0);
}

TEST(GpuSchedule, WhoIsAloneOnAMultiprocessorIsFaster) {
  const Crew pairs{.multiprocessors = 2, .ctas = 1, .teams = 2};
  const auto one_round = [&](std::vector<SamePieces> pieces) { return makespan_of_one_round(pieces, pairs, 0.5); };
  EXPECT_EQ(one_round({{4, 2}}), 2) << "a multiprocessor each";
  EXPECT_EQ(one_round({{4, 4}}), 4);
  EXPECT_EQ(one_round({{4, 3}}), 4) << "the second of one CTA has a mate, the first has none";
  EXPECT_EQ(one_round({{8, 1}, {6, 1}, {4, 1}}), 5) << "8 alone: 4; 6 and 4: 4 together, then 2 alone";
  EXPECT_EQ(one_round({{8, 1}, {6, 1}, {4, 1}, {2, 1}}), 5) << "8 and 2: 2, then 6 alone";
  EXPECT_EQ(makespan_of_one_round(std::vector<SamePieces>{{4, 4}}, {.multiprocessors = 2, .ctas = 2, .teams = 1}, 0.5),
            4);
  EXPECT_EQ(one_round({}), 0);
}

// What is priced is what is packed, tile by tile, where masks are narrow and where they are not.
TEST(GpuCosts, AreOfTheTilesThatListsArePackedIn) {
  const Device device = open_device("cuda:h200");
  const AttentionShape shape{
      .heads = 2, .kv_heads = 2, .queries = 1100, .keys = 1100, .head_dim = 64, .dtype = DType::f16};
  for (const char* text : {"all", "causal", "window(16)", "window(32)", "window(48)", "causal & window(100)",
                           "longformer(32,32)", "bigbird(64,3,2,3,1)", "documents([0,110,200,630]) & causal"}) {
    const View view = plain_view(parse(text), shape);
    const AttentionProblem problem = problem_of(view, device);
    for (const int parts : {1, 2, 3, 4}) {
      const ListedTiles listed = stream_tiles(problem, *stats_of(problem, parts));
      double tiles = 0;
      for (const BlockStats::Bin& bin : listed.row_blocks)
        tiles += static_cast<double>(bin.count) * (bin.full + bin.partial);
      const BlockLayout layout =
          pack_blocks(view.mask, {.block_q = 64 * parts, .block_kv = 64, .key_step = listed.key_step});
      std::int64_t packed = 0;
      for (const StreamItem& item : arrange_stream(layout, {.parts = parts, .tiles = 1}).items) packed += item.steps;
      EXPECT_DOUBLE_EQ(tiles, static_cast<double>(packed * shape.heads / layout.groups)) << text << " " << parts;
    }
  }
}

double launch_cost(const NamedCosts& costs, const std::string& name) { return costs.at(name)[ListTerm::launch]; }

// Three masks: three launches of kernels that take one at a time, one of those whose lists are of all heads.
TEST(GpuCosts, KernelsThatTakeOneMaskAtATimePayForEveryLaunch) {
  const Device device = open_device("cuda:h200");
  const AttentionShape shape{
      .heads = 12, .kv_heads = 12, .queries = 1024, .keys = 1024, .head_dim = 64, .dtype = DType::f16};
  const AttentionProblem problem =
      problem_of(plain_view(parse("heads(0-3: window(16), 4-7: window(20), *: window(12))"), shape), device);
  AttentionProblem alike = problem;
  alike.stats.groups = 1;
  const NamedCosts& costs = built_in_named_costs();
  const Pricing priced = pricing_of(device.caps);
  for (const NamedPlan& plan :
       {NamedPlan{"band_attention", "band_f16_d64_p1_k128_c4"}, {"gather_attention", "gather_f16_d64_n4_c4"}})
    EXPECT_LE(prediction_of(problem, plan)(priced), 3 * prediction_of(alike, plan)(priced)) << "of a third each";
  const auto more = [&](const NamedPlan& plan) {
    const Pricing pricing = pricing_of(device.caps);
    return prediction_of(problem, plan)(pricing) - prediction_of(alike, plan)(pricing);
  };
  // Each ends by itself, unevenly.
  EXPECT_GE(more({"band_attention", "band_f16_d64_p1_k128_c4"}), 2 * launch_cost(costs, "band_d64_p1_k128_c4"));
  EXPECT_GE(more({"gather_attention", "gather_f16_d64_n4_c4"}), 2 * launch_cost(costs, "gather_d64_n4_c4"));
  EXPECT_EQ(more({"stream_attention", "stream_f16_d64_t4_p1_k1_s2_c1_g1"}), 0);
  EXPECT_EQ(more({"mma_attention", "mma_f16_d64_p1_w1_s2_c4"}), 0);
}

TEST(GpuCosts, PlansSayWhatTheyLaunch) {
  const Device device = open_device("cuda:h200");
  const AttentionShape shape{
      .batch = 2, .heads = 4, .kv_heads = 4, .queries = 512, .keys = 512, .head_dim = 64, .dtype = DType::f16};
  const auto reason = [&](const char* mask, const char* kernel) {
    return choose_attention(parse(mask), shape, device, kernel).plan.reason;
  };
  const char* const bands = "heads(0: window(16), 2: window(8), *: window(12))";
  EXPECT_TRUE(reason(bands, "stream_attention").ends_with("; one launch for heads with different masks"));
  EXPECT_TRUE(reason(bands, "mma_attention").ends_with("; one launch for heads with different masks"));
  EXPECT_TRUE(reason(bands, "band_attention").ends_with("; a launch for each run of heads with one mask"));
  EXPECT_TRUE(reason("batch(0: causal, *: window(9))", "stream_attention")
                  .ends_with("; one launch for items with different masks"));
  EXPECT_TRUE(reason("batch(0: causal, *: window(9))", "mma_attention").ends_with("; a launch for each item"));
  EXPECT_TRUE(reason("causal", "stream_attention").ends_with("go to mma_attention"));
}

// As the stream kernel's loader goes on: each team's places in the order.
double simulate_dealt(const std::vector<double>& costs, int teams) {
  double last = 0;
  for (int team = 0; team < teams; ++team) {
    double end = 0;
    int behind = teams - 1 - team;
    for (int place = team; place < std::ssize(costs); place += 2 * behind + 1, behind = teams - 1 - behind)
      end += costs[static_cast<std::size_t>(place)];
    last = std::max(last, end);
  }
  return last;
}

TEST(GpuSchedule, TwoDealtRoundsAreWhatTheTeamsGet) {
  for (const char* text : {"all", "causal", "longformer(32,32)", "documents([0,110,200,630]) & causal"})
    for (const int slices : {12, 16, 96}) {
      const BoundMask bound(parse(text), {.queries = 1024, .keys = 1024});
      const std::vector<SamePieces> pieces =
          pieces_of(measure(bound, std::array{BlockSize{128, 64}}).blocks[0], slices);
      std::vector<double> costs;
      for (const SamePieces& same : pieces) costs.insert(costs.end(), static_cast<std::size_t>(same.count), same.cost);
      const int count = static_cast<int>(costs.size());
      for (const int teams : {(count + 1) / 2, count * 2 / 3, count - 1})
        EXPECT_DOUBLE_EQ(makespan_dealt(pieces, teams), simulate_dealt(costs, teams)) << text << " " << slices;
    }
}

// Bytes of keys that no row sees are not waited for.
TEST(GpuCosts, OfFewRowsWithAWindowDoNotGrowWithTheKeys) {
  const Device device = open_device("cuda:h200");
  const auto predicted = [&](std::int64_t keys) {
    const AttentionShape shape{
        .batch = 16, .heads = 8, .kv_heads = 8, .queries = 64, .keys = keys, .head_dim = 128, .dtype = DType::f16};
    return choose_attention(parse("causal & window(1000)"), shape, device, "auto").plan.predicted_us;
  };
  EXPECT_NEAR(predicted(65536), predicted(8192), 0.01 * predicted(8192));
}

TEST(GpuCosts, EveryInstanceIsInTheBuiltInTable) {
  const NamedCosts& costs = built_in_named_costs();
  const auto stacked = std::count_if(stream_instances().begin(), stream_instances().end(),
                                     [](const StreamInstance& instance) { return instance.stacked; });
  EXPECT_EQ(costs.size(), 1 + stream_instances().size() - static_cast<std::size_t>(stacked) +
                              gather_instances().size() + mma_instances().size() + band_instances().size());
  EXPECT_EQ(built_in_source().device, "NVIDIA H200");
  for (const std::string& text : {built_in_source().driver, built_in_source().clock, built_in_source().commit})
    EXPECT_FALSE(text.empty());
}

TEST(GpuCosts, OfAnInstanceThatIsGoneAreLeftOut) {
  const NamedCosts& costs = built_in_named_costs();
  NamedCosts more = costs;
  more.emplace("stream_d64_t9_p9_k1_s2_c1_g1", costs.begin()->second);
  EXPECT_EQ(of_instances(more), costs);
}

TEST(GpuCosts, StoredTimesOfAnInstanceThatIsGoneArePassedOver) {
  EXPECT_TRUE(is_priced({"gather_attention", "gather_bf16_d64_n4_c4", 2}, DType::bf16));
  EXPECT_FALSE(is_priced({"gather_attention", "gather_bf16_d128_n4_c2", 2}, DType::bf16));
  EXPECT_FALSE(is_priced({"gather_attention", "gather_bf16_d64_n4_c4", 2}, DType::f16));
  EXPECT_TRUE(is_priced({"decode_attention", "decode_f16_d128_c2", 1}, DType::f16));
  EXPECT_FALSE(is_priced({"row_attention", "row", 1}, DType::f32));
}

TEST(GpuCosts, AnInstanceThatWasNotMeasuredCostsWhatItsNearestKinDoes) {
  NamedCosts few = built_in_named_costs();
  const std::vector<double> d64 = few.at("mma_d64_p1_w1_s2_c4");
  std::erase_if(few,
                [](const auto& one) { return one.first.starts_with("mma_") && one.first != "mma_d64_p1_w1_s2_c4"; });
  for (const ListCosts& costs : table_of(few, {}).mma) EXPECT_EQ(std::vector(costs.begin(), costs.end()), d64);
}

TEST(GpuCosts, AreReadFromTheFileOfTheSameDevice) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "cuda-attention.json";
  EXPECT_EQ(read_costs(file, "NVIDIA H200").source, "built in, of an NVIDIA H200");
  NamedCosts costs{{"decode", {7, 8, 9}}};
  write_calibration(costs, {"NVIDIA H200", "1.2", "1980 MHz", "abc", "2026-01-02"}, file);
  const CostsInUse found = read_costs(file, "NVIDIA H200");
  EXPECT_EQ(found.source, "measured here on 2026-01-02 (" + file.string() + ")");
  EXPECT_FALSE(found.ignored);
  EXPECT_EQ(found.table.decode, (DecodeCosts{7, 8, 9}));
  EXPECT_EQ(found.table.source.commit, "abc");
  EXPECT_EQ(read_costs(file, "NVIDIA H200 (described)").source, found.source);
  EXPECT_TRUE(read_costs(file, "NVIDIA H100 SXM (described)").ignored);
  const CostsInUse other = read_costs(file, "NVIDIA H100");
  EXPECT_TRUE(other.ignored);
  EXPECT_EQ(other.source,
            "built in, of an NVIDIA H200: " + file.string() + " was measured on NVIDIA H200, this is NVIDIA H100");
}

TEST(GpuCosts, AFileThatCannotBeReadIsSaidAndNotUsed) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "cuda-attention.json";
  for (const char* text :
       {"", "[]", R"({"format": 5})", R"({"format": 4, "device": "x", "microseconds": {"decode": [1, 2, 3]}})",
        R"({"format": 5, "device": "x", "microseconds": {"decode": [1, 2]}})",
        R"({"format": 5, "device": "x", "microseconds": {"decode": [1, 2, -3]}})",
        R"({"format": 5, "device": "x", "microseconds": {"decode": [1, 2, 1e308]}})",
        R"({"format": 5, "device": "x", "microseconds": {"decode": [1, 2, "3"]}})"}) {
    std::ofstream(file) << text;
    const CostsInUse found = read_costs(file, "x");
    EXPECT_TRUE(found.ignored) << text;
    EXPECT_EQ(found.source, "built in, of an NVIDIA H200: " + file.string() +
                                " is no calibration of format 5; `stof calibrate --device cuda` writes one");
  }
}

}  // namespace
}  // namespace stof::cuda
