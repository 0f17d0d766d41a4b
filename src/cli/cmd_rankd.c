/* cmd_rankd.c - `ringup rankd`: the daemon that `ringup run` starts on each host of a job. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <limits.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/cmd.h"
#include "launch/rankd.h"
#include "ringup.h"
#include "wire/secret.h"

static int lifeline = INT_MIN, seal = INT_MIN, keep = INT_MIN, copies;

static const struct opt opts[] = {
	{ OPT_INT, 0, "lifeline", "FD", &lifeline,
	  "with COMMAND: kill the ranks when this descriptor closes" },
	{ OPT_INT, 0, "seal", "FD", &seal, "read the connection's key from this descriptor" },
	{ OPT_INT, 0, "keep", "FD", &keep, "let the ranks inherit this descriptor" },
	{ OPT_FLAG, 0, "copy-output", NULL, &copies, "also write the ranks' output to stderr" },
	{ 0 },
};

static int check_fd(const char *option, int fd, struct err *e)
{
	if (fd == INT_MIN || (fd > STDERR_FILENO && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0))
		return 0;
	return cmd_misuse(e, "--%s %d: no such descriptor", option, fd);
}

/* What is encrypted goes over a socket (wire/chan.h). */
static int key_read(struct secret *key, struct err *e)
{
	struct stat st;
	int rc;

	if (fstat(STDIN_FILENO, &st) || !S_ISSOCK(st.st_mode))
		return fail(e, RINGUP_EINVAL, "--seal: stdin is not a socket");
	rc = secret_from_fd(key, seal, e);
	close(seal);
	prctl(PR_SET_DUMPABLE, 0);
	return rc;
}

static int cmd_rankd_run(int argc, char **argv, struct err *e)
{
	struct secret key = { 0 };
	struct rankd_task task = { .argv = argv,
				   .lifeline = lifeline,
				   .key = &key,
				   .keep = keep == INT_MIN ? -1 : keep,
				   .copies = copies };
	int rc;

	if (isatty(STDIN_FILENO))
		return cmd_misuse(e, "started by `ringup run` on each host of a job; do not "
				     "run it yourself");
	if (argc && (lifeline == INT_MIN || seal == INT_MIN))
		return cmd_misuse(e, "a command needs --lifeline and --seal");
	if (!argc && (lifeline != INT_MIN || seal != INT_MIN))
		return cmd_misuse(e, "--lifeline and --seal need a command");
	rc = check_fd("lifeline", lifeline, e);
	if (!rc)
		rc = check_fd("seal", seal, e);
	if (!rc)
		rc = check_fd("keep", keep, e);
	if (!rc && argc)
		rc = key_read(&key, e);
	if (!rc)
		rc = rankd_run(STDIN_FILENO, STDOUT_FILENO, argc ? &task : NULL, cmd_conf(), e);
	secret_wipe(&key);
	return rc;
}

const struct cmd cmd_rankd = {
	.name = "rankd",
	.operands = "[--] [COMMAND [ARGUMENT]...]",
	.summary = "start ranks for `ringup run`, which runs this on each host",
	.opts = opts,
	.max = -1,
	.runs = true,
	.run = cmd_rankd_run,
};
