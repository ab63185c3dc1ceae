/* SPDX-License-Identifier: Apache-2.0
 * Counts what passes malloc and its relatives, of every library and thread in the process (counted_memory.c). */
#pragma once

/* From now on, or no longer. */
void count_allocations(int on);
/* Counted so far. */
long counted_allocations(void);
