// SPDX-License-Identifier: Apache-2.0
// That this program's kernels have the form for racecheck: also those that the library has as no unit.
#include <gtest/gtest.h>

#include "src/backend/cuda/attention/instances.h"
#include "src/codegen/embedded.h"
#include "src/codegen/source_closure.h"

namespace stof::cuda {
namespace {

bool has_form(std::string_view source) {
  const std::string whole = source_closure(source, kernel_headers());
  const std::size_t asked = whole.find("#ifdef STOF_RACECHECK");
  return asked != std::string::npos && whole.find("#define STOF_RACECHECK") < asked;
}

TEST(RacecheckForm, IsThatOfEveryStreamUnitAndOfEveryForm) {
  int units = 0;
  for (const EmbeddedFile& unit : kernel_sources()) {
    if (!unit.name.starts_with("stream_")) continue;
    EXPECT_TRUE(has_form(unit.bytes)) << unit.name;
    ++units;
  }
  EXPECT_EQ(units, 2 * std::ssize(stream_instances()));
  for (const StreamInstance& i : stream_instances())
    for (const StreamForm form : {StreamForm::capped, StreamForm::biased})
      EXPECT_TRUE(has_form(source_of(i, DType::f16, form))) << name_of(i, DType::f16, form);
}

TEST(RacecheckForm, IsWhatNoCompiledKernelTakesThePlaceOf) { EXPECT_TRUE(kernel_binaries().empty()); }

}  // namespace
}  // namespace stof::cuda
