/* memory.c - memory that processes can share, as a file without a name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"

uint64_t memory_most(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_FSIZE, &r) || r.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return r.rlim_cur;
}

int memory_permit(uint64_t bytes, const char *what, struct err *e)
{
	uint64_t most = memory_most();

	if (bytes > most)
		return fail(e, RINGUP_ESYSTEM,
			    "%llu KiB of %s: files are limited to %llu KiB; raise that limit "
			    "(ulimit -f)",
			    (unsigned long long)(bytes + 1023) >> 10, what,
			    (unsigned long long)most >> 10);
	return 0;
}

int memory_size(int fd, uint64_t bytes, struct err *e)
{
	int rc = memory_permit(bytes, "memory to share", e);

	if (rc)
		return rc;
	if (ftruncate(fd, (off_t)bytes))
		return fail_os(e, "%llu bytes of memory to share", (unsigned long long)bytes);
	return 0;
}
