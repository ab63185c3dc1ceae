/* SPDX-License-Identifier: Apache-2.0
 * Attention from C: a mask from text, a plan, a run, checked against the definition. Needs stof/stof.h and libstof. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "stof/stof.h"

enum { kHeads = 2, kLength = 256, kHeadDim = 32, kValues = kHeads * kLength * kHeadDim };

static float q[kValues], k[kValues], v[kValues], out[kValues]; /* [1, kHeads, kLength, kHeadDim] */

static void check(stof_status status) {
  if (status == STOF_OK) return;
  fprintf(stderr, "stof %s: %s\n", stof_version(), stof_last_error());
  exit((int)status);
}

/* The largest difference of one row from softmax(q k^T / sqrt(d)) v over the 32 tokens up to its own. */
static double difference_of_row(int head, int row) {
  const float *keys = k + head * kLength * kHeadDim, *values = v + head * kLength * kHeadDim;
  const float *query = q + (head * kLength + row) * kHeadDim, *found = out + (head * kLength + row) * kHeadDim;
  double sums[kHeadDim] = {0}, total = 0, worst = 0;
  for (int key = row < 31 ? 0 : row - 31; key <= row; ++key) {
    double score = 0;
    for (int d = 0; d < kHeadDim; ++d) score += (double)query[d] * keys[key * kHeadDim + d];
    const double weight = exp(score / sqrt(kHeadDim));
    total += weight;
    for (int d = 0; d < kHeadDim; ++d) sums[d] += weight * values[key * kHeadDim + d];
  }
  for (int d = 0; d < kHeadDim; ++d) worst = fmax(worst, fabs(sums[d] / total - found[d]));
  return worst;
}

int main(void) {
  for (int i = 0; i < kValues; ++i) {
    q[i] = sinf(0.37f * (float)i);
    k[i] = cosf(0.21f * (float)i);
    v[i] = sinf(0.11f * (float)i);
  }

  stof_mask* mask = NULL;
  check(stof_mask_parse("causal & window(31)", NULL, &mask));

  const stof_shape shape = {.struct_size = sizeof shape,
                            .batch = 1,
                            .heads = kHeads,
                            .kv_heads = kHeads,
                            .queries = kLength,
                            .keys = kLength,
                            .head_dim = kHeadDim,
                            .dtype = STOF_F32};
  stof_plan* plan = NULL;
  check(stof_plan_create(mask, &shape, "cpu", NULL, &plan));
  stof_mask_destroy(mask);
  printf("%s\n", stof_plan_description(plan));

  const stof_tensor like_q = {.batch_stride = kValues, .head_stride = kLength * kHeadDim, .row_stride = kHeadDim};
  stof_call call = {.struct_size = sizeof call,
                    .dtype = STOF_F32,
                    .batch = 1,
                    .queries = kLength,
                    .keys = kLength,
                    .q = like_q,
                    .k = like_q,
                    .v = like_q,
                    .out = like_q};
  call.q.data = q;
  call.k.data = k;
  call.v.data = v;
  call.out.data = out;
  check(stof_plan_run(plan, &call)); /* as often as wanted, from any thread */
  stof_plan_destroy(plan);

  double worst = 0;
  for (int row = 0; row < kHeads * kLength; ++row) worst = fmax(worst, difference_of_row(row / kLength, row % kLength));
  printf("largest difference from the definition: %.2g\n", worst);
  return worst < 1e-5 ? 0 : 1;
}
