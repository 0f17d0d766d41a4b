/* draft_parts.c - which MPI, CUDA and NCCL a plan takes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/draft.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonio.h"
#include "base/release.h"
#include "detect/lookup.h"
#include "rebuild/modules.h"
#include "rebuild/versions.h"

/* MPI. */

static bool is_open_mpi(const json_t *m)
{
	return !strcmp(jsonio_string(m, "flavour"), "openmpi");
}

static void mpi_title(const json_t *m, char *out, size_t cap)
{
	const char *title = lookup_mpi_title(jsonio_string(m, "flavour"));
	const char *v = jsonio_string(m, "version");

	snprintf(out, cap, "%.40s%s%.40s", title, *v ? " " : "", v);
}

/* mpicc.openmpi's C++ sister is mpicxx.openmpi. */
static const char *mpi_mpicxx(struct draft *d, const char *mpicc)
{
	const char *name = strrchr(mpicc, '/');
	const char *p = name ? strstr(name, "mpicc") : NULL;
	char path[PATH_MAX] = "";

	if (p)
		snprintf(path, sizeof(path), "%.*smpicxx%s", (int)(p - mpicc), mpicc, p + 5);
	return draft_keep(d, path);
}

static void mpi_add(struct draft *d, const json_t *m)
{
	struct buildplan *p = d->plan;
	struct buildplan_mpi *o = textpool_more(&p->pool, &p->mpi, &p->mpi_count, sizeof(*o));

	if (!o)
		return;
	*o = (struct buildplan_mpi){ .flavour = draft_member(d, m, "flavour"),
				     .version = draft_member(d, m, "version"),
				     .mpicc = draft_member(d, m, "mpicc"),
				     .mpirun = draft_member(d, m, "mpirun"),
				     .library = draft_member(d, m, "library"),
				     .header = draft_member(d, m, "header") };
	o->mpicxx = json_object_get(m, "mpicxx") ? draft_member(d, m, "mpicxx")
						 : mpi_mpicxx(d, o->mpicc);
}

/* Can anything be compiled against it, by this engine? */
static bool mpi_is_usable(struct draft *d, const json_t *m, const char *title)
{
	const struct version_fact *f;
	const char *lacks = !*jsonio_string(m, "header")  ? "mpi.h"
			    : !*jsonio_string(m, "mpicc") ? "mpicc"
			    : d->horovod && json_is_null(json_object_get(m, "mpicxx"))
				    ? "mpicxx"
				    : NULL;

	if (d->how->without_mpi) {
		draft_reject(d, title, "MPI is to be left out");
		return false;
	}
	if (lacks) {
		draft_reject(d, title, "it has no %s; install %s to have it built for", lacks,
			     is_open_mpi(m) ? "libopenmpi-dev" : "its development files");
		return false;
	}
	if (*jsonio_string(m, "mpicc_fault")) {
		draft_reject(d, title, "%s cannot compile: %s", jsonio_string(m, "mpicc"),
			     jsonio_string(m, "mpicc_fault"));
		return false;
	}
	f = d->table ? versions_ask(d->table, jsonio_string(m, "flavour"),
				    jsonio_string(m, "version"), "bad", NULL)
		     : NULL;
	if (f && !strcmp(f->value, d->horovod ? "horovod" : "ringup")) {
		draft_reject(d, title, "known to be bad for %s: %s", f->value, f->note);
		return false;
	}
	return true;
}

/* Versions of one MPI have a module each: they share neither launchers nor libraries. */
static void module_add(struct draft *d, const json_t *m, const char *title)
{
	char name[MODULES_NAME];

	modules_name(name, m);
	draft_add(d, &d->plan->build, name, "%s is here, with %s", title,
		  jsonio_string(m, "mpicc"));
}

void draft_plan_mpi(struct draft *d)
{
	const json_t *all = json_object_get(d->facts, "mpi"), *m;
	char title[100], was[100];
	size_t i;

	for (i = 0; i < json_array_size(all); i++) {
		m = json_array_get(all, i);
		mpi_title(m, title, sizeof(title));
		if (!mpi_is_usable(d, m, title))
			continue;
		if (d->horovod && d->mpi) {
			mpi_title(d->mpi, was, sizeof(was));
			draft_reject(d, title, "horovod is built for one MPI, and %s is there",
				     was);
			continue;
		}
		d->mpi = m;
		mpi_add(d, m);
		if (!d->horovod)
			module_add(d, m, title);
	}
}

