// SPDX-License-Identifier: Apache-2.0
// Whose memory a plan's launches write, and how long it stays: by streams, and by graphs. The driver is one that has no
// GPU (tests/capi/fake_driver.c).
#include "src/backend/cuda/attention/workspace.h"

#include <gtest/gtest.h>

extern "C" {
#include "tests/capi/fake_driver.h"
}

namespace stof::cuda {
namespace {

class WorkspacePoolTest : public testing::Test {
 protected:
  // Of a run, or of a graph's recording, on the stream of a handle.
  Workspace* run(int handle) { return pool_.of(stream(handle)).get(); }
  Workspace* record(int handle, WorkspacePool::HeldByGraph* held) {
    fake_record(&handles_[handle]);
    Workspace* const used = pool_.of(stream(handle), held).get();
    fake_record(nullptr);
    return used;
  }
  StreamHandle stream(int handle) { return reinterpret_cast<StreamHandle>(&handles_[handle]); }
  long more() const { return fake_held() - before_; }  // pieces of memory than before there was the pool

  long before_ = fake_held();
  int handles_[3] = {};
  WorkspacePool pool_{gpu(0), {.partials = 64, .arrivals = 4}};
};

TEST_F(WorkspacePoolTest, IsForEachStreamThatRuns) {
  EXPECT_EQ(more(), 1);
  Workspace* const first = run(0);
  EXPECT_EQ(run(0), first);
  EXPECT_EQ(more(), 1);
  EXPECT_NE(run(1), first);
  EXPECT_EQ(more(), 2);
  fake_new_streams();
  run(0), run(1);
  EXPECT_EQ(more(), 2);
}

// A stream that has run and recorded, and is no more, leaves nothing behind when its graphs are gone: whether or not
// another stream gets its handle.
TEST_F(WorkspacePoolTest, GoesWithTheGraphsThatHoldIt) {
  Workspace* const used = run(0);
  WorkspacePool::HeldByGraph first, second;
  EXPECT_EQ(record(0, &first), used);
  EXPECT_EQ(record(0, &first), used);  // of another layer
  EXPECT_EQ(record(0, &second), used);
  EXPECT_EQ(run(0), used);  // beside the graphs
  EXPECT_EQ(first.size(), 1U);
  EXPECT_EQ(second, first);
  EXPECT_EQ(more(), 1);
  first.clear();
  EXPECT_EQ(more(), 1);
  second.clear();
  EXPECT_EQ(more(), 0);
  run(0);
  EXPECT_EQ(more(), 1);
}

TEST_F(WorkspacePoolTest, StaysForGraphsWhenTheirStreamIsNoMore) {
  run(0);
  WorkspacePool::HeldByGraph held;
  record(0, &held);
  fake_new_streams();
  run(0);  // another stream
  EXPECT_EQ(more(), 2);
  held.clear();
  EXPECT_EQ(more(), 1);
}

// Before the stream has run.
TEST_F(WorkspacePoolTest, IsMadeWhileAGraphIsRecorded) {
  run(1);
  WorkspacePool::HeldByGraph held;
  Workspace* const used = record(0, &held);
  EXPECT_EQ(record(0, &held), used);
  EXPECT_EQ(more(), 2);
  held.clear();
  EXPECT_EQ(more(), 1);
}

TEST_F(WorkspacePoolTest, StaysForGraphsThatHoldNothing) {
  run(0);
  WorkspacePool::HeldByGraph held;
  Workspace* const used = record(0, &held);
  EXPECT_EQ(record(0, nullptr), used);
  EXPECT_EQ(record(0, &held), used);
  held.clear();
  fake_new_streams();
  EXPECT_NE(run(0), used);
  EXPECT_EQ(more(), 2);
}

// What calls say of themselves.
TEST_F(WorkspacePoolTest, IsTheCallersWhereItHasOne) {
  WorkspacePool::HeldByGraph held;
  stof::AttentionCall call{};
  call.stream = &handles_[0], call.held = &held;
  Workspace* used = nullptr;
  fake_record(&handles_[0]);
  with_workspace(pool_, call, [&](Workspace& workspace) { used = &workspace; });
  fake_record(nullptr);
  ASSERT_EQ(held.size(), 1U);
  EXPECT_EQ(held.front().get(), used);
  const DeviceMemory own(gpu(0), pool_.size().bytes());
  call.workspace = own.as<void>();
  with_workspace(pool_, call, [&](Workspace& workspace) { EXPECT_EQ(workspace.partials, own.as<float>()); });
  EXPECT_EQ(held.size(), 1U);
}

}  // namespace
}  // namespace stof::cuda
