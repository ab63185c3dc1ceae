// SPDX-License-Identifier: Apache-2.0
// Sentences to vectors with a Hugging Face encoder, and how similar they are.
//   example_02_embed MODEL      the folder of a checkpoint, as `make model` fetches it
#include <cstdio>
#include <string>
#include <vector>

#include "stof/error.h"
#include "stof/session.h"

namespace {

double dot(const float* a, const float* b, std::int64_t size) {
  double sum = 0;
  for (std::int64_t i = 0; i < size; ++i) sum += double{a[i]} * b[i];
  return sum;
}

int embed(const char* folder) {
  const std::vector<std::string> texts = {"A man is playing a guitar.", "Someone plays music on a string instrument.",
                                          "The stock market fell sharply on Monday."};
  const stof::Session session = stof::Session::load(folder);
  const stof::Embeddings embeddings = session.embed(texts);

  const std::int64_t columns = embeddings.values.shape()[1];
  const float* vectors = embeddings.values.as<float>();
  const double near = dot(vectors, vectors + columns, columns), far = dot(vectors, vectors + 2 * columns, columns);
  std::printf("%s\n  %.2f  %s\n  %.2f  %s\n", texts[0].c_str(), near, texts[1].c_str(), far, texts[2].c_str());
  return near > far ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: example_02_embed MODEL\n");
    return 2;
  }
  try {
    return embed(argv[1]);
  } catch (const stof::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
