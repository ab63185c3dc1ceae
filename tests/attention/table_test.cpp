// SPDX-License-Identifier: Apache-2.0
// Attention under masks that come as tables, on every device: equal to the definition for every kind of table, when
// contents change, when they are recorded into a graph, and NaN where there is no room for them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/driver/device_memory.h"
#include "src/backend/cuda/driver/stream.h"
#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"
#include "tests/expect_error.h"
#include "tests/layout/random_table.h"

namespace stof {
namespace {

Problem problem_of(const MaskExtent& extent, DType dtype, std::int64_t head_dim, std::int64_t batch,
                   float softcap = 0) {
  return Problem({.shape = {.batch = batch,
                            .heads = extent.heads,
                            .kv_heads = 1,
                            .queries = extent.queries,
                            .keys = extent.keys,
                            .head_dim = head_dim,
                            .dtype = dtype,
                            .capped = softcap > 0},
                  .form = batch % 2 == 0 ? BatchForm::rows_first : BatchForm::heads_first,
                  .q_lengths = {},
                  .kv_lengths = {},
                  .softcap = softcap},
                 3);
}

// Bytes where a device reads and writes them.
class Place {
 public:
  Place(const Device& device, std::size_t size) : device_(device), host_(size) {
    if (device.backend->memory != nullptr) there_ = device.backend->memory->copy_in(device, host_, 0);
  }
  void* data() { return there_ ? there_.get() : host_.data(); }
  void write(const std::vector<std::byte>& bytes) {
    if (there_) cuda::copy_in(cuda::gpu_of(device_), reinterpret_cast<cuda::DevicePointer>(there_.get()), bytes);
    else host_ = bytes;
  }
  template <class Value>
  Value read() {
    Value value;
    if (there_) device_.backend->memory->copy_out(device_, std::as_writable_bytes(std::span(&value, 1)), there_.get());
    else std::memcpy(&value, host_.data(), sizeof value);
    return value;
  }

 private:
  Device device_;
  std::vector<std::byte> host_;
  std::shared_ptr<void> there_;
};

Mask defined(const RandomTable& table, const Mask& limit) { return bits(table.dense().view()) & limit; }

class Table : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(GetParam()); }
  Device device() const { return open_device(GetParam()); }
};

TEST_P(Table, EqualsTheDefinition) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    auto [form, extent] = random_form(seed);
    extent.queries = std::min(extent.queries, extent.keys);  // as bits() has it
    const Mask limit = parse(kTableLimits[seed / 4 % std::size(kTableLimits)]);
    SCOPED_TRACE(testing::Message() << "seed " << seed << " " << limit.text());
    constexpr std::int64_t kHeadDims[] = {64, 128, 32, 72, 64};
    const Problem problem = problem_of(extent, seed % 2 == 0 ? DType::f16 : DType::bf16, kHeadDims[seed % 5],
                                       extent.batch, seed % 3 == 0 ? 4.f : 0.f);
    const Attention attention(form, limit, problem.what().shape, device());
    RandomTable table(form, extent, seed);
    Place place(device(), table.bytes().size()), status(device(), sizeof(TableStatus));
    for (const unsigned contents : {seed, seed + 1000}) {
      table.fill(contents);
      place.write(table.bytes());
      TableContents update = table.contents(place.data());
      update.status = static_cast<TableStatus*>(status.data());
      attention.update(update);
      problem.poison_outputs();
      run_on(device(), attention, problem);
      ASSERT_EQ(difference_from_definition(problem, defined(table, limit)), "") << attention.plan().instance;
      EXPECT_EQ(status.read<TableStatus>().dropped_row_blocks, 0);
    }
  }
}

// Items of other lengths than the longest one's use the rows and keys of their own positions.
TEST_P(Table, ServesShorterItems) {
  const Mask limit = parse("where(q / 64 - k / 64 <= 1)") & causal();
  for (const BatchForm form : {BatchForm::rows_first, BatchForm::packed}) {
    const std::vector<std::int32_t> lengths = {300, 0, 70, 299};
    const Problem problem(
        {.shape =
             {.batch = 4, .heads = 2, .kv_heads = 2, .queries = 300, .keys = 300, .head_dim = 64, .dtype = DType::f16},
         .form = form,
         .q_lengths = lengths,
         .kv_lengths = lengths},
        9);
    // Items have tables of their own, all equal: blocks 0 to 4 and one before, in the wrong order, doubled.
    std::vector<std::int32_t> lists;
    for (int table = 0; table < 4 * 2; ++table)
      for (int row = 0; row < 5; ++row) lists.insert(lists.end(), {row, row - 1, row, 4});
    Place place(device(), lists.size() * sizeof(std::int32_t));
    const auto bytes = std::as_bytes(std::span(lists));
    place.write({bytes.begin(), bytes.end()});
    const Attention attention({.batch = 4, .heads = 2, .width = 4}, limit, problem.what().shape, device());
    attention.update({.data = place.data(), .batch_stride = 40, .head_stride = 20, .row_stride = 4});
    problem.poison_outputs();
    run_on(device(), attention, problem);
    EXPECT_EQ(difference_from_definition(problem, limit), "");
  }
}

