/* ability.c - answer `horovodrun --check-build` from files. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/ability.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/jsonio.h"
#include "detect/elfinfo.h"
#include "detect/lookup.h"
#include "detect/rootfs.h"
#include "rebuild/modules.h"

static bool has_module(const char *root, const json_t *facts)
{
	char folder[PATH_MAX];
	struct modules_state *states;
	struct err e;
	bool any = false;
	int n;

	if (modules_folder(folder, root, &e))
		return false;
	n = modules_states(root, folder, "", facts, &states);
	for (int i = 0; i < n; i++)
		any |= !states[i].why;
	free(states);
	return any;
}

/* ringup: torch and TensorFlow are served, MPI has a module, and TCP and memory need
 * nothing. */
static void of_ringup(json_t *o, const char *root, const json_t *facts, const char *python)
{
	bool mpi = has_module(root, facts);

	json_object_set_new(
		o, "frameworks",
		json_pack("{sb sb sb}", "TensorFlow",
			  lookup_entry(facts, "frameworks", python, "tensorflow") != NULL,
			  "PyTorch", lookup_entry(facts, "frameworks", python, "torch") != NULL,
			  "MXNet", 0));
	json_object_set_new(o, "controllers", json_pack("{sb sb}", "MPI", mpi, "Gloo", 1));
	json_object_set_new(o, "operations",
			    json_pack("{sb sb sb sb sb}", "NCCL", 0, "DDL", 0, "CCL", 0, "MPI",
				      mpi, "Gloo", 1));
}

static bool needs(const struct elfinfo *info, const char *library)
{
	size_t n = strlen(library);

	for (int i = 0; i < info->needed_count; i++)
		if (!strncmp(info->needed[i], library, n))
			return true;
	return false;
}

/* Horovod: by the libraries of its extension.  NCCL may be linked statically, so only "yes" is
 * certain; Gloo always is, so it cannot be seen at all. */
static void of_horovod(json_t *o, const char *root, const json_t *engine)
{
	static const char *const spaces[] = { NULL };
	static const char *const names[][2] = { { "TensorFlow", "tensorflow" },
						{ "PyTorch", "torch" },
						{ "MXNet", "mxnet" } };
	json_t *frameworks = json_object(), *problems = json_array(), *x;
	const json_t *extension;
	bool mpi = false, nccl = false, ccl = false, read = false;
	struct elfinfo info;
	struct rootfs fs;
	struct err e;
	size_t i;
	int fd;

	for (i = 0; i < 3; i++) {
		extension = lookup_extension(engine, names[i][1]);
		json_object_set_new(
			frameworks, names[i][0],
			json_boolean(extension && !*jsonio_string(extension, "fault")));
	}
	if (!rootfs_open(&fs, root, problems, &e)) {
		json_array_foreach(json_object_get(engine, "extensions"), i, x) {
			fd = rootfs_fd(&fs, jsonio_string(x, "library"), NULL);
			if (fd >= 0 && !elfinfo_read(fd, spaces, &info, &e)) {
				read = true;
				mpi |= needs(&info, "libmpi.") || needs(&info, "libmpich.");
				nccl |= needs(&info, "libnccl.");
				ccl |= needs(&info, "libccl.");
			}
			if (fd >= 0)
				close(fd);
		}
		rootfs_close(&fs);
	}
	json_decref(problems);
	json_object_set_new(o, "frameworks", frameworks);
	json_object_set_new(
		o, "controllers",
		json_pack("{so sn}", "MPI", read ? json_boolean(mpi) : json_null(), "Gloo"));
	json_object_set_new(o, "operations",
			    json_pack("{so sb so so sn}", "NCCL",
				      nccl ? json_true() : json_null(), "DDL", 0, "CCL",
				      read ? json_boolean(ccl) : json_null(), "MPI",
				      read ? json_boolean(mpi) : json_null(), "Gloo"));
}

json_t *ability_of(const char *root, const json_t *facts)
{
	json_t *all = json_array(), *engine;
	size_t i;

	json_array_foreach(json_object_get(facts, "engines"), i, engine) {
		const char *python = jsonio_string(engine, "python");
		json_t *o;

		if (!*python)
			continue;
		o = json_pack("{sO sO sO}", "python", json_object_get(engine, "python"),
			      "engine", json_object_get(engine, "name"), "version",
			      json_object_get(engine, "version"));
		if (!strcmp(jsonio_string(engine, "name"), "ringup"))
			of_ringup(o, root, facts, python);
		else
			of_horovod(o, root, engine);
		json_array_append_new(all, o);
	}
	return all;
}
