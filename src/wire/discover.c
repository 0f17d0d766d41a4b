/* discover.c - rank, size and job of this process, from the environment of any launcher. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/discover.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/pidstat.h"
#include "ringup.h"
#include "wire/inherit.h"

/*
 * One launcher.  Each name list ends with NULL; the first variable that is set
 * counts.  A marker, if there is one, must be set too: RANK alone means nothing.
 */
struct source {
	const char *name;
	const char *rank[2], *size[4], *local_rank[3], *local_size[3];
	const char *marker;
	void (*key)(char *key);
};

/* Another process, while discover_other() reads its environment; NULL: this one. */
static _Thread_local const struct discover_process *other;

static const char *lookup_other(const char *name)
{
	const char *at = other->env, *end = at + other->len;
	size_t len = strlen(name);

	for (; at < end; at += strlen(at) + 1)
		if (!strncmp(at, name, len) && at[len] == '=')
			return at + len + 1;
	return NULL;
}

/* A set variable, or NULL; an empty one is not set. */
static const char *lookup(const char *name)
{
	const char *value = other ? lookup_other(name) : conf_env(name);

	return value && *value ? value : NULL;
}

static const char *first(const char *const *names)
{
	for (; *names; names++)
		if (lookup(*names))
			return *names;
	return NULL;
}

static int discover_number(const char *name, long least, long most, int *out, struct err *e)
{
	const char *value = lookup(name);
	char *end;
	long n;

	if (!value)
		return fail(e, RINGUP_EINVAL, "%s is not set", name);
	n = strtol(value, &end, 10);
	if (!strchr("-0123456789", *value) || *end || n < least || n > most)
		return fail(e, RINGUP_EINVAL, "%s=%.40s: not a number from %ld to %ld", name,
			    value, least, most);
	*out = (int)n;
	return 0;
}

/* The launcher's name and the variables' values, in order; unset ones are left out. */
static void key_of(char *key, const char *launcher, ...)
{
	int len = snprintf(key, DISCOVER_KEY_BYTES, "%s", launcher), any = 0;
	const char *name;
	va_list ap;

	va_start(ap, launcher);
	while ((name = va_arg(ap, const char *))) {
		if (!lookup(name) || len >= DISCOVER_KEY_BYTES)
			continue;
		len += snprintf(key + len, (size_t)(DISCOVER_KEY_BYTES - len), " %s",
				lookup(name));
		any = 1;
	}
	va_end(ap);
	if (!any)
		*key = 0;
}

static void key_ringup(char *key)
{
	key_of(key, "ringup", "RINGUP_JOB", "RINGUP_MEET", NULL);
}

static void key_horovod(char *key)
{
	if (lookup("HOROVOD_GLOO_RENDEZVOUS_PORT"))
		key_of(key, "horovod", "HOROVOD_GLOO_RENDEZVOUS_ADDR",
		       "HOROVOD_GLOO_RENDEZVOUS_PORT", NULL);
}

/* Open MPI's namespace is a 16-bit hash in version 4; where the hashes of two
 * jobs collide, the launcher's port tells them apart. */
static void key_openmpi(char *key)
{
	key_of(key, "openmpi", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
	       "OMPI_MCA_orte_hnp_uri", NULL);
}

static void key_lsf(char *key)
{
	key_of(key, "lsf", "JSM_NAMESPACE_ID", "LSB_JOBID", "PMIX_NAMESPACE", NULL);
}

/* True for a step of a job.  The job's script is no rank: it has no step, or
 * "batch", or one of the reserved numbers at the end of the range. */
static bool is_step(const char *text)
{
	char *end;
	unsigned long long n;

	if (!text || *text < '0' || *text > '9')
		return false;
	n = strtoull(text, &end, 10);
	return !*end && n < 0xfffffff0;
}

static const char *slurm_step(void)
{
	const char *step = lookup("SLURM_STEP_ID");

	return step ? step : lookup("SLURM_STEPID");
}

static void key_slurm(char *key)
{
	key_of(key, "slurm", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEPID",
	       "SLURM_RESTART_COUNT", NULL);
}

/* MPICH tells the ranks no name for the job, but all ranks of a host descend
 * from one proxy. */