TEST_P(Table, SaysWhatItCannotDo) {
  const AttentionShape shape{
      .heads = 2, .kv_heads = 1, .queries = 100, .keys = 128, .head_dim = 64, .dtype = DType::f16};
  const Attention attention({.width = 1}, all(), shape, device());
  const Problem problem = problem_of({.queries = 100, .keys = 128, .heads = 2}, DType::f16, 64, 1);
  constexpr auto kInvalid = ErrorKind::invalid_argument;
  EXPECT_ERROR(run_on(device(), attention, problem), kInvalid,
               "attention: the plan's table has no contents; update it first");
  EXPECT_ERROR(attention.update({}), kInvalid, "table: data is a null pointer");
  EXPECT_ERROR(Attention(causal(), shape, device()).update({}), kInvalid,
               "attention: this plan was made for a mask, not for a table");
  attention.prepare(90, 118);
  EXPECT_ERROR(attention.prepare(100, 127), kInvalid,
               "attention: 100 queries and 127 keys with a plan of a table; accepted: keys - queries of 28 and more");
  const Attention with_length({.width = 1}, bigbird(8, 1, 3, 1, 2), shape, device());
  EXPECT_ERROR(with_length.prepare(90, 118), kInvalid,
               "attention: 90 queries and 118 keys with a plan of a table; accepted: 100 and 128, as its limit depends "
               "on length");
  ProblemShape capped = problem.what();
  capped.softcap = 3;
  EXPECT_ERROR(run_on(device(), attention, Problem(capped, 1)), ErrorKind::unsupported,
               "attention: softcap = 3 with a plan of a table; accepted where the shape is capped");
}

TEST(TableMessages, NameEveryNumberOfItems) {
  const AttentionShape shape{.batch = 3, .queries = 64, .keys = 64, .head_dim = 64};
  EXPECT_ERROR(Attention({.batch = 0, .width = 1}, all(), shape, open_device("cpu")), ErrorKind::invalid_argument,
               "table: batch = 0; accepted here: 1, 3");
}

INSTANTIATE_TEST_SUITE_P(Devices, Table, testing::Values("cpu", "cuda"), [](const auto& the) { return the.param; });

class TableOnCuda : public testing::Test {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT("cuda"); }
};

TEST_F(TableOnCuda, IsPlannedAgainByEveryReplayOfAGraph) {
  const Device device = open_device("cuda");
  const MaskExtent extent{.queries = 333, .keys = 400, .batch = 2, .heads = 2};
  for (const TableKind kind : {TableKind::lists, TableKind::blocks, TableKind::bits, TableKind::packed}) {
    const MaskTable form{.kind = kind, .batch = 2, .heads = 2, .width = 3};
    const Problem problem = problem_of(extent, DType::f16, 64, 2);
    const Attention attention(form, causal(), problem.what().shape, device);
    RandomTable table(form, extent, 1);
    Place place(device, table.bytes().size());
    const DeviceArguments there(problem.arguments(), device);
    const Tensor none(DType::boolean, {static_cast<std::int64_t>(attention.workspace_bytes())});
    const auto workspace =
        device.backend->memory->copy_in(device, {none.as<std::byte>(), attention.workspace_bytes()}, 0);
    const cuda::CapturedGraph graph(cuda::gpu_of(device), [&](cuda::StreamHandle stream) {
      TableContents contents = table.contents(place.data());
      contents.stream = stream;
      attention.update(contents);
      AttentionArguments arguments = there.arguments();
      arguments.stream = stream;
      arguments.workspace = workspace.get();
      arguments.workspace_bytes = attention.workspace_bytes();
      attention.run(arguments);
    });
    const cuda::Stream stream(cuda::gpu_of(device));
    for (unsigned seed = 1; seed < 5; ++seed) {
      table.fill(seed);
      place.write(table.bytes());
      graph.launch(stream.handle());
      stream.synchronize();
      there.copy_back();
      ASSERT_EQ(difference_from_definition(problem, defined(table, causal())), "") << static_cast<int>(kind);
    }
  }
}

