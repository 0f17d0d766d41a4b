/* test_compare.c - lines that the log of a good run does not have. */
#include "diagnose/compare.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "diagnose/read.h"
#include "tap.h"

static struct reader opened(const char *text)
{
	struct reader r = { .fd = -1, .pidfd = -1 };
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) || write(ends[1], text, strlen(text)) < 0)
		return r;
	close(ends[1]);
	r.fd = ends[0];
	return r;
}

int main(void)
{
	struct compare c = { 0 };
	struct reader r = opened("step 1 loss 0.5\n[rank1] saved to /ckpt/ab12\n\n===\n");
	static char many[40000];
	size_t at = 0;

	ok(!compare_learn(&c, &r, NULL), "a good run is read");
	read_close(&r);
	r = opened("step 77 loss 1.25\n[rank5] saved to /ckpt/ff00\n12:00\nlost 3 peers\n"
		   "step 78 loss 1.2\nlost 4 peers\nno end of line");
	ok(!compare_scan(&c, &r, 2, NULL) && c.shapes == 2, "two shapes are new");
	read_close(&r);
	ok(c.first[0].line == 4 && c.first[0].count == 2 && c.first[0].file == 2 &&
		   !strcmp(c.first[0].text, "lost 3 peers"),
	   "the first one, and how often");
	ok(c.first[1].line == 7 && !strcmp(c.first[1].text, "no end of line"),
	   "the last line counts without its end");
	r = opened("step fuzz\nstep gu\n");
	ok(!compare_learn(&c, &r, NULL), "another good run is read");
	read_close(&r);
	r = opened("step guzz\nstep gu\n");
	ok(!compare_scan(&c, &r, 3, NULL) && c.shapes == 3, "z is a letter, too");
	read_close(&r);
	for (int i = 0; i < 1000; i++) {
		for (int k = 0; k < 10; k++)
			many[at++] = (char)('g' + (i >> k & 1));
		many[at++] = '\n';
	}
	r = opened(many);
	ok(!compare_scan(&c, &r, 3, NULL) && c.shapes == 1003 && c.shown == COMPARE_SHOWN,
	   "of many, some are kept, and all are counted");
	read_close(&r);
	compare_free(&c);
	return tap_done();
}
