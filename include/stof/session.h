// SPDX-License-Identifier: Apache-2.0
// A loaded model: load once, run often, from any number of threads.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stof/device.h"
#include "stof/mask.h"
#include "stof/tensor.h"

namespace stof {

class Tokenizer;  // src/model/tokenizer.h
struct Model;     // src/model/model.h

enum class Pooling : std::uint8_t { none, cls, mean, max, last };  // cls: the first token; last: the last one

// Tokens of several texts, one after the other: text i is ids[offsets[i], offsets[i + 1]).
struct TokenBatch {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> offsets = {0};

  std::int64_t texts() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  void add(std::span<const std::int32_t> text);
};

inline constexpr int kMostThreads = 1024;

struct SessionOptions {
  std::string device = "auto";    // a GPU where there is one that whole models run on, else the CPU
  DType dtype = DType::f32;       // of weights and activations: f32, bf16, on a GPU also f16; accumulation is fp32
  std::optional<Mask> mask = {};  // attention allows what the model's own mask and this one allow
  int threads = 0;  // per call, at most kMostThreads; 0: as many as OpenMP would take. Attention is planned for them
  bool padded = false;  // pad every batch to its longest text, to compare: results are the same
  bool logits = false;  // decoders: results are scores of every token of the vocabulary in place of hidden states
  // Longformer: so many first tokens of each text see all others, and are seen by them, with weights of their own.
  std::int64_t global_tokens = 0;
  // Plans that `stof tune` has kept for this model and device are used for calls of their size (docs/fusion.md).
  bool tuned = true;
  // Told, for a person: why a plan that is there is not used, and what of generation_config.json is not applied; from
  // any thread that calls, and may call the session.
  std::function<void(std::string_view)> log = {};
};

struct EmbedOptions {
  std::optional<Pooling> pooling = {};                   // default: what the checkpoint says
  std::int64_t batch = 32;                               // texts run together
  bool truncate = true;                                  // false: a text that is too long is an error
  std::string text_name = "text";                        // what that error calls a text, before its number from 1 on
  std::function<void(std::int64_t done)> progress = {};  // called after each batch with the texts done so far
};

struct Embeddings {
  Tensor values;                      // f32 [texts, columns(pooling)], or [all tokens, columns()] with Pooling::none
  std::vector<std::int32_t> lengths;  // tokens of each text
  std::int64_t truncated = 0;         // texts that were cut
};

enum class Stop : std::uint8_t { nothing, text, all };  // what ends behind a token: its text, or every one of the call

// How texts go on; see Session::generate.
struct GenerateOptions {
  std::int64_t tokens = 128;  // at most, behind each text; fewer where the model has no more positions
  double temperature = 0;     // 0: always the likeliest token; else by chance, the more even the higher
  std::int64_t top_k = 0;     // by chance among so many of the likeliest; 0: all
  double top_p = 1;           // among the likeliest that have so much of the probability together
  // Of the chances, with a text's place in the call and a token's number; not with the texts beside it.
  std::uint64_t seed = 0;
  std::optional<std::vector<std::int32_t>> ends = {};  // tokens behind which a text ends; default: the checkpoint's
  std::int64_t batch = 32;                             // texts run together; those of a TokenBatch all are
  bool truncate = false;  // true: a text, not of tokens, that leaves no position for one more loses its end
  std::function<void(std::int64_t text, std::int32_t token)> token = {};  // called for each as it is made
  std::function<Stop(std::int64_t text, std::int32_t token)> stop = {};   // asked behind each, what ends there
};

// Memory for the activations of one call; see Session::memory_for.
struct MemoryPlan {
  std::int64_t tokens = 0;
  std::int64_t bytes = 0;
};

struct SessionStatistics {
  std::int64_t calls = 0;
  // Attention plans made since load(): one for each mask and shape of the model, by each program of it
  // (docs/sessions.md, Planning). On the CPU new lengths make more only when the mask depends on length (docs/masks.md
  // says which do), one for each length, or when they come to a program of their own.
  std::int64_t plans = 0;
  std::int64_t planned_bytes = 0;  // for activations, by the call so far that needs most
  // For activations, by the system: the same unless calls ran at the same time. Of generate() on a GPU also for keys
  // and values, which stay for the next call (docs/sessions.md, Going on).
  std::int64_t held_bytes = 0;
};

class Session {
 public:
  // Reads config.json, the weights, the tokenizer and the pooling of a folder. Throws bad_file, unsupported,
  // invalid_argument (a mask that depends on the batch index: texts are regrouped; global tokens out of range), device.
  // The weights' files stay mapped: they must not be written or cut off while the session exists (docs/sessions.md).
  static Session load(const std::filesystem::path& folder, const SessionOptions& options = {});
  // A model that is in memory, without a tokenizer: embed() on texts is refused.
  explicit Session(const Model& model, const SessionOptions& options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  std::int64_t hidden_size() const;
  std::int64_t columns() const;  // of run(): hidden_size(), or the vocabulary's size for logits
  // Of embed(): as many, or of pooled vectors what the checkpoint's last dense layer gives.
  std::int64_t columns(Pooling pooling) const;
  std::int64_t max_tokens() const;  // of one text, special tokens included
  std::int64_t positions() const;   // the same of one that is given as ids
  std::int64_t vocabulary() const;  // ids are below it
  Pooling pooling() const;          // what the checkpoint says
  bool normalizes() const;          // whether pooled vectors have length 1, as the checkpoint says
  const Device& device() const;     // where calls run
  // Planned arena for a call of so many tokens: exactly what run() uses for activations, by the plans made so far. A
  // call whose size has not been seen may make one that needs more. embed() by the first or last token of each text
  // uses other memory behind the last attention (docs/sessions.md, Memory).
  MemoryPlan memory_for(std::int64_t tokens) const;
  SessionStatistics statistics() const;

  // The last hidden state or logits, f32 [tokens, columns()]. Positions are those inside each text. Throws
  // invalid_argument for an id outside the vocabulary, an empty or too long text, offsets that do not ascend. No texts
  // give no rows.
  Tensor run(const TokenBatch& batch) const;
  // One vector a text, f32 [texts, columns(pooling)], through the checkpoint's dense layers and normalised when it says
  // so; Pooling::none gives run().
  Tensor embed(const TokenBatch& batch, Pooling pooling) const;
  // Texts in any order and of any length: they are tokenised, run in batches of similar length, returned in order.
  Embeddings embed(std::span<const std::string> texts, const EmbedOptions& options = {}) const;
  // The same of texts that are tokens, of up to positions() each: none is cut.
  Embeddings embed(std::span<const std::vector<std::int32_t>> texts, const EmbedOptions& options = {}) const;
  // What a decoder says behind each text, the token that ends it included; keys and values of what was seen are kept,
  // and texts that have ended take no more time. Positions and the mask are those of the whole text, as if it were run
  // at once. Throws invalid_argument for a session without logits, options out of range, and a text that leaves no
  // position for a token; unsupported for masks that depend on length (docs/masks.md), of which kept keys would be of
  // other ones. Statistics count the call, and not its memory.
  std::vector<std::vector<std::int32_t>> generate(const TokenBatch& prompts, const GenerateOptions& options = {}) const;
  std::vector<std::vector<std::int32_t>> generate(std::span<const std::string> texts,
                                                  const GenerateOptions& options = {}) const;
  // The same of texts that are tokens, in batches of similar length; those of a TokenBatch run all together.
  std::vector<std::vector<std::int32_t>> generate(std::span<const std::vector<std::int32_t>> texts,
                                                  const GenerateOptions& options = {}) const;
  // The text of tokens, by the tokenizer's decoder, without special ones and ids of the model that the tokenizer has
  // nothing for. Throws invalid_argument without a tokenizer and for ids that the vocabulary has not, unsupported where
  // its decoder is not understood.
  std::string decode(std::span<const std::int32_t> ids) const;
  std::shared_ptr<const Tokenizer> tokenizer() const;  // null without one; may outlive the session

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stof