// Row blocks with more tiles than there is room for are NaN, all others are right, and the status says so.
TEST_F(TableOnCuda, DropsWhatItHasNoRoomFor) {
  const Device device = open_device("cuda");
  const MaskExtent extent{.queries = 320, .keys = 320, .heads = 2};
  const Problem problem = problem_of(extent, DType::bf16, 64, 1);
  for (const TableKind kind : {TableKind::lists, TableKind::bits, TableKind::packed}) {
    const MaskTable form{.kind = kind, .width = 5, .capacity = 2};
    const Attention attention(form, causal(), problem.what().shape, device);
    // Under causal, row block r has r + 1 tiles: 3 of 5 are too many, in each of the two heads' one table.
    std::vector<std::int32_t> every(static_cast<std::size_t>(5 * 5));
    for (std::size_t i = 0; i < every.size(); ++i) every[i] = static_cast<std::int32_t>(i % 5);
    const auto lists = std::as_bytes(std::span(every));
    const std::int64_t stride = kind == TableKind::lists ? 5 : kind == TableKind::bits ? 320 : 40;
    const std::vector<std::byte> bytes =
        kind == TableKind::lists ? std::vector<std::byte>(lists.begin(), lists.end())
                                 : std::vector<std::byte>(static_cast<std::size_t>(320 * stride), std::byte{255});
    Place place(device, bytes.size()), status(device, sizeof(TableStatus));
    place.write(bytes);
    attention.update({.data = place.data(), .row_stride = stride, .status = static_cast<TableStatus*>(status.data())});
    run_on(device, attention, problem);
    const auto said = status.read<TableStatus>();
    EXPECT_EQ(said.dropped_row_blocks, 3);
    EXPECT_EQ(said.most_tiles, 5);
    EXPECT_EQ(said.ignored_entries, 0);
    for (std::int64_t head = 0; head < 2; ++head)
      for (std::int64_t row = 0; row < 320; ++row) {
        const bool dropped = row >= 128;
        for (std::int64_t c = 0; c < 64; ++c)
          ASSERT_EQ(std::isnan(problem.get(problem.out, 0, head, row, c)), dropped) << head << " " << row << " " << c;
        ASSERT_EQ(std::isnan(problem.lse(problem.items().front(), head, row)), dropped);
      }
  }
}

TEST_F(TableOnCuda, RefusesTensorsThatTheCopyEngineCannotTake) {
  const Device device = open_device("cuda");
  const Problem problem = problem_of({.queries = 64, .keys = 64, .heads = 2}, DType::f16, 64, 1);
  const Attention attention({.width = 1}, all(), problem.what().shape, device);
  Place place(device, sizeof(std::int32_t));
  attention.update({.data = place.data()});
  AttentionArguments arguments = problem.arguments();
  arguments.scale = -1.f;
  EXPECT_ERROR(run_host_tensors(attention, arguments, device), ErrorKind::unsupported,
               "attention: scale = -1, which is not above 0 and at most 65536; no other kernel takes a mask that is "
               "made on the device");
  arguments.scale = 1.f;
  arguments.softcap = 2.f;
  EXPECT_ERROR(run_host_tensors(attention, arguments, device), ErrorKind::unsupported,
               "attention: softcap = 2 with a plan of a table; accepted where the shape is capped");
}

TEST(TablePlans, AreChosenWithoutAGpu) {
  const Device h200 = open_device("cuda:h200");
  const AttentionShape shape{
      .heads = 32, .kv_heads = 8, .queries = 16384, .keys = 16384, .head_dim = 128, .dtype = DType::bf16};
  const Attention attention({.heads = 32, .width = 16}, causal(), shape, h200);
  EXPECT_EQ(attention.plan().kernel, "stream_attention");
  EXPECT_EQ(attention.plan().format, TableForm::kFormat);
  EXPECT_EQ(attention.plan().splits, 1);
  AttentionShape single = shape;
  single.dtype = DType::f32;
  EXPECT_ERROR(Attention({.width = 16}, all(), single, h200), ErrorKind::unsupported,
               "no attention kernel takes this problem:\n"
               "  band_attention: it takes masks of the host\n"
               "  decode_attention: it takes masks of the host\n"
               "  gather_attention: it takes masks of the host\n"
               "  stream_attention: it takes f16 and bf16, not f32\n"
               "  mma_attention: it takes masks of the host\n"
               "  row_attention: it takes masks of the host");
}

}  // namespace
}  // namespace stof
