/* rankenv.c - the environment in which a rank starts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/rankenv.h"

#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/argv.h"
#include "base/err.h"
#include "ringup.h"

/*
 * Other launchers' variables about a process's place in their job; a name that
 * ends in '*' stands for all that begin so.  Their settings (OMPI_MCA_btl,
 * SLURM_JOB_ID) stay: they are not about ranks.
 */
static const char *const foreign[] = {
	"OMPI_COMM_WORLD_*",
	"OMPI_UNIVERSE_SIZE",
	"OMPI_APP_CTX_NUM_PROCS",
	"OMPI_FIRST_RANKS",
	"OMPI_NUM_APP_CTX",
	"OMPI_ARGV",
	"OMPI_COMMAND",
	"OMPI_FILE_LOCATION",
	"OMPI_MCA_ess*",
	"OMPI_MCA_orte_*",
	"OMPI_MCA_pmix*",
	"PMIX_*",
	"PMI_*",
	"PALS_*",
	"HYDI_*",
	"MPI_LOCALRANKID",
	"MPI_LOCALNRANKS",
	"JSM_NAMESPACE_*",
	"SLURM_PROCID",
	"SLURM_LOCALID",
	"SLURM_NODEID",
	"SLURM_NTASKS",
	"SLURM_NPROCS",
	"SLURM_STEP_*",
	"SLURM_STEPID",
	"SLURM_TASKS_PER_NODE",
	"TORCHELASTIC_*",
	"GROUP_RANK",
	"GROUP_WORLD_SIZE",
	"NODE_RANK",
	"ROLE_*",
	"HOROVOD_GLOO_RENDEZVOUS_*",
	"HOROVOD_ELASTIC",
	NULL,
};

static const char *const ours[] = {
	"RINGUP_RANK",       "RINGUP_SIZE",
	"RINGUP_LOCAL_RANK", "RINGUP_LOCAL_SIZE",
	"RINGUP_MEET",       "RINGUP_SECRET_FD",
	"RINGUP_JOB",        "RINGUP_WORKER",
	"RINGUP_NOTICE_FD",  "RINGUP_CAUSE_FD",
	"RINGUP_ELASTIC",    "RINGUP_DAEMON",
	"RINGUP_REPORT_FD",  NULL,
};

static bool rankenv_is_listed(const char *const *list, const char *var)
{
	size_t len = strcspn(var, "="), n;

	for (; *list; list++) {
		n = strlen(*list);
		if ((*list)[n - 1] == '*' ? len >= n - 1 && !strncmp(*list, var, n - 1)
					  : len == n && !strncmp(*list, var, n))
			return true;
	}
	return false;
}

bool rankenv_is_foreign(const char *var)
{
	return rankenv_is_listed(foreign, var);
}

bool rankenv_is_ours(const char *var)
{
	return rankenv_is_listed(ours, var);
}

static char **rankenv_find(const struct argv *l, const char *var)
{
	size_t len = strcspn(var, "=");

	for (int i = 0; i < l->count; i++)
		if (!strncmp(l->word[i], var, len) && l->word[i][len] == '=')
			return &l->word[i];
	return NULL;
}

/* Takes @var, which is "NAME=VALUE" on the heap, instead of an older one of that name. */
static void rankenv_take(struct argv *l, char *var)
{
	char **old = var ? rankenv_find(l, var) : NULL;

	if (!old) {
		argv_take(l, var);
		return;
	}
	free(*old);
	*old = var;
}

static void rankenv_put(struct argv *l, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void rankenv_put(struct argv *l, const char *fmt, ...)
{
	char *var = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&var, fmt, ap) < 0)
		var = NULL;
	va_end(ap);
	rankenv_take(l, var);
}

/* Copies the variables of @base that are neither foreign nor the launcher's own. */
static void take_base(struct argv *l, char *const *base)
{
	for (; *base; base++)
		if (!rankenv_is_foreign(*base) && !rankenv_is_ours(*base) && strchr(*base, '='))
			rankenv_take(l, strdup(*base));
}

static int made(struct argv *l, char ***envp, struct err *e)
{
	if (l->failed) {
		argv_free(l);
		return fail(e, RINGUP_ENOMEM, "no memory for an environment");
	}
	*envp = l->word;
	return 0;
}

static void put_unless_set(struct argv *l, const char *name, const char *value)
{
	char var[64];

	snprintf(var, sizeof(var), "%s=", name);
	if (!rankenv_find(l, var))
		rankenv_put(l, "%s=%s", name, value);
}

