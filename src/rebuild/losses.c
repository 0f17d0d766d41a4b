/* losses.c - abilities of the installed Horovod that a rebuild would take away. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/losses.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/jsonio.h"
#include "base/release.h"
#include "detect/elflink.h"
#include "detect/lookup.h"
#include "detect/text.h"

static void loss_add(json_t *out, const char *sentence)
{
	json_array_append_new(out, text_json(sentence));
}

/* Finds the libraries that the extension at @path is linked with. */
static void extension_look(const char *path, bool *nccl, bool *mpi)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), i;
	struct err ignored = { 0 };
	struct elflink *l = NULL;

	if (fd >= 0 && !elflink_open(fd, &l, &ignored)) {
		for (i = 0; i < l->needed_count; i++) {
			*nccl |= !strncmp(l->needed[i], "libnccl.", 8) ||
				 !strncmp(l->needed[i], "libcudart.", 10);
			*mpi |= !strncmp(l->needed[i], "libmpi.", 7) ||
				!strncmp(l->needed[i], "libmpich", 8) ||
				!strncmp(l->needed[i], "libmpicxx.", 10);
		}
		/* A static NCCL still is among the names that the extension defines. */
		*nccl |= l->needed_count && elflink_defines(l, "ncclAllReduce");
	}
	free(l);
	if (fd >= 0)
		close(fd);
}

/* The reason why @plan has no GPU support; "" if it gives none. */
static const char *plan_why_no_gpu(const struct buildplan *plan)
{
	const char *why = textpool_get(&plan->rejected, "a build for GPUs");

	return why ? why : "";
}

/* Compares the abilities of @horovod with those of @plan. */
static void horovod_compare(json_t *out, const json_t *horovod, const struct buildplan *plan,
			    bool is_upstream)
{
	const char *v = jsonio_string(horovod, "version"), *name;
	bool nccl = false, mpi = false;
	char text[400];
	json_t *x;
	size_t i;

	json_array_foreach(json_object_get(horovod, "extensions"), i, x) {
		name = jsonio_string(x, "framework");
		extension_look(jsonio_string(x, "library"), &nccl, &mpi);
		if (*jsonio_string(x, "fault") || buildplan_framework(plan, name) ||
		    x != lookup_extension(horovod, name))
			continue;
		snprintf(text, sizeof(text),
			 "the installed Horovod %.40s supports %.40s; its replacement does not",
			 v, name);
		loss_add(out, text);
	}
	if (nccl && !plan->gpu) {
		snprintf(text, sizeof(text),
			 "the installed Horovod %.40s was built for GPUs, with NCCL; its "
			 "replacement is not; ringup rebuild --undo restores it",
			 v);
		loss_add(out, text);
	}
	if (mpi && is_upstream && !plan->mpi_count)
		loss_add(out,
			 "the installed Horovod is linked with MPI; its replacement is not");
	if (is_upstream && release_compare(v, plan->version) > 0) {
		snprintf(text, sizeof(text), "the installed Horovod is %.40s, newer than %.40s",
			 v, plan->version);
		loss_add(out, text);
	}
}

json_t *losses_find(const json_t *facts, const struct buildplan *plan)
{
	const char *python = plan->python.path;
	const json_t *horovod = lookup_entry(facts, "engines", python, "horovod");
	json_t *out = json_array();
	char text[400];

	if (*plan_why_no_gpu(plan)) {
		snprintf(text, sizeof(text), "no build for GPUs: %.300s",
			 plan_why_no_gpu(plan));
		loss_add(out, text);
	}
	if (horovod && *python)
		horovod_compare(out, horovod, plan, !strcmp(plan->engine, "horovod"));
	return out;
}
