/* SPDX-License-Identifier: Apache-2.0
 * Loaded models for C99, beside the attention of stof.h and by its rules: from the folder of a checkpoint to
 * embeddings, scores, and texts that go on.
 *
 *   stof_session_load -> stof_session_embed_texts, stof_session_generate_texts, ... -> stof_session_destroy
 *
 * docs/c_api.md, Sessions. In every structure 0 is the default; what the library writes is said. */
#pragma once
#include "stof/stof.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- A session: a checkpoint, loaded for a device. ---- */

typedef struct stof_session stof_session;

typedef enum stof_pooling {
  STOF_POOLING_OF_MODEL = 0, /* as the checkpoint says */
  STOF_POOLING_NONE = 1,     /* every token */
  STOF_POOLING_CLS = 2,      /* the first token */
  STOF_POOLING_MEAN = 3,
  STOF_POOLING_MAX = 4,
  STOF_POOLING_LAST = 5 /* the last token */
} stof_pooling;

typedef struct stof_session_options {
  size_t struct_size;    /* sizeof(stof_session_options) */
  const char* device;    /* "cpu", "cuda", "cuda:N", or "auto", which NULL is too: a GPU where models run on one */
  int32_t dtype;         /* of weights and activations: STOF_F32, STOF_BF16, on a GPU STOF_F16 */
  int32_t logits;        /* not 0, of decoders: scores of the vocabulary in place of hidden states; to generate */
  const stof_mask* mask; /* attention allows what the model's own mask and this one allow; NULL: the model's */
  int32_t threads;       /* of a call, 0..1024; 0: as many as OpenMP would take */
  int32_t untuned;       /* not 0: plans that `stof tune` has kept are left alone */
  /* Told, for a person, why a plan that is there is not used, and what of generation_config.json is not applied: at
     loading, and from any thread that calls. */
  void (*log)(void* user, const char* message);
  void* log_user;
  int64_t global_tokens; /* Longformer: so many first tokens of each text see all others, and are seen by them */
} stof_session_options;

/* The folder has config.json, safetensors and a tokenizer; its files have to stay as they are while there is the
 * session (docs/sessions.md). options: NULL is all defaults. The mask may be destroyed afterwards. */
stof_status stof_session_load(const char* folder, const stof_session_options* options, stof_session** session);

typedef struct stof_session_info {
  size_t struct_size;      /* sizeof(stof_session_info); all else is written */
  int64_t hidden_size;     /* of a hidden state */
  int64_t columns;         /* of every token's result: hidden_size, or for logits the vocabulary */
  int64_t max_tokens;      /* of a text, special tokens included: longer ones are cut or refused */
  int64_t positions;       /* of a text that is given as ids: tokens that it may have */
  int64_t vocabulary;      /* ids are 0..vocabulary - 1 */
  int32_t pooling;         /* stof_pooling, as the checkpoint says */
  int32_t normalizes;      /* 1: pooled vectors have length 1 */
  const char* device;      /* "cpu", "cuda:0": valid as long as the session */
  const char* device_name; /* "NVIDIA H200": so is this */
  int64_t pooled_columns;  /* of a pooled vector: of what dense layers of the checkpoint make, else as columns */
} stof_session_info;

stof_status stof_session_describe(const stof_session* session, stof_session_info* info);

/* As Session::statistics() has them (docs/sessions.md). */
typedef struct stof_statistics {
  size_t struct_size; /* sizeof(stof_statistics); all else is written */
  int64_t calls;
  int64_t plans;         /* of attention, since loading */
  int64_t planned_bytes; /* for activations, by the call so far that needs most */
  int64_t held_bytes;    /* for activations, and of generating on a GPU for keys and values */
} stof_statistics;

stof_status stof_session_statistics(const stof_session* session, stof_statistics* statistics);

void stof_session_destroy(stof_session* session); /* NULL: nothing happens */

/* ---- What goes in: texts, or their tokens. Host memory, read before a call returns. ---- */

typedef struct stof_texts {
  const char* const* data; /* [count], UTF-8 */
  const int64_t* sizes;    /* [count], bytes of each; NULL: each ends in front of its first 0 byte */
  int64_t count;
} stof_texts;

/* Text i is ids[offsets[i]] to ids[offsets[i + 1] - 1]. */
typedef struct stof_tokens {
  const int32_t* ids;     /* may be NULL only when there are none */
  const int32_t* offsets; /* [count + 1], ascending from 0 */
  int64_t count;          /* of texts */
} stof_tokens;

/* ---- Tokens of texts, and texts of tokens ---- */

/* Where ids go. With ids NULL only offsets and counts are written, so that offsets[texts] says what ids need. */
typedef struct stof_token_buffer {
  size_t struct_size; /* sizeof(stof_token_buffer) */
  int32_t* ids;       /* [capacity], written */
  int64_t capacity;
  int32_t* offsets;  /* [texts + 1], written, also when there is too little room for the ids */
  int64_t truncated; /* written: texts that were cut */
} stof_token_buffer;

/* Ids with the special tokens, of each text at most `most`: of a longer one the end is left out. 0: all are kept. */
stof_status stof_session_tokenize(const stof_session* session, const stof_texts* texts, int64_t most,
                                  stof_token_buffer* tokens);

/* Where a text goes, without a 0 byte behind it. With data NULL only its size is written. */
typedef struct stof_text_buffer {
  size_t struct_size; /* sizeof(stof_text_buffer) */
  char* data;         /* [capacity], written */
  int64_t capacity;
  int64_t size; /* written, also when there is too little room */
} stof_text_buffer;

