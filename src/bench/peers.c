/* peers.c - the list of peers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/proc.h"
#include "bench/peer.h"
#include "ringup.h"

enum { ASK_MS = 60000, COMPILE_MS = 60000, OUTPUT_BYTES = 4096 };

/* Does "@program @option" print @mark?  If @mark is NULL: does it succeed? */
static bool answers(const char *program, const char *option, const char *mark)
{
	char *words[] = { (char *)(uintptr_t)program, (char *)(uintptr_t)option, NULL };
	char *text;
	int status;
	bool yes;

	if (proc_capture(words, OUTPUT_BYTES, ASK_MS, &text, &status, NULL))
		return false;
	yes = mark ? strstr(text, mark) != NULL : WIFEXITED(status) && !WEXITSTATUS(status);
	free(text);
	return yes;
}

/* -- MPI ------------------------------------------------------------------ */

/* The program names of one implementation, and its mark. */
struct mpi {
	const char *name;
	const char *mark; /* in the output of mpirun --version */
	const char *mpicc[3], *mpirun[3];
};

static const struct mpi openmpi = {
	"Open MPI",
	"Open",
	{ "mpicc.openmpi", "mpicc", NULL },
	{ "mpirun.openmpi", "mpirun", NULL },
};

static const struct mpi mpich = {
	"MPICH",
	"HYDRA",
	{ "mpicc.mpich", "mpicc", NULL },
	{ "mpirun.mpich", "mpirun", NULL },
};

static const char *peers_find(const char *const *names, const char *option, const char *mark)
{
	for (; *names; names++)
		if (answers(*names, option, mark))
			return *names;
	return NULL;
}

/* Compiles the peers' program with this machine's MPI, once for all ranks. */
static int build(const struct mpi *m, const struct peer_setup *s, const char *program,
		 struct err *e)
{
	char source[PATH_MAX], *text;
	const char *mpicc = peers_find(m->mpicc, "-show", NULL);
	char *words[] = {
		(char *)(uintptr_t)mpicc,
		(char[]){ "-O2" },
		(char[]){ "-o" },
		(char *)(uintptr_t)program,
		source,
		(char[]){ "-lm" },
		NULL,
	};
	int status;

	if (!mpicc)
		return fail(e, RINGUP_ENOBACKEND, "%s is not here: no %s", m->name,
			    m->mpicc[0]);
	snprintf(source, sizeof(source), "%s/peer_mpi.c", s->data);
	if (access(source, R_OK))
		return fail_os(e, "%s", source);
	if (proc_capture(words, OUTPUT_BYTES, COMPILE_MS, &text, &status, e))
		return e->code;
	free(text);
	if (status)
		return fail(e, RINGUP_ESYSTEM, "`%s %s` fails; run it to see why", mpicc,
			    source);
	return 0;
}

static int find_mpi(const struct mpi *m, const struct peer_setup *s, char *program, size_t size,
		    const char **mpirun, struct err *e)
{
	*mpirun = peers_find(m->mpirun, "--version", m->mark);
	if (!*mpirun)
		return fail(e, RINGUP_ENOBACKEND, "%s is not here: no %s", m->name,
			    m->mpirun[0]);
	snprintf(program, size, "%s/%s", s->dir, m->mpirun[0]);
	return access(program, X_OK) ? build(m, s, program, e) : 0;
}

static void start_openmpi(const struct peer_setup *s, const char *mpirun, struct argv *a)
{
	argv_put(a, mpirun, NULL);
	if (!geteuid())
		argv_put(a, "--allow-run-as-root", NULL);
	argv_put(a, "--oversubscribe", "--bind-to", "none", "-np", NULL);
	argv_add(a, "%d", s->ranks);
}

static int openmpi_command(const struct peer_setup *s, struct argv *a, struct err *e)
{
	char program[PATH_MAX];
	const char *mpirun;
	int rc = find_mpi(&openmpi, s, program, sizeof(program), &mpirun, e);

	if (rc)
		return rc;
	start_openmpi(s, mpirun, a);
	argv_put(a, program, s->door, NULL);
	return 0;
}

