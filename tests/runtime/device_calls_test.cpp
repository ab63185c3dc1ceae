// SPDX-License-Identifier: Apache-2.0
// Calls on a device that works beside the host, on a device played by the CPU (recording_device.h): results are those
// of a plain session, each bucket is recorded once, memory and lanes are as planned.
#include "src/runtime/device_calls.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/pooling.h"
#include "src/runtime/programs.h"
#include "tests/backend/random_tensor.h"
#include "tests/expect_error.h"
#include "tests/runtime/recording_device.h"
#include "tests/runtime/small_bert.h"

namespace stof {
namespace {

constexpr std::int64_t kLongest = 96;

struct Played {
  explicit Played(const std::string& mask = "all", DType dtype = DType::f32, Model the_model = small_bert())
      : model(std::move(the_model)),
        program(restrict_attention(fused_by_default(build_bert(model)), parse(mask)),
                {.device = recording_device(), .dtype = dtype, .longest = kLongest}),
        calls(program),
        host(model, {.device = "cpu", .dtype = dtype, .mask = parse(mask)}) {}

  // Runs here and on the host, and compares.
  void expect_same(const std::vector<std::int64_t>& lengths, const ResultForm& form = {}, bool padded = false) {
    const TokenBatch batch = texts_of(lengths);
    const RowBatch rows = make_rows(batch, {.vocabulary = 50, .longest = kLongest}, padded);
    const Tensor got = calls.run(rows, form);
    const Tensor want = form.pooling == Pooling::none ? host.run(batch) : host.embed(batch, form.pooling);
    const std::int64_t columns = want.shape()[1];
    ASSERT_EQ(got.shape()[0], form.pooling == Pooling::none ? rows.rows : rows.texts);
    for (std::int64_t text = 0; text < rows.texts; ++text) {
      const auto i = static_cast<std::size_t>(text);
      const bool all_rows = form.pooling == Pooling::none;
      const float* const x = got.as<float>() + (all_rows ? rows.first_row(text) : text) * columns;
      const float* const y = want.as<float>() + (all_rows ? batch.offsets[i] : text) * columns;
      for (std::int64_t c = 0; c < (all_rows ? lengths[i] : 1) * columns; ++c)
        ASSERT_NEAR(x[c], y[c], 5e-6) << "text " << text << " element " << c;
    }
  }

