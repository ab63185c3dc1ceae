// SPDX-License-Identifier: Apache-2.0
#include "src/graph/build.h"

#include "src/base/error.h"

namespace stof {

Graph build_graph(const Model& model, GraphResult result) {
  if (result == GraphResult::logits && model.config.family != Family::gpt2)
    fail(ErrorKind::unsupported, "no logits of {}; accepted: GPT-2", model.config.architecture);
  switch (model.config.family) {
    case Family::bert:
    case Family::roberta: return build_bert(model);
    case Family::distilbert: return build_distilbert(model);
    case Family::gpt2: return build_gpt2(model, result);
    case Family::modernbert: return build_modernbert(model);
  }
  return {};
}

}  // namespace stof
