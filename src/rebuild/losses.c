/* losses.c - what a rebuild would take away of what is there, said before it begins. */
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

static void add(json_t *out, const char *sentence)
{
	json_array_append_new(out, text_json(sentence));
}

/* What the extension at @path is linked with. */
static void look(const char *path, bool *nccl, bool *mpi)
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
		/* Linked in, it still is among the names that the extension defines. */
		*nccl |= l->needed_count && elflink_defines(l, "ncclAllReduce");
	}
	free(l);
	if (fd >= 0)
		close(fd);
}

static bool will_serve(const json_t *plan, const char *framework)
{
	json_t *o;
	size_t i;

	json_array_foreach(json_object_get(plan, "frameworks"), i, o)
		if (!strcmp(jsonio_string(o, "name"), framework))
			return true;
	return false;
}

/* Why @plan has no build for GPUs; "" where it does not say. */
static const char *why_no_gpu(const json_t *plan)
{
	json_t *o;
	size_t i;

	json_array_foreach(json_object_get(plan, "rejected"), i, o)
		if (!strcmp(jsonio_string(o, "what"), "a build for GPUs"))
			return jsonio_string(o, "why");
	return "";
}

/* What @horovod has, against what @plan makes. */
static void compare(json_t *out, const json_t *horovod, const json_t *plan, bool is_upstream)
{
	const char *v = jsonio_string(horovod, "version"), *name;
	bool nccl = false, mpi = false, is_gpu;
	char text[400];
	json_t *x;
	size_t i;

	json_array_foreach(json_object_get(horovod, "extensions"), i, x) {
		name = jsonio_string(x, "framework");
		look(jsonio_string(x, "library"), &nccl, &mpi);
		if (*jsonio_string(x, "fault") || will_serve(plan, name) ||
		    x != lookup_extension(horovod, name))
			continue;
		snprintf(text, sizeof(text),
			 "the Horovod %.40s that is there serves %.40s, and what comes in its "
			 "place does not",
			 v, name);
		add(out, text);
	}
	is_gpu = *jsonio_string(json_object_get(plan, "env"), "HOROVOD_GPU_OPERATIONS");
	if (nccl && !is_gpu) {
		snprintf(text, sizeof(text),
			 "the Horovod %.40s that is there is built for GPUs, with NCCL, and "
			 "what "
			 "comes in its place is not; ringup rebuild --undo brings it back",
			 v);
		add(out, text);
	}
	if (mpi && is_upstream && !json_array_size(json_object_get(plan, "mpi")))
		add(out, "the Horovod that is there is linked with MPI, and what comes in its "
			 "place is not");
	if (is_upstream && release_compare(v, jsonio_string(plan, "version")) > 0) {
		snprintf(text, sizeof(text),
			 "the Horovod that is there is %.40s, newer than %.40s", v,
			 jsonio_string(plan, "version"));
		add(out, text);
	}
}

json_t *losses_find(const json_t *facts, const json_t *plan, const char *engine)
{
	const char *python = jsonio_string(json_object_get(plan, "python"), "path");
	const json_t *horovod = lookup_entry(facts, "engines", python, "horovod");
	json_t *out = json_array();
	char text[400];

	if (*why_no_gpu(plan)) {
		snprintf(text, sizeof(text), "no build for GPUs: %.300s", why_no_gpu(plan));
		add(out, text);
	}
	if (horovod && *python)
		compare(out, horovod, plan, !strcmp(engine, "horovod"));
	return out;
}
