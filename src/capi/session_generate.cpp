// SPDX-License-Identifier: Apache-2.0
// Texts that go on, in C.
#include <algorithm>

#include "src/base/narrow.h"
#include "src/capi/boundary.h"
#include "src/capi/handles.h"
#include "src/capi/session_inputs.h"
#include "src/runtime/generate.h"
#include "src/runtime/text_batches.h"

namespace {

using stof::ErrorKind;
using stof::fail;
using stof::capi::given;
using stof::capi::guarded;

stof::Stop stop_of(std::int32_t said) {
  switch (said) {
    case STOF_STOP_NOTHING: return stof::Stop::nothing;
    case STOF_STOP_TEXT: return stof::Stop::text;
    case STOF_STOP_ALL: return stof::Stop::all;
  }
  fail(ErrorKind::invalid_argument, "options.token gives {}; accepted: 0..2, a stof_stop", said);
}

struct Wanted {
  stof::GenerateOptions options;
  stof_generated& to;
  std::string_view function;
};

Wanted wanted(const stof_generate_options* options, stof_generated* generated, std::string_view function) {
  const std::string name = fmt::format("{}: options", function);
  const stof_generate_options o = stof::capi::given_or_defaults(options, name);
  stof_generated& to = stof::capi::written_sized(generated, fmt::format("{}: generated", function));
  to.needed = to.truncated = 0;
  const stof::GenerateOptions defaults;
  Wanted result{.options = {.tokens = stof::capi::or_default(o.tokens, defaults.tokens),
                            .temperature = o.temperature,
                            .top_k = o.top_k,
                            .top_p = o.top_p == 0 ? defaults.top_p : o.top_p,
                            .seed = o.seed,
                            .batch = stof::capi::or_default(o.batch, defaults.batch),
                            .truncate = o.truncate != 0},
                .to = to,
                .function = function};
  if (o.ends != nullptr || o.end_count != 0)
    result.options.ends = stof::capi::ids_of(o.ends, o.end_count, name + ".ends");
  if (o.token != nullptr)
    result.options.stop = [token = o.token, user = o.user](std::int64_t text, std::int32_t id) {
      return stop_of(token(user, text, id));
    };
  return result;
}

// That options are in range and the session has logits, before anything is made of the texts.
void check_options(const stof::Session& session, const Wanted& how) {
  session.generate(stof::TokensOfTexts(), how.options);
}

void generate(const stof::Session& session, stof::TokensOfTexts texts, const Wanted& how) {
  const stof::TextLimits limits{.vocabulary = session.vocabulary(), .longest = session.positions()};
  stof::check(texts, limits);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    stof::check_room(static_cast<std::int64_t>(i), std::ssize(texts[i]), limits);
    how.to.needed += std::min(how.options.tokens, limits.longest - std::ssize(texts[i]));
  }
  stof::narrow<std::int32_t>(how.to.needed, fmt::format("{}: generated.needed", how.function));  // as offsets are
  using stof::capi::written;
  const std::string of_offsets = fmt::format("{}: generated.offsets", how.function);
  if (texts.empty() && how.to.offsets != nullptr) stof::capi::write_offsets({}, written(how.to.offsets, of_offsets));
  if (how.to.ids == nullptr) return;
  if (how.to.capacity < how.to.needed)
    fail(ErrorKind::invalid_argument, "{}: generated.capacity is {}; accepted: {} or more", how.function,
         how.to.capacity, how.to.needed);
  std::int32_t* const ids = written(how.to.ids, fmt::format("{}: generated.ids", how.function));
  std::int32_t* const offsets = written(how.to.offsets, of_offsets);
  const std::vector<std::vector<std::int32_t>> made = session.generate(texts, how.options);
  stof::capi::write_offsets(made, offsets);
  stof::capi::write_ids(made, ids);
}

}  // namespace

stof_status stof_session_generate_texts(const stof_session* session, const stof_texts* texts,
                                        const stof_generate_options* options, stof_generated* generated) {
  return guarded([&] {
    const stof::Session& of_session = *given(session, "stof_session_generate_texts: session").session;
    const Wanted how = wanted(options, generated, "stof_session_generate_texts");
    check_options(of_session, how);
    const std::vector<std::string> of_texts = stof::capi::texts_of(texts, "stof_session_generate_texts: texts");
    const stof::TokenizedTexts tokens =
        stof::tokenize(*stof::capi::tokenizer_of(of_session), of_texts,
                       {.limits = {.vocabulary = of_session.vocabulary(), .longest = stof::longest_prompt(of_session)},
                        .truncate = how.options.truncate,
                        .name = "text",
                        .first = 0});
    how.to.truncated = tokens.truncated;
    generate(of_session, tokens.ids, how);
  });
}

stof_status stof_session_generate(const stof_session* session, const stof_tokens* tokens,
                                  const stof_generate_options* options, stof_generated* generated) {
  return guarded([&] {
    const stof::Session& of_session = *given(session, "stof_session_generate: session").session;
    const Wanted how = wanted(options, generated, "stof_session_generate");
    check_options(of_session, how);
    generate(of_session, stof::capi::tokens_of(tokens, "stof_session_generate: tokens"), how);
  });
}
