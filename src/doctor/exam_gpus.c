/* exam_gpus.c - examine GPUs, their driver, and whether frameworks can use them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "base/release.h"
#include "detect/cudalibs.h"
#include "detect/loader.h"
#include "detect/nccllibs.h"
#include "detect/rootfs.h"
#include "detect/text.h"
#include "doctor/exam.h"
#include "doctor/hardware.h"
#include "doctor/kmod.h"
#include "host/netconf.h"
#include "wire/discover.h"

/* Reports a framework that was built without CUDA; false if it was built with CUDA. */
static bool add_without(struct exam *x, const json_t *f, const char *driver)
{
	const char *name = jsonio_string(f, "name"), *python = jsonio_string(f, "python");
	char todo[PATH_MAX + 128];

	if (*jsonio_string(f, "cuda"))
		return false;
	if (!strcmp(name, "torch"))
		snprintf(todo, sizeof(todo),
			 "install a torch that was built for CUDA, unless you train on "
			 "processors");
	else if (!strcmp(name, "jax"))
		snprintf(todo, sizeof(todo),
			 "%s -m pip install --upgrade 'jax[cuda%d]', unless you train on "
			 "processors",
			 python,
			 release_compare(driver, cudalibs_driver_for("13")) < 0 ? 12 : 13);
	else if (!strcmp(name, "tensorflow"))
		snprintf(todo, sizeof(todo),
			 "%s -m pip install 'tensorflow[and-cuda]', unless you train on "
			 "processors",
			 python);
	else
		return false;
	exam_add(x, EXAM_NOTE, "%s %s of %s was %s without CUDA%s", name,
		 jsonio_string(f, "version"), python,
		 strcmp(name, "jax") ? "built" : "installed",
		 strcmp(name, "jax") ? "" : "'s plug-in");
	exam_why(x, "it cannot use this node's GPUs", todo);
	return true;
}

/* Reports the libraries of CUDA that TensorFlow @f opens by name and does not find: it goes on
 * without GPUs then. */
static void add_unfound(struct exam *x, struct rootfs *fs, const json_t *f)
{
	static const char *const lists[] = { "cuda_version",  "libcudart.so", "cuda_runtime",
					     "cudnn_version", "libcudnn.so",  "cudnn" };
	const char *location = jsonio_string(f, "location"),
		   *python = jsonio_string(f, "python");
	char path[PATH_MAX], above[PATH_MAX], number[32], library[64], folder[64], unfound[160],
		todo[PATH_MAX];
	size_t len, at = 0;
	char *data = rootfs_join(path, location, "python/platform/build_info.py")
			     ? rootfs_read(fs, path, 1 << 20, &len)
			     : NULL;

	snprintf(above, sizeof(above), "%.*s",
		 (int)(strrchr(location, '/') ? strrchr(location, '/') - location : 0),
		 location);
	for (size_t i = 0; data && i < sizeof(lists) / sizeof(lists[0]); i += 3) {
		if (!text_keyed(data, len, lists[i], number, sizeof(number)))
			continue;
		/* CUDA 11's is called 11.0 whatever its minor version is. */
		snprintf(library, sizeof(library), "%s.%d%s", lists[i + 1], atoi(number),
			 i == 0 && atoi(number) == 11 ? ".0" : "");
		snprintf(folder, sizeof(folder), "nvidia/%s/lib", lists[i + 2]);
		if ((rootfs_join(path, above, folder) &&
		     loader_find_in(fs, path, ":", NULL, NULL, library, todo)) ||
		    loader_find(fs, jsonio_string(f, "library"), library, path))
			continue;
		at += (size_t)snprintf(unfound + at, sizeof(unfound) - at, "%s%s",
				       at ? " and " : "", library);
	}
	if (at) {
		exam_add(x, EXAM_NOTE, "tensorflow %s of %s finds no %s",
			 jsonio_string(f, "version"), python, unfound);
		snprintf(todo, sizeof(todo),
			 "%.3000s -m pip install 'tensorflow[and-cuda]==%.64s'", python,
			 jsonio_string(f, "version"));
		exam_why(x, "without them it does not use this node's GPUs", todo);
	}
	free(data);
}

