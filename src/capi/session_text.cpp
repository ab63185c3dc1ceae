// SPDX-License-Identifier: Apache-2.0
// Tokens of texts and texts of tokens, in C.
#include <algorithm>
#include <string>
#include <utility>

#include "src/capi/boundary.h"
#include "src/capi/handles.h"
#include "src/capi/session_inputs.h"
#include "src/model/token_decoder.h"

namespace {

using stof::ErrorKind;
using stof::fail;
using stof::capi::given;
using stof::capi::guarded;

// Ids of the model that the tokenizer has nothing for are left out.
std::string added(stof_text_stream& stream, std::int32_t id) {
  const stof::TokenDecoder& decoder = stream.tokenizer->decoder();
  return decoder.texts->find(id) ? stream.stream.add(id) : std::string();
}

// What `make` gives is the stream's until its next call.
template <class Make>
stof_status given_text(stof_text_stream* stream, const char** text, int64_t* size, std::string_view name,
                       const Make& make) {
  return guarded([&] {
    stof_text_stream& of_stream = given(stream, fmt::format("{}: stream", name));
    const char*& data = given(text, fmt::format("{}: text", name));
    std::int64_t& bytes = given(size, fmt::format("{}: size", name));
    of_stream.text = make(of_stream);
    data = of_stream.text.data();
    bytes = std::ssize(of_stream.text);
  });
}

}  // namespace

stof_status stof_session_tokenize(const stof_session* session, const stof_texts* texts, int64_t most,
                                  stof_token_buffer* tokens) {
  return guarded([&] {
    const stof::Session& of_session = *given(session, "stof_session_tokenize: session").session;
    stof_token_buffer& to = stof::capi::written_sized(tokens, "stof_session_tokenize: tokens");
    std::int32_t* const offsets = stof::capi::written(to.offsets, "stof_session_tokenize: tokens.offsets");
    if (most < 0)
      fail(ErrorKind::invalid_argument, "stof_session_tokenize: most is {}; accepted: 0 (all tokens) or more", most);
    const std::shared_ptr<const stof::Tokenizer> tokenizer = stof::capi::tokenizer_of(of_session);
    std::vector<std::vector<std::int32_t>> ids;
    to.truncated = 0;
    for (const std::string& text : stof::capi::texts_of(texts, "stof_session_tokenize: texts")) {
      stof::Tokenizer::Truncated of_text{};
      if (most == 0) of_text.ids = tokenizer->encode(text);
      else of_text = tokenizer->encode(text, most);
      to.truncated += of_text.truncated ? 1 : 0;
      ids.push_back(std::move(of_text.ids));
    }
    stof::capi::write_offsets(ids, offsets);
    if (to.ids == nullptr) return;
    if (const std::int32_t count = offsets[ids.size()]; to.capacity < count)
      fail(ErrorKind::invalid_argument, "stof_session_tokenize: tokens.capacity is {}; accepted: {} or more",
           to.capacity, count);
    stof::capi::write_ids(ids, stof::capi::written(to.ids, "stof_session_tokenize: tokens.ids"));
  });
}

stof_status stof_session_decode(const stof_session* session, const int32_t* ids, int64_t count,
                                stof_text_buffer* text) {
  return guarded([&] {
    const stof::Session& of_session = *given(session, "stof_session_decode: session").session;
    stof_text_buffer& to = stof::capi::written_sized(text, "stof_session_decode: text");
    const std::string found = of_session.decode(stof::capi::ids_of(ids, count, "stof_session_decode: ids"));
    to.size = std::ssize(found);
    if (to.data == nullptr) return;
    if (to.capacity < to.size)
      fail(ErrorKind::invalid_argument, "stof_session_decode: text.capacity is {}; accepted: {} or more", to.capacity,
           to.size);
    std::ranges::copy(found, to.data);
  });
}

stof_status stof_text_stream_create(const stof_session* session, const int32_t* ids, int64_t count,
                                    stof_text_stream** stream) {
  if (stream != nullptr) *stream = nullptr;
  return guarded([&] {
    stof_text_stream*& handle = given(stream, "stof_text_stream_create: stream");
    const stof::Session& of_session = *given(session, "stof_text_stream_create: session").session;
    const std::vector<std::int32_t> before = stof::capi::ids_of(ids, count, "stof_text_stream_create: ids");
    const std::shared_ptr<const stof::Tokenizer> tokenizer = stof::capi::tokenizer_of(of_session);
    auto made = std::make_unique<stof_text_stream>(stof_text_stream{tokenizer, stof::TokenStream(*tokenizer), {}});
    for (const std::int32_t id : before) added(*made, id);
    handle = made.release();
  });
}

stof_status stof_text_stream_add(stof_text_stream* stream, int32_t id, const char** text, int64_t* size) {
  return given_text(stream, text, size, "stof_text_stream_add",
                    [&](stof_text_stream& of_stream) { return added(of_stream, id); });
}

stof_status stof_text_stream_finish(stof_text_stream* stream, const char** text, int64_t* size) {
  return given_text(stream, text, size, "stof_text_stream_finish",
                    [](stof_text_stream& of_stream) { return of_stream.stream.finish(); });
}

void stof_text_stream_destroy(stof_text_stream* stream) { delete stream; }
