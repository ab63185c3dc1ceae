/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/capi/counted_memory.h"

#include <stddef.h>

/* glibc's own, below the names that a program with this file takes over. */
extern void* __libc_malloc(size_t bytes);
extern void* __libc_calloc(size_t count, size_t bytes);
extern void* __libc_realloc(void* memory, size_t bytes);
extern void* __libc_memalign(size_t alignment, size_t bytes);

static _Atomic int counting;
static _Atomic long allocations;

void count_allocations(int on) { counting = on; }
long counted_allocations(void) { return allocations; }

void* malloc(size_t bytes) {
  allocations += counting;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  allocations += counting;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  allocations += counting;
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  allocations += counting;
  return __libc_memalign(alignment, bytes);
}