static void put_ranks(struct argv *l, const struct rankenv *r, int rank)
{
	bool spans = r->local_size > 0;
	int local_rank = spans ? r->local_rank : rank;
	int local_size = spans ? r->local_size : r->size;

	rankenv_put(l, "RINGUP_RANK=%d", rank);
	rankenv_put(l, "RINGUP_SIZE=%d", r->size);
	rankenv_put(l, "RINGUP_LOCAL_RANK=%d", local_rank);
	rankenv_put(l, "RINGUP_LOCAL_SIZE=%d", local_size);
	rankenv_put(l, "RINGUP_JOB=%s", r->job);
	if (r->meet)
		rankenv_put(l, "RINGUP_MEET=%s", r->meet);
	if (r->secret_fd >= 0)
		rankenv_put(l, "RINGUP_SECRET_FD=%d", r->secret_fd);
	if (r->cause_fd > 0)
		rankenv_put(l, "RINGUP_CAUSE_FD=%d", r->cause_fd);
	if (r->elastic) {
		rankenv_put(l, "RINGUP_ELASTIC=1");
		rankenv_put(l, "RINGUP_WORKER=%d", r->worker);
		rankenv_put(l, "HOROVOD_ELASTIC=1");
	}
	rankenv_put(l, "HOROVOD_RANK=%d", rank);
	rankenv_put(l, "HOROVOD_SIZE=%d", r->size);
	rankenv_put(l, "HOROVOD_LOCAL_RANK=%d", local_rank);
	rankenv_put(l, "HOROVOD_LOCAL_SIZE=%d", local_size);
	rankenv_put(l, "HOROVOD_CROSS_RANK=%d", spans ? r->host_rank : 0);
	rankenv_put(l, "HOROVOD_CROSS_SIZE=%d", spans ? r->host_count : 1);
	rankenv_put(l, "HOROVOD_HOSTNAME=%s", r->host);
	rankenv_put(l, "RANK=%d", rank);
	rankenv_put(l, "WORLD_SIZE=%d", r->size);
	rankenv_put(l, "LOCAL_RANK=%d", local_rank);
	rankenv_put(l, "LOCAL_WORLD_SIZE=%d", local_size);
}

int rankenv_make(const struct rankenv *r, int rank, char ***envp, struct err *e)
{
	char text[16], *const *p;
	struct argv l = { 0 };

	take_base(&l, r->base);
	put_ranks(&l, r, rank);
	put_unless_set(&l, "MASTER_ADDR", r->master ? r->master : "127.0.0.1");
	snprintf(text, sizeof(text), "%d", r->master_port);
	put_unless_set(&l, "MASTER_PORT", text);
	snprintf(text, sizeof(text), "%d", r->threads);
	put_unless_set(&l, "OMP_NUM_THREADS", text);
	/* Else the last output of a rank that crashes is lost. */
	put_unless_set(&l, "PYTHONUNBUFFERED", "1");
	for (p = r->extra; p && *p; p++)
		rankenv_take(&l, strdup(*p));
	return made(&l, envp, e);
}

/* Variables for which the launcher only sends a default. */
static const char *const defaults[] = { "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS",
					"PYTHONUNBUFFERED", NULL };

int rankenv_overlay(char *const *base, char *const *list, char ***envp, struct err *e)
{
	struct argv l = { 0 };
	char *const *p;

	take_base(&l, base);
	for (p = list; *p; p++)
		if (!rankenv_is_listed(defaults, *p) || !rankenv_find(&l, *p))
			rankenv_take(&l, strdup(*p));
	return made(&l, envp, e);
}

void rankenv_free(char **env)
{
	char **p;

	for (p = env; p && *p; p++)
		free(*p);
	free(env);
}

int rankenv_mark(char mark[RANKENV_MARK], const char *name, struct err *e)
{
	unsigned char random[8];
	int n;

	if (getentropy(random, sizeof(random)))
		return fail_os(e, "random numbers");
	n = snprintf(mark, RANKENV_MARK, "RINGUP_JOB=%.48s.", name && *name ? name : "run");
	for (size_t i = 0; i < sizeof(random); i++)
		n += snprintf(mark + n, RANKENV_MARK - (size_t)n, "%02x", random[i]);
	return 0;
}

int rankenv_port(int *fdp, int *port, struct err *e)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*fdp = fd;
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (struct sockaddr *)&a, len) ||
	    getsockname(fd, (struct sockaddr *)&a, &len))
		return fail_os(e, "port for MASTER_PORT");
	*port = ntohs(a.sin_port);
	return 0;
}
