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

	ok(!mpi_find_loaded(), "a program without MPI has none");
	setenv("PMI_SIZE", "3", 1);
	unsetenv("OMPI_COMM_WORLD_SIZE");
	ok(!strcmp(mpi_find_launcher(&size), "mpich") && size == 3, "Hydra's variables");
	setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
	ok(!strcmp(mpi_find_launcher(&size), "openmpi") && size == 4, "Open MPI's variables");
	unsetenv("OMPI_COMM_WORLD_SIZE");
	unsetenv("PMI_SIZE");
	ok(!*mpi_find_launcher(&size) && size == 0, "no launcher");
	return tap_done();
}
