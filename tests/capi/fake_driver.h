/* SPDX-License-Identifier: Apache-2.0
 * What tests ask of the driver that is none (fake_driver.c). */
#pragma once

/* Pieces of its memory that were allocated so far. */
long fake_allocations(void);
/* Pieces that are not freed. */
long fake_held(void);
/* From now on every handle is that of another stream. */
void fake_new_streams(void);
/* Kernels that were launched so far. */
long fake_launches(void);
/* Whether one of them had this in its name, since fake_forget(). */
int fake_launched(const char* part);
void fake_forget(void);
/* This stream records from now on, or none. */
void fake_record(const void* stream);