/* Reports frameworks that cannot use this node's GPUs, by what they were built for. */
static void add_unused(struct exam *x, struct rootfs *fs, const char *driver)
{
	json_t *f;
	size_t i;

	json_array_foreach(json_object_get(x->facts, "frameworks"), i, f) {
		const char *cuda = jsonio_string(f, "cuda"),
			   *oldest = cudalibs_driver_for(cuda);

		if (add_without(x, f, driver))
			continue;
		if (*driver && *oldest && release_compare(driver, oldest) < 0) {
			exam_add(x, EXAM_BAD,
				 "%s %s of %s needs driver %s for CUDA %s; this node has %s",
				 jsonio_string(f, "name"), jsonio_string(f, "version"),
				 jsonio_string(f, "python"), oldest, cuda, driver);
			exam_why(x,
				 "the framework finds no GPU, or fails when it first uses one",
				 "install a newer driver, or a framework for an older CUDA");
		} else if (!strcmp(jsonio_string(f, "name"), "tensorflow")) {
			add_unfound(x, fs, f);
		}
	}
}

/* What a job asks of NCCL. */
struct nccl_need {
	const char *driver; /* of this node; "": none */
	bool is_asked;      /* by RINGUP_BACKEND     */
	int gpus, ranks;    /* of this node; ranks -1: unknown */
	bool may_share;     /* ranks a GPU, by NCCL_MULTI_RANK_GPU_ENABLE */
};

/* The number of ranks on this node: those of the job that this process belongs to, or those
 * that a Slurm job wants on each node; else -1. */
static int count_ranks(void)
{
	const char *each = conf_env("SLURM_NTASKS_PER_NODE");
	struct discovery d;
	struct err ignored;

	if (!discover(&d, &ignored) && strcmp(d.source, "none"))
		return d.size == 1 ? 1 : d.local_size;
	return each && atoi(each) > 0 ? atoi(each) : -1;
}

/* Notes NCCL's settings in @need, and reports the one that ringup refuses. */
static void add_settings(struct exam *x, struct nccl_need *need)
{
	static const char share[] = "NCCL_MULTI_RANK_GPU_ENABLE", id[] = "NCCL_COMM_ID";
	static const char *const names[] = { share, id, NULL };
	const struct netconf_row *given;
	struct netconf c = { 0 };
	struct err ignored;

	if (!netconf_read(&c, x->root, names, &ignored)) {
		need->may_share =
			netconf_value(&c, share) && strtol(netconf_value(&c, share), NULL, 0);
		given = netconf_get(&c, id);
		if (given) {
			exam_add(x, EXAM_BAD, "RINGUP_BACKEND=nccl, but %s is set (%s)", id,
				 given->source);
			exam_why(x,
				 "it would be the address of every group, so initialization "
				 "fails",
				 "unset NCCL_COMM_ID; ringup's ranks need no address");
		}
	}
	netconf_free(&c);
}

/* Has this node parts of GPUs (MIG), each of which serves a rank? */
static bool has_parts(struct rootfs *fs)
{
	static const char top[] = "/proc/driver/nvidia/capabilities";
	struct names gpus = rootfs_names(fs, top, "gpu"), parts;
	char gpu[PATH_MAX], mig[PATH_MAX];
	bool any = false;

	for (size_t i = 0; i < gpus.count && !any; i++) {
		if (!rootfs_join(gpu, top, gpus.at[i]) || !rootfs_join(mig, gpu, "mig"))
			continue;
		parts = rootfs_names(fs, mig, "gi");
		any = parts.count;
		rootfs_names_free(&parts);
	}
	rootfs_names_free(&gpus);
	return any;
}

/* Reports ranks that have to share a GPU, or may have to, and cannot with NCCL @version of
 * @who. */
static void add_shared(struct exam *x, const char *version, const char *who,
		       const struct nccl_need *need)
{
	bool is_old = release_compare(version, "2.30") < 0;
	char todo[160];

	if (!need->is_asked || !*version || !need->gpus || (!is_old && need->may_share))
		return;
	if (need->ranks > need->gpus)
		exam_add(x, EXAM_BAD, "%d ranks share %d GPU%s, which NCCL %s of %s refuses",
			 need->ranks, need->gpus, need->gpus == 1 ? "" : "s", version, who);
	else if (need->ranks < 0 && need->gpus == 1)
		exam_add(x, EXAM_NOTE, "NCCL %s of %s refuses a second rank on the only GPU",
			 version, who);
	else
		return;
	snprintf(todo, sizeof(todo),
		 "%s NCCL_MULTI_RANK_GPU_ENABLE=1, or start one rank per GPU",
		 is_old ? "use NCCL 2.30 or later with" : "set");
	exam_why(x, "such ranks fail to initialize", todo);
}

