// SPDX-License-Identifier: Apache-2.0
// stof graph: what the model computes, after each pass, and how its operators are fused.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/loading.h"
#include "cli/number_option.h"
#include "cli/outputs.h"
#include "src/fusion/fuse.h"
#include "src/fusion/print.h"
#include "src/graph/build.h"
#include "src/graph/infer.h"
#include "src/graph/print.h"
#include "src/graph/simplify.h"
#include "src/model/model.h"

namespace stof::cli {
namespace {

struct GraphOptions {
  std::string model, scheme, dot, json;
  std::int64_t global_tokens = 0;
};

struct Stage {
  std::string name, what;
  Graph graph;
};

std::vector<Stage> simplified_stages(const Model& model, std::int64_t global_tokens) {
  Graph graph = build_graph(model, GraphResult::hidden, global_tokens);
  infer(graph);
  std::vector<Stage> stages{{"build", "as the checkpoint says", graph}};
  for (const Pass& pass : simplify_passes()) {
    graph = pass.run(std::move(graph));
    infer(graph);
    stages.push_back({std::string(pass.name), std::string(pass.what), graph});
  }
  return stages;
}

Json json_of(const Stage& stage) {
  Json nodes = Json::array();
  for (const Node& node : stage.graph.nodes) {
    Json weights = Json::array();
    for (const Weight& weight : node.weights)
      weights.push_back(
          {{"name", weight.name}, {"dtype", name_of(weight.tensor.dtype)}, {"shape", weight.tensor.shape}});
    const Value& output = stage.graph.value(node.output);
    nodes.push_back({{"output", node.output},
                     {"op", name_of(node.op)},
                     {"detail", detail_of(node.op)},
                     {"inputs", node.inputs},
                     {"columns", output.columns},
                     {"name", output.name},
                     {"weights", weights}});
  }
  return {{"pass", stage.name}, {"what", stage.what}, {"nodes", nodes}, {"result", stage.graph.result}};
}

Json json_of(const Blocks& blocks, const Scheme& scheme) {
  Json kinds = Json::array();
  for (std::size_t kind = 0; kind < scheme.bits.size(); ++kind) {
    Json segments = Json::array();
    for (const FusionSegment& segment : segments_of(scheme.bits[kind])) {
      const SegmentView view = blocks.view(kind, segment, 0);
      Json operators = Json::array();
      for (const Operator& op : view.operators) operators.push_back(op.name);
      segments.push_back({{"operators", operators}, {"template", blocks.template_for(view)->name}});
    }
    const FusionBlock& block = blocks.kinds()[kind];
    kinds.push_back(
        {{"name", block.name}, {"blocks", block.starts.size()}, {"bits", scheme.bits[kind]}, {"segments", segments}});
  }
  return {{"text", scheme.text()}, {"kinds", kinds}};
}

void run(const GraphOptions& options) {
  check_outputs({{"--dot", options.dot, true}, {"--json", options.json, true}},
                files_of_model("--model", options.model));
  const Model model = load_model(options.model);
  std::vector<Stage> stages = simplified_stages(model, options.global_tokens);
  const Graph simplified = stages.back().graph;
  const Device device = open_device("cpu");
  const Blocks blocks(simplified, {&device, DType::f32});
  Scheme scheme = default_scheme(blocks);
  if (!options.scheme.empty()) scheme = parse_scheme(options.scheme, blocks.scheme_shape(), scheme);
  stages.push_back({"fuse", "a node for each segment of the scheme", fuse(blocks, scheme)});
  if (!options.dot.empty()) write_text(to_dot(stages.back().graph), options.dot);
  if (!options.json.empty()) {
    Json passes = Json::array();
    for (const Stage& stage : stages) passes.push_back(json_of(stage));
    write_json({{"passes", passes}, {"scheme", json_of(blocks, scheme)}}, options.json);
  }
  if (options.json == "-" || options.dot == "-") return;
  for (const Stage& stage : stages) {
    if (stage.name == "fuse")
      fmt::print("# scheme: a bit an operator; equal bits in a row are one segment\n{}\n", to_text(blocks, scheme));
    fmt::print("# {}: {} ({} nodes)\n{}\n", stage.name, stage.what, stage.graph.nodes.size(), to_text(stage.graph));
  }
}

}  // namespace

void add_graph(CLI::App& app) {
  auto* command = app.add_subcommand("graph", "Show what a model computes, after each pass over its graph, and fused");
  const auto options = std::make_shared<GraphOptions>();
  command->add_option("--model", options->model, "folder with config.json and model.safetensors")->required();
  command->add_option("--scheme", options->scheme,
                      "fuse by these bits, of a layer or, with commas, of each kind of block (default: what is known "
                      "to be good)");
  add_number(command, "--global-tokens", options->global_tokens, "of Longformer, as in stof run")
      ->capture_default_str();
  command->add_option("--dot", options->dot,
                      "the last graph for Graphviz, into a file, or - for stdout in place of text");
  command->add_option("--json", options->json, "every pass as JSON, into a file, or - for stdout in place of text");
  command->callback([options] { run(*options); });
}

}  // namespace stof::cli
