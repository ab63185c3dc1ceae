// SPDX-License-Identifier: Apache-2.0
// Streams, events and captured graphs, owned. Functions take a StreamHandle: the caller's, which they only borrow.
#pragma once
#include <functional>

#include "src/backend/cuda/driver/gpu.h"

namespace stof::cuda {

class Stream {
 public:
  explicit Stream(const Gpu& gpu);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  StreamHandle handle() const { return handle_; }
  void synchronize() const;

 private:
  const Gpu* gpu_;
  StreamHandle handle_ = nullptr;
};

class Event {
 public:
  explicit Event(const Gpu& gpu);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(StreamHandle stream) const;
  float microseconds_since(const Event& earlier) const;  // waits for both

 private:
  const Gpu* gpu_;
  EventHandle handle_ = nullptr;
};

// What `work` puts on the stream, recorded once and launched as often as wanted.
class CapturedGraph {
 public:
  CapturedGraph(const Gpu& gpu, const std::function<void(StreamHandle)>& work);
  // What it puts on this stream, on which nothing else is put meanwhile.
  CapturedGraph(const Gpu& gpu, StreamHandle stream, const std::function<void()>& work);
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  void launch(StreamHandle stream) const;

 private:
  void capture(StreamHandle stream, const std::function<void()>& work);

  const Gpu* gpu_;
  GraphRunHandle run_ = nullptr;
};

}  // namespace stof::cuda
