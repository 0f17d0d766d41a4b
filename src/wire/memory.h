/* memory.h - memory that processes can share, as a file without a name. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_MEMORY_H
#define WIRE_MEMORY_H

#include <stdint.h>

struct err;

/*
 * memory_most - the bytes that a memory file may have at most: the kernel applies the limit
 * for files (ulimit -f) to it, too, and kills a process that exceeds the limit.
 *
 * memory_permit - fail with RINGUP_ESYSTEM if @what, a file with a name or without, may not
 * have @bytes.
 *
 * memory_size - let the memfd @fd have @bytes of zeros, or fail with RINGUP_ESYSTEM.
 */
uint64_t memory_most(void);
int memory_permit(uint64_t bytes, const char *what, struct err *e);
int memory_size(int fd, uint64_t bytes, struct err *e);

#endif
