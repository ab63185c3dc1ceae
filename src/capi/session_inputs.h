// SPDX-License-Identifier: Apache-2.0
// Texts and tokens as C gives them, checked before anything is read through them; and where results go.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/tokenizer.h"
#include "stof/session.h"
#include "stof/stof_session.h"

namespace stof::capi {

// All throw invalid_argument naming the argument, what was got and what is accepted. `name`: "stof_session_run:
// tokens".
std::vector<std::string> texts_of(const stof_texts* texts, std::string_view name);
std::vector<std::vector<std::int32_t>> tokens_of(const stof_tokens* tokens, std::string_view name);
std::vector<std::int32_t> ids_of(const std::int32_t* ids, std::int64_t count, std::string_view name);

// Where results go, as it is.
float* written(float* values, std::string_view name);
std::int32_t* written(std::int32_t* numbers, std::string_view name);

// Empty: as the checkpoint says.
std::optional<Pooling> pooling_of(std::int32_t pooling, std::string_view name);
std::int32_t number_of(Pooling pooling);  // a stof_pooling

// One of the structures' numbers, where 0 is the default.
inline std::int64_t or_default(std::int64_t value, std::int64_t of_zero) { return value == 0 ? of_zero : value; }

// Texts lie one after the other: where each begins, and the last one ends.
void write_offsets(const std::vector<std::vector<std::int32_t>>& texts, std::int32_t* offsets);
void write_ids(const std::vector<std::vector<std::int32_t>>& texts, std::int32_t* ids);

// The session's, which has one as every session that was loaded from a folder.
std::shared_ptr<const Tokenizer> tokenizer_of(const Session& session);

}  // namespace stof::capi
