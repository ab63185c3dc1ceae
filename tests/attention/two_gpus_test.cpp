// SPDX-License-Identifier: Apache-2.0
// A machine with several GPUs: a plan of one takes its own memory, and names whatever is another's.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/backend/contract.h"
#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

class OnTwoGpus : public testing::Test {
 protected:
  void SetUp() override {
    STOF_SKIP_WITHOUT("cuda");
    try {
      second = open_device("cuda:1");
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    first = open_device("cuda:0");
  }

  static Problem problem(std::int64_t queries, std::int64_t page_size) {
    return Problem({.shape = {.batch = 2,
                              .heads = 4,
                              .kv_heads = 2,
                              .queries = queries,
                              .keys = 150,
                              .head_dim = 64,
                              .dtype = DType::f16},
                    .q_lengths = {},
                    .kv_lengths = {},
                    .page_size = page_size},
                   4);
  }

  Device first, second;
};

using Member = TensorView AttentionArguments::*;
struct Argument {
  const char* name;
  Member member;
};
constexpr Argument kTensors[] = {{"q", &AttentionArguments::q},
                                 {"k", &AttentionArguments::k},
                                 {"v", &AttentionArguments::v},
                                 {"out", &AttentionArguments::out}};

std::string message(const char* name) {
  return fmt::format("attention: {} is memory of cuda:1; this plan runs on cuda:0", name);
}

TEST_F(OnTwoGpus, EachRunsOnItsOwnMemory) {
  for (const Device* const device : {&first, &second, &first}) {
    const Problem its = problem(150, 0);
    run_on(*device, Attention(causal(), its.what().shape, *device), its);
    EXPECT_EQ(difference_from_definition(its, causal()), "") << device->ordinal;
  }
}

TEST_F(OnTwoGpus, TensorsOfTheOtherAreNamed) {
  for (const AttentionKernel& kernel : first.backend->attention) {
    const Problem its = problem(3, 0);
    const DeviceArguments here(its.arguments(), first), there(its.arguments(), second);
    try {
      const Attention attention(causal(), its.what().shape, first, {.kernel = std::string(kernel.name)});
      for (const Argument& argument : kTensors) {
        AttentionArguments mixed = here.arguments();
        mixed.*argument.member = there.arguments().*argument.member;
        EXPECT_ERROR(attention.run(mixed), ErrorKind::invalid_argument, message(argument.name));
      }
      AttentionArguments mixed = here.arguments();
      mixed.lse = there.arguments().lse;
      EXPECT_ERROR(attention.run(mixed), ErrorKind::invalid_argument, message("lse"));
      attention.run(here.arguments());
    } catch (const Error& refused) {
      EXPECT_EQ(refused.kind(), ErrorKind::unsupported) << kernel.name << ": " << refused.what();
    }
  }
}

TEST_F(OnTwoGpus, PagesOfTheOtherAreNamed) {
  const Problem its = problem(1, 32);
  const DeviceArguments here(its.arguments(), first), there(its.arguments(), second);
  const Attention attention(all(), its.what().shape, first, {.kernel = "decode_attention"});
  AttentionArguments mixed = here.arguments();
  mixed.page_table = there.arguments().page_table;
  EXPECT_ERROR(attention.run(mixed), ErrorKind::invalid_argument, message("page_table"));
}

}  // namespace
}  // namespace stof