/* CUDA and NCCL. */

static bool is_same_major(const char *a, const char *b)
{
	return *a && *b && atoi(a) == atoi(b);
}

/* The CUDA that the frameworks were built for; "" for none. */
static const char *cuda_wanted(const struct draft *d, const struct target **whose)
{
	int i;

	for (i = 0; i < d->count; i++) {
		*whose = &d->at[i];
		if (*jsonio_string(d->at[i].fact, "cuda"))
			return jsonio_string(d->at[i].fact, "cuda");
	}
	return "";
}

static const json_t *toolkit_choose(struct draft *d, const char *want, const char *who)
{
	const json_t *all = json_object_get(json_object_get(d->facts, "cuda"), "toolkits");
	const json_t *best = NULL, *o;
	char what[128];
	size_t i;

	for (i = 0; i < json_array_size(all); i++) {
		o = json_array_get(all, i);
		snprintf(what, sizeof(what), "CUDA %.20s (%.90s)", jsonio_string(o, "version"),
			 jsonio_string(o, "path"));
		if (!*want)
			draft_reject(d, what, "no framework was built for CUDA");
		else if (!*jsonio_string(o, "nvcc"))
			draft_reject(d, what, "it has no nvcc");
		else if (!is_same_major(jsonio_string(o, "version"), want))
			draft_reject(d, what, "%s was built for CUDA %s", who, want);
		else if (!best || !release_compare(jsonio_string(o, "version"), want) ||
			 (release_compare(jsonio_string(best, "version"), want) &&
			  release_compare(jsonio_string(o, "version"),
					  jsonio_string(best, "version")) > 0))
			best = o;
	}
	return best;
}

static const json_t *nccl_choose(struct draft *d, const char *cuda)
{
	const json_t *all = json_object_get(d->facts, "nccl"), *best = NULL, *o;
	const struct version_fact *f;
	char what[160];
	size_t i;

	for (i = 0; i < json_array_size(all); i++) {
		const char *from, *v;
		bool own;

		o = json_array_get(all, i);
		from = jsonio_string(o, "source");
		v = jsonio_string(o, "version");
		own = d->python && !strcmp(from, jsonio_string(d->python, "path"));
		if (!own && strcmp(from, "system"))
			continue; /* another Python's */
		snprintf(what, sizeof(what), "NCCL %.20s (%.120s)", v,
			 jsonio_string(o, "library"));
		f = d->table && *v ? versions_ask(d->table, "nccl", v, "cuda", NULL) : NULL;
		if (!*jsonio_string(o, "header") || !*jsonio_string(o, "library"))
			draft_reject(d, what, "it has no %s",
				     *jsonio_string(o, "library") ? "nccl.h" : "library");
		else if (f && !versions_in(cuda, f->value))
			draft_reject(d, what, "it is for CUDA %s", f->value);
		else if (!best || own)
			best = o; /* the Python's own is the one that will be loaded */
	}
	return best;
}

void draft_plan_cuda(struct draft *d)
{
	const struct target *whose = NULL;
	const json_t *kit, *nccl;
	const char *want = d->horovod ? cuda_wanted(d, &whose) : "";

	if (!d->horovod)
		return;
	kit = toolkit_choose(d, want, whose ? whose->title : "");
	if (!*want)
		return;
	if (!kit) {
		draft_reject(
			d, "a build for GPUs",
			"%s was built for CUDA %s, but no toolkit of that series with nvcc is "
			"here; tensors on GPUs will not be combined",
			whose->title, want);
		return;
	}
	nccl = nccl_choose(d, jsonio_string(kit, "version"));
	if (!nccl) {
		draft_reject(d, "a build for GPUs", "there is no NCCL with nccl.h for CUDA %s",
			     jsonio_string(kit, "version"));
		return;
	}
	d->plan->cuda = (struct buildplan_cuda){ .path = draft_member(d, kit, "path"),
						 .version = draft_member(d, kit, "version"),
						 .nvcc = draft_member(d, kit, "nvcc") };
	d->plan->nccl = (struct buildplan_nccl){ .version = draft_member(d, nccl, "version"),
						 .library = draft_member(d, nccl, "library"),
						 .header = draft_member(d, nccl, "header") };
	d->plan->gpu = true;
}
