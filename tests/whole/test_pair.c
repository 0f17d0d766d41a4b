/* test_pair.c - two processes move vectors of any length, and the kernel may copy them. */
/* tests: src/backend/pair.c src/backend/node_zcopy.c */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdint.h>

#include "asks.h"
#include "family.h"
#include "rounds.h"
#include "tap.h"

/*
 * Both draw the same operations from the same number, of lengths around those at which slots
 * give way to copies by the kernel, and well beyond; then many that are alike.  Every byte of a
 * vector is known from its place, its sender and the turn; so is what lies behind it.
 */
enum { TURNS = 250, MOST = 3 << 20, SPARE = 64, NOBODY = 0x5a, SHIFTS = 4099 };
/* As many of one kind and length as it takes to learn which way is best. */
enum { ALIKE = 300, SAME = 150000 };

static unsigned seed;
static unsigned char *in, *out;
static uint64_t same; /* the length of all; 0: any */

/* What ranks send: all from one table without a period, from another place each turn. */
static unsigned char table[2 * MOST + SHIFTS];

static void make_table(void)
{
	uint32_t x = 1;
	size_t i;

	for (i = 0; i < sizeof(table); i++) {
		x = x * 1664525 + 1013904223;
		table[i] = (unsigned char)(x >> 24);
	}
}

static const unsigned char *bytes_of(int rank, int turn, uint64_t first)
{
	return table + first + (rank * 101 + turn * 7) % SHIFTS;
}

/* @n bytes, from the @first on, of what @rank sends in this turn. */
static void fill(unsigned char *p, int rank, int turn, uint64_t first, uint64_t n)
{
	memcpy(p, bytes_of(rank, turn, first), n);
}

static bool is_from(const unsigned char *p, int rank, int turn, uint64_t first, uint64_t n)
{
	return !memcmp(p, bytes_of(rank, turn, first), n);
}

static uint64_t some_bytes(void)
{
	static const uint64_t edges[] = {
		0, 1, 4095, 4096, 32767, 32768, 65536, 131072, 262145
	};
	uint64_t a = (uint64_t)rand_r(&seed), b = (uint64_t)rand_r(&seed);

	if (same)
		return same;
	if (a % 3 == 0)
		return edges[b % 9];
	return b % (a % 3 == 1 ? 400000 : MOST);
}

static int spread(struct ringup_group *g, int turn)
{
	uint64_t n = some_bytes();
	int root = rand_r(&seed) % 2;
	bool in_place = rand_r(&seed) % 2;
	struct ringup_bcast b = ASK_BCAST("spread", in_place ? out : in, out, n,
					  .dtype = RINGUP_U8, .root = root);

	if (family_rank == root)
		fill(in_place ? out : in, root, turn, 0, n);
	return ringup_broadcast(g, &b, NULL) == 0 && is_from(out, root, turn, 0, n) &&
	       out[n] == NOBODY;
}

static int gather(struct ringup_group *g, int turn)
{
	uint64_t n[2] = { some_bytes(), some_bytes() }, counts[2];
	void *result;
	struct ringup_gather a =
		ASK_GATHER("gather", in, n[family_rank], 1, &result, counts, .dtype = RINGUP_U8,
			   .into = turn % 4 ? out : NULL, .into_bytes = 2 * MOST);
	int good;

	fill(in, family_rank, turn, 0, n[family_rank]);
	if (ringup_allgather(g, &a, NULL))
		return 0;
	good = counts[0] == n[0] && counts[1] == n[1] && is_from(result, 0, turn, 0, n[0]) &&
	       is_from((unsigned char *)result + n[0], 1, turn, 0, n[1]);
	if (result != out)
		ringup_free(result);
	return good;
}

static int exchange(struct ringup_group *g, int turn)
{
	uint64_t n[2][2] = { { some_bytes() / 2, some_bytes() / 2 },
			     { some_bytes() / 2, some_bytes() / 2 } };
	uint64_t counts[2], *mine = n[family_rank], from0 = n[0][family_rank];
	void *result;
	struct ringup_exchange a = ASK_EXCHANGE("exchange", in, mine[0] + mine[1], 1, &result,
						counts, .dtype = RINGUP_U8, .splits = mine,
						.into = out, .into_bytes = 2 * MOST);

	fill(in, family_rank, turn, 0, mine[0] + mine[1]);
	if (ringup_alltoall(g, &a, NULL) || result != out)
		return 0;
	return is_from(out, 0, turn, family_rank ? n[0][0] : 0, from0) &&
	       is_from(out + from0, 1, turn, family_rank ? n[1][0] : 0, n[1][family_rank]) &&
	       out[from0 + n[1][family_rank]] == NOBODY;
}

static int body(void)
{
	static int (*const kinds[])(struct ringup_group *, int) = { spread, gather, exchange };
	struct ringup *r;
	int turns = rounds_of(TURNS), alike = rounds_of(ALIKE), turn, kind, bad = 0;

	in = malloc(2 * MOST + SPARE);
	out = malloc(2 * MOST + SPARE);
	if (!in || !out || family_join(&r))
		return 2;
	for (turn = 0; turn < turns + 3 * alike; turn++) {
		same = turn < turns ? 0 : SAME;
		kind = same ? (turn - turns) / alike : rand_r(&seed) % 3;
		memset(out, NOBODY, same ? 2 * SAME + SPARE : 2 * MOST + SPARE);
		if (kinds[kind](ringup_world(r), turn))
			continue;
		printf("# rank %d, turn %d, kind %d: %s\n", family_rank, turn, kind,
		       ringup_error());
		bad++;
	}
	ringup_fini(r);
	free(in);
	free(out);
	return bad ? 1 : 0;
}

int main(void)
{
	static const char *const ways[] = { "on", "off", "auto" };
	int status[2], i;

	make_table();
	for (i = 0; i < 3; i++) {
		setenv("RINGUP_SINGLE_COPY", ways[i], 1);
		seed = 1234 + (unsigned)i;
		family_run(2, body, status);
		ok(!status[0] && !status[1], "%d moves between two processes, single copies %s",
		   rounds_of(TURNS) + 3 * rounds_of(ALIKE), ways[i]);
		family_end();
	}
	return tap_done();
}
