// SPDX-License-Identifier: Apache-2.0
// The polynomials that stand for gelu in epilogues, taken from the kernels' own source and evaluated here as a GPU
// would, against the definitions in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "src/codegen/embedded.h"

namespace stof {
namespace {

struct Polynomial {
  float limit = 0;                  // of x^2
  std::vector<float> coefficients;  // of the highest power first
};

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

Polynomial polynomial_of(const std::string& function) {
  for (const EmbeddedFile& header : kernel_headers()) {
    if (header.name != "kernels/cuda/activation.cuh") continue;
    std::string body(header.bytes);
    body = body.substr(body.find("float " + function + "("));
    body = body.substr(0, body.find("\n}\n"));
    Polynomial found;
    found.coefficients = floats_in(body);
    EXPECT_EQ(found.coefficients.back(), 0.5f);  // of the last line
    found.coefficients.pop_back();
    found.limit = found.coefficients.front();
    found.coefficients.erase(found.coefficients.begin());
    return found;
  }
  ADD_FAILURE() << "no " << function;
  return {};
}

float value(const Polynomial& polynomial, float x) {
  const float t = std::min(x * x, polynomial.limit);
  float q = polynomial.coefficients.front();
  for (std::size_t i = 1; i < polynomial.coefficients.size(); ++i) q = std::fmaf(q, t, polynomial.coefficients[i]);
  return x * std::clamp(std::fmaf(x, q, 0.5f), 0.f, 1.f);
}

void expect_close(const std::string& function, double (*definition)(double), double bound) {
  const Polynomial polynomial = polynomial_of(function);
  ASSERT_EQ(polynomial.coefficients.size(), 9U);
  double worst = 0;
  for (int i = -120000; i <= 120000; ++i) {
    const float x = static_cast<float>(i) * 1e-4f;
    worst = std::max(worst, std::abs(value(polynomial, x) - definition(x)));
  }
  EXPECT_LE(worst, bound) << function;
  EXPECT_EQ(value(polynomial, 1e4f), 1e4f);
  EXPECT_EQ(value(polynomial, -1e4f), 0.f);
}

TEST(Activation, GeluByPolynomial) {
  expect_close(
      "gelu_by_polynomial", [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }, 4.8e-5);
}

TEST(Activation, GeluTanhByPolynomial) {
  expect_close(
      "gelu_tanh_by_polynomial",
      [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }, 3e-5);
}

}  // namespace
}  // namespace stof
