/* player.c - a rank of ringup in a contest with its peers, and the contest's desk. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * player join SOCKET [GROUPS [alloc]]: a rank, which carries out what contest.py orders, in
 * lines, until the socket is closed:
 *
 *	> hello RANK SIZE ABOUT...      once
 *	< rest                          give buffers back, answered by "ok"
 *	< do COLLECTIVE DTYPE OP IN_PLACE UNEVEN MEMBERS WARM SAMPLES CALLS CHECK COUNTS
 *	> ok WRONG US...                a number for each sample
 *	> no REASON                     cannot, but accepts other orders
 *	> fail REASON                   and the rank ends
 *
 * COUNTS are those of a set's tensors or of a member's uneven blocks, with commas between them,
 * for programs that cannot compute them.  Between orders the rank sleeps in read(2).
 *
 * player desk RANKS: lines on stdin, an answer each:
 *
 *	< task COLLECTIVE DTYPE IN_PLACE UNEVEN MEMBERS BYTES
 *	> BYTES COUNT COUNTS            what it really is, and the elements of a rank
 *	< probe
 *	> NANOSECONDS                   see placement.h
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "bench/gradset.h"
#include "bench/groups.h"
#include "bench/measure.h"
#include "bench/task.h"
#include "peers/placement.h"
#include "ringup.h"

enum { LINE_BYTES = 8192, SAMPLES = 1000 };

/* Counts the numbers in "4,2,1", with their sum in *@sum; or -1. */
static int read_counts(const char *text, uint64_t *sum)
{
	char *end;
	int n = 0;

	*sum = 0;
	do {
		if (*text < '0' || *text > '9')
			return -1;
		n++;
		if (__builtin_add_overflow(*sum, strtoull(text, &end, 10), sum))
			return -1;
		text = end + 1;
	} while (*end == ',');
	return !*end || *end == '\n' ? n : -1;
}

static int order_read(struct task *t, struct dose *d, const char *line, struct err *e)
{
	char collective[32], dtype[16], redop[16];
	int in_place, uneven, check, what_type, what_op, counts, at = 0;

	memset(t, 0, sizeof(*t));
	if (sscanf(line, "do %31s %15s %15s %d %d %d %d %d %d %d %n", collective, dtype, redop,
		   &in_place, &uneven, &t->members, &d->warm, &d->samples, &d->calls, &check,
		   &at) < 10 ||
	    !at || (counts = read_counts(line + at, &t->count)) < 0)
		return fail(e, RINGUP_EINVAL, "not an order: %.60s", line);
	what_type = task_dtype(dtype);
	what_op = task_redop(redop);
	if (!task_find(t, collective) || what_type < 0 || what_op < 0)
		return fail(e, RINGUP_EINVAL, "unknown words in an order: %.60s", line);
	if (d->warm < 0 || d->samples < 1 || d->calls < 1 ||
	    (uneven && (!task_has_blocks(t) || !t->count)) || t->members < 1 ||
	    t->members > (task_has_many(t) ? TASK_MEMBERS : 1))
		return fail(e, RINGUP_EINVAL, "no sense in an order: %.60s", line);
	t->dtype = (enum ringup_dtype)what_type;
	t->redop = (enum ringup_redop)what_op;
	t->in_place = in_place;
	t->uneven = uneven;
	t->ranks = uneven ? counts : 0;
	if (t->set)
		t->count = t->set->elements;
	d->check = check;
	return 0;
}

static int dial(const char *path, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(a.sun_path))
		return fail(e, RINGUP_EINVAL, "%.80s: too long for a socket", path);
	memcpy(a.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof(a)))
		return fd;
	fail_os(e, "%s", path);
	if (fd >= 0)
		close(fd);
	return RINGUP_ESYSTEM;
}