/* Reports the NCCL @chosen for a job of @who, which is framework @f or, if that is NULL, a
 * program without one. */
static void add_chosen(struct exam *x, const json_t *f, const char *who, const json_t *chosen,
		       const struct nccl_need *need)
{
	static const char newer[] = "set RINGUP_NCCL to the libnccl.so.2 of a later NCCL, or "
				    "unset RINGUP_BACKEND";
	const char *version = jsonio_string(chosen, "version"),
		   *own = cudalibs_driver_for(jsonio_string(f, "cuda"));
	char fault[PATH_MAX], text[PATH_MAX + 64], todo[PATH_MAX + 128];
	enum nccllibs_fit fit = nccllibs_judge(chosen, need->driver, fault);
	enum exam_state unfit = need->is_asked ? EXAM_BAD : EXAM_NOTE;
	bool unusable;

	if (fit == NCCLLIBS_NONE) {
		exam_add(x, unfit, "%s finds no libnccl.so.2%s%s", who,
			 *jsonio_string(chosen, "why") ? ": " : "",
			 jsonio_string(chosen, "why"));
		snprintf(todo, sizeof(todo),
			 "%s -m pip install nvidia-nccl-cu%d, or set RINGUP_NCCL to the file",
			 jsonio_string(f, "python"), atoi(jsonio_string(f, "cuda")));
		exam_why(x, "with RINGUP_BACKEND=nccl initialization fails",
			 *jsonio_string(chosen, "why") ? "unset RINGUP_NCCL, or correct it"
			 : f                           ? todo
			     : "install libnccl2, or set RINGUP_NCCL to the file");
		return;
	}
	unusable = fit == NCCLLIBS_OLD || fit == NCCLLIBS_BROKEN;
	exam_add(x, unusable ? unfit : EXAM_GOOD, "%s loads NCCL %s, %s: %s", who,
		 *version ? version : "of unknown version", jsonio_string(chosen, "library"),
		 jsonio_string(chosen, "why"));
	if (unusable) {
		snprintf(text, sizeof(text), "%s%s", fault,
			 need->is_asked ? ""
					: "; the default, through host memory, needs none");
		exam_why(x, text, need->is_asked ? newer : NULL);
	} else if (json_is_true(json_object_get(chosen, "second"))) {
		exam_why(x,
			 "a process with RINGUP_BACKEND=nccl then has two copies of NCCL: this "
			 "one and the framework's own",
			 NULL);
	}
	/* What the framework itself asks of the driver is told elsewhere. */
	if (fit == NCCLLIBS_DRIVER && release_compare(need->driver, own) >= 0) {
		exam_add(x, EXAM_BAD, "NCCL %s of %s %s", version, who, fault);
		exam_why(x,
			 "its first collective fails: the driver is insufficient for the "
			 "runtime",
			 "install a newer driver, or the nvidia-nccl wheel for the framework's "
			 "CUDA");
	}
	if (!unusable)
		add_shared(x, version, who, need);
}

/* Reports frameworks of one Python that load NCCLs of different versions: each rank has to have
 * the same one. */
static void add_unlike(struct exam *x, const json_t *a, const json_t *b)
{
	const char *first = jsonio_string(json_object_get(a, "nccl"), "version"),
		   *second = jsonio_string(json_object_get(b, "nccl"), "version");

	if (strcmp(jsonio_string(a, "python"), jsonio_string(b, "python")) || !*first ||
	    !*second || !release_compare(first, second))
		return;
	exam_add(x, EXAM_NOTE, "%s of %s loads NCCL %s, and %s NCCL %s",
		 jsonio_string(a, "name"), jsonio_string(a, "python"), first,
		 jsonio_string(b, "name"), second);
	exam_why(x,
		 "a job fails to initialize if its ranks load different versions; in a "
		 "program that imports both, the order decides",
		 "set RINGUP_NCCL to one of the files");
}

/* Reports which NCCL a job of each framework would load, by file and by what that file tells of
 * itself: wheels of several CUDAs write one file, and LD_LIBRARY_PATH may lead to another. */
