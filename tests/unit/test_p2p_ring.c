/* test_p2p_ring.c - byte rings between ranks: order, room, and who is told of it. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "engine/p2p_ring.h"
#include "tap.h"

enum { RANKS = 3, STREAM = 1000003, PAGE = 4096 };

static struct p2p_rings ring[RANKS];

static unsigned char byte_at(size_t i)
{
	return (unsigned char)(i * 31 + (i >> 9));
}

static void test_order(void)
{
	unsigned char in[100], out[100] = { 0 };
	bool wanted = false;
	uint32_t news = p2p_rings_news(&ring[1]);
	size_t i;

	for (i = 0; i < sizeof(in); i++)
		in[i] = byte_at(i);
	ok(p2p_ring_is_empty(&ring[1], 0), "nothing at first");
	ok(p2p_ring_write(&ring[0], 1, in, 60) == 60 &&
		   p2p_ring_write(&ring[0], 1, in + 60, 40) == 40,
	   "what fits is written");
	ok(p2p_ring_is_empty(&ring[2], 0) && p2p_ring_is_empty(&ring[0], 1) &&
		   !p2p_ring_is_empty(&ring[1], 0),
	   "there, and nowhere else");
	ok(p2p_ring_read(&ring[1], 0, out, 10, &wanted) == 10 &&
		   p2p_ring_read(&ring[1], 0, NULL, 10, &wanted) == 10 &&
		   p2p_ring_read(&ring[1], 0, out + 20, 200, &wanted) == 80,
	   "and read as it comes, or dropped");
	memcpy(out + 10, in + 10, 10);
	ok(!memcmp(in, out, sizeof(in)) && !wanted, "in order");
	ok(p2p_rings_news(&ring[1]) == news, "nobody was told");
	p2p_rings_notify(&ring[0], 1);
	ok(p2p_rings_news(&ring[1]) != news &&
		   p2p_rings_news(&ring[0]) == p2p_rings_news(&ring[2]),
	   "until told");
}

static void test_room(void)
{
	size_t all = ring[0].ring_bytes;
	unsigned char *in = calloc(1, all + 5), byte;
	bool wanted = false;

	ok(p2p_ring_write(&ring[2], 0, in, all + 5) == all, "as much as there is room");
	ok(p2p_ring_write(&ring[2], 0, in, 1) == 0, "and no more");
	ok(p2p_ring_read(&ring[0], 2, &byte, 1, &wanted) == 1 && wanted,
	   "who reads hears that the writer waits");
	wanted = false;
	ok(p2p_ring_write(&ring[2], 0, in, 1) == 1, "there is room again");
	ok(p2p_ring_read(&ring[0], 2, NULL, all, &wanted) == all && !wanted,
	   "nobody waits any more");
	free(in);
}

static void *write_all(void *arg)
{
	unsigned char part[777];
	size_t done = 0, n, i;

	(void)arg;
	while (done < STREAM) {
		n = STREAM - done < sizeof(part) ? STREAM - done : sizeof(part);
		for (i = 0; i < n; i++)
			part[i] = byte_at(done + i);
		n = p2p_ring_write(&ring[1], 2, part, n);
		done += n;
		if (!n)
			sched_yield();
	}
	return NULL;
}

static void test_stream(void)
{
	unsigned char part[1234];
	size_t done = 0, n, i;
	bool wanted, good = true;
	pthread_t t;

	pthread_create(&t, NULL, write_all, NULL);
	while (done < STREAM) {
		n = p2p_ring_read(&ring[2], 1, part, sizeof(part), &wanted);
		for (i = 0; i < n; i++)
			good &= part[i] == byte_at(done + i);
		done += n;
		if (!n)
			sched_yield();
	}
	pthread_join(t, NULL);
	ok(good, "a stream beside its reader");
}

int main(void)
{
	struct cma self = { .pid = 7, .at = 8, .word = 9 }, found;
	void *area = aligned_alloc(PAGE, p2p_rings_bytes(RANKS));
	int r;

	memset(area, 0, p2p_rings_bytes(RANKS));
	for (r = 0; r < RANKS; r++) {
		self.pid = 100 + r;
		p2p_rings_open(&ring[r], area, RANKS, r, &self);
	}
	p2p_rings_process(&ring[0], 2, &found);
	ok(found.pid == 102 && found.word == 9, "each says which process it is");
	test_order();
	test_room();
	test_stream();
	ok(p2p_rings_bytes(1024) < (size_t)3 << 30, "also for more ranks than any host has");
	free(area);
	return tap_done();
}
