/* test_discover.c - every launcher is understood, contradictions are refused. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/discover.h"

#define OMPI "OMPI_COMM_WORLD_"
#define TORCH(rank, size) \
	"RANK=" rank, "WORLD_SIZE=" size, "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500"
#define SLURM(rank, size) "SLURM_JOB_ID=7", "SLURM_PROCID=" rank, "SLURM_NTASKS=" size

/* A process's environment, and what is to be made of it. */
static const struct {
	const char *what;
	const char *env[12];
	const char *source;
	int rank, size, local_rank, local_size, spans;
	const char *key; /* NULL: do not look */
} rows[] = {
	{ "nobody launched it", { NULL }, "none", 0, 1, -1, -1, 0, "" },
	{ "ringup run",
	  { "RINGUP_RANK=2", "RINGUP_SIZE=4", "RINGUP_LOCAL_RANK=2", "RINGUP_LOCAL_SIZE=4",
	    "RINGUP_JOB=j1", "HOROVOD_RANK=2", "HOROVOD_SIZE=4", "RANK=2", "WORLD_SIZE=4",
	    "MASTER_ADDR=127.0.0.1" },
	  "ringup run",
	  2,
	  4,
	  2,
	  4,
	  0,
	  "ringup j1" },
	{ "ringup's defaults are no launcher",
	  { "RINGUP_RANK=-1", "RINGUP_SIZE=-1" },
	  "none",
	  0,
	  1,
	  -1,
	  -1,
	  0,
	  "" },
	{ "ringup by hand, no name for the job",
	  { "RINGUP_RANK=0", "RINGUP_SIZE=2" },
	  "ringup run",
	  0,
	  2,
	  -1,
	  -1,
	  0,
	  "" },
	{ "horovodrun with Gloo",
	  { "HOROVOD_RANK=5", "HOROVOD_SIZE=8", "HOROVOD_LOCAL_RANK=1", "HOROVOD_LOCAL_SIZE=4",
	    "HOROVOD_CROSS_RANK=1", "HOROVOD_CROSS_SIZE=2",
	    "HOROVOD_GLOO_RENDEZVOUS_ADDR=10.0.0.1", "HOROVOD_GLOO_RENDEZVOUS_PORT=4000" },
	  "Horovod",
	  5,
	  8,
	  1,
	  4,
	  1,
	  "horovod 10.0.0.1 4000" },
	{ "Open MPI",
	  { OMPI "RANK=3", OMPI "SIZE=4", OMPI "LOCAL_RANK=3", OMPI "LOCAL_SIZE=4",
	    OMPI "NODE_RANK=9", "PMIX_RANK=3", "PMIX_NAMESPACE=873267201" },
	  "Open MPI",
	  3,
	  4,
	  3,
	  4,
	  0,
	  "openmpi 873267201" },
	{ "Open MPI on two hosts",
	  { OMPI "RANK=3", OMPI "SIZE=4", OMPI "LOCAL_RANK=1", OMPI "LOCAL_SIZE=2",
	    "PMIX_NAMESPACE=prterun-a-77@1" },
	  "Open MPI",
	  3,
	  4,
	  1,
	  2,
	  1,
	  "openmpi prterun-a-77@1" },
	{ "mpirun inside an allocation: Slurm started only its daemons",
	  { OMPI "RANK=3", OMPI "SIZE=4", OMPI "LOCAL_SIZE=4", "PMIX_NAMESPACE=1",
	    SLURM("0", "2"), "SLURM_STEP_ID=0" },
	  "Open MPI",
	  3,
	  4,
	  -1,
	  4,
	  0,
	  "openmpi 1" },
	{ "MPICH",
	  { "PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2", "PMI_FD=9" },
	  "MPI (PMI)",
	  1,
	  2,
	  1,
	  2,
	  0,
	  "" },
	{ "Cray PALS",
	  { "PMI_RANK=1", "PMI_SIZE=2", "PMI_LOCAL_RANK=0", "PMI_LOCAL_SIZE=1",
	    "PALS_APID=ab-c" },
	  "MPI (PMI)",
	  1,
	  2,
	  0,
	  1,
	  1,
	  "pals ab-c" },
	{ "LSF jsrun",
	  { "JSM_NAMESPACE_RANK=0", "JSM_NAMESPACE_SIZE=6", "JSM_NAMESPACE_LOCAL_RANK=0",
	    "JSM_NAMESPACE_LOCAL_SIZE=6", "LSB_JOBID=12", "PMIX_RANK=0" },
	  "LSF",
	  0,
	  6,
	  0,
	  6,
	  0,
	  "lsf 12" },
	{ "torchrun",
	  { TORCH("1", "2"), "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=0",
	    "GROUP_WORLD_SIZE=1", "TORCHELASTIC_RUN_ID=none", "TORCHELASTIC_RESTART_COUNT=3" },
	  "torchrun",
	  1,
	  2,
	  1,
	  2,
	  0,
	  "torchrun 127.0.0.1 29500 none 3" },
	{ "torchrun on two nodes",
	  { TORCH("1", "4"), "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_WORLD_SIZE=2" },
	  "torchrun",
	  1,
	  4,
	  1,
	  2,
	  1,
	  NULL },
	{ "TorchDistributor: every rank claims to be alone",
	  { TORCH("3", "4"), "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", "NODE_RANK=3" },
	  "torchrun",
	  3,
	  4,
	  0,
	  1,
	  1,
	  NULL },
	{ "RANK alone is a word, not a launcher",
	  { "RANK=3", "WORLD_SIZE=4" },
	  "none",
	  0,
	  1,
	  -1,
	  -1,
	  0,
	  "" },
	{ "srun",
	  { SLURM("5", "7"), "SLURM_STEP_ID=2", "SLURM_LOCALID=1", "SLURM_NODEID=1",
	    "SLURM_NNODES=3", "SLURM_STEP_TASKS_PER_NODE=2(x2),3" },
	  "Slurm",
	  5,
	  7,
	  1,
	  2,
	  1,
	  "slurm 7 2" },
	{ "srun on one node, inside a larger job",
	  { SLURM("1", "9"), "SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_ID=4", "SLURM_NODEID=0",
	    "SLURM_NNODES=3", "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_TASKS_PER_NODE=3" },
	  "Slurm",
	  1,
	  3,
	  -1,
	  3,
	  0,
	  "slurm 7 4" },
	{ "a nonsensical list of tasks is no claim",
	  { SLURM("0", "2"), "SLURM_STEP_ID=0", "SLURM_NODEID=0",
	    "SLURM_STEP_TASKS_PER_NODE=2(x" },
	  "Slurm",
	  0,
	  2,
	  -1,
	  -1,
	  0,
	  NULL },
	{ "an sbatch script is no rank", { SLURM("0", "4") }, "none", 0, 1, -1, -1, 0, "" },
	{ "nor is it in a step called batch",
	  { SLURM("0", "4"), "SLURM_STEP_ID=batch" },
	  "none",
	  0,
	  1,
	  -1,
	  -1,
	  0,
	  "" },
	{ "nor in one with a reserved number",
	  { SLURM("0", "4"), "SLURM_STEP_ID=4294967291" },
	  "none",
	  0,
	  1,
	  -1,
	  -1,
	  0,
	  "" },
	{ "srun --mpi=pmi2",
	  { SLURM("1", "2"), "SLURM_STEP_ID=0", "PMI_RANK=1", "PMI_SIZE=2" },
	  "Slurm",
	  1,
	  2,
	  -1,
	  -1,
	  0,
	  "slurm 7 0" },
	{ "srun --mpi=pmi2 starts torchrun",
	  { SLURM("1", "2"), "SLURM_STEP_ID=0", "PMI_RANK=1", "PMI_SIZE=2", TORCH("5", "8"),
	    "LOCAL_WORLD_SIZE=4" },
	  "torchrun",
	  5,
	  8,
	  -1,
	  4,
	  1,
	  NULL },
	{ "srun --mpi=pmix",
	  { SLURM("1", "2"), "SLURM_STEP_ID=0", "PMIX_RANK=1" },
	  "Slurm",
	  1,
	  2,
	  -1,
	  -1,
	  0,
	  NULL },
	{ "Open MPI and a script that repeats it for torch",
	  { OMPI "RANK=1", OMPI "SIZE=2", "PMIX_NAMESPACE=5", TORCH("1", "2") },
	  "Open MPI",
	  1,
	  2,
	  -1,
	  -1,
	  0,
	  "openmpi 5" },
	{ "an empty variable is not set",
	  { "HOROVOD_RANK=", "HOROVOD_SIZE=" },
	  "none",
	  0,
	  1,
	  -1,
	  -1,
	  0,
	  "" },
};

