/* serve.c - a rank of ringup as a contender: carries out the conductor's orders. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/serve.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "bench/measure.h"
#include "bench/player.h"
#include "bench/task.h"
#include "ringup.h"

static int dial(const char *path, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(a.sun_path))
		return fail(e, RINGUP_EINVAL, "%.80s: too long for a socket", path);
	memcpy(a.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		fail_os(e, "%s", path);
		if (fd >= 0)
			close(fd);
		return RINGUP_ESYSTEM;
	}
	return fd;
}

/* Carries out one order; the reply goes to @to. */
static int obey(struct measure *m, const char *line, FILE *to, struct err *e)
{
	double us[PLAYER_SAMPLES];
	struct task t;
	struct dose d;
	int64_t wrong = 0;
	int rc;

	if (!strcmp(line, "rest\n")) {
		measure_rest(m);
		fputs("ok\n", to);
		return 0;
	}
	rc = task_read(&t, &d, line, e);
	if (!rc && d.samples > PLAYER_SAMPLES)
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

int serve_run(struct ringup *r, const struct measure_how *how, const char *path, struct err *e)
{
	struct ringup_group *g = ringup_world(r);
	struct measure *m = NULL;
	char line[TASK_LINE_BYTES];
	FILE *from = NULL, *to = NULL;
	int rc, fd = dial(path, e);

	if (fd < 0)
		return fd;
	rc = measure_open(r, how, &m, e);
	if (rc)
		goto out;
	from = fdopen(fd, "r");
	to = fdopen(dup(fd), "w");
	if (!from || !to) {
		rc = fail_os(e, "%s", path);
		goto out;
	}
	fprintf(to, "hello %d %d %s %d %s\n", ringup_rank(g), ringup_size(g), ringup_backend(g),
		ringup_host_count(r), ringup_version());
	fflush(to);
	while (!rc && fgets(line, sizeof(line), from)) {
		rc = obey(m, line, to, e);
		fflush(to);
	}
out:
	if (to)
		fclose(to);
	if (from)
		fclose(from);
	else
		close(fd);
	measure_close(m);
	return rc;
}
