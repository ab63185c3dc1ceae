// SPDX-License-Identifier: Apache-2.0
// The parts of `stof demo`, in the order in which it shows them. Each prints what it does and what came out.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "src/base/stopwatch.h"
#include "stof/session.h"

namespace stof::cli {

struct DemoFiles {
  std::filesystem::path model, sentences, queries, reference;
  std::string device = "auto";  // that models run on
};

struct DemoTexts {
  std::vector<std::string> sentences, queries;
};

// Embeds the sentences and answers the queries with their nearest neighbours; returns the sentences' embeddings.
Tensor show_search(const Session& session, const DemoTexts& texts);

// Says so instead when the model or the sentences are not those that the reference was made with, or it is not there.
void show_reference(const DemoFiles& files, const Tensor& embeddings);

// One batch of sentences of unequal length, padded to the longest and as they are.
void show_padding(const DemoFiles& files, const Session& session, const DemoTexts& texts);

// A BERT-base-sized encoder on long inputs, dense and under masks.
void show_masks(const std::string& device);

}  // namespace stof::cli
