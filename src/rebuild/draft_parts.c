/* draft_parts.c - choose the MPI, CUDA and NCCL of a plan. */
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

static void mpi_title(const struct buildplan_mpi *m, char *out, size_t cap)
{
	snprintf(out, cap, "%.40s%s%.40s", lookup_mpi_title(m->flavour), *m->version ? " " : "",
		 m->version);
}

/* Derives the C++ compiler's name: mpicc.openmpi's is mpicxx.openmpi. */
static const char *mpi_mpicxx(struct draft *d, const char *mpicc)
{
	const char *name = strrchr(mpicc, '/');
	const char *p = name ? strstr(name, "mpicc") : NULL;
	char path[PATH_MAX] = "";

	if (p)
		snprintf(path, sizeof(path), "%.*smpicxx%s", (int)(p - mpicc), mpicc, p + 5);
	return draft_keep(d, path);
}

/* Can this engine compile against @m?  If not, rejects it with the reason. */
static bool mpi_is_usable(struct draft *d, const struct buildplan_mpi *m, const json_t *fact,
			  const char *title)
{
	const struct version_fact *f;
	const char *fault = jsonio_string(fact, "mpicc_fault");
	const char *lacks = !*m->header  ? "mpi.h"
			    : !*m->mpicc ? "mpicc"
			    : d->horovod && json_is_null(json_object_get(fact, "mpicxx"))
				    ? "mpicxx"
				    : NULL;

	if (d->how->without_mpi) {
		draft_reject(d, title, "MPI was excluded");
		return false;
	}
	if (lacks) {
		draft_reject(d, title, "it has no %s; install %s to have it built for", lacks,
			     strcmp(m->flavour, "openmpi") ? "its development files"
							   : "libopenmpi-dev");
		return false;
	}
	if (*fault) {
		draft_reject(d, title, "%s cannot compile: %s", m->mpicc, fault);
		return false;
	}
	f = d->table ? versions_ask(d->table, m->flavour, m->version, "bad", NULL) : NULL;
	if (f && !strcmp(f->value, d->horovod ? "horovod" : "ringup")) {
		draft_reject(d, title, "known to be bad for %s: %s", f->value, f->note);
		return false;
	}
	return true;
}

/* Each version of an MPI has its own module: versions share neither launchers nor libraries. */
static void mpi_take(struct draft *d, const struct buildplan_mpi *m, const json_t *fact,
		     const char *title)
{
	struct buildplan *p = d->plan;
	struct buildplan_mpi *o = textpool_more(&p->pool, &p->mpi, &p->mpi_count, sizeof(*o));
	char name[MODULES_NAME];

	if (o)
		*o = *m;
	if (d->horovod)
		return;
	modules_name(name, fact);
	draft_add(d, &p->build, name, "%s, with %s", title, m->mpicc);
}

