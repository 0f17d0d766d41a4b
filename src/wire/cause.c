/* cause.c - root cause of a failure: each rank tells the launcher which rank it blames. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/cause.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "ringup.h"
#include "wire/discover.h"

enum { CAUSE_BYTES = DISCOVER_RANKS * (int)sizeof(uint32_t) };

/* A word: two flags, and 1 + the rank; 0 where there is none. */
#define CAUSE_JOINED (1U << 31)
#define CAUSE_LEFT   (1U << 30)
#define CAUSE_RANK   ((1U << 24) - 1)

static int page_map(struct cause *c, int fd, struct err *e)
{
	void *page = mmap(NULL, CAUSE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		return fail_os(e, "memory file for causes of failures");
	c->word = page;
	return 0;
}

int cause_create(struct cause *c, struct err *e)
{
	int rc;

	*c = (struct cause){ 0 };
	c->fd = file_lift(memfd_create("ringup-cause", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (c->fd < 0) {
		c->fd = 0;
		return fail_os(e, "memory file for causes of failures");
	}
	rc = ftruncate(c->fd, CAUSE_BYTES) ||
			     fcntl(c->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)
		     ? fail_os(e, "memory file for causes of failures")
		     : page_map(c, c->fd, e);
	if (rc)
		cause_close(c);
	return rc;
}

int cause_map(struct cause *c, int fd, int rank, struct err *e)
{
	struct stat st;
	int rc;

	*c = (struct cause){ 0 };
	if (rank < 0 || rank >= DISCOVER_RANKS)
		return fail(e, RINGUP_EINVAL, "rank %d: not below %d", rank, DISCOVER_RANKS);
	if (fstat(fd, &st))
		return fail_os(e, "RINGUP_CAUSE_FD=%d", fd);
	/* If the file could shrink, a write to the page would be a SIGBUS. */
	if (!S_ISREG(st.st_mode) || st.st_size != CAUSE_BYTES || fcntl(fd, F_GET_SEALS) < 0 ||
	    !(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK))
		return fail(e, RINGUP_EINVAL,
			    "RINGUP_CAUSE_FD=%d: not the descriptor that the launcher left "
			    "open",
			    fd);
	rc = page_map(c, fd, e);
	if (!rc)
		c->mine = c->word + rank;
	return rc;
}

void cause_join(struct cause *c)
{
	if (c->mine)
		__atomic_store_n(c->mine, CAUSE_JOINED, __ATOMIC_RELEASE);
}

void cause_blame(struct cause *c, int rank)
{
	uint32_t joined = CAUSE_JOINED;

	if (!c->mine || rank < 0 || rank >= DISCOVER_RANKS || c->mine == c->word + rank)
		return;
	__atomic_compare_exchange_n(c->mine, &joined, CAUSE_JOINED | ((uint32_t)rank + 1),
				    false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

void cause_leave(struct cause *c)
{
	if (c->mine)
		__atomic_fetch_or(c->mine, CAUSE_LEFT, __ATOMIC_RELEASE);
}

uint32_t cause_pack(struct cause_seen seen)
{
	return (seen.joined ? CAUSE_JOINED : 0) | (seen.left ? CAUSE_LEFT : 0) |
	       (((uint32_t)seen.rank + 1) & CAUSE_RANK);
}

struct cause_seen cause_unpack(uint32_t word)
{
	return (struct cause_seen){
		.joined = word & CAUSE_JOINED,
		.left = word & CAUSE_LEFT,
		.rank = (int)(word & CAUSE_RANK) - 1,
	};
}

struct cause_seen cause_read(const struct cause *c, int rank)
{
	return cause_unpack(c->word && rank >= 0 && rank < DISCOVER_RANKS
				    ? __atomic_load_n(c->word + rank, __ATOMIC_ACQUIRE)
				    : 0);
}

void cause_close(struct cause *c)
{
	if (c->word)
		munmap(c->word, CAUSE_BYTES);
	if (c->fd > 0)
		close(c->fd);
	*c = (struct cause){ 0 };
}
