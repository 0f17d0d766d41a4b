/* find.c - find all software that detect knows, as one JSON object. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/find.h"

#include "base/err.h"
#include "base/jsonio.h"
#include "detect/compilers.h"
#include "detect/cudalibs.h"
#include "detect/engines.h"
#include "detect/framework.h"
#include "detect/ldlibs.h"
#include "detect/mpilibs.h"
#include "detect/nccllibs.h"
#include "detect/pythons.h"
#include "detect/rootfs.h"
#include "detect/text.h"
#include "ringup.h"

/* Adds to each framework the NCCL that its jobs would load. */
static void choose_nccl(struct rootfs *fs, const char *told, const json_t *all)
{
	const json_t *driver = json_object_get(json_object_get(all, "cuda"), "driver");
	char fault[PATH_MAX];
	json_t *f, *nccl;
	size_t i;

	json_array_foreach(json_object_get(all, "frameworks"), i, f) {
		nccl = *jsonio_string(f, "cuda") ? nccllibs_choose(fs, f, told) : json_null();
		if (json_is_object(nccl)) {
			nccllibs_judge(nccl, jsonio_string(driver, "version"), fault);
			json_object_set_new(nccl, "fault", text_json(fault));
		}
		json_object_set_new(f, "nccl", nccl);
	}
}

int find_all(const struct find_how *how, json_t **out, struct err *e)
{
	json_t *all = json_object(), *problems = json_array(), *found;
	struct pythons py = { 0 };
	struct ldlibs libs = { 0 };
	struct rootfs fs;
	int rc;

	rc = rootfs_open(&fs, how->root, problems, e);
	if (rc)
		goto out;
	rc = pythons_find(&fs, how->python, &py, e);
	if (rc)
		goto out;
	ldlibs_load(&fs, &libs);
	found = frameworks_find(&fs, &py, &libs);
	json_object_set_new(all, "pythons", pythons_json(&py));
	json_object_set_new(all, "frameworks", found);
	json_object_set_new(all, "compilers", compilers_find(&fs, &py));
	json_object_set_new(all, "cuda", cudalibs_find(&fs, &libs));
	json_object_set_new(all, "nccl", nccllibs_find(&fs, &libs, &py));
	choose_nccl(&fs, how->nccl, all);
	json_object_set_new(all, "mpi", mpilibs_find(&fs, &libs, &py));
	json_object_set_new(all, "engines", engines_find(&fs, &libs, &py, found));
	/* jansson passes NULL on; a missing part means that memory was short. */
	if (json_object_set(all, "problems", problems) || json_object_size(all) != 8)
		rc = fail(e, RINGUP_ENOMEM, "detect");
out:
	ldlibs_free(&libs);
	pythons_free(&py);
	rootfs_close(&fs);
	json_decref(problems);
	if (rc)
		json_decref(all);
	else
		*out = all;
	return rc;
}