void draft_plan_mpi(struct draft *d)
{
	char title[100], was[100];
	struct buildplan_mpi m;
	json_t *o;
	size_t i;

	json_array_foreach(json_object_get(d->facts, "mpi"), i, o) {
		jsonrecord_read(buildplan_mpi_fields, &m, o, &d->plan->pool);
		if (!json_object_get(o, "mpicxx"))
			m.mpicxx = mpi_mpicxx(d, m.mpicc);
		mpi_title(&m, title, sizeof(title));
		if (!mpi_is_usable(d, &m, o, title))
			continue;
		if (d->horovod && d->plan->mpi_count) {
			mpi_title(d->plan->mpi, was, sizeof(was));
			draft_reject(d, title, "horovod is built for one MPI, and %s is there",
				     was);
		} else {
			mpi_take(d, &m, o, title);
		}
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
	for (int i = 0; i < d->count; i++) {
		*whose = &d->at[i];
		if (*jsonio_string(d->at[i].fact, "cuda"))
			return jsonio_string(d->at[i].fact, "cuda");
	}
	return "";
}

/* Chooses the toolkit for @want; its nvcc is "" if there is none. */
static struct buildplan_cuda toolkit_choose(struct draft *d, const char *want, const char *who)
{
	const json_t *all = json_object_get(json_object_get(d->facts, "cuda"), "toolkits");
	struct buildplan_cuda best, kit;
	char what[128], was[128] = "";
	bool better;
	json_t *o;
	size_t i;

	jsonrecord_clear(buildplan_cuda_fields, &best);
	json_array_foreach(all, i, o) {
		jsonrecord_read(buildplan_cuda_fields, &kit, o, &d->plan->pool);
		snprintf(what, sizeof(what), "CUDA %.20s (%.90s)", kit.version, kit.path);
		if (!*want) {
			draft_reject(d, what, "no framework was built for CUDA");
		} else if (!*kit.nvcc) {
			draft_reject(d, what, "it has no nvcc");
		} else if (!is_same_major(kit.version, want)) {
			draft_reject(d, what, "%s was built for CUDA %s", who, want);
		} else {
			better = !*best.nvcc || !release_compare(kit.version, want) ||
				 (release_compare(best.version, want) &&
				  release_compare(kit.version, best.version) > 0);
			if (*best.nvcc)
				draft_reject(d, better ? was : what,
					     "another toolkit is as good or better for CUDA %s",
					     want);
			if (!better)
				continue;
			best = kit;
			memcpy(was, what, sizeof(was));
		}
	}
	return best;
}

/* Chooses the NCCL for @cuda; its library is "" if there is none. */
static struct buildplan_nccl nccl_choose(struct draft *d, const char *cuda)
{
	struct buildplan_nccl best, nccl;
	const struct version_fact *f;
	char what[160], was[160] = "";
	json_t *o;
	size_t i;

	jsonrecord_clear(buildplan_nccl_fields, &best);
	json_array_foreach(json_object_get(d->facts, "nccl"), i, o) {
		const char *from = jsonio_string(o, "source");
		bool own = d->python && !strcmp(from, d->plan->python.path);

		if (!own && strcmp(from, "system"))
			continue; /* another Python's */
		jsonrecord_read(buildplan_nccl_fields, &nccl, o, &d->plan->pool);
		snprintf(what, sizeof(what), "NCCL %.20s (%.120s)", nccl.version, nccl.library);
		f = d->table && *nccl.version
			    ? versions_ask(d->table, "nccl", nccl.version, "cuda", NULL)
			    : NULL;
		if (!*nccl.header || !*nccl.library) {
			draft_reject(d, what, "it has no %s",
				     *nccl.library ? "nccl.h" : "library");
		} else if (f && !versions_in(cuda, f->value)) {
			draft_reject(d, what, "it is for CUDA %s", f->value);
		} else {
			/* The Python's own is loaded first. */
			if (*best.library)
				draft_reject(d, own ? was : what, "another one comes first");
			if (*best.library && !own)
				continue;
			best = nccl;
			memcpy(was, what, sizeof(was));
		}
	}
	return best;
}

void draft_plan_cuda(struct draft *d)
{
	const struct target *whose = NULL;
	struct buildplan_cuda kit;
	struct buildplan_nccl nccl;
	const char *want;

	if (!d->horovod)
		return;
	want = cuda_wanted(d, &whose);
	kit = toolkit_choose(d, want, whose ? whose->title : "");
	for (int i = 0; i < d->count && !*want; i++)
		if (strstr(d->at[i].title, "+rocm") || strstr(d->at[i].title, "+xpu"))
			draft_reject(
				d, "a build for GPUs",
				"%s is not for CUDA; tensors on its GPUs will not be combined",
				d->at[i].title);
	if (!*want)
		return;
	if (!*kit.nvcc) {
		draft_reject(d, "a build for GPUs",
			     "%s was built for CUDA %s, but no toolkit of that series with "
			     "nvcc is installed; tensors on GPUs will not be combined",
			     whose->title, want);
		return;
	}
	nccl = nccl_choose(d, kit.version);
	if (!*nccl.library) {
		draft_reject(d, "a build for GPUs", "no NCCL with nccl.h for CUDA %s",
			     kit.version);
		return;
	}
	d->plan->cuda = kit;
	d->plan->nccl = nccl;
	d->plan->gpu = true;
}
