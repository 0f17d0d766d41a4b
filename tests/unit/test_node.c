/* test_node.c - chunks, slices and slots of the shared-memory back end, in lock step. */
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/err.h"
#include "coll/reduce.h"
#include "tap.h"
#include "wire/segment.h"

extern const struct backend backend_node;

enum { RANKS_MAX = 5 };

static struct segment segment[RANKS_MAX];
static struct team team[RANKS_MAX];
static void *self[RANKS_MAX];
static uint32_t quiet;
static unsigned seed = 1;

/* All ranks in one thread, over the same memory: any of them may be late. */
static void *open_all(int size)
{
	size_t slots = 16384, bytes = slots + (size_t)size * SEGMENT_SLOTS * SEGMENT_SLOT_BYTES;
	char *memory = aligned_alloc(4096, bytes);
	struct err e;
	int r;

	memset(memory, 0, bytes);
	for (r = 0; r < size; r++) {
		segment[r] = (struct segment){ .rank = r, .ranks = size, .base = memory };
		segment[r].seats = (void *)(memory + 4096);
		segment[r].row = (struct row){ .seats = (void *)(memory + 4096),
					       .sleepers = (void *)memory,
					       .count = size,
					       .me = r };
		segment[r].slots = (unsigned char *)memory + slots;
		team[r] = (struct team){ .rank = r,
					 .size = size,
					 .hosts = 1,
					 .local_rank = r,
					 .local_size = size,
					 .segment = &segment[r],
					 .abort = &quiet };
		self[r] = calloc(1, backend_node.size);
		if (backend_node.open(self[r], &team[r], &e))
			printf("# %s\n", e.text);
	}
	return memory;
}

static void close_all(int size, void *memory)
{
	int r;

	for (r = 0; r < size; r++) {
		backend_node.close(self[r]);
		free(self[r]);
	}
	free(memory);
}

/* Step ranks in a random order until all are done; 0 if they never are. */
static int finish(struct plan *plan, int size)
{
	int done[RANKS_MAX] = { 0 }, left = size, tries, r;
	struct err e;

	for (r = 0; r < size; r++)
		if (backend_node.start(self[r], &plan[r], &e))
			return 0;
	for (tries = 0; left && tries < 100000; tries++) {
		r = (int)(rand_r(&seed) % (unsigned)size);
		if (!done[r] && backend_node.step(self[r], &e) == 1) {
			done[r] = 1;
			left--;
		}
	}
	return !left;
}

static int allreduce(int size, const uint64_t *counts, int pieces, int in_place, double pre)
{
	struct piece piece[RANKS_MAX][4];
	struct plan plan[RANKS_MAX];
	uint64_t total = 0, i;
	int r, p, good = 1;

	for (r = 0; r < size; r++) {
		for (total = 0, p = 0; p < pieces; p++) {
			int32_t *in = malloc((counts[p] + 1) * 4);
			int32_t *out = in_place ? in : malloc((counts[p] + 1) * 4);

			for (i = 0; i < counts[p]; i++)
				in[i] = (int32_t)((uint64_t)(r + 1) * (i % 1000 + (uint64_t)p));
			out[counts[p]] = 12345;
			piece[r][p] = (struct piece){ in, out, counts[p] };
			total += counts[p];
		}
		plan[r] = (struct plan){ .kind = PLAN_ALLREDUCE,
					 .dtype = RINGUP_I32,
					 .redop = RINGUP_SUM,
					 .pre = pre,
					 .post = 1,
					 .piece = piece[r],
					 .pieces = pieces,
					 .count = total };
	}
	good &= finish(plan, size);
	for (r = 0; r < size; r++)
		for (p = 0; p < pieces; p++) {
			const int32_t *out = piece[r][p].out;

			for (i = 0; i < counts[p]; i++)
				good &= out[i] ==
					(int32_t)((uint64_t)(size * (size + 1) / 2) *
						  (i % 1000 + (uint64_t)p) * (uint64_t)pre);
			good &= out[counts[p]] == 12345;
			if (!in_place)
				free((void *)(uintptr_t)piece[r][p].in);
			free(piece[r][p].out);
		}
	return good;
}

