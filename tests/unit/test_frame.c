/* test_frame.c - what is put into a frame comes out again, and no more than that. */
#include <stdlib.h>
#include <string.h>

#include "engine/frame.h"
#include "tap.h"

int main(void)
{
	static struct frame_out o;
	struct frame_in f;
	const unsigned char *p;
	size_t cut;
	int good;

	frame_begin(&o, FRAME_RUN);
	ok(o.len == 1 && o.data[0] == FRAME_RUN, "a frame begins with its kind");
	frame_put(&o, 0x0102030405060708, 8);
	frame_put(&o, 0xabcdef, 2);
	frame_add(&o, "name", 4);
	ok(o.len == 15 && !memcmp(o.data + 1, "\10\7\6\5\4\3\2\1\357\315name", 14),
	   "numbers are little-endian and cut to size");

	f = (struct frame_in){ o.data, o.len, false };
	ok(frame_get(&f, 1) == FRAME_RUN && frame_get(&f, 8) == 0x0102030405060708 &&
		   frame_get(&f, 2) == 0xcdef,
	   "they come out again");
	p = frame_bytes(&f, 4);
	ok(p && !memcmp(p, "name", 4) && !f.left && !f.bad, "and so do bytes");
	ok(frame_bytes(&f, 0) && !f.bad, "nothing of nothing is no mistake");
	ok(frame_get(&f, 1) == 0 && f.bad, "what is not there is zero, and noticed");

	/* Wherever it ends, nothing behind the end is read; valgrind and ASan watch. */
	for (good = 0, cut = 0; cut < o.len; cut++) {
		unsigned char *copy = malloc(cut ? cut : 1);

		memcpy(copy, o.data, cut);
		f = (struct frame_in){ copy, cut, false };
		frame_get(&f, 1);
		frame_get(&f, 8);
		frame_get(&f, 2);
		good += !frame_bytes(&f, 4) && f.bad && !frame_bytes(&f, 0) &&
			!frame_get(&f, 1);
		free(copy);
	}
	ok(good == 15, "a frame that ends early stays bad");
	return tap_done();
}