/* The allocator neither returns large temporaries to the system nor maps them anew. */
static int tuned_command(const struct peer_setup *s, struct argv *a, struct err *e)
{
	char program[PATH_MAX];
	const char *mpirun;
	int rc = find_mpi(&openmpi, s, program, sizeof(program), &mpirun, e);

	if (rc)
		return rc;
	start_openmpi(s, mpirun, a);
	argv_put(a, "--mca", "btl_vader_single_copy_mechanism", "none", NULL);
	argv_put(a, "-x", "MALLOC_TOP_PAD_=268435456", NULL);
	argv_put(a, "-x", "MALLOC_TRIM_THRESHOLD_=4294967296", NULL);
	argv_put(a, "-x", "MALLOC_MMAP_THRESHOLD_=4294967296", NULL);
	argv_put(a, program, s->door, NULL);
	return 0;
}

static int mpich_command(const struct peer_setup *s, struct argv *a, struct err *e)
{
	char program[PATH_MAX];
	const char *mpirun;
	int rc = find_mpi(&mpich, s, program, sizeof(program), &mpirun, e);

	if (rc)
		return rc;
	argv_put(a, mpirun, "-np", NULL);
	argv_add(a, "%d", s->ranks);
	argv_put(a, program, s->door, NULL);
	return 0;
}

/* -- Python --------------------------------------------------------------- */

bool peer_has(const struct peer_setup *s, const char *module)
{
	char code[64];
	char *words[] = { (char *)(uintptr_t)s->python, (char[]){ "-c" }, code, NULL };
	char *text;
	int status;

	snprintf(code, sizeof(code), "import %s", module);
	if (proc_capture(words, OUTPUT_BYTES, ASK_MS, &text, &status, NULL))
		return false;
	free(text);
	return !status;
}

static int needs(const struct peer_setup *s, const char *module, const char *how, struct err *e)
{
	if (peer_has(s, module))
		return 0;
	return fail(e, RINGUP_ENOBACKEND, "%s cannot import %s; %s", s->python, module, how);
}

static int gloo_command(const struct peer_setup *s, struct argv *a, struct err *e)
{
	int rc = needs(s, "torch", "name one that can with --python", e);

	if (rc)
		return rc;
	argv_put(a, s->self, "run", NULL);
	argv_add(a, "--ranks=%d", s->ranks);
	argv_put(a, "--no-prefix", "--export=GLOO_SOCKET_IFNAME=lo", "--", NULL);
	if (*s->under)
		argv_put(a, s->under, NULL);
	argv_put(a, s->python, NULL);
	argv_add(a, "%s/peer_torch.py", s->data);
	argv_put(a, "gloo", s->door, NULL);
	return 0;
}

/* Horovod's own launcher, since it tells its ranks where they meet. */
static int horovod_command(const struct peer_setup *s, struct argv *a, struct err *e)
{
	/* Our package has the same name, but no C extension of that name. */
	int rc = needs(s, "horovod.torch.mpi_lib_v2",
		       "name one that has Horovod itself with --python", e);

	if (rc)
		return rc;
	argv_put(a, s->python, "-m", "horovod.runner.launch", "--gloo", "-np", NULL);
	argv_add(a, "%d", s->ranks);
	argv_put(a, s->python, NULL);
	argv_add(a, "%s/peer_torch.py", s->data);
	argv_put(a, "horovod", s->door, NULL);
	return 0;
}

/* -- the list ------------------------------------------------------------- */

const struct peer peers[] = {
	{ "openmpi", "Open MPI as it comes", openmpi_command },
	{ "openmpi-tuned", "Open MPI without CMA, with an allocator that keeps its memory",
	  tuned_command },
	{ "mpich", "MPICH as it comes", mpich_command },
	{ "gloo", "torch.distributed over Gloo, loopback", gloo_command },
	{ "horovod", "horovod.torch as it comes, over Gloo", horovod_command },
	{ 0 },
};

const struct peer *peer_find(const char *name)
{
	const struct peer *p;

	for (p = peers; p->name; p++)
		if (!strcmp(p->name, name))
			return p;
	return NULL;
}
