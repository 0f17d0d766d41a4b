/* test_share.c - an arena: alloc and free at random, and seen by another process. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "tap.h"
#include "wire/share.h"

enum { BLOCKS = 60, ROUNDS = 4000 };

static struct err e;
static unsigned seed = 3;

/* Blocks of all sizes come and go: zeroed, aligned, and none in another's way. */
static int random_blocks(void)
{
	static struct {
		unsigned char *p;
		size_t n;
		unsigned char fill;
	} b[BLOCKS];
	int i, k, good = 1;
	size_t j;

	for (k = 0; k < ROUNDS; k++) {
		i = (int)(rand_r(&seed) % BLOCKS);
		if (b[i].p) {
			for (j = 0; j < b[i].n; j++)
				good &= b[i].p[j] == b[i].fill;
			good &= share_free(b[i].p);
			b[i].p = NULL;
			continue;
		}
		b[i].n = rand_r(&seed) % (rand_r(&seed) % 8 ? 300 : 100000);
		b[i].fill = (unsigned char)(1 + rand_r(&seed) % 255);
		b[i].p = share_alloc(b[i].n, &e);
		if (!b[i].p || (uintptr_t)b[i].p % 64)
			return 0;
		for (j = 0; j < b[i].n; j++)
			good &= b[i].p[j] == 0;
		memset(b[i].p, b[i].fill, b[i].n);
	}
	for (i = 0; i < BLOCKS; i++)
		if (b[i].p)
			share_free(b[i].p);
	return good;
}

/* Is this address among the mappings of this process? */
static int is_mapped(const void *p)
{
	unsigned long from, to, at = (unsigned long)(uintptr_t)p;
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int found = 0;

	while (f && fgets(line, sizeof(line), f))
		found |= sscanf(line, "%lx-%lx", &from, &to) == 2 && from <= at && at < to;
	if (f)
		fclose(f);
	return found;
}

/* What a child does; 0 if all is well.  It maps its parent's arena like any rank. */
static int child(const struct share_arena *a, uint64_t at)
{
	struct share_arena mine, wrong = *a;
	unsigned char *base, *own;
	uint64_t ignored;

	if (share_self(&mine) || share_find("", 1, &ignored))
		return 1;
	base = share_map(a);
	if (!base || base != share_map(a) || strcmp((char *)base + at, "from the parent"))
		return 2;
	strcpy((char *)base + at, "from the child");
	own = share_alloc(100, &e);
	if (!own || !share_self(&mine) || mine.pid != getpid() || mine.inode == a->inode)
		return 3;
	wrong.inode++;
	if (share_map(&wrong))
		return 4;
	share_unmap(NULL);
	share_unmap(own);
	share_unmap(base);
	if (!is_mapped(base))
		return 6;
	share_unmap(base);
	if (is_mapped(base))
		return 7;
	base = share_map(a);
	if (!base || strcmp((char *)base + at, "from the child"))
		return 8;
	wrong = (struct share_arena){ a->pid, 0, a->inode, a->bytes };
	return share_map(&wrong) ? 5 : 0;
}

/* What a child allocates is not its child's to give back, nor what its parent has. */
static int grandchild(char *parents)
{
	char *p = share_alloc(4096, &e), *mine;
	uint64_t at;
	int status = -1;
	pid_t pid;

	if (!p)
		return 1;
	strcpy(p, "the child's");
	pid = fork();
	if (pid == 0) {
		mine = share_alloc(4096, &e);
		if (!mine || mine == p || *mine || share_find(p, 1, &at))
			_exit(2);
		_exit(share_free(p) && share_free(parents) && share_free(mine) ? 0 : 3);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return WEXITSTATUS(status);
	return strcmp(p, "the child's") ? 4 : strcmp(parents, "the parent's") ? 5 : 0;
}

int main(void)
{
	struct share_arena a;
	uint64_t at = 0, other;
	char *p, *q, *again;
	int status = -1;
	pid_t pid;

	ok(!share_self(&a) && !share_find(&a, 1, &at), "there is no arena before it is needed");
	p = share_alloc(4096, &e);
	q = share_alloc(0, &e);
	ok(p && q && p != q, "memory, also nothing");
	ok(share_self(&a) && a.pid == getpid() && a.bytes >= 4096,
	   "the arena is this process's");
	ok(share_find(p, 4096, &at) && share_find(q, 0, &other) && at != other,
	   "what is in it is found");
	ok(!share_find(p, a.bytes + 1, &at) && !share_find(&a, 1, &at), "what is not is not");
	ok(share_map(&a) && (char *)share_map(&a) + at == p, "its own needs no second mapping");
	share_find(p, 1, &at);
	strcpy(p, "from the parent");
	pid = fork();
	if (pid == 0)
		_exit(child(&a, at));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	   "another process maps it, and has its own (%d)", WEXITSTATUS(status));
	ok(!strcmp(p, "from the child"), "and writes to it");
	strcpy(p, "the parent's");
	pid = fork();
	if (pid == 0)
		_exit(grandchild(p));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	   "a child's child harms neither's (%d)", WEXITSTATUS(status));
	ok(share_free(p) && share_free(q) && !share_free(&a), "what is not of it is not freed");
	again = share_alloc(5000, &e);
	ok(again == p && !*again, "what was freed is used again, as zeroes");
	share_free(again);
	ok(random_blocks(), "%d blocks of all sizes come and go", ROUNDS / 2);
	again = share_alloc(a.bytes + 64, &e);
	ok(!again && *e.text, "too much is refused: %s", e.text);
	ok(!share_alloc(SIZE_MAX, &e) && *e.text, "and so is nonsense: %s", e.text);
	return tap_done();
}
