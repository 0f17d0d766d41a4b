/* test_log.c - one line a message, at the level asked for. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"

static char said[8192];
static int pipe_fd[2], real;

/* What has been written to stderr since the last call. */
static const char *heard(void)
{
	ssize_t n = read(pipe_fd[0], said, sizeof(said) - 1);

	said[n > 0 ? n : 0] = 0;
	return said;
}

int main(void)
{
	struct err e = { 0 };
	char big[3000];

	real = dup(2);
	if (real < 0 || pipe2(pipe_fd, O_NONBLOCK) || dup2(pipe_fd[1], 2) < 0)
		return 99;
	log_info("quiet");
	ok(!*heard(), "info is not shown at first");
	ok(!log_is_on(LOG_INFO) && log_is_on(LOG_WARN), "and log_is_on() knows");
	log_warn("disk is %d %% full", 99);
	ok(!strcmp(heard(), "ringup: warn: disk is 99 % full\n"), "a warning is");
	ok(log_set_level("DEBUG", &e) == 0 && log_is_on(LOG_DEBUG) && !log_is_on(LOG_TRACE),
	   "levels are set by name, in any case");
	ok(log_set_level("warning", &e) == 0 && !log_is_on(LOG_INFO),
	   "also in Horovod's words");
	ok(log_set_level("loud", &e) == RINGUP_EINVAL && strstr(e.text, "loud"), "%s", e.text);
	log_set_who("rank 3");
	errno = EPIPE;
	log_warn("a\nb\033[31m");
	ok(errno == EPIPE, "errno is left alone");
	ok(!strcmp(heard(), "ringup: rank 3: warn: a?b?[31m\n"), "control characters are not");
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	log_warn("%s", big);
	heard();
	ok(strlen(said) < 1100 && said[strlen(said) - 1] == '\n',
	   "a long line is cut, not lost");
	dup2(real, 2);
	return tap_done();
}