static void key_pmi(char *key)
{
	struct pidstat p = { 0 };
	pid_t pid = other ? other->parent : getppid();

	if (is_step(slurm_step())) {
		key_slurm(key);
		return;
	}
	if (lookup("PALS_APID")) {
		key_of(key, "pals", "PALS_APID", NULL);
		return;
	}
	for (int up = 0; up < 32 && pid > 1 && !pidstat_read(pid, &p); up++, pid = p.parent)
		if (!strcmp(p.name, "hydra_pmi_proxy")) {
			snprintf(key, DISCOVER_KEY_BYTES, "hydra %d %llu", (int)pid,
				 (unsigned long long)p.start);
			return;
		}
}

static void key_torchrun(char *key)
{
	key_of(key, "torchrun", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
	       "TORCHELASTIC_RESTART_COUNT", NULL);
}

/* In order of precedence. */
static const struct source sources[] = {
	{
		.name = "ringup run",
		.rank = { "RINGUP_RANK" },
		.size = { "RINGUP_SIZE" },
		.local_rank = { "RINGUP_LOCAL_RANK" },
		.local_size = { "RINGUP_LOCAL_SIZE" },
		.key = key_ringup,
	},
	{
		.name = "Horovod",
		.rank = { "HOROVOD_RANK" },
		.size = { "HOROVOD_SIZE" },
		.local_rank = { "HOROVOD_LOCAL_RANK" },
		.local_size = { "HOROVOD_LOCAL_SIZE" },
		.key = key_horovod,
	},
	{
		.name = "Open MPI",
		.rank = { "OMPI_COMM_WORLD_RANK" },
		.size = { "OMPI_COMM_WORLD_SIZE" },
		.local_rank = { "OMPI_COMM_WORLD_LOCAL_RANK" },
		.local_size = { "OMPI_COMM_WORLD_LOCAL_SIZE" },
		.key = key_openmpi,
	},
	{
		.name = "LSF",
		.rank = { "JSM_NAMESPACE_RANK" },
		.size = { "JSM_NAMESPACE_SIZE" },
		.local_rank = { "JSM_NAMESPACE_LOCAL_RANK" },
		.local_size = { "JSM_NAMESPACE_LOCAL_SIZE" },
		.key = key_lsf,
	},
	{
		.name = "MPI (PMI)",
		.rank = { "PMI_RANK" },
		.size = { "PMI_SIZE" },
		.local_rank = { "MPI_LOCALRANKID", "PMI_LOCAL_RANK" },
		.local_size = { "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE" },
		.key = key_pmi,
	},
	{
		.name = "torchrun",
		.rank = { "RANK" },
		.size = { "WORLD_SIZE" },
		.local_rank = { "LOCAL_RANK" },
		.local_size = { "LOCAL_WORLD_SIZE" },
		.marker = "MASTER_ADDR",
		.key = key_torchrun,
	},
};

static const struct source slurm = {
	.name = "Slurm",
	.rank = { "SLURM_PROCID" },
	.size = { "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS" },
	.local_rank = { "SLURM_LOCALID" },
	.local_size = { NULL },
	.key = key_slurm,
};

/* Rank and size from the variables of one launcher. */
struct claim {
	const struct source *from;
	const char *rank_name, *size_name;
	int rank, size;
};

/* Returns 1 if the variables of @s are set, 0 if not, or an error. */
static int listen_to(const struct source *s, struct claim *c, struct err *e)
{
	const char *rank = first(s->rank), *size = first(s->size);
	int rc;

	if ((!rank && !size) || (s->marker && !lookup(s->marker)))
		return 0;
	if (!rank || !size)
		return fail(e, RINGUP_EINVAL,
			    "%s is set but %s is not: a rank needs both; set it, or unset %s",
			    rank ? rank : size, rank ? s->size[0] : s->rank[0],
			    rank ? rank : size);
	*c = (struct claim){ .from = s, .rank_name = rank, .size_name = size };
	/* "-1" is the default of ringup's own variables in the table of settings. */
	if (s == &sources[0] && !strcmp(lookup(rank), "-1") && !strcmp(lookup(size), "-1"))
		return 0;
	rc = discover_number(size, 1, DISCOVER_RANKS, &c->size, e);
	if (!rc)
		rc = discover_number(rank, 0, DISCOVER_RANKS - 1, &c->rank, e);
	if (!rc && c->rank >= c->size)
		rc = fail(e, RINGUP_EINVAL,
			  "%s=%d, but %s=%d: the rank must be less than the size", rank,
			  c->rank, size, c->size);
	return rc ? rc : 1;
}

