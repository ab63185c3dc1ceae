// SPDX-License-Identifier: Apache-2.0
// Weights of a model that are made of those its files hold.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "src/model/model.h"

namespace stof {

// They live as long as the files that the others borrow from.
class MadeWeights {
 public:
  explicit MadeWeights(Model& model) : model_(model), held_(std::make_shared<Held>(std::move(model.mapping))) {
    model.mapping = held_;
  }
  // In place of the weight of that name, if there is one.
  void put(const std::string& name, Tensor values) {
    model_.weights.insert_or_assign(name, held_->tensors.emplace_back(std::move(values)).view());
  }

 private:
  struct Held {
    explicit Held(std::shared_ptr<const void> of_files) : files(std::move(of_files)) {}
    std::shared_ptr<const void> files;
    std::vector<Tensor> tensors;
  };

  Model& model_;
  std::shared_ptr<Held> held_;
};

}  // namespace stof
