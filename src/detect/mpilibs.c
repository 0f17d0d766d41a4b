/* mpilibs.c - find the MPI implementations on a node. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/mpilibs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "detect/ldlibs.h"
#include "detect/pythons.h"
#include "detect/rootfs.h"
#include "detect/text.h"

enum { MAX_MPIS = 16 };

struct mpi {
	const char *flavour;
	char version[32];
	char header[PATH_MAX], mpicc[PATH_MAX], mpirun[PATH_MAX], library[PATH_MAX];
};

struct search {
	struct rootfs *fs;
	struct mpi at[MAX_MPIS];
	int count;
};

bool mpilibs_parse_header(const char *data, size_t len, const char **flavour, char *version,
			  size_t cap)
{
	/* MVAPICH and Intel MPI define MPICH's names as well. */
	static const struct {
		const char *define, *flavour;
	} kinds[] = { { "MVAPICH2_VERSION", "mvapich" },
		      { "MVAPICH_VERSION", "mvapich" },
		      { "I_MPI_VERSION", "intelmpi" },
		      { "MPICH_VERSION", "mpich" } };
	char major[8], minor[8], release[8];

	if (text_defined(data, len, "OMPI_MAJOR_VERSION", major, sizeof(major)) &&
	    text_defined(data, len, "OMPI_MINOR_VERSION", minor, sizeof(minor)) &&
	    text_defined(data, len, "OMPI_RELEASE_VERSION", release, sizeof(release))) {
		*flavour = "openmpi";
		snprintf(version, cap, "%s.%s.%s", major, minor, release);
		return text_is_version(version);
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (text_defined(data, len, kinds[i].define, version, cap)) {
			*flavour = kinds[i].flavour;
			return text_is_version(version);
		}
	return false;
}

/* The first entry of this flavour; with @version, of that one, or one without a version. */
static struct mpi *entry(struct search *s, const char *flavour, const char *version)
{
	for (int i = 0; i < s->count; i++)
		if (!strcmp(s->at[i].flavour, flavour) &&
		    (!*version || !strcmp(s->at[i].version, version)))
			return &s->at[i];
	if (s->count == MAX_MPIS)
		return NULL;
	s->at[s->count].flavour = flavour;
	snprintf(s->at[s->count].version, sizeof(s->at[0].version), "%s", version);
	return &s->at[s->count++];
}

static void set_file(struct search *s, char *field, const char *dir, const char *name)
{
	char path[PATH_MAX];

	if (!*field && rootfs_join(path, dir, name) && rootfs_is_file(s->fs, path))
		text_set(field, PATH_MAX, path);
}

static void add_header(struct search *s, const char *dir)
{
	char path[PATH_MAX], prefix[PATH_MAX], sub[PATH_MAX], version[32];
	const char *flavour;
	struct mpi *m;
	size_t len, n;
	char *data;

	if (!rootfs_join(path, dir, "mpi.h") || !rootfs_is_file(s->fs, path))
		return;
	data = rootfs_read(s->fs, path, 4 << 20, &len);
	if (!data)
		return;
	m = mpilibs_parse_header(data, len, &flavour, version, sizeof(version))
		    ? entry(s, flavour, version)
		    : NULL;
	free(data);
	if (!m || *m->header)
		return;
	text_set(m->header, sizeof(m->header), path);
	/* A separate prefix has the programs beside it; /usr is shared. */
	n = strlen(dir);
	if (n <= 8 || strcmp(dir + n - 8, "/include"))
		return;
	text_copy(prefix, sizeof(prefix), dir, n - 8);
	if (!strcmp(prefix, "/usr"))
		return;
	if (rootfs_join(sub, prefix, "bin")) {
		set_file(s, m->mpicc, sub, "mpicc");
		set_file(s, m->mpirun, sub, "mpirun");
	}
	if (rootfs_join(sub, prefix, "lib")) {
		set_file(s, m->library, sub, "libmpi.so");
		set_file(s, m->library, sub, "libmpich.so");
	}
}

/* Adds dir/X/tail for every X that starts with @start. */
static void add_headers(struct search *s, const char *dir, const char *start, const char *tail)
{
	struct names n = rootfs_names(s->fs, dir, start);
	char path[PATH_MAX];

	for (size_t i = 0; i < n.count; i++)
		if (snprintf(path, sizeof(path), "%s/%s%s%s", dir, n.at[i], *tail ? "/" : "",
			     tail) < PATH_MAX)
			add_header(s, path);
	rootfs_names_free(&n);
}

/* Debian shows the flavour in the name, links in the target. */
const char *mpilibs_program(struct rootfs *fs, const char *path)
{
	static const struct {
		const char *part, *flavour;
	} signs[] = { { "openmpi", "openmpi" }, { "opal_wrapper", "openmpi" },
		      { "orterun", "openmpi" }, { "prterun", "openmpi" },
		      { "/ompi", "openmpi" },   { "mpich", "mpich" },
		      { "hydra", "mpich" } };
	char real[PATH_MAX];

	if (!rootfs_real(fs, path, real))
		return NULL;
	/* The name of the program, and then those of the folders. */
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (strstr(strrchr(real, '/'), signs[i].part) ||
		    strstr(strrchr(path, '/'), signs[i].part))
			return signs[i].flavour;
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (strstr(real, signs[i].part) || strstr(path, signs[i].part))
			return signs[i].flavour;
	return NULL;
}

