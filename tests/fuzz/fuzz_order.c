/* fuzz_order.c - what a rank daemon says: frames, noise or an error; the same in any pieces. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "fuzz/fuzz.h"
#include "launch/order.h"

static void check(const struct order *o, int kind, const unsigned char *data, size_t len)
{
	uint32_t number[4];
	char **list;
	size_t i;

	fuzz_require(kind >= ORDER_SETUP && kind <= ORDER_BYE && len <= ORDER_BYTES);
	for (i = 0; o->noise[i]; i++)
		fuzz_require((unsigned char)o->noise[i] >= ' ');
	list = order_strings(data, len);
	for (i = 0; list && list[i]; i++)
		fuzz_require(strlen(list[i]) <= len);
	free(list);
	if (order_numbers(&data, &len, number, 4))
		fuzz_require(len <= ORDER_BYTES);
}

/* How many frames; the first error, if any, in *@rc. */
static int listen_to(const uint8_t *bytes, size_t len, size_t step, int *rc)
{
	const unsigned char *data;
	struct err e = { 0 };
	int ends[2], count = 0;
	size_t at, n, got;
	struct order o;

	fuzz_require(!pipe(ends));
	order_open(&o, ends[0], ends[1], true);
	*rc = 0;
	for (at = 0; *rc >= 0 && at < len; at += n) {
		n = len - at < step ? len - at : step;
		fuzz_require(write(ends[1], bytes + at, n) == (ssize_t)n);
		*rc = stream_read(&o.stream, &e);
		while (*rc >= 0 && (*rc = order_next(&o, &data, &got, &e)) > 0) {
			check(&o, *rc, data, got);
			count++;
		}
	}
	fuzz_require(*rc >= 0 || *e.text);
	order_close(&o);
	close(ends[0]);
	close(ends[1]);
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	int whole, parts, n;

	if (len > 32768)
		return 0;
	n = listen_to(data, len, len + 1, &whole);
	fuzz_require(listen_to(data, len, 7, &parts) == n && parts == whole);
	return 0;
}