static void add_nccl(struct exam *x, struct rootfs *fs, const struct nccl_need *need)
{
	json_t *list = json_object_get(x->facts, "frameworks"), *f, *g, *chosen;
	bool any = false;
	char who[PATH_MAX];
	size_t i, k;

	json_array_foreach(list, i, f) {
		chosen = json_object_get(f, "nccl");
		/* jaxlib is JAX's binary half. */
		if (!json_is_object(chosen) || !strcmp(jsonio_string(f, "name"), "jaxlib"))
			continue;
		any = true;
		snprintf(who, sizeof(who), "%s %s of %s", jsonio_string(f, "name"),
			 jsonio_string(f, "version"), jsonio_string(f, "python"));
		add_chosen(x, f, who, chosen, need);
		for (k = 0; need->is_asked && k < i; k++) {
			g = json_array_get(list, k);
			if (strcmp(jsonio_string(g, "name"), "jaxlib"))
				add_unlike(x, g, f);
		}
	}
	if (any || !need->is_asked)
		return;
	chosen = nccllibs_choose(fs, NULL, x->conf->nccl);
	/* Another library in the packages of a Python leads to NCCL's wheel, too. */
	if (*jsonio_string(chosen, "library") || *jsonio_string(chosen, "why") ||
	    !json_array_size(json_object_get(x->facts, "nccl")))
		add_chosen(x, NULL, "a program without a framework", chosen, need);
	json_decref(chosen);
}

/* Reports RINGUP_BACKEND=nccl on a node that has no GPU for it.  A job starts without one. */
static void add_no_gpu(struct exam *x, int gpus, bool has_driver)
{
	if (has_driver && gpus)
		return;
	exam_add(x, has_driver ? EXAM_NOTE : EXAM_BAD,
		 "RINGUP_BACKEND=nccl, but this node has no %s",
		 has_driver ? "GPU" : "NVIDIA driver");
	exam_why(x,
		 has_driver ? "ranks on this node can only have tensors in host memory"
			    : "initialization fails on all ranks of a job that has a rank on "
			      "this node",
		 "run the job on nodes with GPUs, or unset RINGUP_BACKEND");
}

/* Reports where a program's libcuda and the kernel's module differ: every call then fails with
 * CUDA_ERROR_SYSTEM_DRIVER_MISMATCH.  add_compat() judges those of NVIDIA's folder "compat". */
static void add_mismatch(struct exam *x, const json_t *driver)
{
	const char *module = jsonio_string(driver, "version");
	const char *library = jsonio_string(driver, "library");
	const char *version = jsonio_string(driver, "library_version");

	if (!*module || !*version || !strcmp(module, version) || strstr(library, "/compat"))
		return;
	exam_add(x, EXAM_BAD, "%s belongs to driver %s, but the kernel module is %s", library,
		 version, module);
	exam_why(x, "CUDA then finds no GPU (driver/library version mismatch)",
		 "after a driver upgrade, restart the node or reload the kernel module");
}

/* Where containers and distributions have the driver's libraries, which the loader may not
 * search. */
static const char *const driver_folders[] = {
	"/usr/lib/wsl/lib",       "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib",
	"/usr/lib64/nvidia",      "/usr/lib/nvidia",         "/usr/lib/nvidia/current",
	"/run/opengl-driver/lib",
};

/* Reports a libcuda.so.1 that programs do not find. */
static void add_unfound_driver(struct exam *x, struct rootfs *fs)
{
	char path[PATH_MAX], todo[PATH_MAX];

	for (size_t i = 0; i < sizeof(driver_folders) / sizeof(driver_folders[0]); i++) {
		if (!rootfs_join(path, driver_folders[i], "libcuda.so.1") ||
		    !rootfs_is_file(fs, path))
			continue;
		exam_add(x, EXAM_BAD, "the dynamic loader does not find %s", path);
		snprintf(todo, sizeof(todo),
			 "echo %s | sudo tee /etc/ld.so.conf.d/nvidia.conf; sudo ldconfig; or "
			 "add it to LD_LIBRARY_PATH",
			 driver_folders[i]);
		exam_why(x, "programs find no GPU without the driver's library", todo);
		return;
	}
	/* A recorded tree may lack libraries. */
	if (!exam_is_live(x) && !loader_find(fs, NULL, "libc.so.6", path))
		return;
	exam_add(x, EXAM_BAD, "the driver's library libcuda.so.1 is missing");
	exam_why(x, "programs find no GPU, although nvidia-smi may list them",
		 "start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility, or "
		 "install the driver's libraries (libcuda1, libnvidia-compute)");
}

