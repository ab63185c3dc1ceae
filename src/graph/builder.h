// SPDX-License-Identifier: Apache-2.0
// What the builders of every family write graphs with: a node at a time, its weights looked up by name and shape.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "src/graph/graph.h"
#include "src/model/model.h"

namespace stof {

// By its name in a config.json. Throws unsupported for another one.
Activation activation_of(const std::string& name);

class GraphBuilder {
 public:
  explicit GraphBuilder(const Model& model) : model_(model) {}

  ValueId lookup(const std::string& name, TokenIndex index, std::int64_t entries);
  ValueId add(const std::string& name, ValueId x, ValueId y) { return node(name, op::Add{}, {x, y}, {}); }
  ValueId norm(const std::string& name, ValueId x);  // of hidden_size columns; with the shift that the config says
  ValueId rms_norm(const std::string& name, ValueId x, double epsilon);
  ValueId linear(const std::string& name, ValueId x, std::int64_t out, std::int64_t in);
  ValueId product(const std::string& name, ValueId x, std::int64_t out, std::int64_t in);  // linear() without a bias
  ValueId activate(const std::string& name, ValueId x);                                    // as the config says
  ValueId gate(const std::string& name, ValueId x);                                        // the same, of a gate
  ValueId logits(const std::string& table, ValueId x);  // `table`: the name of the tokens' own

  // Throws bad_file naming what is missing or has another shape.
  Weight weight(const std::string& name, const Shape& shape) const { return {name, model_.weight(name, shape)}; }
  ValueId node(std::string name, Op op, std::vector<ValueId> inputs, std::vector<Weight> weights);
  Graph finish(ValueId result);

 private:
  const Model& model_;
  Graph graph_;
};

}  // namespace stof