  Model model;
  Program program;
  DeviceCalls calls;
  Session host;
};

TEST(DeviceCalls, GiveWhatAPlainSessionGives) {
  for (const char* mask : {"all", "causal", "longformer(32,4)", "heads(0: causal, *: window(5))",
                           "documents([0,10,40])", "bigbird(16,3,2,1,5)"}) {
    SCOPED_TRACE(mask);
    Played played(mask);
    for (int repeat = 0; repeat < 2; ++repeat) {  // recorded, then launched
      played.expect_same({96, 7, 1, 33, 64, 2, 50});
      played.expect_same({5, 80}, {Pooling::mean, true});
      played.expect_same({3}, {Pooling::cls, true});
      played.expect_same({12, 90, 40}, {Pooling::max, true});
    }
    played.expect_same({12, 90, 40}, {}, true);
  }
}

// By one token of each text, whose rows are kept, and by all of them: ragged, padded, texts of one token, and other
// numbers of texts than a bucket has.
TEST(DeviceCalls, PoolAsTheHostDoes) {
  const std::vector<std::vector<std::int64_t>> calls{{96, 7, 1, 33, 64, 2, 50},
                                                     {5, 80},
                                                     {3},
                                                     {1},
                                                     {1, 1, 1},
                                                     {2, 1, 1},
                                                     {40, 40, 40},
                                                     std::vector<std::int64_t>(17, 1),
                                                     {1, 96},
                                                     std::vector<std::int64_t>(9, 2),
                                                     std::vector<std::int64_t>(33, 1)};  // 64 texts to 48 rows
  for (const char* mask : {"all", "causal", "bigbird(16,3,2,1,5)"}) {
    SCOPED_TRACE(mask);
    Played played(mask);
    for (const Pooling pooling : {Pooling::cls, Pooling::last, Pooling::mean, Pooling::max})
      for (const bool padded : {false, true})
        for (const std::vector<std::int64_t>& lengths : calls)
          for (int repeat = 0; repeat < 3; ++repeat)  // recorded at the latest, then launched
            played.expect_same(lengths, {pooling, true}, padded);
  }
}

// Vectors through dense layers, of more and more texts: what is recorded reads memory that moves.
TEST(DeviceCalls, HaveAHeadAsTheHostDoes) {
  const Played played;
  std::mt19937 random(5);
  const std::int64_t hidden = played.model.config.hidden_size;
  const Tensor wide = random_tensor(DType::f32, {40, hidden}, random),
               narrow = random_tensor(DType::f32, {7, 40}, random);
  const std::vector<DenseLayer> layers{{.weight = wide.view(), .activation = "tanh"}, {.weight = narrow.view()}};
  const DenseHead there(layers, recording_device()), here(layers, open_device("cpu"));
  DeviceCalls calls(
      played.program,
      {.of = [&](const Bucket&) -> const Program& { return played.program; },
       .arena_bytes = [&](std::int64_t rows, std::int64_t kept) { return played.program.arena_bytes(rows, kept); },
       .head = &there});
  for (const std::int64_t texts : {1, 2, 5, 3, 17, 40, 1})
    for (const Pooling pooling : {Pooling::cls, Pooling::mean, Pooling::last})
      for (const bool normalize : {false, true})
        for (int repeat = 0; repeat < 3; ++repeat) {
          const TokenBatch batch = texts_of(std::vector<std::int64_t>(static_cast<std::size_t>(texts), 9 + repeat));
          const RowBatch rows = make_rows(batch, {.vocabulary = 50, .longest = kLongest}, false);
          const Tensor want = here.run(pool(rows, played.host.run(batch).as<float>(), hidden, pooling)),
                       got = calls.run(rows, {pooling, normalize});
          if (normalize) normalize_rows(want);
          ASSERT_EQ(got.shape(), (Shape{texts, 7}));
          for (std::int64_t i = 0; i < want.size(); ++i)
            ASSERT_NEAR(got.as<float>()[i], want.as<float>()[i], 1e-4) << texts << " texts, " << i;
        }
}

TEST(DeviceCalls, PoolAModelWithoutLayers) {
  Played played("all", DType::f32, small_bert(0));
  for (const Pooling pooling : {Pooling::cls, Pooling::last, Pooling::mean, Pooling::none})
    for (int repeat = 0; repeat < 2; ++repeat) played.expect_same({12, 90, 1, 40}, {pooling, pooling != Pooling::none});
}

TEST(DeviceCalls, KeepNoRowsWhereTheDeviceCannotCopyThem) {
  const Bucket bucket{.rows = 128, .texts = 4, .longest = 64};
  EXPECT_EQ(rows_kept(bucket, Pooling::cls, recording_backend()), 4);
  EXPECT_EQ(rows_kept(bucket, Pooling::last, recording_backend()), 4);
  for (const Pooling pooling : {Pooling::none, Pooling::mean, Pooling::max})
    EXPECT_EQ(rows_kept(bucket, pooling, recording_backend()), 0);
  EXPECT_EQ(rows_kept({.rows = 16, .texts = 16, .longest = 64}, Pooling::cls, recording_backend()), 0);
  EXPECT_EQ(rows_kept({.rows = 48, .texts = 64, .longest = 64}, Pooling::cls, recording_backend()), 0);
  Backend without = recording_backend();
  without.rows.copy = nullptr;
  EXPECT_EQ(rows_kept(bucket, Pooling::cls, without), 0);
}

// A language model: causal by itself, and as many columns as there are words.
TEST(DeviceCalls, GiveLogits) {
  const Model model = read_model(std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families/gpt2");
  const std::int64_t longest = model.config.max_positions;
  const Program program(fused_by_default(build_graph(model, GraphResult::logits)),
                        {.device = recording_device(), .longest = longest});
  DeviceCalls calls(program);
  const Session host(model, {.device = "cpu", .logits = true});
  const TokenBatch batch = texts_of({5, 1, 17});
  const RowBatch rows = make_rows(batch, {.vocabulary = model.config.vocab_size, .longest = longest}, false);
  for (const Pooling pooling : {Pooling::none, Pooling::last})
    for (int repeat = 0; repeat < 2; ++repeat) {
      const Tensor got = calls.run(rows, {pooling, false}), want = host.embed(batch, pooling);
      ASSERT_EQ(got.shape(), want.shape());
      for (std::int64_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got.as<float>()[i], want.as<float>()[i], 2e-5) << "component " << i;
    }
}

TEST(DeviceCalls, RecordEachBucketOnce) {
  Played played;
  StreamCounts& counts = stream_counts();
  const int recordings = counts.recordings, launches = counts.launches, waits = counts.waits;
  played.expect_same({60, 60, 60, 60});  // the largest first: later ones fit its memory
  EXPECT_EQ(counts.recordings, recordings + 1);
  played.expect_same({50, 64, 61, 57});  // other lengths of the same bucket
  played.expect_same({60, 64, 64, 50});
  EXPECT_EQ(counts.recordings, recordings + 1);
  EXPECT_EQ(counts.launches, launches + 2);
  EXPECT_EQ(counts.waits, waits + 3);  // one a call, for its result
  played.expect_same({60, 60, 60, 60}, {Pooling::mean, true});
  played.expect_same({40, 40});
  EXPECT_EQ(counts.recordings, recordings + 3);
  played.expect_same({96, 96, 96, 96});  // more memory: what was recorded before is void
  played.expect_same({40, 40});
  EXPECT_EQ(counts.recordings, recordings + 5);
}

// Attention is then planned for each length on the host: a recording is of these lengths, and made when they come
// again.
TEST(DeviceCalls, RecordLengthsThatComeAgainWhereTheyArePlannedFor) {
  Played played("bigbird(16,3,2,1,5)");
  StreamCounts& counts = stream_counts();
  const int recordings = counts.recordings, launches = counts.launches, waits = counts.waits;
  played.expect_same({60, 60});
  played.expect_same({50, 61});
  EXPECT_EQ(counts.recordings, recordings);
  played.expect_same({60, 60});
  EXPECT_EQ(counts.recordings, recordings + 1);
  EXPECT_EQ(counts.launches, launches);
  played.expect_same({60, 60});
  played.expect_same({60, 60});
  EXPECT_EQ(counts.launches, launches + 2);
  played.expect_same({61, 50});  // the same lengths elsewhere
  EXPECT_EQ(counts.recordings, recordings + 1);
  played.expect_same({50, 61});
  played.expect_same({50, 61});
  EXPECT_EQ(counts.recordings, recordings + 2);
  EXPECT_EQ(counts.launches, launches + 3);
  EXPECT_EQ(counts.waits, waits + 8);  // one a call, for its result
  const std::int64_t plans = played.program.plans_made();
  played.expect_same({60, 60});
  EXPECT_EQ(played.program.plans_made(), plans);
}

TEST(DeviceCalls, RecordPaddedCallsByThemselvesWhereLengthsArePlannedFor) {
  Played played("bigbird(16,3,2,1,5)");
  StreamCounts& counts = stream_counts();
  played.expect_same({96, 96});  // the most memory
  const int recordings = counts.recordings, launches = counts.launches;
  for (int repeat = 0; repeat < 3; ++repeat) {
    played.expect_same({60, 60}, {}, true);
    played.expect_same({60, 60});
    played.expect_same({33, 60}, {Pooling::mean, true}, true);
  }
  EXPECT_EQ(counts.recordings, recordings + 3);
  EXPECT_EQ(counts.launches, launches + 3);
}

TEST(DeviceCalls, PlanOncePerSize) {
  Played played;
  EXPECT_EQ(played.program.plans_made(), 1);  // at load, so that a mask that nothing takes is refused there
  played.expect_same({60, 60});
  const std::int64_t plans = played.program.plans_made();
  played.expect_same({33, 40});
  EXPECT_EQ(played.program.plans_made(), plans);
  played.expect_same({70, 40});  // up to 96
  EXPECT_EQ(played.program.plans_made(), plans + 1);
}

TEST(DeviceCalls, HoldWhatIsPlanned) {
  Played played;
  EXPECT_EQ(played.calls.bytes_held(), 0);
  played.expect_same({60, 60});
  EXPECT_EQ(played.calls.bytes_held(), played.program.arena_bytes(bucket_rows(120)));
  played.expect_same({10});
  EXPECT_EQ(played.calls.bytes_held(), played.program.arena_bytes(bucket_rows(120)));
  played.expect_same({96, 96, 96});
  EXPECT_EQ(played.calls.bytes_held(), played.program.arena_bytes(bucket_rows(288)));
}

// As much as is wanted of it, whichever is more.
TEST(DeviceCalls, HoldWhatIsPlannedForKeptRows) {
  Played played;
  played.expect_same({60, 60, 60}, {Pooling::cls, true});
  EXPECT_EQ(played.calls.bytes_held(), played.program.arena_bytes(bucket_rows(180), 4));
  const std::int64_t whole = played.program.arena_bytes(bucket_rows(180));
  played.expect_same({60, 60, 60});
  EXPECT_EQ(played.calls.bytes_held(), std::max(whole, played.program.arena_bytes(bucket_rows(180), 4)));
}

TEST(DeviceCalls, SayWhatDoesNotFit) {
  Played played;
  played.expect_same({8});
  const std::int64_t bytes = played.program.arena_bytes(bucket_rows(192));
  most_device_bytes() = static_cast<std::size_t>(bytes) - 1;
  const RowBatch rows = make_rows(texts_of({96, 96}), {.vocabulary = 50, .longest = kLongest}, false);
  EXPECT_ERROR(played.calls.run(rows, {}), ErrorKind::device,
               fmt::format("out of memory: {0} bytes wanted; 192 rows of activations need {0} bytes: run fewer texts "
                           "together",
                           bytes));
  most_device_bytes() = SIZE_MAX;
  EXPECT_EQ(played.calls.lanes(), 0u);  // one that failed is not used again
  EXPECT_EQ(played.calls.bytes_held(), 0);
  played.expect_same({96, 96});
  EXPECT_EQ(played.calls.lanes(), 1u);
}

// A device that is full makes calls wait, not fail.
TEST(DeviceCalls, WaitForALaneWhereThereIsNoMemoryForAnother) {
  Played played;
  const RowBatch rows = make_rows(texts_of({50, 7, 31}), {.vocabulary = 50, .longest = kLongest}, false);
  const Tensor want = played.calls.run(rows, {});
  most_device_bytes_together() = device_bytes_held() + 64;
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (std::size_t t = 0; t < right.size(); ++t)
    threads.emplace_back([&, t] {
      for (int run = 0; run < 6; ++run)
        right[t] += std::memcmp(played.calls.run(rows, {}).data(), want.data(), want.bytes()) == 0;
    });
  for (std::thread& thread : threads) thread.join();
  most_device_bytes_together() = SIZE_MAX;
  EXPECT_EQ(right, std::vector<int>(4, 6));
  EXPECT_EQ(played.calls.lanes(), 1U);
}

TEST(DeviceCalls, GiveUpLanesThatWaitWhereOthersWantTheirMemory) {
  Played played;
  EXPECT_FALSE(played.calls.drop_free());
  const std::size_t held = device_bytes_held();
  played.expect_same({60, 60});
  EXPECT_GT(device_bytes_held(), held);
  EXPECT_TRUE(played.calls.drop_free());
  EXPECT_EQ(device_bytes_held(), held);
  EXPECT_EQ(played.calls.bytes_held(), 0);
  EXPECT_EQ(played.calls.lanes(), 0U);
  EXPECT_FALSE(played.calls.drop_free());
  played.expect_same({60, 60});
  EXPECT_EQ(played.calls.lanes(), 1U);
}

// The result is there by then.
TEST(DeviceCalls, DoWithoutARecordingThatDoesNotFit) {
  Played played;
  StreamCounts& counts = stream_counts();
  const int recordings = counts.recordings;
  recordings_fit() = false;
  for (int call = 0; call < 3; ++call) played.expect_same({60, 60});
  EXPECT_EQ(played.calls.lanes(), 1U);
  recordings_fit() = true;
  played.expect_same({60, 60});  // is not tried again
  EXPECT_EQ(counts.recordings, recordings);
  played.expect_same({40});
  EXPECT_EQ(counts.recordings, recordings + 1);
}

TEST(DeviceCalls, DoWithoutARecordingThatFails) {
  Played played;
  StreamCounts& counts = stream_counts();
  const int recordings = counts.recordings;
  recordings_work() = false;
  for (int call = 0; call < 3; ++call) played.expect_same({60, 60});
  recordings_work() = true;
  played.expect_same({60, 60});  // is not tried again
  EXPECT_EQ(played.calls.lanes(), 1U);
  EXPECT_EQ(counts.recordings, recordings);
}

TEST(Programs, SayWhatTheirWeightsNeed) {
  static const Backend full = [] {
    Backend made = recording_backend();
    made.matmul.pack = [](const LinearSpec&) -> PackedLinear {
      fail(ErrorKind::device, "out of memory: 9 bytes wanted");
    };
    return made;
  }();
  Device device = recording_device();
  device.backend = &full;
  const Model model = small_bert();
  std::int64_t values = 0;
  for (const auto& [name, tensor] : model.weights) values += tensor.dim(0) * (tensor.rank() > 1 ? tensor.dim(1) : 1);
  EXPECT_ERROR(
      Programs(simplify(build_bert(model)), {.program = {.device = device, .longest = kLongest}}), ErrorKind::device,
      fmt::format("out of memory: 9 bytes wanted; the weights need {} bytes in f32: 16-bit dtypes need half of it",
                  4 * values));
}

TEST(DeviceCalls, AreSafeFromSeveralThreads) {
  Played played;
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  const RowBatch rows = make_rows(texts_of({50, 7, 31}), {.vocabulary = 50, .longest = kLongest}, false);
  const Tensor want = played.calls.run(rows, {});
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (int run = 0; run < 4; ++run) {
        const Tensor got = played.calls.run(rows, {});
        wrong[t] += std::memcmp(got.data(), want.data(), want.bytes()) != 0;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
  EXPECT_GE(played.calls.lanes(), 1u);
  EXPECT_LE(played.calls.lanes(), 4u);
}

}  // namespace
}  // namespace stof
