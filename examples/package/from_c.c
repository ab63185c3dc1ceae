/* SPDX-License-Identifier: Apache-2.0
 * The C library, installed: parses a mask and prints it. */
#include <stdio.h>
#include <stof/stof.h>

int main(void) {
  stof_mask* mask = NULL;
  const stof_status status = stof_mask_parse("window( 256 )&causal", NULL, &mask);
  printf("stof::c %s: %s\n", stof_version(), status == STOF_OK ? stof_mask_text(mask) : stof_last_error());
  stof_mask_destroy(mask);
  return (int)status;
}
