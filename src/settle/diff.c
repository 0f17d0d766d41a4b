/* diff.c - the unified diff of two texts, from diff(1). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "settle/diff.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/proc.h"
#include "ringup.h"

enum { DIFF_MS = 10000 };

/* The two texts and diff's output. */
struct sheets {
	int old, new, out;
};

/* Opens a file in memory that contains @text, or -1. */
static int sheet_open(const char *text, struct err *e)
{
	int fd = file_lift(memfd_create("diff", MFD_CLOEXEC));
	size_t len = strlen(text), done = 0;
	ssize_t n;

	for (; fd >= 0 && done < len; done += (size_t)n) {
		n = write(fd, text + done, len - done);
		if (n <= 0) {
			close(fd);
			fd = -1;
		}
	}
	if (fd < 0)
		fail_os(e, "memory for diff");
	return fd;
}

static char *sheet_text(int fd)
{
	struct stat st;
	char *text = fstat(fd, &st) ? NULL : malloc((size_t)st.st_size + 1);
	ssize_t n = text ? pread(fd, text, (size_t)st.st_size, 0) : -1;

	if (n < 0) {
		free(text);
		return NULL;
	}
	text[n] = 0;
	return text;
}

static int diff_run(const struct sheets *s, const char *old, const char *new, struct err *e)
{
	const char *const argv[] = { "diff", "-a", "-u",        "-L",        old, "-L",
				     new,    "--", "/dev/fd/3", "/dev/fd/4", NULL };
	const int fds[] = { -1, s->out, -1, s->old, s->new };
	const struct proc_how how = { .argv = (char *const *)argv, .fds = fds, .nfds = 5 };
	int status = 0, rc = proc_run(&how, DIFF_MS, &status, e);

	if (!rc && (!WIFEXITED(status) || WEXITSTATUS(status) != 1))
		rc = fail(e, RINGUP_ESYSTEM, "diff finds no difference");
	return rc;
}

static int sheets_compare(char **textp, const char *path, const char *a, const char *b,
			  struct err *e)
{
	struct sheets s = { sheet_open(a ? a : "", e), sheet_open(b ? b : "", e),
			    sheet_open("", e) };
	int rc = s.old < 0 || s.new < 0 || s.out < 0 ? RINGUP_ESYSTEM : 0;

	if (!rc)
		rc = diff_run(&s, a ? path : "/dev/null", b ? path : "/dev/null", e);
	if (!rc) {
		*textp = sheet_text(s.out);
		rc = *textp ? 0 : fail(e, RINGUP_ENOMEM, "no memory for a difference");
	}
	if (s.old >= 0)
		close(s.old);
	if (s.new >= 0)
		close(s.new);
	if (s.out >= 0)
		close(s.out);
	return rc;
}

int diff_make(char **textp, const char *path, const char *a, const char *b, struct err *e)
{
	struct err why = { 0 };

	*textp = NULL;
	if (a == b || (a && b && !strcmp(a, b)))
		return 0;
	if (!sheets_compare(textp, path, a, b, &why))
		return 0;
	if (asprintf(textp, "# %s changes; install diff(1) to see how: %s\n", path, why.text) <
	    0) {
		*textp = NULL;
		return fail(e, RINGUP_ENOMEM, "no memory for a difference");
	}
	return 0;
}
