/* sifted.h - for tests: a log in memory, and what diagnose concludes from it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SIFTED_H
#define TESTS_SIFTED_H

#include <fcntl.h>
#include <unistd.h>

#include "diagnose/conclude.h"
#include "diagnose/nodes.h"
#include "diagnose/read.h"
#include "diagnose/sift.h"

static struct sieve sieve; /* the program opens and closes it */
static struct conclusions found;

/* diagnose - sets found to the conclusions from @log, which fits into a pipe. */
static inline void diagnose(const char *log, size_t len)
{
	static const struct nodes nodes;
	struct reader r = { .fd = -1, .pidfd = -1 };
	int ends[2];

	conclude_free(&found);
	evidence_reset(&sieve.evidence);
	if (pipe2(ends, O_CLOEXEC) || write(ends[1], log, len) != (ssize_t)len)
		return;
	close(ends[1]);
	r.fd = ends[0];
	if (sift_log(&sieve, &r, 0, NULL) || conclude(&found, &sieve.evidence, &nodes, NULL))
		found.n = 0;
	read_close(&r);
}

#endif
