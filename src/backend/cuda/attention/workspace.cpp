// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/workspace.h"

#include <algorithm>

#include "src/backend/cuda/driver/stream.h"

namespace stof::cuda {
WorkspaceSize larger_of(const WorkspaceSize& a, const WorkspaceSize& b) {
  return {.partials = std::max(a.partials, b.partials),
          .arrivals = std::max(a.arrivals, b.arrivals),
          .queue = std::max(a.queue, b.queue),
          .numbers = std::max(a.numbers, b.numbers),
          .lse = std::max(a.lse, b.lse),
          .list = std::max(a.list, b.list)};
}

Workspace::Workspace(const Gpu& gpu, const WorkspaceSize& size) : memory_(gpu, size.bytes()) {
  place(memory_.as<void>(), size);
  const Stream stream(gpu);
  const CurrentGpu current(gpu);
  driver().fill(memory_.address(), 0, memory_.bytes(), stream.handle());
  driver().synchronize_stream(stream.handle());
}

Workspace::Workspace(void* borrowed, const WorkspaceSize& size, StreamHandle stream) {
  place(borrowed, size);
  if (size.counters() == 0) return;
  driver().fill(reinterpret_cast<DevicePointer>(arrivals), 0, sizeof(int) * size.counters(), stream);
}

void Workspace::place(void* memory, const WorkspaceSize& size) {
  // Partial results come first: they are read and written 16 bytes at a time.
  partials = static_cast<float*>(memory);
  lse = partials + size.partials;
  numbers = reinterpret_cast<int*>(lse + size.lse);
  arrivals = numbers + size.numbers;
  queue = size.queue == 0 ? nullptr : arrivals + size.arrivals;
  list = size.list == 0 ? nullptr : arrivals + size.counters();
}

WorkspacePool::WorkspacePool(const Gpu& gpu, const WorkspaceSize& size)
    : gpu_(gpu), size_(size), spare_(std::make_shared<Workspace>(gpu, size)) {}

// The driver does not tell the number of a stream that records: it is the one that the stream had when it last ran, or
// one made up, from the other end.
WorkspacePool::Taken& WorkspacePool::place_of(StreamHandle stream, bool recording) {
  const auto per_thread = reinterpret_cast<StreamHandle>(std::uintptr_t{2});
  unsigned long long& number =
      numbers_[{stream, stream == per_thread ? std::this_thread::get_id() : std::thread::id()}];
  const unsigned long long before = number;
  if (!recording) driver().stream_id(stream, &number);
  else if (number == 0) number = --last_made_up_;
  if (before != 0 && number != before) forget(before);
  return taken_[number];
}

// A stream that is no more: its handle is another's. The driver frees memory when what it has begun is done.
void WorkspacePool::forget(unsigned long long number) {
  const auto found = taken_.find(number);
  if (found == taken_.end() || found->second.recorded) return;
  const CurrentGpu current(gpu_);
  const OutsideCapture outside;
  taken_.erase(found);
}

std::shared_ptr<Workspace> WorkspacePool::made() {
  if (spare_) return std::move(spare_);
  const CurrentGpu current(gpu_);
  const OutsideCapture outside;
  return std::make_shared<Workspace>(gpu_, size_);
}

std::shared_ptr<Workspace> WorkspacePool::of(StreamHandle stream, HeldByGraph* held) {
  const std::lock_guard lock(mutex_);
  int recording = 0;
  driver().is_capturing(stream, &recording);
  Taken& taken = place_of(stream, recording != 0);
  std::shared_ptr<Workspace> workspace = taken.workspace ? taken.workspace : taken.of_graphs.lock();
  if (!workspace) workspace = taken.workspace = made();
  if (recording == 0) return workspace;
  taken.recorded |= held == nullptr;
  if (held == nullptr) taken.workspace = workspace;
  else if (std::find(held->begin(), held->end(), workspace) == held->end()) held->push_back(workspace);
  if (!taken.recorded) taken.of_graphs = workspace, taken.workspace.reset();
  return workspace;
}

}  // namespace stof::cuda
