/* fuzz_hang.c - any bytes as a flight record, an answer of RAS, a stack, a page, a log. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "fuzz/fuzz.h"
#include "hang/flights.h"
#include "hang/jobs.h"
#include "hang/look.h"
#include "hang/nccllog.h"
#include "hang/pickle.h"
#include "hang/ras.h"
#include "hang/remote.h"
#include "hang/ruling.h"
#include "hang/say.h"
#include "hang/stacks.h"
#include "hang/twice.h"
#include "wire/observe.h"

static struct ruling ruling;
static char text[SAY_TEXT];

/* Two ranks' records are the same bytes, so none is missing. */
static void read_flights(const uint8_t *data, size_t len)
{
	struct flights f = { 0 };
	struct err e = { 0 };
	char absent[256];
	int rc = flights_add(&f, 0, data, len, &e);

	fuzz_require(!rc || *e.text);
	if (!rc)
		fuzz_require(!flights_add(&f, 1, data, len, &e));
	flights_judge(&f, &ruling, absent, sizeof(absent));
	fuzz_require(ruling.kind != RULING_LATE || ruling.culprits);
	flights_free(&f);
}

static void read_ras(const uint8_t *data, size_t len)
{
	char version[RAS_VERSION], run[SAY_TEXT], fix[SAY_TEXT];
	struct look l = { 0 };
	struct err e = { 0 };

	if (ras_parse(&l, (const char *)data, len, version, &e))
		fuzz_require(*e.text);
	for (int i = 0; i < l.ranks; i++)
		fuzz_require(l.rank[i].rank >= 0 && l.rank[i].rank < ROWS_RANKS);
	/* Nothing has changed, so nothing advances. */
	if (l.ranks) {
		ruling_make(&ruling, &l, &l, 5000);
		say_ruling(&ruling, &l, 5000, text, sizeof(text));
		say_run(&ruling, &l, run, sizeof(run));
		say_fix(&ruling, &l, fix, sizeof(fix));
		fuzz_require(*text);
	}
	look_free(&l);
}

static void read_log(char *copy)
{
	struct nccllog l = { 0 };

	for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n"))
		nccllog_line(&l, line);
	nccllog_judge(&l, &ruling);
	nccllog_free(&l);
}

static void read_page(const uint8_t *data, size_t len)
{
	int fd = memfd_create("page", MFD_CLOEXEC);
	struct observed x;
	struct err e = { 0 };

	fuzz_require(fd >= 0 && write(fd, data, len) == (ssize_t)len);
	if (!observe_read(fd, &x, &e))
		fuzz_require(x.page.waits <= OBSERVE_WAITS && x.page.rank < OBSERVE_RANKS);
	else
		fuzz_require(*e.text);
	observe_free(&x);
	close(fd);
}

/* An answer of another host, of a job of three ranks. */
static void read_answer(const uint8_t *data, size_t len)
{
	json_t *answer = json_loadb((const char *)data, len, 0, NULL);
	struct hang_job job = { .size = 3 };
	struct twice t = { .job = &job };

	remote_take(&t, answer);
	look_compare(&t.now);
	for (int i = 0; i < t.now.ranks; i++)
		fuzz_require(t.now.rank[i].rank >= 0 && t.now.rank[i].rank < ROWS_RANKS);
	ruling_make(&ruling, &t.before, &t.now, 5000);
	say_ruling(&ruling, &t.now, 5000, text, sizeof(text));
	twice_free(&t);
	json_decref(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *copy = strndup((const char *)data, len);
	struct err e = { 0 };
	struct stack s;

	fuzz_require(copy);
	json_decref(pickle_load(data, len, &e));
	read_flights(data, len);
	read_ras(data, len);
	read_page(data, len);
	read_answer(data, len);
	(void)stacks_native(&s, copy);
	(void)stacks_python(&s, copy);
	read_log(copy);
	free(copy);
	return 0;
}