static void add_programs(struct search *s, const char *dir)
{
	static const struct {
		const char *name;
		bool is_compiler;
	} programs[] = { { "mpirun.openmpi", false },
			 { "mpirun.mpich", false },
			 { "mpiexec.hydra", false },
			 { "mpicc.openmpi", true },
			 { "mpicc.mpich", true },
			 { "mpirun", false },
			 { "mpicc", true } };
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		const char *flavour;
		struct mpi *m;
		char *field;

		if (!rootfs_join(path, dir, programs[i].name) || !rootfs_is_file(s->fs, path))
			continue;
		flavour = mpilibs_program(s->fs, path);
		m = flavour ? entry(s, flavour, "") : NULL;
		if (!m)
			continue;
		field = programs[i].is_compiler ? m->mpicc : m->mpirun;
		if (!*field)
			text_set(field, PATH_MAX, path);
	}
}

/* libmpi.so.40.30.4 is Open MPI 4.1; number 12 is the ABI that MPICH and its derivatives
 * share. */
static void add_library(struct search *s, const char *path)
{
	static const struct {
		const char *number, *series;
	} known[] = { { "40.0.", "3.0" },
		      { "40.10.", "3.1" },
		      { "40.20.", "4.0" },
		      { "40.30.", "4.1" },
		      { "40.40.", "5.0" } };
	char number[64];
	struct mpi *m;

	ldlibs_version(s->fs, path, number, sizeof(number));
	if (!strncmp(number, "40.", 3))
		m = entry(s, "openmpi", "");
	else if (!strncmp(number, "12", 2))
		m = entry(s, "mpich", "");
	else
		return;
	if (!m || *m->library)
		return;
	snprintf(m->library, sizeof(m->library), "%s", path);
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && !*m->version; i++)
		if (!strncmp(number, known[i].number, strlen(known[i].number)))
			text_set(m->version, sizeof(m->version), known[i].series);
}

static void mpilibs_look(struct search *s, const struct ldlibs *libs, const struct pythons *py)
{
	static const char *const bins[] = { "/usr/local/bin", "/usr/bin",
					    "/usr/lib64/openmpi/bin", "/usr/lib64/mpich/bin",
					    NULL };
	char dir[PATH_MAX];
	const char *path;

	add_header(s, "/usr/local/include");
	add_headers(s, "/usr/lib", "", "openmpi/include");
	add_headers(s, "/usr/include", "", "mpich");
	add_headers(s, "/usr/include", "openmpi", "");
	add_headers(s, "/usr/include", "mpich", "");
	add_headers(s, "/opt", "", "include");
	/* HPC-X, and AWS's Open MPI for EFA */
	add_headers(s, "/opt/hpcx", "", "include");
	add_headers(s, "/opt/amazon", "", "include");
	add_header(s, "/usr/include");
	for (int i = 0; i < py->count; i++)
		/* pip's packages of Open MPI are in the environment, as conda's are. */
		if (strcmp(py->at[i].kind, "system") &&
		    rootfs_join(dir, py->at[i].prefix, "include"))
			add_header(s, dir);
	for (int i = 0; bins[i]; i++)
		add_programs(s, bins[i]);
	for (size_t cursor = 0; (path = ldlibs_next(libs, "libmpi.so", &cursor));)
		add_library(s, path);
	for (size_t cursor = 0; (path = ldlibs_next(libs, "libmpich.so", &cursor));)
		add_library(s, path);
}

/* The C++ compiler of mpicc.openmpi is mpicxx.openmpi; NULL: there is none. */
static const char *sister(struct rootfs *fs, const char *mpicc, char path[PATH_MAX])
{
	const char *name = strrchr(mpicc, '/');
	const char *p = name ? strstr(name, "mpicc") : NULL;
	int n = p ? snprintf(path, PATH_MAX, "%.*smpicxx%s", (int)(p - mpicc), mpicc, p + 5)
		  : PATH_MAX;

	return n < PATH_MAX && rootfs_is_file(fs, path) ? path : NULL;
}

json_t *mpilibs_find(struct rootfs *fs, const struct ldlibs *libs, const struct pythons *py)
{
	struct search *s = calloc(1, sizeof(*s));
	json_t *all = json_array(), *o;
	char path[PATH_MAX];

	if (!s)
		return all;
	s->fs = fs;
	mpilibs_look(s, libs, py);
	for (int i = 0; i < s->count; i++) {
		const struct mpi *m = &s->at[i];

		o = json_object();
		json_object_set_new(o, "flavour", text_json(m->flavour));
		json_object_set_new(o, "version", text_json(m->version));
		json_object_set_new(o, "mpicc", text_json(m->mpicc));
		json_object_set_new(o, "mpicxx", text_json(sister(fs, m->mpicc, path)));
		json_object_set_new(o, "mpirun", text_json(m->mpirun));
		json_object_set_new(o, "library", text_json(m->library));
		json_object_set_new(o, "header", text_json(m->header));
		json_array_append_new(all, o);
	}
	free(s);
	return all;
}
