// SPDX-License-Identifier: Apache-2.0
// Settings of matmul as text and as a list for a problem: needs no device.
#include "src/backend/matmul_setting.h"

#include <gtest/gtest.h>

#include "src/backend/contract.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

TEST(MatmulSetting, IsReadBackFromItsText) {
  for (const char* text : {"cublaslt", "wgmma 128x192 k64 s4 w2 t1 split1", "wgmma 64x64 k64 s6 w1 t2 split8"}) {
    EXPECT_EQ(text_of(matmul_setting_of(text)), text);
  }
  EXPECT_EQ(matmul_setting_of("cublaslt"), MatmulSetting{});
  EXPECT_EQ(matmul_setting_of("wgmma 128x192 k64 s4 w2 t1 split5"),
            (MatmulSetting{.kernel = MatmulSetting::Kernel::wgmma,
                           .rows = 128,
                           .columns = 192,
                           .depth = 64,
                           .stages = 4,
                           .warpgroups = 2,
                           .teams = 1,
                           .split = 5}));
}

TEST(MatmulSetting, RefusesOtherText) {
  for (const char* text : {"", "cublas", "cublaslt ", "wgmma", "wgmma 128x192", "wgmma 128x192 k64 s4 w2 t1 split0",
                           "wgmma 128x192 k64 s4 w2 t1 split1 ", "wgmma 128x192 k64 s4 w2 t1 split-1",
                           "wgmma  128x192 k64 s4 w2 t1 split1", "wgmma 128x99999999999 k64 s4 w2 t1 split1"})
    EXPECT_ERROR(matmul_setting_of(text), ErrorKind::invalid_argument,
                 "matmul setting '" + std::string(text) +
                     "'; accepted: cublaslt, or one like 'wgmma 128x192 k64 s4 w2 t1 split1'");
}

// A problem of BERT-base; nothing looks at the weights themselves.
LinearSpec spec_on(const Device& device) {
  LinearSpec spec{.weight = {}, .bias = {}, .dtype = DType::f16, .device = &device};
  spec.weight.push_back(view_of(nullptr, DType::f16, {768, 3072}));
  return spec;
}

TEST(MatmulSettings, HoldCublasltWhereItDoesWhatIsAskedFor) {
  const MatmulOperations& matmul = cuda_backend.matmul;
  for (const char* name : {"cuda:h200", "cuda:a100"}) {
    const Device device = open_device(name);
    LinearSpec spec = spec_on(device);
    const auto holds = [&] {
      for (const MatmulChoice& choice : matmul.settings(spec, 128))
        if (choice.setting == MatmulSetting{}) return true;
      return false;
    };
    EXPECT_TRUE(holds());
    EXPECT_EQ(matmul.refuses(spec, 128, {}), std::nullopt);
    spec.moments = true;
    EXPECT_FALSE(holds());
    EXPECT_EQ(matmul.refuses(spec, 128, {}), "cublaslt has no layer norm of operands and no moments");
    spec.moments = false, spec.residual = true, spec.activation = Activation::silu;
    EXPECT_FALSE(holds());
    EXPECT_EQ(matmul.refuses(spec, 128, {}), "cublaslt has no matmul with both silu and a residual");
  }
}

TEST(MatmulSettings, ComeWithTheShortestPredictedTimeFirst) {
  const Device device = open_device("cuda:h200");
  for (const std::int64_t rows : {1, 128, 4096, 32768}) {
    double last = 0;
    for (const MatmulChoice& choice : cuda_backend.matmul.settings(spec_on(device), rows)) {
      EXPECT_GT(choice.predicted_us, 0);
      EXPECT_GE(choice.predicted_us, last) << text_of(choice.setting);
      last = choice.predicted_us;
    }
  }
}

}  // namespace
}  // namespace stof
