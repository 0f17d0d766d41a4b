/* fuzz_diagnose.c - any bytes as a log, read through a pipe. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "diagnose/conclude.h"
#include "diagnose/read.h"
#include "diagnose/sift.h"
#include "fuzz/fuzz.h"

/* What is shown is printable, wherever it came from. */
static void check_text(const char *text)
{
	for (; *text; text++)
		fuzz_require(*text >= ' ' && *text < 127);
}

static void check(struct sieve *s)
{
	struct nodes nodes = { 0 };
	struct conclusions c;
	int i;

	fuzz_require(!conclude(&c, &s->evidence, &nodes, NULL));
	for (i = 0; i < c.n; i++) {
		const struct finding *f = c.list[i].finding;

		fuzz_require(f->count > 0 && f->line > 0 && f->line <= s->lines + 1);
		fuzz_require(!i || c.list[i - 1].kind <= c.list[i].kind);
		check_text(c.list[i].cause);
		check_text(c.list[i].proof);
		check_text(c.list[i].command);
		for (int k = 0; k < c.list[i].lasts; k++)
			check_text(c.list[i].last[k]->text);
		fuzz_require(!strpbrk(c.list[i].command, "$`\\\"';|&<>(){}*?~!"));
	}
	conclude_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct sieve s;
	struct reader r = { .fd = -1, .pidfd = -1 };
	int ends[2];

	if (!s.matcher)
		fuzz_require(!sift_open(&s, NULL));
	/* A pipe holds 64 KiB, so that nobody else is needed. */
	fuzz_require(len <= 60000 && !pipe(ends));
	fuzz_require(write(ends[1], data, len) == (ssize_t)len);
	close(ends[1]);
	r.fd = ends[0];
	s.lines = 0;
	evidence_reset(&s.evidence);
	fuzz_require(!sift_log(&s, &r, 0, NULL));
	read_close(&r);
	check(&s);
	return 0;
}
