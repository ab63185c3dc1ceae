// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/table_planner.h"

#include "src/backend/cuda/attention/kernel_store.h"
#include "src/backend/cuda/attention/limit_tiles.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

constexpr const char* kUnit = "table_plan";
constexpr unsigned kPlanThreads = 256, kOrderThreads = 512, kWarpsOfPlan = 8;
constexpr std::int64_t kMostSteps = std::int64_t{1} << 29;     // indices of their two numbers are ints
constexpr std::int64_t kMostPatterns = std::int64_t{1} << 24;  // and those of their 128 words
constexpr std::int64_t kMostGroups = 65535;                    // of a grid

std::int64_t step_count(const TableForm& form) { return std::ssize(form.groups) * form.row_blocks * form.most_tiles; }

std::vector<TableSource> sources_of(const TableForm& form) {
  std::vector<TableSource> sources;
  for (const TableGroup& group : form.groups)
    sources.push_back({static_cast<int>(group.item), static_cast<int>(group.head), group.limit, group.first ? 1 : 0});
  return sources;
}

std::vector<StreamItem> dropped_items(const TableForm& form) {
  std::vector<StreamItem> items;
  for (std::size_t group = 0; group < form.groups.size(); ++group)
    for (std::int64_t block = 0; block < form.row_blocks; ++block)
      items.push_back({.row = static_cast<int>(TableForm::kRows * block),
                       .first_step = 0,
                       .steps = 0,
                       .full_steps = 0,
                       .split = StreamItem::kDropped,
                       .head = 0,
                       .late_steps = 0});
  return items;
}

void check_size(const TableForm& form) {
  if (form.extent.keys > DeviceTable::kMostKeys)
    fail(ErrorKind::unsupported, "table: {} keys; planning on a GPU takes at most {}", form.extent.keys,
         DeviceTable::kMostKeys);
  if (std::ssize(form.groups) > kMostGroups)
    fail(ErrorKind::unsupported, "table: {} heads with tables of their own; planning on a GPU takes at most {}",
         form.groups.size(), kMostGroups);
  const std::int64_t most = is_of_pairs(form.table.kind) ? kMostPatterns : kMostSteps;
  if (step_count(form) > most)
    fail(ErrorKind::unsupported,
         "table: {} tiles of 64x64 may be touched; planning on a GPU takes {}: lower the capacity", step_count(form),
         most);
}

}  // namespace

std::string_view plan_entry(TableKind kind) {
  switch (kind) {
    case TableKind::lists: return "_ZN4stof4cuda18plan_blocks_kernelINS0_10BlockListsEEEvNS0_11DeviceTableE";
    case TableKind::blocks: return "_ZN4stof4cuda18plan_blocks_kernelINS0_10BlockBytesEEEvNS0_11DeviceTableE";
    case TableKind::bits: return "plan_bits_kernel";
    case TableKind::packed: return "plan_packed_kernel";
  }
  STOF_CHECK(false);
  return {};
}

TablePlanner::TablePlanner(const Gpu& gpu, const TableForm& form, const BoundMask& limit)
    : kind_(form.table.kind), groups_(static_cast<int>(form.groups.size())) {
  check_size(form);
  const LimitArrays limits = limit_tiles(form, limit);
  const std::int64_t limit_patterns = std::ssize(limits.words) / 128;
  const std::int64_t own_patterns = is_of_pairs(kind_) ? step_count(form) : 0;
  if (limit_patterns + own_patterns > kMostPatterns)
    fail(ErrorKind::unsupported, "table: {} distinct patterns of its limiting mask and {} of its own; accepted: {}",
         limit_patterns, own_patterns, kMostPatterns);
  report_ = DeviceMemory(gpu, sizeof(PlanReport));
  report_.fill(0);
  sources_ = to_device<TableSource>(gpu, sources_of(form));
  limits_ = to_device<LimitTiles>(gpu, limits.tiles);
  patterns_ = to_device<int>(gpu, limits.patterns);
  planned_ = DeviceMemory(gpu, sizeof(PlannedRow) * form.groups.size() * static_cast<std::size_t>(form.row_blocks));
  items_ = to_device<StreamItem>(gpu, dropped_items(form));
  steps_ = DeviceMemory(gpu, 2 * sizeof(int) * static_cast<std::size_t>(step_count(form)));
  first_steps_ = DeviceMemory(gpu, 2 * sizeof(int) * form.groups.size() * static_cast<std::size_t>(form.row_blocks));
  first_steps_.fill(0);
  words_ = DeviceMemory(gpu, 128 * sizeof(std::uint32_t) * static_cast<std::size_t>(limit_patterns + own_patterns));
  copy_in(gpu, words_.address(), std::as_bytes(std::span(limits.words)));
  const std::int64_t blocks = ceil_div(form.extent.keys, form.table.block_kv);
  table_ = {.data = nullptr,
            .item_stride = 0,
            .head_stride = 0,
            .row_stride = 0,
            .sources = sources_.as<TableSource>(),
            .limits = limits.tiles.empty() ? nullptr : limits_.as<LimitTiles>(),
            .patterns = patterns_.as<int>(),
            .queries = narrow<int>(form.extent.queries, "queries"),
            .keys = narrow<int>(form.extent.keys, "keys"),
            .row_blocks = narrow<int>(form.row_blocks, "row blocks"),
            .words = narrow<int>(ceil_div(form.tiles, 32), "words"),
            .columns = narrow<int>(form.columns, "columns"),
            .blocks = narrow<int>(blocks, "key blocks"),
            .block_rows = static_cast<int>(form.table.block_q / TableForm::kRows),
            .block_tiles = static_cast<int>(form.table.block_kv / TableForm::kKeys),
            .room = narrow<int>(form.most_tiles, "tiles of a row block"),
            .first_own_pattern = static_cast<int>(limit_patterns),
            .planned = planned_.as<PlannedRow>(),
            .items = items_.as<StreamItem>(),
            .steps = steps_.as<int>(),
            .first_steps = first_steps_.as<int>(),
            .pattern_words = words_.as<unsigned>(),
            .status = nullptr,
            .report = report_.as<PlanReport>()};
  plan_ = &plain_kernel(gpu, kUnit, plan_entry(kind_), kPlanThreads);
  order_ = &plain_kernel(gpu, kUnit, "order_items_kernel", kOrderThreads);
}

void TablePlanner::plan(const TableContents& contents) const {
  const auto stream = static_cast<StreamHandle>(contents.stream);
  DeviceTable table = table_;
  table.data = contents.data;
  table.item_stride = contents.batch_stride;
  table.head_stride = contents.head_stride;
  table.row_stride = contents.row_stride;
  table.status = reinterpret_cast<int*>(contents.status);
  const auto groups = static_cast<unsigned>(groups_), rows = static_cast<unsigned>(table.row_blocks);
  void* arguments[] = {&table};
  const unsigned ctas = is_of_pairs(kind_) ? rows : (rows + kWarpsOfPlan - 1) / kWarpsOfPlan;
  plan_->launch({.grid = {ctas, groups}, .stream = stream}, arguments);
  order_->launch({.grid = {groups}, .stream = stream, .overlap_previous = true}, arguments);
}

}  // namespace stof::cuda