static void allreduces(int size)
{
	static const uint64_t one[] = { 0, 1, 15, 16, 17, 100, 16383, 16384, 16385, 70000 };
	static const uint64_t many[][4] = {
		{ 1, 1, 1, 1 }, { 5, 0, 7, 16384 }, { 16384, 1, 16384, 3 }, { 100, 40000, 0, 9 }
	};
	int good = 1;
	size_t k;

	for (k = 0; k < sizeof(one) / sizeof(one[0]); k++)
		good &= allreduce(size, &one[k], 1, (int)k % 2, k % 3 ? 1 : 3);
	for (k = 0; k < sizeof(many) / sizeof(many[0]); k++)
		good &= allreduce(size, many[k], 4, (int)k % 2, k % 3 ? 1 : 2);
	ok(good, "allreduce of one tensor and of several as one, %d ranks", size);
}

static int broadcast(int size, int root, uint64_t count)
{
	struct piece piece[RANKS_MAX];
	struct plan plan[RANKS_MAX];
	uint64_t i;
	int r, good;

	for (r = 0; r < size; r++) {
		char *v = malloc(count + 1);

		for (i = 0; i < count; i++)
			v[i] = r == root ? (char)(i * 7 + (uint64_t)root) : 0;
		v[count] = 99;
		piece[r] = (struct piece){ v, v, count };
		plan[r] = (struct plan){ .kind = PLAN_BROADCAST,
					 .dtype = RINGUP_U8,
					 .pre = 1,
					 .post = 1,
					 .root = root,
					 .piece = &piece[r],
					 .pieces = 1,
					 .count = count };
	}
	good = finish(plan, size);
	for (r = 0; r < size; r++) {
		const char *v = piece[r].out;

		for (i = 0; i < count; i++)
			good &= v[i] == (char)(i * 7 + (uint64_t)root);
		good &= v[count] == 99;
		free(piece[r].out);
	}
	return good;
}

static int gather(int size, uint64_t unit)
{
	struct piece piece[RANKS_MAX];
	struct plan plan[RANKS_MAX];
	uint64_t counts[RANKS_MAX], total = 0, i, at;
	int r, q, good;

	for (r = 0; r < size; r++) {
		counts[r] = unit * (uint64_t)((r * 3 + 1) % size);
		total += counts[r];
	}
	for (r = 0; r < size; r++) {
		uint16_t *in = malloc((counts[r] + 1) * 2), *out = malloc((total + 1) * 2);

		for (i = 0; i < counts[r]; i++)
			in[i] = (uint16_t)(i * 5 + (uint64_t)r);
		out[total] = 4321;
		piece[r] = (struct piece){ in, out, counts[r] };
		plan[r] = (struct plan){ .kind = PLAN_ALLGATHER,
					 .dtype = RINGUP_F16,
					 .pre = 1,
					 .post = 1,
					 .piece = &piece[r],
					 .pieces = 1,
					 .count = counts[r],
					 .counts = counts };
	}
	good = finish(plan, size);
	for (r = 0; r < size; r++) {
		const uint16_t *out = piece[r].out;

		for (at = 0, q = 0; q < size; q++)
			for (i = 0; i < counts[q]; i++)
				good &= out[at++] == (uint16_t)(i * 5 + (uint64_t)q);
		good &= out[total] == 4321;
		free((void *)(uintptr_t)piece[r].in);
		free(piece[r].out);
	}
	return good;
}

static void mixture(int size)
{
	static const uint64_t lengths[] = { 1, 65535, 65536, 65537, 400000, 0, 12 };
	struct plan plan[RANKS_MAX];
	int good = 1, r, k;

	for (k = 0; k < 60; k++) {
		uint64_t n = lengths[k % 7];

		good &= broadcast(size, k % size, n);
		good &= gather(size, n / 2);
		good &= allreduce(size, &n, 1, k % 2, 1);
		for (r = 0; r < size; r++)
			plan[r] = (struct plan){ .kind = PLAN_BARRIER, .pre = 1, .post = 1 };
		good &= finish(plan, size);
	}
	ok(good, "every kind after every other, %d ranks", size);
}

int main(void)
{
	struct team apart = { .size = 2, .hosts = 2 };
	struct err e = { 0 };
	void *none = calloc(1, backend_node.size), *memory;
	int size;

	ok(backend_node.open(none, &apart, &e) == RINGUP_ENOBACKEND, "refused: %s", e.text);
	backend_node.close(none);
	free(none);
	for (size = 1; size <= RANKS_MAX; size++) {
		memory = open_all(size);
		allreduces(size);
		mixture(size);
		close_all(size, memory);
	}
	return tap_done();
}