/* An environment that is refused, and words that the sentence has to contain. */
static const struct {
	const char *what;
	const char *env[12];
	const char *words[4];
} refused[] = {
	{ "half a pair", { OMPI "RANK=1" }, { OMPI "RANK", OMPI "SIZE" } },
	{ "the other half", { "HOROVOD_SIZE=2" }, { "HOROVOD_SIZE", "HOROVOD_RANK" } },
	{ "half of ringup's", { "RINGUP_RANK=0" }, { "RINGUP_SIZE" } },
	{ "half of torch's", { "RANK=0", "MASTER_ADDR=h" }, { "RANK", "WORLD_SIZE" } },
	{ "not a number", { "PMI_RANK=one", "PMI_SIZE=2" }, { "PMI_RANK=one" } },
	{ "a number and more", { "PMI_RANK=1x", "PMI_SIZE=2" }, { "PMI_RANK=1x" } },
	{ "negative", { "PMI_RANK=-1", "PMI_SIZE=2" }, { "PMI_RANK=-1" } },
	{ "huge", { "PMI_RANK=1", "PMI_SIZE=99999999999999999999" }, { "PMI_SIZE=9" } },
	{ "padded", { "PMI_RANK= 1", "PMI_SIZE=2" }, { "PMI_RANK" } },
	{ "a rank not below the size",
	  { "PMI_RANK=2", "PMI_SIZE=2" },
	  { "PMI_RANK=2", "PMI_SIZE=2" } },
	{ "a local rank that is none",
	  { "PMI_RANK=0", "PMI_SIZE=2", "MPI_LOCALRANKID=zero" },
	  { "MPI_LOCALRANKID=zero" } },
	{ "a bad descriptor", { "RINGUP_SECRET_FD=three" }, { "RINGUP_SECRET_FD" } },
	{ "mpirun below ringup run",
	  { "RINGUP_RANK=0", "RINGUP_SIZE=2", OMPI "RANK=1", OMPI "SIZE=4" },
	  { "RINGUP_RANK=0", OMPI "RANK=1", "unset" } },
	{ "mpirun in a container with a stale RANK",
	  { OMPI "RANK=1", OMPI "SIZE=4", TORCH("0", "1") },
	  { OMPI "RANK=1", "RANK=0", "WORLD_SIZE=1" } },
	{ "Horovod and PMI",
	  { "HOROVOD_RANK=0", "HOROVOD_SIZE=2", "PMI_RANK=0", "PMI_SIZE=4" },
	  { "HOROVOD_SIZE=2", "PMI_SIZE=4" } },
	{ "PMIx says who, nobody says how many",
	  { "PMIX_RANK=1" },
	  { "PMIX_RANK=1", "RINGUP_SIZE" } },
	{ "PMIx against Slurm",
	  { SLURM("0", "2"), "SLURM_STEP_ID=0", "PMIX_RANK=1" },
	  { "PMIX_RANK=1", "SLURM_PROCID=0" } },
};

