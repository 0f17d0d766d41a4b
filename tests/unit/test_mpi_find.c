/* test_mpi_find.c - which MPI a process is bound to. */
#include <stdlib.h>
#include <string.h>

#include "backend/mpi_find.h"
#include "base/err.h"
#include "tap.h"

static const char *const ompi = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, "
				"repo rev: v4.1.4, May 26, 2022";
static const char *const mpich = "MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7\n"
				 "MPICH Device:\tch4:ucx\nMPICH configure:\t--prefix=/usr\n";
static const char *const intel = "Intel(R) MPI Library 2021.5 for Linux* OS\n";

static int summary_is(const char *text, const char *want)
{
	char out[MPI_FIND_SUMMARY];

	mpi_find_summary(text, out);
	return !strcmp(out, want);
}

/* The name, or "!" and the error. */
static const char *name(const char *loaded, const char *asked, const char *launcher)
{
	static char out[300];
	struct err e = { 0 };
	const char *n = mpi_find_name(loaded, asked, launcher, &e);

	snprintf(out, sizeof(out), "%s%s", n ? n : "!", n ? "" : e.text);
	return out;
}

static const char *version_of(const char *summary)
{
	static char out[MPI_FIND_VERSION];

	mpi_find_version(summary, out);
	return out;
}

static void test_best(void)
{
	static const char *const names[] = {
		"ringup-mpi-mpich-4.0.2.so",    "ringup-mpi-openmpi-4.0.5.so",
		"ringup-mpi-openmpi-4.1.10.so", "ringup-mpi-openmpi-4.1.4.so",
		"ringup-mpi-openmpi-5.0.11.so", "ringup-mpi-openmpi.so",
		"ringup-mpi-openmpi-.so",       "ringup-mpi-openmpi5.so",
		"ringup-mpi-openmpi-6.0.0",
	};
	static const struct {
		const char *kind, *version, *want;
		size_t n;
	} rows[] = {
		{ "openmpi", "4.1.4", "ringup-mpi-openmpi-4.1.4.so", 9 },
		{ "openmpi", "4.1.5", "ringup-mpi-openmpi-4.1.10.so", 9 },
		{ "openmpi", "4", "ringup-mpi-openmpi-4.1.10.so", 9 },
		{ "openmpi", "5.0.3", "ringup-mpi-openmpi-5.0.11.so", 9 },
		{ "openmpi", "3.1", "ringup-mpi-openmpi.so", 9 },
		{ "openmpi", "50.0", "ringup-mpi-openmpi.so", 9 },
		{ "openmpi", "", "ringup-mpi-openmpi.so", 9 },
		{ "openmpi", "", "ringup-mpi-openmpi-5.0.11.so", 5 },
		{ "openmpi", "6.0.0", NULL, 5 },
		{ "mpich", "4.0.2", "ringup-mpi-mpich-4.0.2.so", 9 },
		{ "mpich", "", "ringup-mpi-mpich-4.0.2.so", 9 },
		{ "mpich", "3.4", NULL, 9 },
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *got =
			mpi_find_best(names, rows[i].n, rows[i].kind, rows[i].version);

		ok(got && rows[i].want ? !strcmp(got, rows[i].want) : got == rows[i].want,
		   "%s %s: %s", rows[i].kind, rows[i].version, got ? got : "none");
	}
	ok(!strcmp(version_of("Open MPI v4.1.4"), "4.1.4") &&
		   !strcmp(version_of("MPICH 4.0.2 (ch4:ucx)"), "4.0.2") &&
		   !strcmp(version_of("no number"), ""),
	   "the version in a summary");
}

static void test_launcher_version(void)
{
	char v[MPI_FIND_VERSION];

	unsetenv("OMPI_VERSION");
	unsetenv("OMPI_MCA_orte_hnp_uri");
	mpi_find_launcher_version(v);
	ok(!*v, "no launcher tells");
	setenv("OMPI_MCA_orte_hnp_uri", "1.0;tcp://192.0.2.1:1", 1);
	mpi_find_launcher_version(v);
	ok(!strcmp(v, "4"), "up to 4.1 there are other variables");
	setenv("OMPI_VERSION", "5.0.11", 1);
	mpi_find_launcher_version(v);
	ok(!strcmp(v, "5.0.11"), "from 5 on it tells");
	unsetenv("OMPI_VERSION");
	unsetenv("OMPI_MCA_orte_hnp_uri");
}

int main(void)
{
	char long_text[4096];
	int size;

	ok(summary_is(ompi, "Open MPI v4.1.4"), "Open MPI in short");
	ok(summary_is(mpich, "MPICH 4.0.2 (ch4:ucx)"), "MPICH in short");
	ok(summary_is(intel, "Intel(R) MPI Library 2021.5 for Linux* OS"),
	   "Intel MPI in short");
	ok(summary_is("MPICH Version:\t3.0", "MPICH 3.0 ()"), "an MPICH that ends early");
	ok(summary_is("", ""), "nothing");
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = 0;
	ok(!summary_is(long_text, ""), "too much is cut");
	ok(!strcmp(mpi_find_kind("Open MPI v5.0.1"), "openmpi") &&
		   !strcmp(mpi_find_kind("MPICH 4.0.2 (ch4:ucx)"), "mpich") &&
		   !strcmp(mpi_find_kind("Intel(R) MPI Library"), "mpich"),
	   "two kinds of binary interface");

	ok(!strcmp(name("Open MPI v4.1.4", "", "mpich"), "openmpi"), "what is loaded counts");
	ok(!strcmp(name("", "mpich", "openmpi"), "mpich"), "then what is asked for");
	ok(!strcmp(name("", "", "openmpi"), "openmpi"), "then the launcher");
	ok(!strcmp(name("Open MPI v4.1.4", "/x/y.so", ""), "/x/y.so"),
	   "a path is taken as it is");
	ok(strstr(name("Open MPI v4.1.4", "mpich", ""), "uses Open MPI v4.1.4"),
	   "one cannot ask for a second");
	ok(strstr(name("", "lam", ""), "RINGUP_MPI=lam"), "one cannot ask for a third");
	ok(strstr(name("", "", ""), "use mpirun"), "nothing to go by");

	setenv("PMI_SIZE", "3", 1);
	unsetenv("OMPI_COMM_WORLD_SIZE");
	ok(!strcmp(mpi_find_launcher(&size), "mpich") && size == 3, "Hydra's variables");
	setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
	ok(!strcmp(mpi_find_launcher(&size), "openmpi") && size == 4, "Open MPI's variables");
	unsetenv("OMPI_COMM_WORLD_SIZE");
	unsetenv("PMI_SIZE");
	ok(!*mpi_find_launcher(&size) && size == 0, "no launcher");
	test_best();
	test_launcher_version();
	return tap_done();
}
