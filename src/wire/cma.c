/* cma.c - cross-memory attach (CMA): the kernel copies from or to another process's memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/cma.h"

#include <errno.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

/* The random word that others look for.  A child of fork() has the same word at the same
 * address, and a process number of its own. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t word;

static void make_word(void)
{
	if (getrandom(&word, sizeof(word), 0) != (ssize_t)sizeof(word))
		word = 0;
}

bool cma_self(struct cma *r)
{
	pthread_once(&once, make_word);
	*r = (struct cma){ getpid(), (uint64_t)(uintptr_t)&word, word };
	return word != 0;
}

static struct iovec here(const void *p, size_t bytes)
{
	return (struct iovec){ (void *)(uintptr_t)p, bytes };
}

static struct iovec there(uint64_t at, size_t bytes)
{
	return (struct iovec){ (void *)(uintptr_t)at, bytes };
}

bool cma_try(const struct cma *r)
{
	uint64_t found = 0;

	return r->word && !cma_read(r->pid, &found, r->at, sizeof(found)) && found == r->word;
}

bool cma_mine(const void *p, size_t bytes)
{
	uint64_t first = (uint64_t)(uintptr_t)p;
	unsigned char ends[2];
	struct iovec to = here(ends, sizeof(ends));
	struct iovec from[2] = { there(first, 1), there(first + bytes - 1, 1) };

	return !bytes ||
	       process_vm_readv(getpid(), &to, 1, from, 2, 0) == (ssize_t)sizeof(ends);
}

/* The bytes that one call has copied; if none, *@why is the errno. */
static size_t copied(ssize_t n, int *why)
{
	*why = n > 0 ? 0 : n < 0 ? errno : EFAULT;
	return n > 0 ? (size_t)n : 0;
}

int cma_read(int32_t pid, void *dst, uint64_t at, size_t bytes)
{
	size_t done = 0;
	int why = 0;

	while (done < bytes && !why) {
		struct iovec to = here((unsigned char *)dst + done, bytes - done);
		struct iovec from = there(at + done, bytes - done);

		done += copied(process_vm_readv(pid, &to, 1, &from, 1, 0), &why);
	}
	return why;
}

int cma_write(int32_t pid, uint64_t at, const void *src, size_t bytes)
{
	size_t done = 0;
	int why = 0;

	while (done < bytes && !why) {
		struct iovec from = here((const unsigned char *)src + done, bytes - done);
		struct iovec to = there(at + done, bytes - done);

		done += copied(process_vm_writev(pid, &from, 1, &to, 1, 0), &why);
	}
	return why;
}