/* UTF-8, without special tokens and ids of the model that the tokenizer has nothing for; others are refused. */
stof_status stof_session_decode(const stof_session* session, const int32_t* ids, int64_t count, stof_text_buffer* text);

/* The same id by id, for one thread at a time. The session may be destroyed before: the stream keeps its tokenizer. */
typedef struct stof_text_stream stof_text_stream;

/* Behind these ids, the prompt's for one, whose own text does not come: a space between the two does. */
stof_status stof_text_stream_create(const stof_session* session, const int32_t* ids, int64_t count,
                                    stof_text_stream** stream);

/* What is certain by now behind the text of before: nothing while bytes of a character are missing. *text is valid
 * until the next call with the stream, and has no 0 byte behind it. */
stof_status stof_text_stream_add(stof_text_stream* stream, int32_t id, const char** text, int64_t* size);

/* The rest, with U+FFFD for what stayed incomplete. Nothing comes behind it. */
stof_status stof_text_stream_finish(stof_text_stream* stream, const char** text, int64_t* size);

void stof_text_stream_destroy(stof_text_stream* stream); /* NULL: nothing happens */

/* ---- Embeddings ---- */

typedef struct stof_embed_options {
  size_t struct_size;  /* sizeof(stof_embed_options) */
  int32_t pooling;     /* stof_pooling */
  int32_t refuse_long; /* not 0: a text of more than max_tokens is an error; 0: its end is left out */
  int64_t batch;       /* texts run together, those of similar length; 0: 32 */
} stof_embed_options;

/* Where results go. With values NULL nothing is computed, and what else is written says how large they are. */
typedef struct stof_embeddings {
  size_t struct_size; /* sizeof(stof_embeddings) */
  float* values;      /* written: [texts, pooled_columns], or with STOF_POOLING_NONE [tokens, columns] */
  int64_t capacity;   /* of values, in floats */
  int32_t* lengths;   /* [texts], written: tokens of each; NULL: not wanted */
  int64_t rows;       /* written, also when there is too little room for the values */
  int64_t truncated;  /* written: texts that were cut */
} stof_embeddings;

/* options: NULL is all defaults. Through the checkpoint's dense layers, and normalised where it says so. Of logits
 * every token's or the last one's. */
stof_status stof_session_embed_texts(const stof_session* session, const stof_texts* texts,
                                     const stof_embed_options* options, stof_embeddings* embeddings);

/* The same of tokens, of which there may be `positions` to a text: none is cut. */
stof_status stof_session_embed(const stof_session* session, const stof_tokens* tokens,
                               const stof_embed_options* options, stof_embeddings* embeddings);

/* The last hidden states, or logits, of every token, all texts together in one call: [ids, columns], into room for
 * `capacity` floats. */
stof_status stof_session_run(const stof_session* session, const stof_tokens* tokens, float* out, int64_t capacity);

/* ---- Texts that go on: sessions of decoders with logits ---- */

typedef enum stof_stop {
  STOF_STOP_NOTHING = 0,
  STOF_STOP_TEXT = 1, /* the text ends with this token */
  STOF_STOP_ALL = 2   /* the call does; what was made by then is its result */
} stof_stop;

typedef struct stof_generate_options {
  size_t struct_size; /* sizeof(stof_generate_options) */
  int64_t tokens;     /* at most, behind each text; fewer where the model has no more positions; 0: 128 */
  double temperature; /* 0: always the likeliest token; else by chance, the more even the higher */
  int64_t top_k;      /* by chance among so many of the likeliest; 0: all */
  double top_p;       /* among the likeliest that have so much of the probability together, up to 1, which 0 is too */
  uint64_t seed; /* of the chances, with a text's place in the call and a token's number; not with texts beside it */
  const int32_t* ends; /* [end_count], tokens behind which a text ends; NULL: the checkpoint's */
  int64_t end_count;   /* 0 with ends that are not NULL: none ends a text */
  int64_t batch;       /* texts run together; 0: 32 */
  int32_t truncate;    /* not 0: a text above max_tokens, or that leaves no position, loses its end; 0: an error */
  /* Called for each token as it is made, in the thread of the call, which waits for it; NULL: none is. It gives a
   * stof_stop. It may call the library, with this session too, and has to return: no exception, no longjmp. */
  int32_t (*token)(void* user, int64_t text, int32_t id);
  void* user;
} stof_generate_options;

/* Where tokens go: text i has made ids[offsets[i]] to ids[offsets[i + 1] - 1], the one that ends it included. */
typedef struct stof_generated {
  size_t struct_size; /* sizeof(stof_generated) */
  int32_t* ids;       /* [capacity], written; may be NULL, to learn `needed` */
  int64_t capacity;
  int32_t* offsets;  /* [texts + 1], written; with ids NULL only where there are no texts */
  int64_t needed;    /* written, before anything is computed: ids that may come, by tokens and positions */
  int64_t truncated; /* written, so too: texts that were cut */
} stof_generated;

/* options: NULL is all defaults. Text by stof_text_stream, behind the ids of stof_session_tokenize. */
stof_status stof_session_generate_texts(const stof_session* session, const stof_texts* texts,
                                        const stof_generate_options* options, stof_generated* generated);

stof_status stof_session_generate(const stof_session* session, const stof_tokens* tokens,
                                  const stof_generate_options* options, stof_generated* generated);

#ifdef __cplusplus
}
#endif
