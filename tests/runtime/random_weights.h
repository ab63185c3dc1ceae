// SPDX-License-Identifier: Apache-2.0
// Random weights in memory for the small models of tests: equal names in equal order are equal values.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/hash.h"
#include "src/model/model.h"

namespace stof {

class RandomWeights {
 public:
  explicit RandomWeights(Model& model) : model_(model), store_(std::make_shared<std::vector<Tensor>>()) {
    model.mapping = store_;
  }

  // Values uniform in center - spread to center + spread.
  void add(const std::string& name, const Shape& shape, float center, float spread) {
    Tensor tensor(DType::f32, shape);
    for (std::int64_t i = 0; i < tensor.size(); ++i)
      tensor.as<float>()[i] =
          center + spread * (static_cast<float>(splitmix64(seed_ += 0x9E3779B97F4A7C15ull) >> 40) * 0x1p-23f - 1.f);
    model_.weights.emplace(name, tensor.view());
    store_->push_back(std::move(tensor));
  }

 private:
  Model& model_;
  std::shared_ptr<std::vector<Tensor>> store_;  // the model keeps it; views stay where they are when it grows
  std::uint64_t seed_ = 1;
};

}  // namespace stof