/* Sets @model to the first GPU's, as in "NVIDIA A10"; or "". */
static void read_model(struct rootfs *fs, char model[96])
{
	static const char top[] = "/proc/driver/nvidia/gpus";
	struct names n = rootfs_names(fs, top, "");
	char path[PATH_MAX], dir[PATH_MAX], field[96];
	size_t len;

	*model = 0;
	if (n.count && rootfs_join(dir, top, n.at[0]) &&
	    rootfs_join(path, dir, "information")) {
		char *data = rootfs_read(fs, path, 1 << 16, &len);

		if (data && text_field(data, len, "Model", ':', field, sizeof(field)))
			text_clean(model, 96, field);
		free(data);
	}
	rootfs_names_free(&n);
}

/* Sets @todo to what keeps programs from loading the libcuda at @path. */
static void leave_out(struct rootfs *fs, const char *path, char *todo, size_t cap)
{
	char plain[PATH_MAX];
	int dir = (int)(strrchr(path, '/') - path);

	bool is_left = loader_find_plain(fs, NULL, "libcuda.so.1", plain);

	if (rootfs_is_live(fs) && (!is_left || strcmp(plain, path)))
		snprintf(todo, cap, "remove %.*s from LD_LIBRARY_PATH%s", dir, path,
			 is_left ? "" : ", and install the driver's libraries");
	else
		snprintf(todo, cap,
			 "remove %.*s from /etc/ld.so.conf and /etc/ld.so.conf.d, then run "
			 "ldconfig",
			 dir, path);
}

/* Is @real, a libcuda, the one of CUDA's package for forward compatibility?  If so, its version
 * is in @version. */
static bool is_compat(const char *real, char version[64])
{
	const char *number = strstr(strrchr(real, '/'), ".so.");

	text_set(version, 64, number ? number + 4 : "");
	return strstr(real, "/compat/") || strstr(real, "/cuda-compat");
}

/* Reports a libcuda for forward compatibility, @path whose real path is @real, where it cannot
 * serve: below the driver's version, and on GPUs that are not for data centers. */
static void add_compat(struct exam *x, struct rootfs *fs, const json_t *driver,
		       const char *path, const char *real)
{
	static const char *const consumer[] = { "GeForce", "TITAN", "GTX ", "NVIDIA MX" };
	const char *module = jsonio_string(driver, "version");
	char version[64], model[96], why[256], todo[2 * PATH_MAX];
	bool is_old, is_unsupported = false;

	if (!is_compat(real, version) || !*module || !strchr(version, '.') ||
	    !release_compare(version, module))
		return;
	read_model(fs, model);
	for (size_t i = 0; i < sizeof(consumer) / sizeof(consumer[0]); i++)
		is_unsupported |= strstr(model, consumer[i]) != NULL;
	is_old = release_compare(version, module) < 0;
	if (!is_old && !is_unsupported)
		return;
	exam_add(x, EXAM_BAD, "programs load %s (driver %s) instead of the driver's own %s",
		 path, version, module);
	if (is_old)
		snprintf(why, sizeof(why),
			 "forward compatibility is for older drivers; CUDA fails with error "
			 "803: unsupported display driver / cuda driver combination");
	else
		snprintf(why, sizeof(why),
			 "forward compatibility needs a GPU for data centers, and this is a "
			 "%s: CUDA fails with error 804",
			 model);
	leave_out(fs, path, todo, sizeof(todo));
	if (!is_old)
		snprintf(todo + strlen(todo), sizeof(todo) - strlen(todo),
			 "; a CUDA newer than the driver needs driver %s", version);
	exam_why(x, why, todo);
}

/* Examines the libcuda.so.1 that a program would load. */
static void add_driver_library(struct exam *x, struct rootfs *fs, const json_t *driver)
{
	char path[PATH_MAX], real[PATH_MAX], todo[2 * PATH_MAX];
	bool is_found = loader_find(fs, NULL, "libcuda.so.1", path);

	/* A tree's list of folders counts, too; its loader's cache may not be recorded. */
	if (!exam_is_live(x) && *jsonio_string(driver, "library") &&
	    (!is_found || !rootfs_is_file(fs, "/etc/ld.so.cache"))) {
		text_set(path, sizeof(path), jsonio_string(driver, "library"));
		is_found = true;
	}
	if (!is_found) {
		add_unfound_driver(x, fs);
		return;
	}
	rootfs_real(fs, path, real);
	add_compat(x, fs, driver, path, real);
	if (!strstr(real, "/stubs/"))
		return;
	exam_add(x, EXAM_BAD, "programs load CUDA's stub library %s instead of the driver's",
		 path);
	leave_out(fs, path, todo, sizeof(todo));
	exam_why(x, "every call fails with error 34: CUDA driver is a stub library", todo);
}

