// SPDX-License-Identifier: Apache-2.0
// Kernels compiled by several processes beside each other, and beside the process that wants them: what is wanted now
// goes before what may be wanted later. A process that dies costs one attempt, one that hangs its kernel; nothing of
// that reaches the process that waits.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

#include "src/codegen/compile_worker.h"

namespace stof {

struct PoolOptions {
  WorkerProgram worker;
  int workers = 1;                                 // processes; each is started when there is work for it
  double seconds_a_kernel = 120;                   // after which a compiler counts as hung
  std::function<void(std::string_view)> log = {};  // called from several threads, one at a time
  // Every kernel that was compiled, whether anybody waits for it or not; from several threads.
  std::function<void(const CompileJob&, const std::string& cubin)> made = {};
};

class CompilePool {
 public:
  explicit CompilePool(PoolOptions options);
  ~CompilePool();  // ends the processes, whatever they do
  CompilePool(const CompilePool&) = delete;
  CompilePool& operator=(const CompilePool&) = delete;

  // Behind everything else; nothing where it is known.
  void add(const CompileJob& job);
  // Waits for it, before everything else that nobody has begun. Nothing where no process can be started. Throws
  // unsupported, with the compiler's log, where it does not compile; device where two processes died of it or one hung.
  std::optional<std::string> take(const CompileJob& job);
  // Until nothing is left to do.
  void wait();

  int made() const;  // kernels
  std::vector<pid_t> processes() const;

 private:
  enum class State : std::uint8_t { waiting, running, done };
  struct Kernel {
    State state = State::waiting;
    CompileOutcome outcome;
  };

  void work(std::size_t index);
  std::optional<CompileJob> next();
  CompileOutcome attempt(std::size_t index, const CompileJob& job);
  void finish(const CompileJob& job, CompileOutcome outcome);
  void give_up(const CompileJob& job, const Error& error);

  PoolOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable work_, done_;
  std::map<CompileJob, Kernel> kernels_;
  std::deque<CompileJob> queue_;
  std::vector<std::unique_ptr<CompileWorker>> workers_;
  std::vector<std::thread> threads_;
  int busy_ = 0, made_ = 0;
  int able_ = 0;  // threads that have a process or may start one
  bool stopping_ = false;
};

}  // namespace stof
