// SPDX-License-Identifier: Apache-2.0
// stof attention: masked attention of .npy files.
#include "stof/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>

#include "cli/attention_inputs.h"
#include "cli/commands.h"
#include "cli/float_dtype.h"
#include "cli/json_output.h"
#include "cli/number_option.h"
#include "cli/outputs.h"
#include "cli/size_text.h"
#include "cli/waiting.h"
#include "src/attention/describe.h"
#include "src/attention/host_tensors.h"
#include "src/base/error.h"
#include "src/base/memory.h"
#include "src/base/stopwatch.h"
#include "src/tensor/convert.h"
#include "src/tensor/npy.h"

namespace stof::cli {
namespace {

constexpr float kMostFactor = 1e18f;  // of scores, as attention takes

struct AttentionCommand {
  std::string q, k, v, out, lse, lengths, bias, json;
  std::string mask = "all", layout = "bhsd", kernel = "auto", dtype, device = "auto";
  std::optional<float> scale, softcap;
  bool force = false, allow_nan = false;
};

// Rows past an item's length are not written by attention: 0 and -inf, as for a row without keys.
Tensor filled(DType dtype, const Shape& shape, float value) {
  Tensor tensor(dtype, shape);
  if (dtype == DType::f32) std::fill_n(tensor.as<float>(), tensor.size(), value);
  else std::fill_n(tensor.as<std::uint16_t>(), tensor.size(), std::uint16_t{0});
  return tensor;
}

void convert_to(DType dtype, AttentionInput& input, TensorLayout layout) {
  if (input.tensor.dtype() == dtype) return;
  input.tensor = converted(input.tensor.view(), dtype);
  input.view = heads_first(input.tensor, layout);
}

AttentionShape shape_of(const AttentionInput& q, const AttentionInput& k) {
  AttentionShape shape{.batch = q.view.dim(0),
                       .heads = q.view.dim(1),
                       .kv_heads = k.view.dim(1),
                       .queries = q.view.dim(2),
                       .keys = k.view.dim(2),
                       .head_dim = q.view.dim(3)};
  shape.dtype = q.tensor.dtype();
  return shape;
}

void check_inputs(const AttentionInput& q, const AttentionInput& k, const AttentionInput& v) {
  for (const AttentionInput* input : {&q, &k})
    if (input->view.dim(0) == 0 || input->view.dim(1) == 0 || input->view.dim(3) == 0)
      fail(ErrorKind::invalid_argument,
           "'{}' has shape {}; accepted: an item, a head and a head dimension of 1 or more", input->file,
           to_string(input->tensor.shape()));
  if (k.tensor.shape() != v.tensor.shape())
    fail(ErrorKind::invalid_argument, "'{}' has shape {} and '{}' has {}; keys and values must have the same", k.file,
         to_string(k.tensor.shape()), v.file, to_string(v.tensor.shape()));
  if (q.view.dim(0) != k.view.dim(0))
    fail(ErrorKind::invalid_argument, "'{}' has {} items and '{}' has {}", q.file, q.view.dim(0), k.file,
         k.view.dim(0));
  if (q.view.dim(3) != k.view.dim(3))
    fail(ErrorKind::invalid_argument, "'{}' has head dimension {} and '{}' has {}", q.file, q.view.dim(3), k.file,
         k.view.dim(3));
}

// The inputs lie in memory together, beside a result like the queries.
void check_memory(const AttentionCommand& command) {
  double bytes = 0;
  std::error_code unreadable;  // reading says more
  for (const std::string& file : {command.q, command.k, command.v, command.q})
    if (const auto size = std::filesystem::file_size(file, unreadable); !unreadable) bytes += static_cast<double>(size);
  const auto most = static_cast<double>(memory_limit());
  if (bytes > most)
    fail(ErrorKind::device, "the inputs and the result take {}; accepted: at most {}, the memory of this machine",
         size_text(bytes), size_text(most));
}

// As attention is to have them: of `dtype`, and `written` is that of the result's file.
struct Inputs {
  AttentionInput q, k, v;
  InputLengths lengths;
  DType dtype, written;
  std::optional<RelativeBias> bias = {};
};

// Of the host, wherever the attention runs.
std::optional<RelativeBias> read_bias(const std::string& file, std::int64_t heads) {
  if (file.empty()) return std::nullopt;
  const Tensor values = read_npy(file);
  if (values.dtype() != DType::f32 || values.shape().size() != 2 || values.shape()[0] != heads ||
      values.shape()[1] % 2 == 0)
    fail(ErrorKind::invalid_argument, "'{}' is {} {}; accepted: f32 [{}, W] with an odd W, for {} heads", file,
         name_of(values.dtype()), to_string(values.shape()), heads, heads);
  return RelativeBias({values.as<float>(), static_cast<std::size_t>(values.size())}, heads, values.shape()[1] / 2,
                      open_device("cpu"));
}

Inputs read_inputs(const AttentionCommand& command, TensorLayout layout) {
  AttentionInput q = read_input(command.q, layout), k = read_input(command.k, layout),
                 v = read_input(command.v, layout);
  check_inputs(q, k, v);
  const InputLengths lengths = command.lengths.empty() ? InputLengths{} : read_lengths(command.lengths, q, k);
  const DType dtype = command.dtype.empty() ? q.tensor.dtype() : parse_float_dtype(command.dtype);
  if (!command.allow_nan)
    for (const auto& [input, its_lengths] : {std::pair{&q, &lengths.q}, {&k, &lengths.kv}, {&v, &lengths.kv}}) {
      refuse_not_finite(*input, *its_lengths, layout);
      refuse_overflow(*input, *its_lengths, layout, dtype);
    }
  const DType written = dtype == DType::bf16 ? DType::f32 : q.tensor.dtype();
  if (!command.force) check_size(command.out, q.tensor.shape(), written);
  for (AttentionInput* input : {&q, &k, &v}) convert_to(dtype, *input, layout);
  const std::int64_t heads = q.view.dim(1);
  return {std::move(q), std::move(k), std::move(v), lengths, dtype, written, read_bias(command.bias, heads)};
}

struct Took {
  double plan_us = 0, run_us = 0;  // on a GPU the way there and back is part of the run
};

void write_found(const AttentionCommand& command, const AttentionShape& shape, const Device& device,
                 const AttentionPlan& plan, const Took& took) {
  if (command.json.empty()) return;
  Json found{{"mask", command.mask},     {"device", device.caps.name}, {"dtype", name_of(shape.dtype)},
             {"batch", shape.batch},     {"heads", shape.heads},       {"kv_heads", shape.kv_heads},
             {"queries", shape.queries}, {"keys", shape.keys},         {"head_dim", shape.head_dim},
             {"plan_us", took.plan_us},  {"run_us", took.run_us}};
  found.update(describe(plan));
  write_json(found, command.json);
}

void attention(const AttentionCommand& command) {
  const TensorLayout layout = parse_layout(command.layout);
  std::vector<InputFile> files = files_of_mask("--mask", command.mask);
  files.insert(files.end(), {{"--q", command.q},
                             {"--k", command.k},
                             {"--v", command.v},
                             {"--lengths", command.lengths},
                             {"--relative-bias", command.bias}});
  check_outputs({{"--out", command.out}, {"--lse", command.lse}, {"--json", command.json, true}}, files);
  check_memory(command);
  const Mask mask = parse(command.mask);
  const Device device = open_device(command.device);
  const Inputs inputs = read_inputs(command, layout);

  AttentionShape shape = shape_of(inputs.q, inputs.k);
  shape.capped = command.softcap.has_value();
  shape.biased = inputs.bias.has_value();
  const Tensor out = filled(inputs.dtype, inputs.q.tensor.shape(), 0.f);
  const Tensor lse =
      filled(DType::f32, {shape.batch, shape.heads, shape.queries}, -std::numeric_limits<float>::infinity());
  std::optional<Waiting> waiting(std::in_place, "planning");
  Took took;
  const Stopwatch since_planning;
  const Attention attend(mask, shape, device, {.kernel = command.kernel});
  took.plan_us = since_planning.seconds() * 1e6;
  waiting->next("computing attention");
  const Stopwatch since_run;
  run_host_tensors(attend,
                   {.q = inputs.q.view,
                    .k = inputs.k.view,
                    .v = inputs.v.view,
                    .out = heads_first(out, layout),
                    .lse = lse.view(),
                    .scale = command.scale,
                    .softcap = command.softcap,
                    .relative_bias = inputs.bias ? &*inputs.bias : nullptr,
                    .q_lengths = inputs.lengths.q,
                    .kv_lengths = inputs.lengths.kv},
                   device);
  took.run_us = since_run.seconds() * 1e6;
  waiting->next("writing");
  write_npy(command.out, inputs.written == inputs.dtype ? out.view() : converted(out.view(), inputs.written).view());
  if (!command.lse.empty()) write_npy(command.lse, lse.view());
  write_found(command, shape, device, attend.plan(), took);
}

}  // namespace

void add_attention(CLI::App& app) {
  auto command = std::make_shared<AttentionCommand>();
  CLI::App* sub = app.add_subcommand("attention", "Compute masked attention of .npy files");
  sub->add_option("--q", command->q, "queries [B,H,N,D], f4 or f2")->required();
  sub->add_option("--k", command->k, "keys [B,H,M,D]; their heads divide those of the queries")->required();
  sub->add_option("--v", command->v, "values, of the shape of the keys")->required();
  sub->add_option("--mask", command->mask, "who may attend, as in 'causal & window(256)'")->capture_default_str();
  add_number(sub, "--scale", command->scale, "factor of the scores (default 1 / sqrt(head dimension))", kMostFactor);
  add_number(sub, "--softcap", command->softcap, "scores become X tanh(score / X) before the mask", kMostFactor);
  sub->add_option("--relative-bias", command->bias,
                  "f4 [H,2R+1]: added to scaled scores, by the key's position less its query's, from -R to R");
  sub->add_option("--lengths", command->lengths, "i4 or i8 [B], or [B,2] for queries and keys");
  sub->add_option("--layout", command->layout, "bhsd, or bshd: [B,N,H,D]")->capture_default_str();
  sub->add_option("--kernel", command->kernel, "auto, or one kernel by name")->capture_default_str();
  sub->add_option("--dtype", command->dtype, "compute from f32, f16 or bf16 (default: that of the queries)");
  sub->add_option("--device", command->device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  sub->add_option("--out", command->out, "result, of the shape and dtype of the queries (bf16: f4)")->required();
  sub->add_option("--lse", command->lse, "f4 [B,H,N]: natural logarithm of the sum of exponentials of the scores");
  sub->add_option("--json", command->json, "the plan and what it took as JSON, into a file or - for stdout");
  sub->add_flag(
      "--allow-nan", command->allow_nan,
      "compute with NaN and infinities in the inputs, or what --dtype has no room for, instead of refusing it");
  sub->add_flag("--force", command->force, "write a result above 4 GiB");
  sub->callback([command] { attention(*command); });
}

}  // namespace stof::cli