/* Examines a node on which Windows lends its GPUs (WSL 2); false: this is none. */
static bool add_wsl(struct exam *x, struct rootfs *fs, const json_t *driver)
{
	struct names n = rootfs_names(fs, "/dev", "dxg");
	bool is_wsl = n.count;

	rootfs_names_free(&n);
	if (!is_wsl)
		return false;
	exam_add(x, EXAM_GOOD, "GPUs of Windows, through WSL (/dev/dxg)");
	add_driver_library(x, fs, driver);
	add_unused(x, fs, "");
	return true;
}

/* Reports GPUs that CUDA_VISIBLE_DEVICES hides: CUDA stops at the first number without a GPU.
 */
static void add_visible(struct exam *x, int gpus)
{
	const char *told = exam_is_live(x) ? conf_env("CUDA_VISIBLE_DEVICES") : NULL;
	char todo[96];
	char *end;
	long first;

	if (!told || !gpus)
		return;
	first = strtol(told, &end, 10);
	/* Anything else is a GPU's name. */
	if (*told && (end == told || (*end && *end != ',')))
		return;
	if (*told && first >= 0 && first < gpus)
		return;
	exam_add(x, *told && first >= gpus ? EXAM_BAD : EXAM_NOTE,
		 "CUDA_VISIBLE_DEVICES=%s hides all of the %d GPU%s", told, gpus,
		 gpus == 1 ? "" : "s");
	snprintf(todo, sizeof(todo),
		 "unset CUDA_VISIBLE_DEVICES, or number the GPUs from 0 to %d", gpus - 1);
	exam_why(x, "programs find no GPU", todo);
}

