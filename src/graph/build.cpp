// SPDX-License-Identifier: Apache-2.0
#include "src/graph/build.h"

#include "src/base/error.h"

namespace stof {

namespace {

void check_global_tokens(const ModelConfig& config, std::int64_t tokens) {
  if (tokens < 0 || tokens > config.max_positions)
    fail(ErrorKind::invalid_argument, "{} global tokens; accepted: 0 to {}", tokens, config.max_positions);
  if (tokens > 0 && config.family != Family::longformer)
    fail(ErrorKind::unsupported,
         "global tokens of {}; accepted: of Longformer, whose checkpoints have weights for them", config.architecture);
}

}  // namespace

Graph without_logits(Graph simplified) {
  const Node logits = simplified.nodes.back();
  STOF_CHECK(std::holds_alternative<op::MatMul>(logits.op) && logits.output == simplified.result &&
             logits.output + 1 == std::ssize(simplified.values));
  simplified.nodes.pop_back();
  simplified.values.pop_back();
  simplified.result = logits.inputs.front();
  return simplified;
}

Graph build_graph(const Model& model, GraphResult result, std::int64_t global_tokens) {
  if (result == GraphResult::logits && !is_decoder(model.config.family))
    fail(ErrorKind::unsupported, "no logits of {}; accepted: GPT-2, Llama, Mistral, Qwen2, Qwen3, Phi-3, Gemma",
         model.config.architecture);
  check_global_tokens(model.config, global_tokens);
  switch (model.config.family) {
    case Family::bert:
    case Family::roberta:
    case Family::longformer: return build_bert(model, global_tokens);
    case Family::distilbert: return build_distilbert(model);
    case Family::gpt2: return build_gpt2(model, result);
    case Family::modernbert: return build_modernbert(model);
    case Family::llama:
    case Family::gemma:
    case Family::eurobert: return build_llama(model, result);
    case Family::nomic: return build_nomic(model);
    case Family::mpnet: return build_mpnet(model);
    case Family::t5: return build_t5(model);
  }
  return {};
}

}  // namespace stof
