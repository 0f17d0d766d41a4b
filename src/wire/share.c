/* share.c - an allocator of memory that other ranks of the host can map. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/share.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/forks.h"
#include "ringup.h"
#include "wire/memory.h"

enum { ALIGN = 64, PAGE = 4096 };

#define MOST_BYTES  ((uint64_t)256 << 30)
#define EVEN_BYTES  ((uint64_t)64 << 20)
#define LEAST_BYTES ((uint64_t)1 << 20)

/* The arena from @at on, up to the next block. */
struct block {
	size_t at;
	bool used;
};

struct mapping {
	struct share_arena arena;
	unsigned char *base;
	unsigned uses;
};

/* The arena of this process's parent, or of an earlier ancestor. */
struct ancestor {
	unsigned char *base;
	size_t bytes;
	struct ancestor *next;
};

/* The lock guards all fields but base and arena, which are written once. */
static struct {
	pthread_mutex_t lock;
	struct share_arena arena;
	unsigned char *base;              /* atomic: NULL until the rest is set */
	struct ancestor *own, *ancestors; /* the first for a child of this one */
	struct block *blocks;
	size_t count, room;
	struct mapping *others;
	size_t mapped;
	struct forks_hook fork;
} heap = { .lock = PTHREAD_MUTEX_INITIALIZER };

static unsigned char *base_now(void)
{
	return __atomic_load_n(&heap.base, __ATOMIC_ACQUIRE);
}

static unsigned char *map(int fd, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (p == MAP_FAILED)
		return NULL;
	/* A kernel may refuse both; neither is needed. */
	madvise(p, bytes, MADV_HUGEPAGE);
	madvise(p, bytes, MADV_DONTDUMP);
	return p;
}

/* A child has no arena: it sees its parent's, and a thread that held the lock does
 * not exist here. */
static void disown(void *arg)
{
	(void)arg;
	heap.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	if (heap.base) {
		*heap.own = (struct ancestor){ heap.base, heap.arena.bytes, heap.ancestors };
		heap.ancestors = heap.own;
	}
	heap.base = NULL;
	heap.own = NULL;
}

/* The machine's memory, at most MOST_BYTES and the limit for files; rounded. */
static uint64_t arena_bytes(void)
{
	uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	bytes = bytes > MOST_BYTES ? MOST_BYTES : bytes;
	bytes = (bytes + EVEN_BYTES - 1) / EVEN_BYTES * EVEN_BYTES;
	return bytes > memory_most() ? memory_most() / PAGE * PAGE : bytes;
}

static int open_arena(struct err *e)
{
	uint64_t bytes = arena_bytes();
	unsigned char *base = NULL;
	struct stat st;
	int fd, rc;

	fd = file_lift(memfd_create("ringup-arena", MFD_CLOEXEC));
	if (fd < 0 || fstat(fd, &st))
		return fail_os(e, "memory to share");
	while (!(rc = memory_size(fd, bytes, e)) && !(base = map(fd, bytes)) &&
	       bytes > LEAST_BYTES)
		bytes = bytes / 2 / PAGE * PAGE;
	free(heap.blocks);
	heap.blocks = malloc(64 * sizeof(*heap.blocks));
	heap.own = heap.own ? heap.own : malloc(sizeof(*heap.own));
	if (!base || !heap.blocks || !heap.own) {
		close(fd);
		if (base)
			munmap(base, bytes);
		return rc ? rc : fail(e, RINGUP_ENOMEM, "no addresses for memory to share");
	}
	if (!heap.fork.fn) {
		heap.fork.fn = disown;
		forks_add(&heap.fork);
	}
	heap.room = 64;
	heap.count = 1;
	heap.blocks[0] = (struct block){ 0, false };
	heap.arena = (struct share_arena){ getpid(), fd, st.st_ino, bytes };
	__atomic_store_n(&heap.base, base, __ATOMIC_RELEASE);
	return 0;
}

static size_t end_of(size_t i)
{
	return i + 1 < heap.count ? heap.blocks[i + 1].at : heap.arena.bytes;
}

/* Block @i shrinks to @bytes and is used; its rest becomes a free block. */
static int share_split(size_t i, size_t bytes, struct err *e)
{
	size_t rest = heap.blocks[i].at + bytes;

	if (rest < end_of(i)) {
		if (heap.count == heap.room) {
			struct block *more =
				realloc(heap.blocks, 2 * heap.room * sizeof(*heap.blocks));

			if (!more)
				return fail(e, RINGUP_ENOMEM, "no memory for one more block");
			heap.blocks = more;
			heap.room *= 2;
		}
		memmove(&heap.blocks[i + 2], &heap.blocks[i + 1],
			(heap.count - i - 1) * sizeof(*heap.blocks));
		heap.blocks[i + 1] = (struct block){ rest, false };
		heap.count++;
	}
	heap.blocks[i].used = true;
	return 0;
}

static void merge(size_t i)
{
	if (i + 1 >= heap.count || heap.blocks[i].used || heap.blocks[i + 1].used)
		return;
	memmove(&heap.blocks[i + 1], &heap.blocks[i + 2],
		(heap.count - i - 2) * sizeof(*heap.blocks));
	heap.count--;
}

