// SPDX-License-Identifier: Apache-2.0
// The host side of matmul on CUDA: what cuBLASLt is asked to do after a product, what tells two choices of algorithms
// apart, and what is said where the library is missing.
#include "src/backend/cuda/matmul/product.h"

#include <gtest/gtest.h>

#include <set>

#include "src/backend/cuda/matmul/epilogue.h"
#include "tests/backend/random_tensor.h"
#include "tests/expect_error.h"

namespace stof::cuda {
namespace {

TEST(Epilogue, IsCublasLtsWhereThatIsWhatWasAskedFor) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    EXPECT_EQ(epilogue_of(Activation::none, false, dtype), (Epilogue{.inside = BlasEpilogue::none}));
    EXPECT_EQ(epilogue_of(Activation::none, true, dtype), (Epilogue{.inside = BlasEpilogue::bias}));
    EXPECT_EQ(epilogue_of(Activation::relu, true, dtype), (Epilogue{.inside = BlasEpilogue::relu_bias}));
    EXPECT_EQ(epilogue_of(Activation::relu, false, dtype), (Epilogue{.inside = BlasEpilogue::relu}));
    // By the error function: never inside.
    EXPECT_EQ(epilogue_of(Activation::gelu, true, dtype),
              (Epilogue{.inside = BlasEpilogue::none, .bias_after = true, .activation_after = Activation::gelu}));
  }
  EXPECT_EQ(epilogue_of(Activation::gelu_tanh, true, DType::f16), (Epilogue{.inside = BlasEpilogue::gelu_bias}));
  EXPECT_EQ(epilogue_of(Activation::gelu_tanh, false, DType::bf16), (Epilogue{.inside = BlasEpilogue::gelu}));
  EXPECT_EQ(epilogue_of(Activation::gelu_tanh, true, DType::f32),
            (Epilogue{.inside = BlasEpilogue::none, .bias_after = true, .activation_after = Activation::gelu_tanh}));
}

TEST(Epilogue, LeavesNothingUndone) {
  for (const Activation activation : kActivations)
    for (const bool bias : {false, true}) {
      const Epilogue plain = plain_epilogue(activation, bias);
      EXPECT_EQ(plain.inside, BlasEpilogue::none);
      EXPECT_EQ(plain.bias_after, bias);
      EXPECT_EQ(plain.activation_after, activation);
      EXPECT_EQ(plain.anything_after(), bias || activation != Activation::none);
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        const Epilogue chosen = epilogue_of(activation, bias, dtype);
        EXPECT_EQ(takes_bias(chosen.inside) || chosen.bias_after, bias);
        EXPECT_FALSE(takes_bias(chosen.inside) && chosen.bias_after);
      }
    }
}

TEST(ProductChoices, AreThoseThatWereWantedLast) {
  ProductChoices choices;
  const auto of_rows = [](std::size_t rows) { return ProductKey{.rows = static_cast<std::int64_t>(rows)}; };
  constexpr std::size_t kMost = ProductChoices::kMost;
  for (std::size_t rows = 0; rows < 3 * kMost; ++rows) {
    EXPECT_EQ(choices.find(of_rows(rows)), nullptr);
    std::optional<BlasChoice> choice;
    if (rows % 2 == 0) choice.emplace().workspace_bytes = rows;
    EXPECT_EQ(choices.keep(of_rows(rows), choice).has_value(), rows % 2 == 0);
    ASSERT_LE(choices.size(), kMost);
    ASSERT_NE(choices.find(of_rows(0)), nullptr) << rows;  // which every call wants
    ASSERT_NE(choices.find(of_rows(rows - rows % 2)), nullptr) << rows;
  }
  EXPECT_EQ(choices.find(of_rows(1)), nullptr);
  for (std::size_t rows = 3 * kMost - kMost / 2; rows < 3 * kMost; ++rows) {
    const std::optional<BlasChoice>* const known = choices.find(of_rows(rows));
    ASSERT_NE(known, nullptr) << rows;
    EXPECT_EQ(known->has_value() ? (*known)->workspace_bytes : 0, rows % 2 == 0 ? rows : 0);
  }
}

TEST(ProductKey, DiffersWhereAnAlgorithmCould) {
  const ProductKey key{.rows = 128, .columns = 768, .inner = 3072, .dtype = DType::f16};
  std::set<ProductKey> keys{key};
  const auto add = [&](auto change) {
    ProductKey other = key;
    change(other);
    EXPECT_TRUE(keys.insert(other).second);
  };
  add([](ProductKey& k) { k.rows = 129; });
  add([](ProductKey& k) { k.columns = 384; });
  add([](ProductKey& k) { k.inner = 768; });
  add([](ProductKey& k) { k.dtype = DType::bf16; });
  add([](ProductKey& k) { k.epilogue = BlasEpilogue::bias; });
  add([](ProductKey& k) { k.residual = true; });
  add([](ProductKey& k) { k.x_alignment = 16; });
  add([](ProductKey& k) { k.weight_alignment = 16; });
  add([](ProductKey& k) { k.residual_alignment = 16; });
  add([](ProductKey& k) { k.out_alignment = 16; });
  add([](ProductKey& k) { k.workspace_bytes = 1; });
  EXPECT_FALSE(keys.insert(key).second);
}

TEST(ProductKey, AlignmentIsThatOfTheAddress) {
  const auto at = [](std::uintptr_t address) { return alignment_of(reinterpret_cast<const void*>(address)); };
  EXPECT_EQ(at(0), 256u);
  EXPECT_EQ(at(4096), 256u);
  EXPECT_EQ(at(4096 + 128), 128u);
  EXPECT_EQ(at(4096 + 16), 16u);
  EXPECT_EQ(at(4096 + 6), 2u);
  EXPECT_EQ(at(4097), 1u);
}

TEST(Blas, SaysWhatIsMissing) {
  if (missing_blas().empty()) {
    EXPECT_NE(blas_version().find('.'), std::string::npos);
    EXPECT_ERROR(load_blas_symbol(blas().library, "cublasLtNoSuchFunction"), ErrorKind::device,
                 "this cuBLASLt is too old: it lacks cublasLtNoSuchFunction; accepted: that of CUDA 12 or later");
  } else {
    EXPECT_ERROR(
        blas(), ErrorKind::device,
        "cuBLASLt (libcublasLt.so.13 or .12) is missing, which models on a GPU multiply matrices with; install "
        "a CUDA toolkit, or `pip install nvidia-cublas` and put its folder lib on LD_LIBRARY_PATH");
  }
}

}  // namespace
}  // namespace stof::cuda
