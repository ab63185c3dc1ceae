// SPDX-License-Identifier: Apache-2.0
#include "src/graph/build.h"

#include "src/base/error.h"

namespace stof {

Graph build_graph(const Model& model, GraphResult result) {
  if (result == GraphResult::logits && !is_decoder(model.config.family))
    fail(ErrorKind::unsupported, "no logits of {}; accepted: GPT-2, Llama, Mistral, Qwen2, Qwen3",
         model.config.architecture);
  switch (model.config.family) {
    case Family::bert:
    case Family::roberta: return build_bert(model);
    case Family::distilbert: return build_distilbert(model);
    case Family::gpt2: return build_gpt2(model, result);
    case Family::modernbert: return build_modernbert(model);
    case Family::llama: return build_llama(model, result);
  }
  return {};
}

}  // namespace stof
