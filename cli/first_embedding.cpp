// SPDX-License-Identifier: Apache-2.0
#include "cli/first_embedding.h"

#include <omp.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "cli/json_output.h"
#include "cli/short_spins.h"
#include "src/base/error.h"
#include "src/base/stopwatch.h"
#include "src/codegen/compiler.h"

namespace stof::cli {
namespace {

constexpr int kRuns = 5;

// In memory, without a name: what a child reads as its stdin, or writes as its stdout or stderr.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view contents = {}) : descriptor_(memfd_create("stof", MFD_CLOEXEC)) {
    if (descriptor_ < 0) refuse_system();
    while (!contents.empty()) {
      const ssize_t bytes = write(descriptor_, contents.data(), contents.size());
      if (bytes > 0) contents.remove_prefix(static_cast<std::size_t>(bytes));
      else if (errno != EINTR) refuse_system();
    }
    lseek(descriptor_, 0, SEEK_SET);
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int descriptor() const { return descriptor_; }
  std::string contents() const {
    std::string all;
    char part[4096];
    lseek(descriptor_, 0, SEEK_SET);
    for (ssize_t bytes = 0; (bytes = read(descriptor_, part, sizeof part)) != 0;) {
      if (bytes > 0) all.append(part, static_cast<std::size_t>(bytes));
      else if (errno != EINTR) refuse_system();
    }
    return all;
  }

 private:
  [[noreturn]] static void refuse_system() {
    fail(ErrorKind::device, "cannot exchange texts with another process: {}", std::strerror(errno));
  }
  int descriptor_;
};

struct Standard {
  MemoryFile in, out, error;
};

class StandardActions {
 public:
  explicit StandardActions(const Standard& files) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, files.in.descriptor(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, files.out.descriptor(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, files.error.descriptor(), STDERR_FILENO);
  }
  ~StandardActions() { posix_spawn_file_actions_destroy(&actions_); }
  StandardActions(const StandardActions&) = delete;
  StandardActions& operator=(const StandardActions&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

// As cli/main.cpp gives exit codes to them.
ErrorKind kind_of(int exit_code) {
  switch (exit_code) {
    case 2: return ErrorKind::bad_file;
    case 3: return ErrorKind::unsupported;
    case 4: return ErrorKind::device;
    default: return ErrorKind::internal;
  }
}

void check_ended_well(int status, std::string said) {
  if (status == 0) return;
  while (said.ends_with('\n')) said.pop_back();
  const std::string what = "'stof run' of the sentence of median length";
  if (WIFSIGNALED(status))
    fail(ErrorKind::device, "{} was ended by signal {} ({}): {}", what, WTERMSIG(status), strsignal(WTERMSIG(status)),
         said);
  fail(kind_of(WEXITSTATUS(status)), "{} ended with exit code {}:\n{}", what, WEXITSTATUS(status), said);
}

FirstEmbedding run_once(std::vector<std::string> arguments, const std::string& text) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const Standard files{.in = MemoryFile(text + "\r\n"), .out = MemoryFile(), .error = MemoryFile()};
  const StandardActions actions(files);
  const Stopwatch watch;
  pid_t child = 0;
  if (const int error = posix_spawn(&child, "/proc/self/exe", actions.get(), nullptr, pointers.data(), environ);
      error != 0)
    fail(ErrorKind::device, "cannot start this program again: {}", std::strerror(error));
  int status = 0;
  rusage usage{};
  while (wait4(child, &status, 0, &usage) != child)
    if (errno != EINTR) fail(ErrorKind::device, "cannot wait for another process: {}", std::strerror(errno));
  const double seconds = watch.seconds();
  check_ended_well(status, files.error.contents());
  const Json took = Json::parse(files.out.contents());
  return {.seconds = seconds,
          .megabytes = static_cast<double>(usage.ru_maxrss) * 1024e-6,
          .measured = took.at("measured").get<int>(),
          .compiled = took.at("compiled").get<int>()};
}

}  // namespace

FirstEmbedding first_embedding(const FirstCall& call) {
  forget_spins();  // this program's threads have read it long ago; the one that is timed has to start as for a user
  const std::string threads = std::to_string(omp_get_max_threads());
  const std::string jit = machine_compiler().missing_elsewhere().empty() ? "on" : "off";
  FirstEmbedding best{.seconds = 1e30, .megabytes = 0};
  for (int run = 0; run < kRuns; ++run) {
    const FirstEmbedding one =
        run_once({"stof", "run", "--model", call.model, "--input", "-", "--dtype", call.dtype, "--device", call.device,
                  "--threads", threads, "--jit", jit, "--out", "/dev/null", "--json", "-"},
                 call.text);
    best.seconds = std::min(best.seconds, one.seconds);
    best.megabytes = std::max(best.megabytes, one.megabytes);
    best.measured = one.measured, best.compiled = one.compiled;
  }
  return best;
}

}  // namespace stof::cli
