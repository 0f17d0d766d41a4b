/* cma.h - cross-memory attach (CMA): the kernel copies from or to another process's memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_CMA_H
#define WIRE_CMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * process_vm_readv(2) and process_vm_writev(2) copy between two processes of one user, if the
 * kernel lets the one trace the other.  A process tells others its number and the address of a
 * random word: a process that reads this word there may copy, and has the right process, not
 * one of the same number in another name space.
 */
struct cma {
	int32_t pid;
	uint64_t at, word;
};

/* cma_self - what others need to find this process; false if the kernel gives no random
 * number.  Threads: any. */
bool cma_self(struct cma *r);

/* cma_try - may this process read and write that one's memory?  Asks the kernel. */
bool cma_try(const struct cma *r);

/* cma_mine - can other processes copy from @bytes at @p?  Asks the kernel for the first and
 * the last byte: false for a device's memory, true for 0 bytes. */
bool cma_mine(const void *p, size_t bytes);

/* cma_read, cma_write - all @bytes, at @at in process @pid; 0, or an errno: ESRCH if it
 * has ended, EFAULT if that memory does not exist: a part may have been copied. */
int cma_read(int32_t pid, void *dst, uint64_t at, size_t bytes);
int cma_write(int32_t pid, uint64_t at, const void *src, size_t bytes);

#endif
