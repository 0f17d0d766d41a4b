/* fuzz_tcp.c - what another host sends where data is meant to be: nobody proves that. */
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

enum { HOSTS = 66, LINKS = 32, COUNT = 20000, FEW = 1500, EDGE = 64, EDGE_VALUE = 0x5a };

static const int local_of[HOSTS];
static int host_of[HOSTS];
static uint64_t counts[HOSTS], matrix[HOSTS * HOSTS];
static uint32_t abort_word;

/* Buffers with an edge that nobody may touch. */
static unsigned char in[COUNT * 4 + EDGE], out[COUNT * 4 + EDGE];

/* Bits 0-1 and 5: the kind; 2: bf16; 3: another root; 4: much; 6 and 7: how many hosts. */
static int make_plan(uint8_t what, struct plan *p, struct piece *piece)
{
	static const enum plan_kind kinds[] = { PLAN_ALLREDUCE, PLAN_BROADCAST,
						PLAN_ALLGATHER, PLAN_REDUCESCATTER,
						PLAN_ALLTOALL,  PLAN_BARRIER,
						PLAN_ALLREDUCE, PLAN_ALLTOALL };
	_Static_assert(PLAN_KINDS == 6, "a new kind needs a place above");
	/* 66 is more than are connected each with each. */
	static const int sizes[] = { 2, 3, HOSTS, 5 };
	uint64_t count = what & 16 ? COUNT : FEW, left = count;
	int hosts = sizes[what >> 6], i;

	for (i = 0; i < hosts; i++) {
		host_of[i] = i;
		counts[i] = i == hosts - 1 ? left : left / (uint64_t)(hosts - i + 1);
		left -= counts[i];
	}
	/* What goes from host to host; each row and each column is as much as one has. */
	for (i = 0; i < hosts * hosts; i++)
		matrix[i] = counts[(i / hosts + i % hosts) % hosts];
	*piece = (struct piece){ .in = in, .out = out, .count = count };
	*p = (struct plan){ .kind = kinds[(what & 3) | (what >> 3 & 4)],
			    .dtype = what & 4 ? RINGUP_BF16 : RINGUP_F32,
			    .root = what >> 3 & 1,
			    .pre = 1,
			    .post = 1,
			    .piece = piece,
			    .pieces = 1,
			    .count = count,
			    .counts = counts,
			    .matrix = matrix };
	if (p->kind == PLAN_ALLGATHER)
		piece->count = counts[0];
	if (p->kind == PLAN_BARRIER)
		p->count = piece->count = 0;
	return hosts;
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

/* Again and again, each time another host: a byte, which says what comes, a length in two
 * bytes, and so many bytes as they are, or (bit 7) one, so many times; and if bit 0 is set,
 * before them a head of this plan, with chunk (bits 1-3) and round (bits 4-6). */
static int talk(void *self, const struct plan *p, const int *fds, int links,
		const uint8_t *data, size_t len)
{
	static unsigned char same[UINT16_MAX];
	struct mail_head head = { 0 }, h;
	struct err e;
	size_t n, used;
	int rc = 0, i, turn;

	for (i = 0; i < links; i++)
		drain(fds[i], &head);
	/* Who only receives has sent nothing to learn from. */
	if (!head.magic)
		head = (struct mail_head){ .magic = 0x32554752,
					   .sequence = 1,
					   .kind = (uint8_t)p->kind,
					   .dtype = (uint8_t)p->dtype,
					   .redop = (uint8_t)p->redop,
					   .root = p->root,
					   .count = p->count };
	for (turn = 0; len > 3 && !rc; turn = (turn + 1) % links) {
		h = head;
		h.chunk = data[0] >> 1 & 7;
		h.round = data[0] >> 4 & 7;
		h.bytes = n = data[1] | (size_t)data[2] << 8;
		if (data[0] & 1)
			send_bytes(fds[turn], &h, sizeof(h));
		used = data[0] & 128 ? 1 : n < len - 3 ? n : len - 3;
		if (data[0] & 128)
			memset(same, data[3], n);
		send_bytes(fds[turn], data[0] & 128 ? same : data + 3,
			   data[0] & 128 ? n : used);
		data += 3 + used;
		len -= 3 + used;
		rc = backend_tcp.step(self, NULL, &e);
		drain(fds[turn], &head);
	}
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct mesh_link link[LINKS] = { 0 };
	struct mesh mesh = { .rails = 1, .link = link };
	struct topo topo = { .local_size = 1,
			     .host_of = host_of,
			     .local_of = local_of,
			     .mesh = &mesh,
			     .abort = &abort_word };
	int theirs[LINKS], fd[2], links = 0, i, rc;
	struct grid grid;
	struct piece piece;
	struct plan plan;
	struct err e;
	void *self;

	if (!len)
		return 0;
	self = calloc(1, backend_tcp.size);
	fuzz_require(self);
	memset(out, EDGE_VALUE, sizeof(out));
	topo.size = topo.hosts = mesh.size = make_plan(data[0], &plan, &piece);
	grid_init(&grid, topo.hosts);
	for (i = 1; i < topo.hosts; i++) {
		if (!grid_linked(&grid, 0, i))
			continue;
		fuzz_require(links < LINKS);
		fuzz_require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
					 fd));
		link[links] = (struct mesh_link){ .host = i, .rank = i, .fds = 1 };
		link[links].fd[0] = fd[0];
		theirs[links++] = fd[1];
	}
	mesh.links = links;
	fuzz_require(!backend_tcp.open(self, &topo, &e));
	fuzz_require(!backend_tcp.start(self, &plan, &e));
	rc = backend_tcp.step(self, NULL, &e);
	if (!rc)
		rc = talk(self, &plan, theirs, links, data + 1, len - 1);
	fuzz_require(rc == 0 || rc == 1 || rc == RINGUP_EMISMATCH || rc == RINGUP_EPEER);
	for (i = 0; i < EDGE; i++)
		fuzz_require(out[COUNT * 4 + i] == EDGE_VALUE);
	backend_tcp.close(self);
	free(self);
	for (i = 0; i < links; i++) {
		close(link[i].fd[0]);
		close(theirs[i]);
	}
	return 0;
}