/* "4(x2),3": how many tasks node @node has, or -1. */
static int tasks_of_node(const char *list, int node)
{
	while (list && *list) {
		char *end;
		long tasks = strtol(list, &end, 10), times = 1;

		if (end == list || tasks < 1 || tasks > DISCOVER_RANKS)
			return -1;
		if (!strncmp(end, "(x", 2)) {
			times = strtol(end + 2, &end, 10);
			if (*end++ != ')' || times < 1)
				return -1;
		}
		if (node < times)
			return (int)tasks;
		node -= (int)times;
		if (*end && *end != ',')
			return -1;
		list = *end ? end + 1 : end;
	}
	return -1;
}

static int slurm_local_size(int *out, struct err *e)
{
	const char *list = lookup("SLURM_STEP_TASKS_PER_NODE");
	int node, rc;

	if (!list)
		list = lookup("SLURM_TASKS_PER_NODE");
	if (!list || !lookup("SLURM_NODEID"))
		return 0;
	rc = discover_number("SLURM_NODEID", 0, DISCOVER_RANKS, &node, e);
	if (!rc)
		*out = tasks_of_node(list, node);
	return rc;
}

/* Is the variable set to a number above one? */
static bool exceeds_one(const char *name)
{
	const char *value = lookup(name);

	return value && strtol(value, NULL, 10) > 1;
}

static int local_claims(const struct claim *c, struct discovery *d, struct err *e)
{
	const char *rank = first(c->from->local_rank), *size = first(c->from->local_size);
	int rc = 0;

	if (rank && strcmp(lookup(rank), "-1"))
		rc = discover_number(rank, 0, DISCOVER_RANKS - 1, &d->local_rank, e);
	if (!rc && size && strcmp(lookup(size), "-1"))
		rc = discover_number(size, 1, DISCOVER_RANKS, &d->local_size, e);
	if (!rc && c->from == &slurm)
		rc = slurm_local_size(&d->local_size, e);
	if (rc)
		return rc;
	d->spans_hosts = d->local_size >= 0 && d->local_size < d->size;
	if (c->from == &slurm &&
	    (exceeds_one("SLURM_STEP_NUM_NODES") ||
	     (!lookup("SLURM_STEP_NUM_NODES") && exceeds_one("SLURM_NNODES"))))
		d->spans_hosts = true;
	if (!strcmp(c->from->name, "torchrun") && exceeds_one("GROUP_WORLD_SIZE"))
		d->spans_hosts = true;
	if (!strcmp(c->from->name, "Horovod") && exceeds_one("HOROVOD_CROSS_SIZE"))
		d->spans_hosts = true;
	return 0;
}

static int contradiction(const struct claim *a, const struct claim *b, struct err *e)
{
	return fail(e, RINGUP_EINVAL,
		    "%s=%d and %s=%d, but %s=%d and %s=%d: unset the pair that is not this "
		    "job's",
		    a->rank_name, a->rank, a->size_name, a->size, b->rank_name, b->rank,
		    b->size_name, b->size);
}

/* Slurm's own PMI speaks for Slurm, which may have started another launcher. */
static bool is_slurm_speaking(const struct claim *c, const struct claim *of_slurm)
{
	return of_slurm->from && c->from->key == key_pmi && c->rank == of_slurm->rank &&
	       c->size == of_slurm->size;
}

static int listen_to_slurm(struct claim *c, struct err *e)
{
	return is_step(slurm_step()) && lookup("SLURM_PROCID") ? listen_to(&slurm, c, e) : 0;
}

