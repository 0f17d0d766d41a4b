/* test_rankenv.c - a rank is told about its own job and about no other. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "launch/rankenv.h"
#include "ringup.h"
#include "tap.h"

static const char *value(char *const *env, const char *name)
{
	size_t len = strlen(name);
	const char *found = NULL;
	int times = 0;

	for (; *env; env++)
		if (!strncmp(*env, name, len) && (*env)[len] == '=') {
			found = *env + len + 1;
			times++;
		}
	return times > 1 ? "twice" : found ? found : "none";
}

static int is(char *const *env, const char *name, const char *wanted)
{
	if (!strcmp(value(env, name), wanted))
		return 1;
	printf("# %s=%s\n", name, value(env, name));
	return 0;
}

/* A rank daemon's own environment @base, below what the launcher has sent. */
static void test_overlay(void)
{
	static char a[] = "OMP_NUM_THREADS=8", b[] = "HOME=/h", c[] = "RINGUP_RANK=9",
		    d[] = "RANK=5", f[] = "PMI_RANK=5", g[] = "OMP_NUM_THREADS=1",
		    h[] = "MASTER_PORT=77", i[] = "RANK=2", j[] = "RINGUP_RANK=2";
	char *base[] = { a, b, c, d, f, NULL }, *list[] = { g, h, i, j, NULL };
	struct err e = { 0 };
	char **env;

	ok(rankenv_overlay(base, list, &env, &e) == 0, "an environment of two %s", e.text);
	ok(is(env, "HOME", "/h") && is(env, "PMI_RANK", "none"), "inherits, but no launcher's");
	ok(is(env, "RANK", "2") && is(env, "RINGUP_RANK", "2"), "is told its rank");
	ok(is(env, "OMP_NUM_THREADS", "8") && is(env, "MASTER_PORT", "77"),
	   "and has a default where nothing is set");
	rankenv_free(env);
}

int main(void)
{
	static const char *const foreign[] = {
		"OMPI_COMM_WORLD_RANK=1", "PMIX_RANK",          "PMI_SIZE=2",
		"SLURM_PROCID=3",         "SLURM_STEP_ID=0",    "TORCHELASTIC_RUN_ID=x",
		"GROUP_RANK=0",           "MPI_LOCALNRANKS=2",  "OMPI_MCA_orte_hnp_uri=x",
		"JSM_NAMESPACE_RANK=1",   "OMPI_MCA_ess=^self",
	};
	static const char *const own[] = {
		"PATH=/bin",
		"OMPI_MCA_btl=self",
		"SLURM_JOB_ID=7",
		"SLURM_PROCIDX=1",
		"PMI=1",
		"HOROVOD_FUSION_THRESHOLD=1",
		"RINGUP_LOG_LEVEL=",
		"NCCL_DEBUG=INFO",
		"GROUP=1",
	};
	static char a[] = "PATH=/bin", b[] = "OMPI_COMM_WORLD_RANK=5", c[] = "RANK=5",
		    d[] = "RINGUP_MEET=/old", f[] = "MASTER_PORT=99", g[] = "nonsense",
		    h[] = "HOROVOD_RANK=5", x[] = "MORE=a=b", y[] = "WORLD_SIZE=77";
	char *base[] = { a, b, c, d, f, g, h, NULL }, *extra[] = { x, y, NULL },
	     *empty[] = { NULL };
	struct rankenv r = { .size = 4, .host = "h", .job = "j.1", .meet = "127.0.0.1:5" };
	struct err e = { 0 };
	char **env;
	size_t i;

	for (i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		ok(rankenv_is_foreign(foreign[i]), "%s is another launcher's", foreign[i]);
	for (i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		ok(!rankenv_is_foreign(own[i]), "%s is not", own[i]);
	ok(rankenv_is_ours("RINGUP_RANK") && rankenv_is_ours("RINGUP_SECRET_FD=4"),
	   "ringup's ranks are for the launcher");
	ok(!rankenv_is_ours("RINGUP_RANKS") && !rankenv_is_ours("RINGUP_LOG_LEVEL=debug"),
	   "its settings are not");

	r.secret_fd = 7;
	r.master_port = 1234;
	r.threads = 2;
	r.base = base;
	r.extra = extra;
	ok(rankenv_make(&r, 3, &env, &e) == 0, "an environment %s", e.text);
	ok(is(env, "PATH", "/bin"), "inherits");
	ok(is(env, "OMPI_COMM_WORLD_RANK", "none"), "but not from mpirun");
	ok(is(env, "RINGUP_RANK", "3") && is(env, "RINGUP_SIZE", "4") &&
		   is(env, "RINGUP_LOCAL_RANK", "3") && is(env, "RINGUP_LOCAL_SIZE", "4"),
	   "has ringup's variables");
	ok(is(env, "RINGUP_MEET", "127.0.0.1:5") && is(env, "RINGUP_SECRET_FD", "7") &&
		   is(env, "RINGUP_JOB", "j.1"),
	   "and where to meet");
	ok(is(env, "HOROVOD_RANK", "3") && is(env, "HOROVOD_CROSS_SIZE", "1") &&
		   is(env, "HOROVOD_HOSTNAME", "h"),
	   "and Horovod's");
	ok(is(env, "RANK", "3") && is(env, "LOCAL_WORLD_SIZE", "4") &&
		   is(env, "MASTER_ADDR", "127.0.0.1") && is(env, "MASTER_PORT", "99"),
	   "and torch's, less what is set for all");
	ok(is(env, "OMP_NUM_THREADS", "2") && is(env, "PYTHONUNBUFFERED", "1"), "and defaults");
	ok(is(env, "MORE", "a=b") && is(env, "WORLD_SIZE", "77"), "-x has the last word");
	rankenv_free(env);

	r.size = 1;
	r.base = empty;
	r.extra = NULL;
	r.meet = NULL;
	r.secret_fd = -1;
	ok(rankenv_make(&r, 0, &env, &e) == 0 && is(env, "RINGUP_MEET", "none") &&
		   is(env, "RINGUP_SECRET_FD", "none") && is(env, "MASTER_PORT", "1234"),
	   "one rank has nobody to meet");
	rankenv_free(env);
	rankenv_free(NULL);
	test_overlay();
	return tap_done();
}
