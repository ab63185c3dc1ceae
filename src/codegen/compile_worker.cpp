// SPDX-License-Identifier: Apache-2.0
#include "src/codegen/compile_worker.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <thread>

#include "src/codegen/embedded.h"
#include "src/codegen/nvrtc.h"

namespace stof {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t kLongestText = std::uint64_t{1} << 30;  // more is no message of ours
constexpr int kNice = 5;  // the process that waits may be measuring: it goes first

// False when the other end is gone.
bool send_all(int socket, const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(socket, from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    from += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool send_text(int socket, const std::string& text) {
  const std::uint64_t size = text.size();
  return send_all(socket, &size, sizeof size) && send_all(socket, text.data(), text.size());
}

enum class Received : std::uint8_t { whole, gone, late };

Received receive_all(int socket, void* data, std::size_t bytes, Clock::time_point until) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    pollfd ready{.fd = socket, .events = POLLIN, .revents = 0};
    const double left = std::chrono::duration<double, std::milli>(until - Clock::now()).count();
    const int answer = poll(&ready, 1, static_cast<int>(std::clamp(std::ceil(left), 0.0, 1e9)));
    if (answer < 0 && errno == EINTR) continue;
    if (answer == 0) return Received::late;
    const ssize_t got = recv(socket, to, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Received::gone;
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return Received::whole;
}

Received receive_text(int socket, std::string& text, Clock::time_point until) {
  std::uint64_t size = 0;
  if (const Received got = receive_all(socket, &size, sizeof size, until); got != Received::whole) return got;
  if (size > kLongestText) return Received::gone;
  text.resize(size);
  return receive_all(socket, text.data(), size, until);
}

class SpawnActions {
 public:
  explicit SpawnActions(int socket) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, socket, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, STDERR_FILENO, STDOUT_FILENO);  // data of others is not its to write
  }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

pid_t start(const WorkerProgram& program, int socket) {
  std::vector<std::string> words{program.program.string()};
  words.insert(words.end(), program.arguments.begin(), program.arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const SpawnActions actions(socket);
  pid_t process = 0;
  if (const int error =
          posix_spawn(&process, program.program.c_str(), actions.get(), nullptr, pointers.data(), environ);
      error != 0)
    fail(ErrorKind::device, "cannot start '{}' to compile: {}", program.program.string(), std::strerror(error));
  return process;
}

std::string fate_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("ended with code {}", WEXITSTATUS(status));
}

}  // namespace

CompileWorker::CompileWorker(const WorkerProgram& program) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    fail(ErrorKind::device, "cannot start '{}' to compile: {}", program.program.string(), std::strerror(errno));
  socket_ = ends[0];
  try {
    process_ = start(program, ends[1]);
  } catch (...) {
    close(ends[0]);
    close(ends[1]);
    throw;
  }
  close(ends[1]);
}

CompileWorker::~CompileWorker() {
  close(socket_);
  if (process_ == 0) return;
  kill(process_, SIGKILL);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void CompileWorker::interrupt() const { shutdown(socket_, SHUT_RDWR); }

CompileOutcome CompileWorker::compile(const CompileJob& job, std::chrono::duration<double> limit) {
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
  if (!send_text(socket_, job.source) || !send_text(socket_, job.target)) return lost("gone");
  std::string kind, text;
  Received got = receive_text(socket_, kind, until);
  if (got == Received::whole) got = receive_text(socket_, text, until);
  if (got == Received::late) return lost(fmt::format("without an answer after {:g} s", limit.count()));
  if (got == Received::gone || kind.size() != 1) return lost("gone");
  if (kind[0] == '+') return {.cubin = std::move(text)};
  return {
      .cubin = {}, .error = kind[0] == 'u' ? ErrorKind::unsupported : ErrorKind::device, .message = std::move(text)};
}

CompileOutcome CompileWorker::lost(const std::string& after) {
  if (after != "gone") return {.cubin = {}, .message = "the process that compiled it was " + after, .lost = true};
  int status = 0;
  pid_t ended = 0;
  kill(process_, SIGKILL);  // of no effect where it has ended, as it has unless it closed its socket
  while ((ended = waitpid(process_, &status, 0)) < 0 && errno == EINTR) {
  }
  process_ = 0;
  return {.cubin = {},
          .message = "the process that compiled it " + (ended > 0 ? fate_of(status) : std::string("is gone")),
          .lost = true,
          .ended = true};
}

void serve_compiles(const std::filesystem::path& nvrtc) {
  // NVRTC may be at work for long when the other process ends.
  std::thread([] {
    pollfd other{.fd = STDIN_FILENO, .events = POLLRDHUP, .revents = 0};
    while (poll(&other, 1, -1) < 0 && errno == EINTR) {
    }
    _exit(0);
  }).detach();
  if (nice(kNice) == -1) errno = 0;  // not nicer, then
  std::optional<Nvrtc> compiler;
  for (;;) {
    CompileRequest request{.source = {}, .target = {}, .headers = kernel_headers()};
    const auto until = Clock::time_point::max();
    if (receive_text(STDIN_FILENO, request.source, until) != Received::whole ||
        receive_text(STDIN_FILENO, request.target, until) != Received::whole)
      _exit(0);
    std::string kind = "+", text;
    try {
      if (!compiler) compiler.emplace(nvrtc);
      text = compiler->compile(request);
    } catch (const Error& error) {
      kind = error.kind() == ErrorKind::unsupported ? "u" : "d";
      text = error.what();
    }
    if (!send_text(STDIN_FILENO, kind) || !send_text(STDIN_FILENO, text)) _exit(0);
  }
}

}  // namespace stof
