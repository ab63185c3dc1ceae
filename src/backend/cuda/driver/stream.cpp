// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/driver/stream.h"

namespace stof::cuda {
namespace {

// For destructors: what cannot be destroyed is left, the next checked call reports why.
template <class Handle>
void destroy(const Gpu& gpu, const Entry<Handle>& entry, Handle handle) noexcept {
  ContextHandle popped = nullptr;
  if (handle == nullptr || driver().push_context.attempt(gpu.context) != kSuccess) return;
  entry.attempt(handle);
  driver().pop_context.attempt(&popped);
}

}  // namespace

Stream::Stream(const Gpu& gpu) : gpu_(&gpu) {
  const CurrentGpu current(gpu);
  driver().create_stream(&handle_, kStreamNonBlocking);
}

Stream::~Stream() { destroy(*gpu_, driver().destroy_stream, handle_); }

void Stream::synchronize() const {
  const CurrentGpu current(*gpu_);
  driver().synchronize_stream(handle_);
}

Event::Event(const Gpu& gpu) : gpu_(&gpu) {
  const CurrentGpu current(gpu);
  driver().create_event(&handle_, 0);
}

Event::~Event() { destroy(*gpu_, driver().destroy_event, handle_); }

void Event::record(StreamHandle stream) const {
  const CurrentGpu current(*gpu_);
  driver().record_event(handle_, stream);
}

float Event::microseconds_since(const Event& earlier) const {
  const CurrentGpu current(*gpu_);
  float milliseconds = 0;
  driver().synchronize_event(handle_);
  driver().elapsed(&milliseconds, earlier.handle_, handle_);
  return milliseconds * 1e3f;
}

CapturedGraph::CapturedGraph(const Gpu& gpu, const std::function<void(StreamHandle)>& work) : gpu_(&gpu) {
  const Stream stream(gpu);
  capture(stream.handle(), [&] { work(stream.handle()); });
}

CapturedGraph::CapturedGraph(const Gpu& gpu, StreamHandle stream, const std::function<void()>& work) : gpu_(&gpu) {
  capture(stream, work);
}

void CapturedGraph::capture(StreamHandle stream, const std::function<void()>& work) {
  const CurrentGpu current(*gpu_);
  GraphHandle graph = nullptr;
  driver().begin_capture(stream, kCaptureThreadLocal);
  try {
    work();
  } catch (...) {
    if (driver().end_capture.attempt(stream, &graph) == kSuccess) driver().destroy_graph.attempt(graph);
    throw;
  }
  driver().end_capture(stream, &graph);
  const Status status = driver().instantiate.attempt(&run_, graph, 0);
  driver().destroy_graph.attempt(graph);
  if (status != kSuccess) fail_call(driver().instantiate.name(), status);
}

CapturedGraph::~CapturedGraph() { destroy(*gpu_, driver().destroy_graph_run, run_); }

void CapturedGraph::launch(StreamHandle stream) const {
  const CurrentGpu current(*gpu_);
  driver().launch_graph(run_, stream);
}

}  // namespace stof::cuda