/* Whole pages go back to the system, and come back as zeroes; the rest is cleared. */
static void clear(size_t at, size_t end)
{
	size_t first = (at + PAGE - 1) / PAGE * PAGE, last = end / PAGE * PAGE;

	if (first >= last ||
	    fallocate(heap.arena.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first,
		      (off_t)(last - first))) {
		memset(heap.base + at, 0, end - at);
		return;
	}
	memset(heap.base + at, 0, first - at);
	memset(heap.base + last, 0, end - last);
}

static void *share_take(size_t bytes, struct err *e)
{
	for (size_t i = 0; i < heap.count; i++) {
		struct block *b = &heap.blocks[i];

		if (b->used || end_of(i) - b->at < bytes)
			continue;
		return share_split(i, bytes, e) ? NULL : heap.base + heap.blocks[i].at;
	}
	fail(e, RINGUP_ENOMEM, "no room for %zu bytes to share", bytes);
	return NULL;
}

void *share_alloc(size_t bytes, struct err *e)
{
	void *p = NULL;
	int rc = 0;

	if (bytes > MOST_BYTES) {
		fail(e, RINGUP_ENOMEM, "no room for %zu bytes to share", bytes);
		return NULL;
	}
	bytes = bytes ? (bytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
	pthread_mutex_lock(&heap.lock);
	if (!heap.base)
		rc = open_arena(e);
	if (!rc)
		p = share_take(bytes, e);
	pthread_mutex_unlock(&heap.lock);
	return p;
}

/* The used block that starts at @at, or count. */
static size_t block_at(size_t at)
{
	size_t low = 0, high = heap.count;

	while (low < high) {
		size_t i = low + (high - low) / 2;

		if (heap.blocks[i].at < at)
			low = i + 1;
		else
			high = i;
	}
	return low < heap.count && heap.blocks[low].at == at && heap.blocks[low].used
		       ? low
		       : heap.count;
}

bool share_free(void *p)
{
	const struct ancestor *old;
	uint64_t at;
	size_t i;

	for (old = heap.ancestors; old; old = old->next)
		if ((unsigned char *)p >= old->base &&
		    (unsigned char *)p < old->base + old->bytes)
			return true; /* not ours to give back */
	if (!share_find(p, 1, &at))
		return false;
	pthread_mutex_lock(&heap.lock);
	i = block_at(at);
	if (i < heap.count) {
		clear(at, end_of(i));
		heap.blocks[i].used = false;
		merge(i);
		if (i)
			merge(i - 1);
	}
	pthread_mutex_unlock(&heap.lock);
	return true;
}

bool share_find(const void *p, size_t bytes, uint64_t *offset)
{
	const unsigned char *base = base_now();
	uint64_t at;

	if (!base || (const unsigned char *)p < base)
		return false;
	at = (uint64_t)((const unsigned char *)p - base);
	if (at >= heap.arena.bytes || heap.arena.bytes - at < bytes)
		return false;
	*offset = at;
	return true;
}

bool share_self(struct share_arena *a)
{
	if (!base_now())
		return false;
	*a = heap.arena;
	return true;
}

static bool same(const struct share_arena *a, const struct share_arena *b)
{
	return a->pid == b->pid && a->fd == b->fd && a->inode == b->inode &&
	       a->bytes == b->bytes;
}

/* Another file may have this path by now: inode and size tell. */
static unsigned char *share_fetch(const struct share_arena *a)
{
	unsigned char *base = NULL;
	struct stat st;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)a->pid, (int)a->fd);
	fd = file_lift(open(path, O_RDWR | O_CLOEXEC));
	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_ino == a->inode &&
	    (uint64_t)st.st_size == a->bytes && a->bytes <= MOST_BYTES)
		base = map(fd, a->bytes);
	close(fd);
	return base;
}

unsigned char *share_map(const struct share_arena *a)
{
	unsigned char *base = NULL;
	struct mapping *more;

	if (base_now() && same(a, &heap.arena))
		return heap.base;
	pthread_mutex_lock(&heap.lock);
	for (size_t i = 0; i < heap.mapped && !base; i++)
		if (same(a, &heap.others[i].arena)) {
			base = heap.others[i].base;
			heap.others[i].uses++;
		}
	if (!base) {
		more = realloc(heap.others, (heap.mapped + 1) * sizeof(*more));
		heap.others = more ? more : heap.others;
		base = more ? share_fetch(a) : NULL;
		if (base)
			heap.others[heap.mapped++] = (struct mapping){ *a, base, 1 };
	}
	pthread_mutex_unlock(&heap.lock);
	return base;
}

void share_unmap(unsigned char *base)
{
	struct mapping *m;

	pthread_mutex_lock(&heap.lock);
	for (size_t i = 0; base && i < heap.mapped; i++) {
		m = &heap.others[i];
		if (m->base != base)
			continue;
		if (!--m->uses) {
			munmap(m->base, m->arena.bytes);
			*m = heap.others[--heap.mapped];
		}
		break;
	}
	pthread_mutex_unlock(&heap.lock);
}
