/* hvdbuild.c - the list that `horovodrun --check-build` prints. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/hvdbuild.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/path.h"
#include "cli/out.h"
#include "detect/pythons.h"
#include "detect/rootfs.h"
#include "rebuild/modules.h"

/* The Python whose packages are searched. */
struct where {
	struct rootfs *fs;
	const struct python *python;
};

static bool is_package(struct where *w, const char *dir, const char *package)
{
	char path[PATH_MAX], file[PATH_MAX];

	return rootfs_join(path, dir, package) && rootfs_join(file, path, "__init__.py") &&
	       rootfs_is_file(w->fs, file);
}

/* Does Python find @package, "torch" or "horovod/torch", in PYTHONPATH or its own folders? */
static bool has_package(struct where *w, const char *package)
{
	const char *p = conf_env("PYTHONPATH");
	char dir[PATH_MAX];

	while (path_next(&p, dir))
		if (is_package(w, dir, package))
			return true;
	for (int i = 0; w->python && i < w->python->site_count; i++)
		if (is_package(w, w->python->sites[i], package))
			return true;
	return false;
}

static char mark(bool is_there)
{
	return is_there ? 'X' : ' ';
}

static char framework_mark(struct where *w, const char *framework)
{
	char part[64];

	snprintf(part, sizeof(part), "horovod/%s", framework);
	return mark(has_package(w, framework) && has_package(w, part));
}

/* Is there a module of the back end mpi for an MPI of this node? */
static bool has_mpi(struct where *w)
{
	char folder[PATH_MAX];
	struct err none;
	struct names n;
	bool has;

	if (modules_folder(folder, "", &none))
		return false;
	n = rootfs_names(w->fs, folder, "ringup-mpi-");
	has = n.count > 0;
	rootfs_names_free(&n);
	return has;
}

static void print(struct where *w)
{
	bool mpi = has_mpi(w);

	out_text("Horovod v%s:\n\n", HVDBUILD_VERSION);
	out_text("Available Frameworks:\n"
		 "    [%c] TensorFlow\n"
		 "    [%c] PyTorch\n"
		 "    [%c] MXNet\n\n",
		 framework_mark(w, "tensorflow"), framework_mark(w, "torch"),
		 framework_mark(w, "mxnet"));
	out_text("Available Controllers:\n"
		 "    [%c] MPI\n"
		 "    [%c] Gloo\n\n",
		 mark(mpi), mark(true));
	out_text("Available Tensor Operations:\n"
		 "    [%c] NCCL\n"
		 "    [%c] DDL\n"
		 "    [%c] CCL\n"
		 "    [%c] MPI\n"
		 "    [%c] Gloo\n",
		 mark(false), mark(false), mark(false), mark(mpi), mark(true));
}

int hvdbuild_print(const char *python, struct err *e)
{
	static const char *const names[] = { "python", "python3" };
	json_t *problems = json_array();
	struct pythons found = { 0 };
	struct rootfs fs;
	struct where w = { &fs, NULL };
	struct err none;
	int rc;

	rc = rootfs_open(&fs, NULL, problems, e);
	if (rc) {
		json_decref(problems);
		return rc;
	}
	if (python && *python) {
		rc = pythons_find(&fs, python, &found, e);
	} else {
		for (size_t i = 0; i < 2 && !found.count; i++) {
			pythons_free(&found);
			(void)pythons_find(&fs, names[i], &found, &none);
		}
	}
	if (!rc) {
		w.python = found.count ? &found.at[0] : NULL;
		print(&w);
		if (!w.python)
			out_note("horovodrun: no python or python3 in PATH\n");
		else if (!has_package(&w, "horovod"))
			out_note("horovodrun: %s does not have the package horovod; install it "
				 "with `ringup rebuild`\n",
				 w.python->path);
	}
	pythons_free(&found);
	rootfs_close(&fs);
	json_decref(problems);
	return rc;
}
