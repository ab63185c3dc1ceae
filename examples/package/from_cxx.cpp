// SPDX-License-Identifier: Apache-2.0
// The C++ library, installed: attention that sees one key returns that key's value.
#include <stof/attention.h>

#include <algorithm>
#include <cstdio>

int main() {
  const stof::AttentionShape shape{.heads = 1, .kv_heads = 1, .queries = 4, .keys = 4, .head_dim = 8};
  const stof::Tensor q(stof::DType::f32, {1, 1, 4, 8}), k(stof::DType::f32, q.shape()), v(stof::DType::f32, q.shape()),
      out(stof::DType::f32, q.shape());
  std::fill_n(q.as<float>(), q.size(), 1.f);
  std::fill_n(k.as<float>(), k.size(), 1.f);
  for (int i = 0; i < v.size(); ++i) v.as<float>()[i] = static_cast<float>(i);

  const stof::Attention attention(stof::window(0), shape, stof::open_device("cpu"));
  attention.run({.q = q.view(), .k = k.view(), .v = v.view(), .out = out.view()});
  const bool same = std::equal(v.as<float>(), v.as<float>() + v.size(), out.as<float>());
  std::puts(same ? "stof::stof works" : "stof::stof gives other values");
  return same ? 0 : 1;
}
