// SPDX-License-Identifier: Apache-2.0
// Where the time of a whole model goes: each node by itself and inside the call, by the plan that needs no measurement,
// or by the settings that need none of another scheme. Weights are random.
//   bench_nodes MODEL TEXTS TOKENS MASK [DTYPE DEVICE [SCHEME]]: bert-base 8 2048 'bigbird(64,3,2,3,1)' f16 cuda
//   bench_nodes --compile SHARE OF MODEL ...: compiles every OF-th kernel of it into the cache, beginning at SHARE
#include <fmt/format.h>

#include <charconv>
#include <set>
#include <span>

#include "cli/random_model.h"
#include "src/backend/contract.h"
#include "src/backend/cuda/matmul/compile_ahead.h"
#include "src/backend/cuda/matmul/instances.h"
#include "src/base/error.h"
#include "src/codegen/compiler.h"
#include "src/fusion/fuse.h"
#include "src/fusion/plan_model.h"
#include "src/fusion/work.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/node_times.h"

namespace stof {
namespace {

std::int64_t number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0)
    fail(ErrorKind::invalid_argument, "'{}' is not a number", text);
  return number;
}

DType dtype_of(std::string_view name) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    if (name == name_of(dtype)) return dtype;
  fail(ErrorKind::invalid_argument, "dtype '{}'; accepted: f32, f16, bf16", name);
}

struct Case {
  std::string model;
  std::int64_t texts, tokens;
  Mask mask;
  DType dtype = DType::f16;
  Device device;
  std::string scheme = {};  // empty: the one that is predicted to be best
};

Case case_of(std::span<char*> arguments) {
  if (arguments.size() != 4 && arguments.size() != 6 && arguments.size() != 7)
    fail(ErrorKind::invalid_argument, "accepted: MODEL TEXTS TOKENS MASK [DTYPE DEVICE [SCHEME]]");
  const bool all = arguments.size() >= 6;
  return {.model = arguments[0],
          .texts = number_of(arguments[1]),
          .tokens = number_of(arguments[2]),
          .mask = parse(arguments[3]),
          .dtype = all ? dtype_of(arguments[4]) : DType::f16,
          .device = open_device(all ? arguments[5] : "cuda"),
          .scheme = arguments.size() == 7 ? arguments[6] : ""};
}

struct Planned {
  EvenCall timed;
  Graph graph;
  std::map<std::string, MatmulSetting> settings;
  std::string scheme;
};

SearchResult settled(const Blocks& blocks, const std::string& text, const CostContext& call) {
  const Scheme scheme = parse_scheme(text, blocks.scheme_shape(), default_scheme(blocks));
  check_scheme(blocks, scheme);
  Predictions predictions(call);
  return search(blocks, std::span(&scheme, 1), predictions, {.samples = 1, .most_rounds = 0, .change_scheme = false});
}

Planned planned(const Model& model, const Case& the) {
  const Graph restricted = restrict_attention(simplify(build_graph(model)), the.mask);
  const Blocks blocks(restricted, {&the.device, the.dtype});
  const EvenCall timed = even_call(the.texts, the.tokens, the.tokens);
  const Bucket& bucket = timed.bucket;
  const CostContext call{&the.device, the.dtype, bucket.rows, bucket.texts, bucket.longest};
  const SearchResult found = the.scheme.empty() ? analytical_search(blocks, call) : settled(blocks, the.scheme, call);
  Planned result{.timed = timed, .graph = fuse(blocks, found.scheme), .settings = {}, .scheme = found.scheme.text()};
  for (const auto& [work, setting] : found.settings)
    if (!setting.empty()) result.settings[work] = matmul_setting_of(setting);
  return result;
}

void compile(const Case& the, std::int64_t share, std::int64_t of) {
  const Model model = cli::described_model(the.model, the.tokens);
  const Planned plan = planned(model, the);
  std::set<std::string> seen;
  for (const Node& node : plan.graph.nodes) {
    const auto setting = plan.settings.find(work_text(plan.graph, node));
    if (setting == plan.settings.end() || !std::holds_alternative<op::Linear>(node.op)) continue;
    if (!seen.insert(setting->first).second || static_cast<std::int64_t>(seen.size()) % of != share) continue;
    if (const auto job =
            cuda::compile_job(linear_spec(node, the.dtype, &the.device), plan.timed.bucket.rows, setting->second))
      machine_compiler().cubin(*job);
  }
}

void measure(const Case& the) {
  const Model model = cli::random_model(the.model, the.tokens, 1);
  const Planned plan = planned(model, the);
  const Program program(
      plan.graph,
      {.device = the.device, .dtype = the.dtype, .longest = model.config.max_positions, .settings = plan.settings});
  fmt::print("{}, {} texts of {}, {}, {} on {}: {}\n", the.model, the.texts, the.tokens, the.mask.text(),
             name_of(the.dtype), the.device.caps.name, plan.scheme);
  for (const auto& [work, setting] : plan.settings) fmt::print("  {}: {}\n", work, text_of(setting));
  fmt::print("{}", to_text(node_times(program, plan.graph, plan.timed, {})));
  TimedCall call(program, plan.timed);
  const CallTime time = call.time(Caches::warm, 0.2);
  fmt::print("calls one after another: {:.2f} us each, spread {:.1f} %\n", time.us, 100 * time.spread);
}

int run(std::span<char*> arguments) {
  if (!arguments.empty() && std::string_view(arguments[0]) == "--compile") {
    if (arguments.size() < 3) fail(ErrorKind::invalid_argument, "--compile takes a share and their number");
    compile(case_of(arguments.subspan(3)), number_of(arguments[1]), number_of(arguments[2]));
  } else {
    measure(case_of(arguments));
  }
  return 0;
}

}  // namespace
}  // namespace stof

int main(int count, char** arguments) {
  try {
    return stof::run(std::span(arguments, static_cast<std::size_t>(count)).subspan(1));
  } catch (const stof::Error& error) {
    fmt::print(stderr, "bench_nodes: {}\n", error.what());
    return 1;
  }
}