static void set_all(const char *const *env)
{
	clearenv();
	for (; *env; env++)
		putenv((char *)(uintptr_t)*env);
}

static void check(size_t i)
{
	struct discovery d;
	struct err e = { 0 };
	int rc;

	set_all(rows[i].env);
	rc = discover(&d, &e);
	ok(!rc && !strcmp(d.source, rows[i].source) && d.rank == rows[i].rank &&
		   d.size == rows[i].size,
	   "%s: %s, rank %d of %d%s", rows[i].what, d.source, d.rank, d.size, e.text);
	ok(d.local_rank == rows[i].local_rank && d.local_size == rows[i].local_size &&
		   d.spans_hosts == rows[i].spans,
	   "%s: local rank %d of %d, %s", rows[i].what, d.local_rank, d.local_size,
	   d.spans_hosts ? "many hosts" : "one host");
	ok(!rows[i].key || !strcmp(d.key, rows[i].key), "%s: key '%s'", rows[i].what, d.key);
}

static void check_refused(size_t i)
{
	const char *const *word = refused[i].words;
	struct discovery d;
	struct err e = { 0 };
	int rc, all = 1;

	set_all(refused[i].env);
	rc = discover(&d, &e);
	for (; *word; word++)
		all = all && strstr(e.text, *word);
	ok(rc == RINGUP_EINVAL && all, "%s: %s", refused[i].what, e.text);
}

/* Every way to leave out or spoil a variable, by hand or by another launcher, is none of ours.
 */
static void place_at_launcher(void)
{
	static const char *const names[] = { "RINGUP_JOB", "RINGUP_CAUSE_FD", "RINGUP_RANK" };
	static const char *const values[] = { "j", "9", "3" };
	uint64_t job, other;
	int fd, i, k;

	for (i = 0; i < 8; i++) {
		clearenv();
		for (k = 0; k < 3; k++)
			if (i & 1 << k)
				setenv(names[k], values[k], 1);
		ok((discover_launched(&job, &fd) == 3) == (i == 7) && (i != 7 || fd == 9),
		   "variables of the launcher: %d", i);
	}
	setenv("RINGUP_JOB", "k", 1);
	ok(discover_launched(&other, &fd) == 3 && other != job, "another job");
	setenv("RINGUP_WORKER", "11", 1);
	ok(discover_launched(&job, &fd) == 11, "the number of an elastic worker");
	setenv("RINGUP_WORKER", "-1", 1);
	ok(discover_launched(&job, &fd) < 0, "no number");
	setenv("RINGUP_WORKER", "11", 1);
	setenv("RINGUP_CAUSE_FD", "x", 1);
	ok(discover_launched(&job, &fd) < 0, "no descriptor");
}

int main(void)
{
	struct discovery d;
	struct err e = { 0 };
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check(i);
	for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		check_refused(i);

	place_at_launcher();
	clearenv();
	ok(discover(&d, &e) == 0 && d.secret_fd == -1 && !*d.meet,
	   "no meeting point by itself");
	setenv("RINGUP_MEET", "127.0.0.1:99", 1);
	setenv("RINGUP_SECRET_FD", "7", 1);
	ok(discover(&d, &e) == 0 && d.secret_fd == 7 && !strcmp(d.meet, "127.0.0.1:99"),
	   "a meeting point and a secret are passed on");
	/* A job has a name, and its process no launcher of ours. */
	{
		uint64_t job;
		int fd = 0;

		setenv("RINGUP_JOB", "a job", 1);
		unsetenv("RINGUP_CAUSE_FD");
		ok(discover_launched(&job, &fd) == -1, "a name alone is no launcher");
	}
	return tap_done();
}