/* The CUDAs whose compilers know a GPU of that model; NULL where all of today's do. */
static const char *cuda_from(const char *model, const char **until)
{
	static const struct {
		const char *part, *from, *until;
	} all[] = {
		{ "Blackwell", "12.8", "" },      { "GeForce RTX 50", "12.8", "" },
		{ "NVIDIA B100", "12.8", "" },    { "B200", "12.8", "" },
		{ "B300", "12.9", "" },           { "H100", "11.8", "" },
		{ "H200", "11.8", "" },           { "H800", "11.8", "" },
		{ "GeForce RTX 40", "11.8", "" }, { " Ada", "11.8", "" },
		{ "NVIDIA L4", "11.8", "" },      { "V100", "9.0", "12.9" },
		{ "TITAN V", "9.0", "12.9" },     { "Tesla P100", "8.0", "12.9" },
		{ "Tesla P40", "8.0", "12.9" },   { "GeForce GTX 10", "8.0", "12.9" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strstr(model, all[i].part)) {
			*until = all[i].until;
			return all[i].from;
		}
	return NULL;
}

/* Reports a torch whose CUDA does not support this node's GPUs; it brings no PTX to compile. */
static void add_models(struct exam *x, struct rootfs *fs)
{
	const char *from, *until = "";
	char model[96];
	json_t *f;
	size_t i;

	read_model(fs, model);
	from = cuda_from(model, &until);
	json_array_foreach(json_object_get(x->facts, "frameworks"), i, f) {
		const char *cuda = jsonio_string(f, "cuda");
		bool is_old = from && *cuda && release_compare(cuda, from) < 0;

		if (!from || !*cuda || strcmp(jsonio_string(f, "name"), "torch") ||
		    (!is_old && (!*until || release_compare(cuda, until) <= 0)))
			continue;
		exam_add(x, EXAM_BAD,
			 "%s needs CUDA %s or %s, and torch %s of %s is for CUDA %s", model,
			 is_old ? from : until, is_old ? "later" : "earlier",
			 jsonio_string(f, "version"), jsonio_string(f, "python"), cuda);
		exam_why(x,
			 "CUDA fails with: no kernel image is available for execution on "
			 "the device",
			 "install a torch built for that CUDA (download.pytorch.org/whl/)");
	}
}

/* Reports AMD's GPUs, by the kernel's list of compute nodes. */
static int add_amd(struct exam *x, struct rootfs *fs)
{
	static const char nodes[] = "/sys/class/kfd/kfd/topology/nodes";
	struct names n = rootfs_names(fs, nodes, "");
	char path[PATH_MAX], dir[PATH_MAX], *id;
	bool any_rocm = false;
	int count = 0;
	size_t len;
	json_t *o;

	for (size_t i = 0; i < n.count; i++) {
		id = rootfs_join(dir, nodes, n.at[i]) && rootfs_join(path, dir, "gpu_id")
			     ? rootfs_read(fs, path, 64, &len)
			     : NULL;
		/* A processor is a node, too, with the number 0. */
		count += id && atoll(id);
		free(id);
	}
	rootfs_names_free(&n);
	if (!count)
		return 0;
	exam_add(x, EXAM_GOOD, "%d AMD GPU%s", count, count == 1 ? "" : "s");
	exam_why(x, "ringup copies tensors on them through host memory", NULL);
	hardware_access(x, "/dev/kfd");
	json_array_foreach(json_object_get(x->facts, "frameworks"), len, o)
		any_rocm |= !strcmp(jsonio_string(o, "name"), "torch") &&
			    strstr(jsonio_string(o, "version"), "rocm");
	json_array_foreach(json_object_get(x->facts, "frameworks"), len, o) {
		if (any_rocm || strcmp(jsonio_string(o, "name"), "torch"))
			continue;
		exam_add(x, EXAM_NOTE, "torch %s of %s was built without ROCm",
			 jsonio_string(o, "version"), jsonio_string(o, "python"));
		exam_why(x, "it cannot use this node's GPUs",
			 "install a torch built for ROCm, unless you train on the CPU");
	}
	return count;
}

int exam_gpus(struct exam *x, struct err *e)
{
	const json_t *cuda = json_object_get(x->facts, "cuda");
	const json_t *driver = json_object_get(cuda, "driver");
	int count = (int)json_integer_value(json_object_get(cuda, "gpu_count")), amd;
	json_t *problems = json_array();
	struct nccl_need need = { .driver = jsonio_string(driver, "version"), .ranks = -1 };
	bool is_wsl;
	struct rootfs fs;
	int rc = rootfs_open(&fs, x->root, problems, e);

	if (rc) {
		json_decref(problems);
		return rc;
	}
	amd = add_amd(x, &fs);
	is_wsl = add_wsl(x, &fs, driver);
	if (is_wsl) {
		/* There is neither a kernel module nor a device file of NVIDIA's. */
	} else if (kmod_add(x, &fs, json_is_object(driver))) {
		/* The other checks need a driver. */
	} else if (count && !json_is_object(driver)) {
		exam_add(x, EXAM_BAD, "%d GPU%s, but no driver", count, count == 1 ? "" : "s");
		exam_why(x, "frameworks need libcuda.so.1 and its kernel module to find GPUs",
			 "install the driver, or start the container with its GPUs "
			 "(docker run --gpus all)");
	} else if (json_is_object(driver)) {
		exam_add(x, EXAM_GOOD, "%d GPU%s, driver %s", count, count == 1 ? "" : "s",
			 *jsonio_string(driver, "version") ? jsonio_string(driver, "version")
							   : "of unknown version");
		add_mismatch(x, driver);
		if (count) {
			add_driver_library(x, &fs, driver);
			add_unused(x, &fs, jsonio_string(driver, "version"));
			hardware_files(x, &fs, count, jsonio_string(driver, "version"));
			add_models(x, &fs);
			add_visible(x, count);
		}
	} else if (!amd) {
		exam_add(x, EXAM_GOOD, "no GPUs");
	}
	hardware_faults(x, &fs, count);
	need.is_asked =
		exam_is_live(x) && x->conf && backend_is_named(x->conf->backend, "nccl");
	if (need.is_asked) {
		need.gpus = has_parts(&fs) ? 0 : count;
		need.ranks = count_ranks();
		add_settings(x, &need);
		if (!is_wsl)
			add_no_gpu(x, count, json_is_object(driver));
	}
	add_nccl(x, &fs, &need);
	rootfs_close(&fs);
	json_decref(problems);
	return 0;
}
