/* test_mpilibs.c - mpi.h tells whose it is. */
#include <string.h>

#include "detect/mpilibs.h"
#include "tap.h"

static int told(const char *header, const char *flavour, const char *version)
{
	const char *f = NULL;
	char v[16] = "";

	if (!mpilibs_parse_header(header, strlen(header), &f, v, sizeof(v)))
		return !flavour;
	return flavour && !strcmp(f, flavour) && !strcmp(v, version);
}

int main(void)
{
	ok(told("#define OMPI_MAJOR_VERSION 4\n#define OMPI_MINOR_VERSION 1\n"
		"#define OMPI_RELEASE_VERSION 4\n",
		"openmpi", "4.1.4"),
	   "Open MPI");
	ok(told("#define MPICH_VERSION \"4.0.2\"\n", "mpich", "4.0.2"), "MPICH");
	ok(told("#define MPICH_VERSION \"3.2\"\n#define MVAPICH2_VERSION \"2.3.7\"\n",
		"mvapich", "2.3.7"),
	   "MVAPICH, though it says MPICH, too");
	ok(told("#define I_MPI_VERSION \"2021.10.0\"\n#define MPICH_VERSION \"3.4\"\n",
		"intelmpi", "2021.10.0"),
	   "Intel MPI");
	ok(told("#define OMPI_MAJOR_VERSION 4\n", NULL, NULL), "half of it is nothing");
	ok(told("#define MPICH_VERSION \"\033[2J\"\n", NULL, NULL), "a version that is none");
	ok(told("", NULL, NULL), "an empty header");
	return tap_done();
}
