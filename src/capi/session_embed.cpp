// SPDX-License-Identifier: Apache-2.0
// Texts and tokens to vectors, in C.
#include <algorithm>

#include "src/capi/boundary.h"
#include "src/capi/handles.h"
#include "src/capi/session_inputs.h"
#include "src/runtime/text_batches.h"

namespace {

using stof::ErrorKind;
using stof::fail;
using stof::capi::given;
using stof::capi::guarded;

struct Wanted {
  stof::EmbedOptions options;
  stof_embeddings& to;
  std::string_view function;
};

Wanted wanted(const stof_embed_options* options, stof_embeddings* embeddings, std::string_view function) {
  const std::string name = fmt::format("{}: options", function);
  const stof_embed_options found = stof::capi::given_or_defaults(options, name);
  stof_embeddings& to = stof::capi::written_sized(embeddings, fmt::format("{}: embeddings", function));
  to.rows = to.truncated = 0;
  return {.options = {.pooling = stof::capi::pooling_of(found.pooling, name + ".pooling"),
                      .batch = stof::capi::or_default(found.batch, stof::EmbedOptions{}.batch),
                      .truncate = found.refuse_long == 0},
          .to = to,
          .function = function};
}

void embed(const stof::Session& session, stof::TokensOfTexts texts, const Wanted& how) {
  stof::check_batch(how.options.batch);
  const stof::Pooling pooling = how.options.pooling.value_or(session.pooling());
  session.embed(stof::TokenBatch(), pooling);  // refuses what it does not pool by, before a size is told
  const std::int64_t rows = stof::rows_of_results(texts, pooling);
  how.to.rows = rows;
  if (how.to.lengths != nullptr)
    std::ranges::transform(texts,
                           stof::capi::written(how.to.lengths, fmt::format("{}: embeddings.lengths", how.function)),
                           [](const auto& ids) { return static_cast<std::int32_t>(ids.size()); });
  if (how.to.values == nullptr) return;
  const std::int64_t columns = session.columns(pooling);
  if (how.to.capacity < rows * columns)
    fail(ErrorKind::invalid_argument, "{}: embeddings.capacity is {}; accepted for {} rows of {}: {} floats or more",
         how.function, how.to.capacity, rows, columns, rows * columns);
  float* const values = stof::capi::written(how.to.values, fmt::format("{}: embeddings.values", how.function));
  stof::embed_into(values, session, texts, how.options);
}

}  // namespace

stof_status stof_session_embed_texts(const stof_session* session, const stof_texts* texts,
                                     const stof_embed_options* options, stof_embeddings* embeddings) {
  return guarded([&] {
    const stof::Session& of_session = *given(session, "stof_session_embed_texts: session").session;
    const Wanted how = wanted(options, embeddings, "stof_session_embed_texts");
    const std::vector<std::string> of_texts = stof::capi::texts_of(texts, "stof_session_embed_texts: texts");
    const stof::TokenizedTexts tokens =
        stof::tokenize(*stof::capi::tokenizer_of(of_session), of_texts,
                       {.limits = {.vocabulary = of_session.vocabulary(), .longest = of_session.max_tokens()},
                        .truncate = how.options.truncate,
                        .name = "text",
                        .first = 0});
    how.to.truncated = tokens.truncated;
    embed(of_session, tokens.ids, how);
  });
}

stof_status stof_session_embed(const stof_session* session, const stof_tokens* tokens,
                               const stof_embed_options* options, stof_embeddings* embeddings) {
  return guarded([&] {
    const stof::Session& of_session = *given(session, "stof_session_embed: session").session;
    const Wanted how = wanted(options, embeddings, "stof_session_embed");
    const std::vector<std::vector<std::int32_t>> of_tokens =
        stof::capi::tokens_of(tokens, "stof_session_embed: tokens");
    stof::check(of_tokens, {.vocabulary = of_session.vocabulary(), .longest = of_session.positions()});
    embed(of_session, of_tokens, how);
  });
}

stof_status stof_session_run(const stof_session* session, const stof_tokens* tokens, float* out, int64_t capacity) {
  return guarded([&] {
    const stof::Session& of_session = *given(session, "stof_session_run: session").session;
    const std::vector<std::vector<std::int32_t>> texts = stof::capi::tokens_of(tokens, "stof_session_run: tokens");
    stof::check(texts, {.vocabulary = of_session.vocabulary(), .longest = of_session.positions()});
    const std::int64_t rows = stof::rows_of_results(texts, stof::Pooling::none), needed = rows * of_session.columns();
    if (capacity < needed)
      fail(ErrorKind::invalid_argument,
           "stof_session_run: capacity is {}; accepted for {} rows of {}: {} floats or more", capacity, rows,
           of_session.columns(), needed);
    if (rows == 0) return;
    stof::capi::written(out, "stof_session_run: out");
    stof::TokenBatch batch;
    for (const auto& ids : texts) batch.add(ids);
    std::ranges::copy_n(of_session.run(batch).as<float>(), needed, out);
  });
}
