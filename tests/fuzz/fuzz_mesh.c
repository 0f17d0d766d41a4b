/* fuzz_mesh.c - what other ranks say of themselves before, and after, a mesh is connected. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "fuzz/fuzz.h"
#include "ringup.h"
#include "wire/mesh.h"

enum { RANKS = 4 };

struct input {
	const uint8_t *data;
	size_t len;
};

/* Every other rank says what this one does, but for what the input changes. */
static int exchange(void *ctx, const void *mine, size_t len, void *all)
{
	struct input *in = ctx;
	unsigned char *at = all;
	size_t i;
	int r;

	for (r = 0; r < RANKS; r++)
		memcpy(at + (size_t)r * len, mine, len);
	for (i = len; i < RANKS * len && in->len; i++, in->data++, in->len--)
		at[i] ^= *in->data;
	return 0;
}

/* The first byte: how the ranks are spread.  Nobody connects, so the lowest rank, which is
 * this one, gives up at once, and the second exchange says how it went elsewhere. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const int hosts[2][RANKS] = { { 0, 0, 1, 1 }, { 0, 1, 2, 2 } };
	static const int locals[2][RANKS] = { { 0, 1, 0, 1 }, { 0, 0, 0, 1 } };
	struct secret secret;
	struct input in = { data + 1, len - 1 };
	struct mesh_shape shape = { .size = RANKS, .sockets = 1 };
	struct err e = { 0 };
	struct mesh m;
	int rc;

	if (!len)
		return 0;
	memset(secret.key, 7, sizeof(secret.key));
	shape.host_of = hosts[data[0] & 1];
	shape.local_of = locals[data[0] & 1];
	rc = mesh_open(&m, &shape, "127.0.0.1", &secret, exchange, &in, clock_ns(), &e);
	fuzz_require(rc < 0 && e.code == rc && memchr(e.text, 0, sizeof(e.text)));
	mesh_close(&m);
	return 0;
}
