// SPDX-License-Identifier: Apache-2.0
// The parts of `stof demo`, in the order in which it shows them. Each prints what it does and what came out.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "stof/tensor.h"

namespace stof::cli {

struct DemoFiles {
  std::filesystem::path model, sentences, queries, reference;
};

std::vector<std::string> read_lines(const std::filesystem::path& file);

// Embeddings are f32 [texts, hidden].
void show_neighbours(const std::vector<std::string>& sentences, const Tensor& sentence_embeddings,
                     const std::vector<std::string>& queries, const Tensor& query_embeddings);

// Says so instead when the model or the sentences are not those that the reference was made with.
void show_reference(const DemoFiles& files, const Tensor& embeddings);

}  // namespace stof::cli
