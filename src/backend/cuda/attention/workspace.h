// SPDX-License-Identifier: Apache-2.0
// Memory that launches write besides their results: one for each stream that a plan runs on, so that calls on different
// streams do not meet.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "src/backend/contract.h"
#include "src/backend/cuda/driver/device_memory.h"

namespace stof::cuda {

struct WorkspaceSize {
  std::size_t partials = 0;  // floats
  std::size_t arrivals = 0;  // ints
  std::size_t queue = 0;     // ints: kQueue, or none
  std::size_t numbers = 0;   // ints of the call: lengths and places of items
  std::size_t lse = 0;       // floats, of results that are added
  std::size_t list = 0;      // ints: of the row blocks that there are
  // What launches count in, and leave at 0: it must be 0 before the first one.
  std::size_t counters() const { return arrivals + queue; }
  std::size_t bytes() const { return sizeof(float) * (partials + lse) + sizeof(int) * (numbers + counters() + list); }
  static constexpr std::size_t kQueue = 2;
};

// With room for what either has room for.
WorkspaceSize larger_of(const WorkspaceSize& a, const WorkspaceSize& b);

struct Workspace {
  Workspace(const Gpu& gpu, const WorkspaceSize& size);
  // The caller's memory, size.bytes() of it, with whatever is in it: the counters are cleared on the stream. A launch
  // cannot begin beside the end of what precedes the clearing, so that runs without counters are spared it.
  Workspace(void* borrowed, const WorkspaceSize& size, StreamHandle stream);

  // Held from the first launch of a call to its last: calls from several threads on one stream must not interleave.
  std::mutex enqueuing;
  float *partials, *lse;
  int *arrivals, *numbers;
  int *queue, *list;  // null: none

 private:
  void place(void* memory, const WorkspaceSize& size);
  DeviceMemory memory_;
};

class WorkspacePool {
 public:
  // What holds together all that a graph reads (AttentionArguments::plans_used).
  using HeldByGraph = std::vector<std::shared_ptr<const void>>;

  // Makes one workspace, for the first stream that asks.
  WorkspacePool(const Gpu& gpu, const WorkspaceSize& size);
  // Allocates for a stream that is seen for the first time after the first one, also while it records a graph, and
  // frees what an earlier stream of its handle had, unless a graph has it. Of a stream that records, `held` takes it,
  // and it goes with the last graph that holds it; of graphs that hold nothing it stays as long as this. The GPU is
  // current.
  std::shared_ptr<Workspace> of(StreamHandle stream, HeldByGraph* held = nullptr);
  const WorkspaceSize& size() const { return size_; }

 private:
  struct Taken {
    std::shared_ptr<Workspace> workspace;
    std::weak_ptr<Workspace> of_graphs;  // that hold it: then nobody else does
    bool recorded = false;               // by a graph that holds nothing, and may run when the stream is no more
  };
  Taken& place_of(StreamHandle stream, bool recording);
  void forget(unsigned long long number);
  std::shared_ptr<Workspace> made();

  const Gpu& gpu_;
  WorkspaceSize size_;
  std::mutex mutex_;
  std::shared_ptr<Workspace> spare_;
  // By the stream's number: one handle, cudaStreamPerThread, is a stream of its own in each thread, and that of a
  // stream which is no more may become another's.
  std::map<unsigned long long, Taken> taken_;
  std::map<std::pair<StreamHandle, std::thread::id>, unsigned long long> numbers_;  // as last told, or made up
  unsigned long long last_made_up_ = 0;
};

// Calls use(workspace): the caller's memory, or that of the stream while no other call enqueues with it.
template <class Use>
void with_workspace(WorkspacePool& pool, const stof::AttentionCall& call, const Use& use) {
  const auto stream = static_cast<StreamHandle>(call.stream);
  if (call.workspace != nullptr) {
    Workspace workspace(call.workspace, pool.size(), stream);
    use(workspace);
    return;
  }
  const std::shared_ptr<Workspace> workspace = pool.of(stream, call.held);
  const std::lock_guard lock(workspace->enqueuing);
  use(*workspace);
}

}  // namespace stof::cuda
