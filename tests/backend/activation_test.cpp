// SPDX-License-Identifier: Apache-2.0
// The polynomials by which epilogues make gelu of a tanh, taken from the kernels' own source and evaluated here with an
// exact tanh, against the definitions in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "src/codegen/embedded.h"
#include "tests/worst.h"

namespace stof {
namespace {

// Literals that end in f: "-1.5e-3f".
std::vector<float> floats_in(const std::string& text) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  std::vector<float> found;
  char before = ' ';
  for (const char* at = text.c_str(); *at != '\0';) {
    if (!is_word(before) && (is_digit(*at) || (*at == '-' && is_digit(at[1])))) {
      char* end = nullptr;
      const float value = std::strtof(at, &end);
      if (*end == 'f' && !is_word(end[1])) found.push_back(value);
      at = end;
    }
    before = *at;
    if (*at != '\0') ++at;
  }
  return found;
}

// Of h^2, the highest power first.
std::vector<float> polynomial_of(const std::string& function) {
  for (const EmbeddedFile& header : kernel_headers()) {
    if (header.name != "kernels/cuda/activation.cuh") continue;
    std::string body(header.bytes);
    body = body.substr(body.find("float " + function + "("));
    return floats_in(body.substr(0, body.find("\n}\n")));
  }
  ADD_FAILURE() << "no " << function;
  return {};
}

// Only what is added to the last coefficient of three is kept within [0, 1].
float value(const std::vector<float>& polynomial, float x) {
  const float h = x / 2, t = h * h;
  float factor = polynomial[0];
  if (polynomial.size() == 3) factor = std::clamp(std::fmaf(factor, t, polynomial[1]), 0.f, 1.f);
  return std::fmaf(h, std::tanh(h * std::fmaf(factor, t, polynomial.back())), h);
}

void expect_close(const std::string& function, std::size_t terms, double (*definition)(double), double bound) {
  const std::vector<float> polynomial = polynomial_of(function);
  ASSERT_EQ(polynomial.size(), terms) << function;
  double worst = 0;
  for (int i = -120000; i <= 120000; ++i) {
    const float x = static_cast<float>(i) * 1e-4f;
    keep_worst(worst, std::abs(value(polynomial, x) - definition(x)));
  }
  EXPECT_LE(worst, bound) << function;
  for (const float far : {13.f, 100.f, 1e4f, 1e19f}) {
    EXPECT_EQ(value(polynomial, far), far) << function;
    EXPECT_EQ(value(polynomial, -far), 0.f) << function;
  }
}

TEST(Activation, GeluByATanh) {
  expect_close(
      "gelu_of_half", 3, [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }, 2.6e-5);
}

TEST(Activation, GeluTanh) {
  expect_close(
      "gelu_tanh_of_half", 2,
      [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }, 1e-6);
}

}  // namespace
}  // namespace stof
