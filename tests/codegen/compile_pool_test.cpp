// SPDX-License-Identifier: Apache-2.0
// Compiling in processes beside this one: what they make, and what becomes of those that die, hang or cannot be
// started. Programs that are no compilers stand in for those that fail.
#include "src/codegen/compile_pool.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "src/codegen/compiler.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

CompileJob job(int number) {
  return {.name = fmt::format("kernel_{}", number),
          .source = fmt::format("extern \"C\" __global__ void k{}(float* x) {{ x[0] = {}; }}\n", number, number),
          .target = "sm_90a"};
}

class CompilePoolTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::mutex mutex_;
  std::vector<std::string> said_;
  Log log_ = [this](std::string_view message) {
    const std::lock_guard lock(mutex_);
    said_.emplace_back(message);
  };

  PoolOptions of_shell(const std::string& script) {
    return {.worker = {.program = "/bin/sh", .arguments = {"-c", script}}, .log = log_};
  }
};

class RealCompilePoolTest : public CompilePoolTest {
 protected:
  void SetUp() override {
    if (find_nvrtc() != nullptr) return;
    ASSERT_FALSE(STOF_CUDA_BUILD) << "NVRTC is in none of the places where it is looked for";
    GTEST_SKIP() << "no NVRTC on this machine; `make cuda` fetches one";
  }
  CompileBeside beside(int workers) {
    return {.worker = {.program = STOF_PROGRAM, .arguments = {"compile-worker"}}, .workers = workers, .log = log_};
  }
  CompilerOptions options() { return {.cache = {.folder = folder_.path(), .log = log_}, .nvrtc = find_nvrtc()}; }
  std::vector<CompileJob> jobs_{job(1), job(2), job(3), job(4), job(5)};
};

TEST_F(RealCompilePoolTest, MakesWhatThisProcessWouldMakeAndAWarmStartCompilesNothing) {
  {
    Compiler first(options());
    first.begin_beside(jobs_, beside(2));
    for (const CompileJob& wanted : jobs_) {
      const std::string alone =
          find_nvrtc()->compile({.source = wanted.source, .target = wanted.target, .headers = kernel_headers()});
      EXPECT_EQ(first.cubin(wanted), alone) << wanted.name;
    }
    first.cubin(job(6));  // that nobody has announced
    first.end_beside();
    EXPECT_EQ(first.compiled(), 6);
  }
  Compiler warm(options());
  warm.begin_beside(jobs_, beside(2));
  warm.wait_beside();
  for (const CompileJob& wanted : jobs_) warm.cubin(wanted);
  EXPECT_EQ(warm.compiled(), 0);
  EXPECT_TRUE(said_.empty());
}

TEST_F(RealCompilePoolTest, SaysWhatTheCompilerSays) {
  CompilePool pool({.worker = {.program = STOF_PROGRAM, .arguments = {"compile-worker", find_nvrtc()->path()}}});
  try {
    pool.take({.name = "bad", .source = "__global__ void f() { mistake(); }\n", .target = "sm_90a"});
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("identifier \"mistake\" is undefined"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(pool.take(job(1)));  // by the same process
  EXPECT_EQ(pool.made(), 1);
}

TEST_F(RealCompilePoolTest, AProcessThatDiesOnceCostsNothingButTime) {
  const std::string once = (folder_.path() / "once").string();
  CompilePool pool(of_shell(fmt::format("mkdir '{}' 2>/dev/null && kill -9 $$; exec '{}' compile-worker '{}'", once,
                                        STOF_PROGRAM, find_nvrtc()->path().string())));
  EXPECT_EQ(pool.take(job(1))->substr(0, 4), "\177ELF");
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(said_[0], "kernel_1: the process that compiled it ended by signal 9 (Killed); it is compiled again");
}

TEST_F(RealCompilePoolTest, WhereNoProcessCanBeStartedThisOneCompiles) {
  Compiler alone(options());
  alone.begin_beside(jobs_, {.worker = {.program = "/no/such/program", .arguments = {}}, .workers = 2, .log = log_});
  alone.wait_beside();
  EXPECT_EQ(alone.cubin(jobs_[0]).substr(0, 4), "\177ELF");
  EXPECT_EQ(alone.compiled(), 1);
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(
      said_[0],
      "cannot start '/no/such/program' to compile: No such file or directory; kernels are compiled one at a time");
}

// What cannot be kept is used all the same, and that is said once.
TEST_F(RealCompilePoolTest, WithoutACacheThatCanBeWrittenKernelsAreUsed) {
  const std::filesystem::path file = folder_.path() / "file";
  write_bytes(file, "x");
  Compiler unkept({.cache = {.folder = file / "kernels", .log = {}}, .nvrtc = find_nvrtc()});
  unkept.begin_beside(jobs_, beside(1));
  for (const CompileJob& wanted : jobs_) EXPECT_EQ(unkept.cubin(wanted).substr(0, 4), "\177ELF");
  EXPECT_EQ(unkept.compiled(), 5);
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(said_[0], fmt::format("kernel cache: cannot make folder '{}': Not a directory; the kernel is used and not "
                                  "kept",
                                  (file / "kernels").string()));
}

TEST_F(CompilePoolTest, AProcessThatDiesEveryTimeFailsItsKernelByName) {
  CompilePool pool(of_shell("exit 3"));
  EXPECT_ERROR(pool.take(job(1)), ErrorKind::device,
               "kernel_1 is not compiled: the process that compiled it ended with code 3");
  EXPECT_EQ(said_,
            std::vector<std::string>{"kernel_1: the process that compiled it ended with code 3; it is compiled again"});
  EXPECT_ERROR(pool.take(job(1)), ErrorKind::device,  // and is not tried a third time
               "kernel_1 is not compiled: the process that compiled it ended with code 3");
  EXPECT_EQ(said_.size(), 1U);
}

TEST_F(CompilePoolTest, AProcessThatHangsFailsItsKernelByName) {
  PoolOptions options = of_shell("exec sleep 1000");
  options.seconds_a_kernel = 0.05;
  CompilePool pool(options);
  EXPECT_ERROR(pool.take(job(1)), ErrorKind::device,
               "kernel_1 is not compiled: the process that compiled it was without an answer after 0.05 s");
  EXPECT_EQ(pool.made(), 0);
}

TEST_F(CompilePoolTest, EndsWhatHangsWhenItEnds) {
  std::vector<pid_t> processes;
  {
    PoolOptions options = of_shell("exec sleep 1000");
    options.workers = 3;
    CompilePool pool(options);
    for (int i = 0; i < 5; ++i) pool.add(job(i));
    while (processes.size() < 3) processes = pool.processes();
  }
  for (const pid_t process : processes) EXPECT_EQ(kill(process, 0), -1) << process;
}

TEST_F(CompilePoolTest, AnAnswerThatIsNoneCountsAsADeath) {
  CompilePool pool(of_shell("exec printf 'this is no message of a compiler' >&0"));
  try {
    pool.take(job(1));
    FAIL() << "taken for a kernel";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("kernel_1 is not compiled: the process that compiled it ended "))
        << error.what();
  }
}

}  // namespace
}  // namespace stof
