/* fuzz_hosts.c - what another host sends where data is meant to be: nobody proves that. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/mail.h"
#include "base/err.h"
#include "fuzz/fuzz.h"
#include "wire/mesh.h"

extern const struct backend backend_tcp;

enum { COUNT = 20000, FEW = 1500, EDGE = 64, EDGE_VALUE = 0x5a };

static const int host_of[] = { 0, 1 }, local_of[] = { 0, 0 };
static uint64_t counts[2];
static uint32_t abort_word;

/* Buffers with an edge that nobody may touch. */
static unsigned char in[COUNT * 4 + EDGE], out[COUNT * 4 + EDGE];

static void make_plan(uint8_t what, struct plan *p, struct piece *piece)
{
	static const enum plan_kind kinds[] = { PLAN_ALLREDUCE, PLAN_BROADCAST, PLAN_ALLGATHER,
						PLAN_REDUCESCATTER };

	uint64_t count = what & 16 ? COUNT : FEW;

	counts[0] = count / 3;
	counts[1] = count - counts[0];
	*piece = (struct piece){ in, out, count };
	*p = (struct plan){ .kind = kinds[what & 3],
			    .dtype = what & 4 ? RINGUP_BF16 : RINGUP_F32,
			    .root = what >> 3 & 1,
			    .pre = 1,
			    .post = 1,
			    .piece = piece,
			    .pieces = 1,
			    .count = count,
			    .counts = counts };
	if (p->kind == PLAN_ALLGATHER)
		piece->count = counts[0];
}

static void send_bytes(int fd, const void *data, size_t len)
{
	(void)!send(fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* What it sends itself; the first of it is a head as it should be. */
static void drain(int fd, struct mail_head *first)
{
	unsigned char sink[65536];
	ssize_t n;

	while ((n = recv(fd, sink, sizeof(sink), MSG_DONTWAIT)) > 0)
		if ((size_t)n >= sizeof(*first) && !first->magic)
			memcpy(first, sink, sizeof(*first));
}

/* Again and again: a byte, which says what comes, a length in two bytes, and so many bytes
 * as they are, or (bit 7) one, so many times; and if bit 0 is set, before them a head of this
 * plan, with chunk (bits 1-3) and round (bits 4-6). */
static int talk(void *self, const struct plan *p, int fd, const uint8_t *data, size_t len)
{
	static unsigned char same[UINT16_MAX];
	struct mail_head head = { 0 }, h;
	struct err e;
	size_t n, used;
	int rc = 0;

	drain(fd, &head);
	/* Who only receives has sent nothing to learn from. */
	if (!head.magic)
		head = (struct mail_head){ .magic = 0x32554752,
					   .sequence = 1,
					   .kind = (uint8_t)p->kind,
					   .dtype = (uint8_t)p->dtype,
					   .redop = (uint8_t)p->redop,
					   .root = p->root,
					   .count = p->count };
	while (len > 3 && !rc) {
		h = head;
		h.chunk = data[0] >> 1 & 7;
		h.round = data[0] >> 4 & 7;
		h.bytes = n = data[1] | (size_t)data[2] << 8;
		if (data[0] & 1)
			send_bytes(fd, &h, sizeof(h));
		used = data[0] & 128 ? 1 : n < len - 3 ? n : len - 3;
		if (data[0] & 128)
			memset(same, data[3], n);
		send_bytes(fd, data[0] & 128 ? same : data + 3, data[0] & 128 ? n : used);
		data += 3 + used;
		len -= 3 + used;
		rc = backend_tcp.step(self, &e);
		drain(fd, &head);
	}
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct mesh_link link = { .host = 1, .rank = 1, .fds = 1 };
	struct mesh mesh = { .size = 2, .rails = 1, .links = 1, .link = &link };
	struct team team = { .size = 2,
			     .hosts = 2,
			     .local_size = 1,
			     .host_of = host_of,
			     .local_of = local_of,
			     .mesh = &mesh,
			     .abort = &abort_word };
	struct piece piece;
	struct plan plan;
	struct err e;
	void *self;
	int fd[2], i, rc;

	if (!len)
		return 0;
	self = calloc(1, backend_tcp.size);
	fuzz_require(self);
	fuzz_require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd));
	link.fd[0] = fd[0];
	memset(out, EDGE_VALUE, sizeof(out));
	make_plan(data[0], &plan, &piece);
	fuzz_require(!backend_tcp.open(self, &team, &e));
	fuzz_require(!backend_tcp.start(self, &plan, &e));
	rc = backend_tcp.step(self, &e);
	if (!rc)
		rc = talk(self, &plan, fd[1], data + 1, len - 1);
	fuzz_require(rc == 0 || rc == 1 || rc == RINGUP_EMISMATCH || rc == RINGUP_EPEER);
	for (i = 0; i < EDGE; i++)
		fuzz_require(out[COUNT * 4 + i] == EDGE_VALUE);
	backend_tcp.close(self);
	free(self);
	close(fd[0]);
	close(fd[1]);
	return 0;
}
