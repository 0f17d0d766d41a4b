/* notice.c - a word that the launcher of an elastic job shares with its ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/notice.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "ringup.h"

enum { NOTICE_BYTES = 4096 };

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

int notice_create(struct notice *n, struct err *e)
{
	void *page;

	n->word = NULL;
	n->fd = file_lift(memfd_create("ringup-notice", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (n->fd < 0)
		return fail_os(e, "memory file for changes of hosts");
	page = ftruncate(n->fd, NOTICE_BYTES)
		       ? MAP_FAILED
		       : mmap(NULL, NOTICE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, n->fd, 0);
	if (page == MAP_FAILED) {
		fail_os(e, "memory file for changes of hosts");
		notice_close(n);
		return RINGUP_ESYSTEM;
	}
	n->word = page;
	/* The mapping that exists may write.  Linux before 5.1 does not know the last seal. */
	if (fcntl(n->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) &&
	    fcntl(n->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)) {
		fail_os(e, "memory file for changes of hosts");
		notice_close(n);
		return RINGUP_ESYSTEM;
	}
	return 0;
}

int notice_map(struct notice *n, int fd, struct err *e)
{
	struct stat st;
	void *page;

	*n = (struct notice){ 0 };
	if (fstat(fd, &st))
		return fail_os(e, "RINGUP_NOTICE_FD=%d", fd);
	/* If the file could shrink, a read of the page would be a SIGBUS. */
	if (!S_ISREG(st.st_mode) || st.st_size != NOTICE_BYTES || fcntl(fd, F_GET_SEALS) < 0 ||
	    !(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK))
		return fail(e, RINGUP_EINVAL,
			    "RINGUP_NOTICE_FD=%d: not the descriptor that the launcher left "
			    "open",
			    fd);
	page = mmap(NULL, NOTICE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return fail_os(e, "RINGUP_NOTICE_FD=%d", fd);
	n->word = page;
	return 0;
}

void notice_set(struct notice *n, uint32_t generation, unsigned bits)
{
	if (n->word)
		__atomic_store_n(n->word, (uint64_t)generation << NOTICE_BITS | bits,
				 __ATOMIC_RELEASE);
}

unsigned notice_read(const struct notice *n, uint32_t generation)
{
	uint64_t word = n->word ? __atomic_load_n(n->word, __ATOMIC_ACQUIRE) : 0;

	return word >> NOTICE_BITS == generation ? word & ((1U << NOTICE_BITS) - 1) : 0;
}

void notice_close(struct notice *n)
{
	if (n->word)
		munmap(n->word, NOTICE_BYTES);
	if (n->fd > 0)
		close(n->fd);
	*n = (struct notice){ 0 };
}
