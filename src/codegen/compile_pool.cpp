// SPDX-License-Identifier: Apache-2.0
#include "src/codegen/compile_pool.h"

#include <algorithm>

namespace stof {
namespace {

constexpr int kAttempts = 2;  // a process may have died of something else, as of too little memory

}  // namespace

CompilePool::CompilePool(PoolOptions options) : options_(std::move(options)) {
  STOF_CHECK(options_.workers >= 1);
  workers_.resize(static_cast<std::size_t>(options_.workers));
  able_ = options_.workers;
  for (std::size_t index = 0; index < workers_.size(); ++index) threads_.emplace_back([this, index] { work(index); });
}

CompilePool::~CompilePool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& worker : workers_)
      if (worker) worker->interrupt();
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void CompilePool::add(const CompileJob& job) {
  const std::lock_guard lock(mutex_);
  if (!kernels_.try_emplace(job).second) return;
  queue_.push_back(job);
  work_.notify_one();
}

std::optional<std::string> CompilePool::take(const CompileJob& job) {
  std::unique_lock lock(mutex_);
  const auto [place, is_new] = kernels_.try_emplace(job);
  Kernel& kernel = place->second;
  if (kernel.state == State::waiting) {
    if (!is_new) std::erase(queue_, job);
    queue_.push_front(job);
    work_.notify_one();
  }
  done_.wait(lock, [&] { return kernel.state == State::done || able_ == 0; });
  if (kernel.state != State::done) return std::nullopt;
  if (kernel.outcome.lost) fail(ErrorKind::device, "{} is not compiled: {}", job.name, kernel.outcome.message);
  if (kernel.outcome.error) fail(*kernel.outcome.error, "{}", kernel.outcome.message);
  return kernel.outcome.cubin;
}

void CompilePool::wait() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return able_ == 0 || (queue_.empty() && busy_ == 0); });
}

int CompilePool::made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

std::vector<pid_t> CompilePool::processes() const {
  const std::lock_guard lock(mutex_);
  std::vector<pid_t> processes;
  for (const auto& worker : workers_)
    if (worker) processes.push_back(worker->process());
  return processes;
}

std::optional<CompileJob> CompilePool::next() {
  std::unique_lock lock(mutex_);
  work_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
  if (stopping_) return std::nullopt;
  CompileJob job = std::move(queue_.front());
  queue_.pop_front();
  kernels_.at(job).state = State::running;
  ++busy_;
  return job;
}

CompileOutcome CompilePool::attempt(std::size_t index, const CompileJob& job) {
  std::unique_ptr<CompileWorker>& mine = workers_[index];
  if (!mine) {
    auto started = std::make_unique<CompileWorker>(options_.worker);
    const std::lock_guard lock(mutex_);
    mine = std::move(started);
    if (stopping_) mine->interrupt();
  }
  CompileOutcome outcome = mine->compile(job, std::chrono::duration<double>(options_.seconds_a_kernel));
  if (outcome.lost) {
    const std::lock_guard lock(mutex_);
    mine.reset();
  }
  return outcome;
}

void CompilePool::finish(const CompileJob& job, CompileOutcome outcome) {
  const bool is_made = !outcome.lost && !outcome.error;
  if (is_made && options_.made) options_.made(job, outcome.cubin);
  const std::lock_guard lock(mutex_);
  --busy_;
  made_ += is_made ? 1 : 0;
  kernels_.at(job) = {State::done, std::move(outcome)};
  done_.notify_all();
}

// For others to do.
void CompilePool::give_up(const CompileJob& job, const Error& error) {
  const std::lock_guard lock(mutex_);
  --busy_;
  kernels_.at(job).state = State::waiting;
  queue_.push_front(job);
  if (--able_ == 0 && options_.log) options_.log(fmt::format("{}; kernels are compiled one at a time", error.what()));
  work_.notify_one();
  done_.notify_all();
}

void CompilePool::work(std::size_t index) {
  while (const std::optional<CompileJob> job = next()) {
    try {
      CompileOutcome outcome = attempt(index, *job);
      for (int tries = 1; outcome.ended && tries < kAttempts; ++tries) {
        {
          const std::lock_guard lock(mutex_);
          if (stopping_) break;
          if (options_.log) options_.log(fmt::format("{}: {}; it is compiled again", job->name, outcome.message));
        }
        outcome = attempt(index, *job);
      }
      finish(*job, std::move(outcome));
    } catch (const Error& error) {
      return give_up(*job, error);
    }
  }
}

}  // namespace stof
