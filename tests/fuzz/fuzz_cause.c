/* fuzz_cause.c - what ranks write to the launcher: notes within their bounds, or nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "fuzz/fuzz.h"
#include "wire/cause.h"
#include "wire/discover.h"

static void take_all(struct cause_pipe *p, struct cause_seen *s)
{
	struct cause_note note;
	const char *why;

	while (cause_next(p, &note, &why)) {
		fuzz_require(note.kind >= CAUSE_JOIN && note.kind <= CAUSE_LEAVE);
		fuzz_require(note.len < CAUSE_TEXT && strlen(why) <= note.len);
		cause_take(s, &note, why);
		fuzz_require(s->rank >= -1 && s->rank < DISCOVER_RANKS);
		fuzz_require(s->stillness <= ALARM_FROZEN);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	size_t step = len ? 1 + data[0] % 64 : 1, at, n;
	struct cause_pipe p;
	struct cause_seen s;
	struct err e = { 0 };

	if (len > 32768)
		return 0;
	fuzz_require(!cause_create(&p, &e));
	cause_begin(&s);
	for (at = 0; at < len; at += n) {
		n = len - at < step ? len - at : step;
		fuzz_require(write(p.out, data + at, n) == (ssize_t)n);
		take_all(&p, &s);
	}
	cause_forget(&s);
	cause_close(&p);
	return 0;
}
