// SPDX-License-Identifier: Apache-2.0
#include "cli/first_embedding.h"

#include <omp.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "cli/demo.h"
#include "cli/short_spins.h"
#include "src/base/error.h"
#include "src/codegen/compiler.h"

namespace stof::cli {
namespace {

constexpr int kRuns = 5;

// Nothing that the child says is wanted.
class ClosedOutputs {
 public:
  ClosedOutputs() {
    posix_spawn_file_actions_init(&actions_);
    for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO})
      posix_spawn_file_actions_addclose(&actions_, descriptor);
  }
  ~ClosedOutputs() { posix_spawn_file_actions_destroy(&actions_); }
  ClosedOutputs(const ClosedOutputs&) = delete;
  ClosedOutputs& operator=(const ClosedOutputs&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

FirstEmbedding run_once(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const ClosedOutputs actions;
  const Stopwatch watch;
  pid_t child = 0;
  if (const int error = posix_spawn(&child, "/proc/self/exe", actions.get(), nullptr, pointers.data(), environ);
      error != 0)
    fail(ErrorKind::device, "cannot start this program again: {}", std::strerror(error));
  int status = 0;
  rusage usage{};
  if (wait4(child, &status, 0, &usage) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail(ErrorKind::device, "'stof run' with the same model failed, status {}", status);
  return {.seconds = watch.seconds(), .megabytes = static_cast<double>(usage.ru_maxrss) * 1024e-6};
}

}  // namespace

FirstEmbedding first_embedding(const FirstCall& call) {
  forget_spins();  // this program's threads have read it long ago; the one that is timed has to start as for a user
  const std::string threads = std::to_string(omp_get_max_threads());
  const std::string jit = machine_compiler().missing_elsewhere().empty() ? "on" : "off";
  FirstEmbedding best{.seconds = 1e30, .megabytes = 0};
  for (int run = 0; run < kRuns; ++run) {
    const FirstEmbedding one =
        run_once({"stof", "run", "--model", call.model, "--text", call.text, "--dtype", call.dtype, "--device",
                  call.device, "--threads", threads, "--jit", jit, "--out", "/dev/null"});
    best.seconds = std::min(best.seconds, one.seconds);
    best.megabytes = std::max(best.megabytes, one.megabytes);
  }
  return best;
}

}  // namespace stof::cli
