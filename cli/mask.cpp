// SPDX-License-Identifier: Apache-2.0
// stof mask: what a mask allows, what it costs in blocks, and how it looks.
#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include "cli/commands.h"
#include "cli/mask_array.h"
#include "cli/mask_report.h"
#include "cli/number_option.h"
#include "cli/outputs.h"
#include "cli/waiting.h"
#include "src/base/error.h"
#include "src/mask/draw.h"
#include "src/mask/text/usages.h"

namespace stof::cli {
namespace {

constexpr std::int64_t kMostHeads = std::int64_t{1} << 20;  // over all items
constexpr int kMostDrawings = 4;

struct MaskCommand {
  std::string mask, seq, png, out, json;
  std::int64_t heads = 1, batch = 1;
  bool draw = false, force = false;
};

std::optional<std::int64_t> parse_count(std::string_view text) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 1) return std::nullopt;
  return count;
}

// "4096" or "128x4096".
std::pair<std::int64_t, std::int64_t> parse_seq(std::string_view text) {
  const std::size_t cross = text.find('x');
  const auto queries = parse_count(text.substr(0, cross));
  const auto keys = cross == std::string_view::npos ? queries : parse_count(text.substr(cross + 1));
  if (!queries || !keys)
    fail(ErrorKind::invalid_argument, "--seq '{}'; accepted: N, or NxM for N queries and M keys, each at least 1",
         text);
  return {*queries, *keys};
}

MaskExtent extent_of(const MaskCommand& command) {
  const auto [queries, keys] = parse_seq(command.seq);
  const MaskExtent extent{.queries = queries, .keys = keys, .batch = command.batch, .heads = command.heads};
  if (extent.heads < 1 || extent.batch < 1 || extent.heads > kMostHeads || extent.batch > kMostHeads / extent.heads)
    fail(ErrorKind::invalid_argument, "--heads {} and --batch {}; accepted: at least 1 each, at most {} together",
         extent.heads, extent.batch, kMostHeads);
  return extent;
}

void check_command(const MaskCommand& command, const MaskExtent& extent) {
  if (command.draw && command.json == "-")
    fail(ErrorKind::invalid_argument, "--draw and --json - both write to stdout; give --json a file");
  if (!command.out.empty() && !command.force) check_size(command.out, array_shape(extent), DType::boolean);
  check_outputs({{"--out", command.out}, {"--png", command.png}, {"--json", command.json, true}},
                files_of_mask("mask", command.mask));
  if (!command.out.empty()) check_space(command.out, array_shape(extent), DType::boolean);
}

// The first head that has this mask, when there is more than one mask.
std::string title_of(const BoundMask& mask, int group) {
  const MaskExtent& extent = mask.extent();
  for (std::int64_t item = 0; item < extent.batch; ++item)
    for (std::int64_t head = 0; head < extent.heads; ++head)
      if (mask.group_of(item, head) == group) return fmt::format("item {}, head {}", item, head);
  return "";
}

void print_drawings(const BoundMask& mask) {
  for (int group = 0; group < mask.groups() && group < kMostDrawings; ++group) {
    fmt::print("\n");
    if (mask.groups() > 1) fmt::print("{}\n", title_of(mask, group));
    fmt::print("{}", draw_text(mask, group));
  }
  if (mask.groups() > kMostDrawings) fmt::print("\n{} more distinct masks\n", mask.groups() - kMostDrawings);
}

void run_mask(const MaskCommand& command) {
  const MaskExtent extent = extent_of(command);
  check_command(command, extent);
  const Mask mask = parse(command.mask);
  std::optional<Waiting> waiting(std::in_place, "binding the mask");
  const BoundMask bound(mask, extent);
  waiting->next("measuring the mask");
  const MaskReport report = study(mask, bound);
  if (!command.out.empty()) {
    waiting->next("writing the mask");
    write_mask_array(command.out, bound);
  }
  if (!command.png.empty()) {
    waiting->next("drawing the mask");
    write_png(command.png, draw_image(bound));
  }
  waiting.reset();
  if (!command.json.empty()) write_json(json_of(report), command.json);
  if (command.json != "-") fmt::print("{}", text_of(report));
  if (command.draw) print_drawings(bound);
}

// For --help: what a mask is made of.
std::string terms() {
  constexpr std::size_t kColumns = 100;
  std::string text = "Terms, which & | ! and parentheses join; docs/masks.md says what each allows:\n ";
  std::size_t column = 1;
  for (const std::string_view usage : usages_of_terms()) {
    if (column + usage.size() + 2 > kColumns) {
      text += "\n ";
      column = 1;
    }
    text += fmt::format(" {};", usage);
    column += usage.size() + 2;
  }
  text.back() = '.';
  return text;
}

}  // namespace

void add_mask(CLI::App& app) {
  auto command = std::make_shared<MaskCommand>();
  CLI::App* sub = app.add_subcommand("mask", "Show what a mask allows, what it costs in blocks, and how it looks");
  sub->add_option("mask", command->mask, "the mask, as in 'causal & window(256)'")->required();
  sub->add_option("--seq", command->seq, "N, or NxM: N queries, M keys (default N)")->required();
  add_number(sub, "--heads", command->heads, "query heads")->capture_default_str();
  add_number(sub, "--batch", command->batch, "items")->capture_default_str();
  sub->add_flag("--draw", command->draw, "draw it as text");
  sub->add_option("--png", command->png, "draw it into this file");
  sub->add_option("--out", command->out, "write it as bool [N,M], or [B,H,N,M] for more than one head or item");
  sub->add_option("--json", command->json, "write the findings as JSON to this file, or - for stdout in place of text");
  sub->add_flag("--force", command->force, "write an array above 4 GiB");
  sub->footer(terms());
  sub->callback([command] { run_mask(*command); });
}

}  // namespace stof::cli