/* Carries out one order; the reply goes to @to. */
static int obey(struct measure *m, const char *line, FILE *to, struct err *e)
{
	double us[SAMPLES];
	struct task t;
	struct dose d;
	int64_t wrong = 0;
	int rc;

	if (!strcmp(line, "rest\n")) {
		measure_rest(m);
		fputs("ok\n", to);
		return 0;
	}
	rc = order_read(&t, &d, line, e);
	if (!rc && d.samples > SAMPLES)
		rc = fail(e, RINGUP_EINVAL, "%d samples are too many", d.samples);
	if (!rc)
		rc = measure_play(m, &t, &d, us, &wrong, e);
	if (rc) {
		fprintf(to, "fail %s\n", e->text);
		return rc;
	}
	fprintf(to, "ok %lld", (long long)wrong);
	for (int i = 0; i < d.samples; i++)
		fprintf(to, " %.4f", us[i]);
	fputc('\n', to);
	return 0;
}

static int serve(struct ringup *r, struct measure *m, int fd, struct err *e)
{
	struct ringup_group *g = ringup_world(r);
	FILE *from = fdopen(fd, "r"), *to = fdopen(dup(fd), "w");
	char line[LINE_BYTES];
	int rc = from && to ? 0 : fail_os(e, "the socket");

	if (!rc)
		fprintf(to, "hello %d %d %s %d %s\n", ringup_rank(g), ringup_size(g),
			ringup_backend(g), ringup_host_count(r), ringup_version());
	while (!rc && !fflush(to) && fgets(line, sizeof(line), from))
		rc = obey(m, line, to, e);
	if (to)
		fclose(to);
	if (from)
		fclose(from);
	return rc;
}

static int join(const char *path, const char *words, bool shared, struct err *e)
{
	static struct groups groups;
	struct measure_options how = { &groups, shared };
	struct measure *m = NULL;
	struct ringup *r = NULL;
	int rc = ringup_init(NULL, &r), fd;

	if (rc)
		return fail(e, rc, "%s", ringup_error());
	rc = groups_parse(&groups, words, ringup_size(ringup_world(r)), e);
	if (!rc)
		rc = measure_open(r, &how, &m, e);
	if (!rc) {
		fd = dial(path, e);
		rc = fd < 0 ? fd : serve(r, m, fd, e);
	}
	measure_close(m);
	ringup_fini(r);
	return rc;
}

static int answer_task(const char *line, int ranks)
{
	char collective[32], dtype[16];
	int in_place, uneven, type, most;
	unsigned long long bytes;
	struct task t = { 0 };

	if (sscanf(line, "task %31s %15s %d %d %d %llu", collective, dtype, &in_place, &uneven,
		   &t.members, &bytes) != 6 ||
	    !task_find(&t, collective) || (type = task_dtype(dtype)) < 0)
		return -1;
	t.dtype = (enum ringup_dtype)type;
	t.in_place = in_place;
	t.uneven = uneven;
	task_resize(&t, bytes, ranks);
	printf("%llu %llu ", (unsigned long long)t.bytes, (unsigned long long)t.count);
	most = t.set ? t.set->count : t.uneven ? ranks : 1;
	for (int i = 0; i < most; i++)
		printf("%s%llu", i ? "," : "",
		       (unsigned long long)(t.set ? t.set->tensor[i].count
						  : task_block(&t, ranks, i)));
	putchar('\n');
	return 0;
}

static int desk(int ranks, struct err *e)
{
	struct placement *p = NULL;
	char line[LINE_BYTES];
	int rc = placement_open(&p, e);

	while (!rc && !fflush(stdout) && fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "probe\n"))
			printf("%.3f\n", placement_probe(p));
		else if (answer_task(line, ranks))
			rc = fail(e, RINGUP_EINVAL, "what is: %.60s", line);
	}
	placement_close(p);
	return rc;
}

int main(int argc, char **argv)
{
	struct err e = { 0 };
	int rc = RINGUP_EINVAL;

	if (argc >= 3 && !strcmp(argv[1], "join"))
		rc = join(argv[2], argc > 3 ? argv[3] : "", argc > 4, &e);
	else if (argc == 3 && !strcmp(argv[1], "desk"))
		rc = desk(atoi(argv[2]), &e);
	if (rc)
		fprintf(stderr, "player: %s\n",
			*e.text ? e.text : "join SOCKET, or desk RANKS");
	return rc ? 1 : 0;
}
