// SPDX-License-Identifier: Apache-2.0
// A process that compiles kernels, one at a time, for the process that started it: NVRTC compiles one at a time in a
// process, and what it does to a process - a crash, a loop without end - it does to that one. They talk over a socket;
// when the process at its other end is gone, however it went, the worker ends at once.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"

namespace stof {

struct CompileJob {
  std::string name;    // for people: "gemm_f16_128x192_s4_w2_t1_p1_gelu_b1_r0_x0_n0_m0"
  std::string source;  // may include what kernel_headers() holds
  std::string target;  // "sm_90a"
  friend auto operator<=>(const CompileJob&, const CompileJob&) = default;
};

// A program that calls serve_compiles(). This library starts none that it was not told of: the program that it is
// part of may be anybody's.
struct WorkerProgram {
  std::filesystem::path program;
  std::vector<std::string> arguments;
};

struct CompileOutcome {
  std::string cubin = {};               // empty where there is an error
  std::optional<ErrorKind> error = {};  // what the compiler said
  std::string message = {};
  bool lost = false;   // no answer: `message` says what became of the process
  bool ended = false;  // lost, and it had ended by itself: another one may do better
};

class CompileWorker {
 public:
  // Throws device when the program cannot be started.
  explicit CompileWorker(const WorkerProgram& program);
  ~CompileWorker();  // ends the process, whatever it does
  CompileWorker(const CompileWorker&) = delete;
  CompileWorker& operator=(const CompileWorker&) = delete;

  // After a lost answer the worker is of no more use.
  CompileOutcome compile(const CompileJob& job, std::chrono::duration<double> limit);
  // From another thread: a compile() that waits comes back, lost.
  void interrupt() const;
  pid_t process() const { return process_; }

 private:
  CompileOutcome lost(const std::string& after);

  int socket_ = -1;
  std::atomic<pid_t> process_ = 0;  // 0: it has ended, and was waited for
};

// What the program of a worker does: answers, until the other end of the socket, standard input, is closed. `nvrtc` is
// the library of the process that asks.
[[noreturn]] void serve_compiles(const std::filesystem::path& nvrtc);

}  // namespace stof
