/* SPDX-License-Identifier: Apache-2.0
 * A model from C: the scores behind a text, and what a decoder goes on with, printed as it is made and stopped after a
 * while. Needs stof/stof_session.h and libstof.
 *   example_06_session MODEL      the folder of a checkpoint: GPT-2, Llama, Mistral, Qwen2 or Qwen3 */
#include <stdio.h>
#include <stdlib.h>

#include "stof/stof_session.h"

enum { kMostTokens = 32, kEnough = 60 /* characters */ };

/* What is printed behind a text. Whole characters come, so their first bytes count them. */
struct printed {
  stof_text_stream* stream;
  int64_t characters;
};

static void check(stof_status status) {
  if (status == STOF_OK) return;
  fprintf(stderr, "stof %s: %s\n", stof_version(), stof_last_error());
  exit((int)status);
}

static void* allocated(size_t bytes) {
  void* const found = malloc(bytes);
  if (found != NULL || bytes == 0) return found;
  fprintf(stderr, "no memory for %zu bytes\n", bytes);
  exit(1);
}

static void show(struct printed* of_text, const char* piece, int64_t size) {
  fwrite(piece, 1, (size_t)size, stdout);
  for (int64_t i = 0; i < size; ++i) of_text->characters += ((unsigned char)piece[i] & 0xC0) != 0x80; /* UTF-8 */
}

/* For each token as it is made. What fails in here is said, and ends the call. */
static int32_t print(void* user, int64_t text, int32_t id) {
  struct printed* const of_text = user;
  const char* piece = NULL;
  int64_t size = 0;
  (void)text; /* there is one */
  if (stof_text_stream_add(of_text->stream, id, &piece, &size) != STOF_OK) {
    fprintf(stderr, "%s\n", stof_last_error());
    return STOF_STOP_ALL;
  }
  show(of_text, piece, size);
  return of_text->characters < kEnough ? STOF_STOP_NOTHING : STOF_STOP_TEXT;
}

/* A stream that goes on behind the texts' tokens. */
static stof_text_stream* stream_behind(const stof_session* session, const stof_texts* texts) {
  int32_t offsets[2];
  stof_token_buffer tokens = {.struct_size = sizeof tokens, .offsets = offsets};
  check(stof_session_tokenize(session, texts, 0, &tokens)); /* how many */
  int32_t* const ids = allocated(sizeof *ids * (size_t)offsets[1]);
  tokens.ids = ids;
  tokens.capacity = offsets[1];
  check(stof_session_tokenize(session, texts, 0, &tokens));
  stof_text_stream* stream = NULL;
  check(stof_text_stream_create(session, ids, offsets[1], &stream));
  free(ids);
  return stream;
}

/* The token with the highest score behind the text. */
static int32_t likeliest(const stof_session* session, const stof_texts* texts) {
  stof_session_info info = {.struct_size = sizeof info};
  check(stof_session_describe(session, &info));
  float* const scores = allocated(sizeof *scores * (size_t)info.pooled_columns);
  const stof_embed_options options = {.struct_size = sizeof options, .pooling = STOF_POOLING_LAST};
  stof_embeddings to = {.struct_size = sizeof to, .values = scores, .capacity = info.pooled_columns};
  check(stof_session_embed_texts(session, texts, &options, &to));
  int32_t best = 0;
  for (int32_t i = 1; i < (int32_t)info.pooled_columns; ++i)
    if (scores[i] > scores[best]) best = i;
  free(scores);
  return best;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: example_06_session MODEL\n");
    return 2;
  }
  stof_session* session = NULL;
  const stof_session_options options = {.struct_size = sizeof options, .logits = 1};
  check(stof_session_load(argv[1], &options, &session));

  const char* const text = "The bread rises slowly in a cold kitchen, and";
  const stof_texts texts = {.data = &text, .count = 1};
  struct printed printed = {.stream = stream_behind(session, &texts)};
  printf("%s", text);

  int32_t ids[kMostTokens], offsets[2];
  const stof_generate_options how = {
      .struct_size = sizeof how, .tokens = kMostTokens, .token = print, .user = &printed};
  stof_generated made = {.struct_size = sizeof made, .ids = ids, .capacity = kMostTokens, .offsets = offsets};
  check(stof_session_generate_texts(session, &texts, &how, &made));
  const char* rest = NULL; /* of a character whose bytes did not all come */
  int64_t size = 0;
  check(stof_text_stream_finish(printed.stream, &rest, &size));
  show(&printed, rest, size);
  printf("\n%d characters, %d tokens\n", (int)printed.characters, (int)offsets[1]);

  const int right = ids[0] == likeliest(session, &texts);
  stof_text_stream_destroy(printed.stream);
  stof_session_destroy(session);
  return right ? 0 : 1;
}
