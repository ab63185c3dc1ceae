// SPDX-License-Identifier: Apache-2.0
// A decoder goes on behind a text, seeing its first tokens and a window of the last ones.
//   example_05_generate MODEL      the folder of a checkpoint: GPT-2, Llama, Mistral, Qwen2 or Qwen3
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "stof/error.h"
#include "stof/mask.h"
#include "stof/session.h"

namespace {

int generate(const char* folder) {
  const std::vector<std::string> texts = {"The bread rises slowly in a cold kitchen, and"};
  const stof::Session session = stof::Session::load(folder, {.mask = stof::sink(4) | stof::window(64), .logits = true});
  const std::vector<std::int32_t> tokens = session.generate(texts, {.tokens = 32}).front();
  std::printf("%s%s\n", texts.front().c_str(), session.decode(tokens).c_str());

  // The first of them has the highest score behind the text.
  const stof::Embeddings scores = session.embed(texts);
  const float* const begin = scores.values.as<float>();
  return std::max_element(begin, begin + session.columns()) - begin == tokens.front() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: example_05_generate MODEL\n");
    return 2;
  }
  try {
    return generate(argv[1]);
  } catch (const stof::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