/* PMIx tells a rank but not the size: the rank must agree with the launcher's. */
static int check_pmix(const struct claim *c, struct err *e)
{
	int rank, rc;

	if (!lookup("PMIX_RANK") || (c->from && c->from != &slurm))
		return 0;
	rc = discover_number("PMIX_RANK", 0, DISCOVER_RANKS - 1, &rank, e);
	if (rc)
		return rc;
	if (!c->from)
		return fail(e, RINGUP_EINVAL,
			    "PMIX_RANK=%d, but the number of ranks is unknown: set RINGUP_RANK "
			    "and RINGUP_SIZE, or unset PMIX_RANK",
			    rank);
	if (rank != c->rank)
		return fail(e, RINGUP_EINVAL,
			    "PMIX_RANK=%d, but %s=%d: unset the one that is not this job's",
			    rank, c->rank_name, c->rank);
	return 0;
}

/* Chooses among all launchers whose variables are set; without any, best->from stays NULL. */
static int choose(struct claim *best, char *key, struct err *e)
{
	struct claim of_slurm = { 0 }, c;
	int rc = listen_to_slurm(&of_slurm, e);

	for (size_t i = 0; rc >= 0 && i < sizeof(sources) / sizeof(sources[0]); i++) {
		rc = listen_to(&sources[i], &c, e);
		if (rc <= 0 || is_slurm_speaking(&c, &of_slurm))
			continue;
		if (!best->from)
			*best = c;
		if (c.rank != best->rank || c.size != best->size)
			return contradiction(best, &c, e);
		if (!*key)
			c.from->key(key);
	}
	if (rc < 0)
		return rc;
	if (!best->from && of_slurm.from) {
		*best = of_slurm;
		of_slurm.from->key(key);
	}
	if (best->from && !*key)
		key_of(key, "ringup", "RINGUP_JOB", NULL);
	return check_pmix(best, e);
}

/* The launcher's descriptors, or -1 each. */
static int descriptors(int *secret, int *notice, int *cause, struct err *e)
{
	int rc = 0;

	*secret = *notice = *cause = -1;
	if (lookup("RINGUP_SECRET_FD"))
		rc = discover_number("RINGUP_SECRET_FD", -1, 1 << 20, secret, e);
	if (!rc && lookup("RINGUP_NOTICE_FD"))
		rc = discover_number("RINGUP_NOTICE_FD", -1, 1 << 20, notice, e);
	if (!rc && lookup("RINGUP_CAUSE_FD"))
		rc = discover_number("RINGUP_CAUSE_FD", -1, 1 << 20, cause, e);
	if (!rc && !other)
		inherit(secret, notice, cause);
	return rc;
}

int discover(struct discovery *d, struct err *e)
{
	struct claim c = { 0 };
	int rc = 0;

	*d = (struct discovery){ .size = 1, .local_rank = -1, .local_size = -1 };
	d->source = "none";
	d->meet = lookup("RINGUP_MEET") ? lookup("RINGUP_MEET") : "";
	d->secret = lookup("RINGUP_SECRET") ? lookup("RINGUP_SECRET") : "";
	d->worker = -1;
	rc = descriptors(&d->secret_fd, &d->notice_fd, &d->cause_fd, e);
	if (!rc && lookup("RINGUP_WORKER"))
		rc = discover_number("RINGUP_WORKER", -1, 1 << 20, &d->worker, e);
	if (!rc)
		rc = choose(&c, d->key, e);
	if (rc || !c.from)
		return rc;
	d->rank = c.rank;
	d->size = c.size;
	d->source = c.from->name;
	return local_claims(&c, d, e);
}

int discover_other(const struct discover_process *p, struct discovery *d, struct err *e)
{
	int rc;

	other = p;
	rc = discover(d, e);
	other = NULL;
	return rc;
}

int discover_launched(uint64_t *job, int *fd)
{
	const char *which = lookup("RINGUP_WORKER") ? "RINGUP_WORKER" : "RINGUP_RANK";
	const char *name = lookup("RINGUP_JOB");
	struct err e = { 0 };
	int number = -1, secret, notice;

	*fd = -1;
	*job = 0;
	if (!name || !lookup(which) || descriptors(&secret, &notice, fd, &e) || *fd < 0 ||
	    discover_number(which, 0, 1 << 20, &number, &e))
		return -1;
	*job = hash_bytes(name, strlen(name));
	return number;
}
