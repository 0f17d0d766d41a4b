/* exam_gpus.c - examine GPUs, their driver, and whether frameworks can use them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "base/release.h"
#include "detect/loader.h"
#include "detect/nccllibs.h"
#include "detect/rootfs.h"
#include "detect/text.h"
#include "doctor/exam.h"
#include "doctor/hardware.h"
#include "doctor/kmod.h"

/* The oldest driver that takes programs of each CUDA, by its minor version compatibility. */
static const char *driver_for(const char *cuda)
{
	static const struct {
		int major;
		const char *driver;
	} oldest[] = { { 13, "580.65.06" }, { 12, "525.60.13" }, { 11, "450.80.02" } };
	int major = atoi(cuda);

	for (size_t i = 0; i < sizeof(oldest) / sizeof(oldest[0]); i++)
		if (oldest[i].major == major)
			return oldest[i].driver;
	return "";
}

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
			 python, release_compare(driver, driver_for("13")) < 0 ? 12 : 13);
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
		const char *cuda = jsonio_string(f, "cuda"), *oldest = driver_for(cuda);

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

/* The NCCL of a job of framework @f, in the order of backend/nccl_lib.c: the one that
 * RINGUP_NCCL names; torch's own, which is loaded before a job begins; the wheel beside the
 * files of others; the loader's.  Returns why it is that one; NULL: there is none. */
static const char *find_nccl(const struct exam *x, struct rootfs *fs, const json_t *f,
			     char *library)
{
	const char *location = jsonio_string(f, "location");
	char caller[PATH_MAX + 32], above[PATH_MAX];
	char *end;

	if (exam_is_live(x) && x->conf && *x->conf->nccl) {
		snprintf(library, PATH_MAX, "%s", x->conf->nccl);
		return "RINGUP_NCCL names it";
	}
	snprintf(caller, sizeof(caller), "%s/lib/libtorch_cuda.so", location);
	if (!strcmp(jsonio_string(f, "name"), "torch"))
		return rootfs_is_file(fs, caller) &&
				       loader_find(fs, caller, "libnccl.so.2", library)
			       ? "libtorch_cuda.so needs it"
			       : NULL;
	snprintf(above, sizeof(above), "%s", location);
	end = strrchr(above, '/');
	if (end)
		*end = 0;
	if (rootfs_join(library, above, "nvidia/nccl/lib/libnccl.so.2") &&
	    rootfs_is_file(fs, library))
		return "its wheel is beside the framework";
	return loader_find(fs, location, "libnccl.so.2", library) ? "the loader finds it"
								  : NULL;
}

/* Reports what is wrong with the NCCL of @version for @cuda that framework @f loads. */
static void judge_nccl(struct exam *x, const json_t *f, const char *version, const char *cuda,
		       const char *driver)
{
	const char *oldest = driver_for(cuda), *own = driver_for(jsonio_string(f, "cuda"));

	if (*version && release_compare(version, "2.18") < 0)
		exam_why(x,
			 "RINGUP_BACKEND=nccl needs NCCL 2.18 or later; the default, "
			 "through host memory, needs none",
			 NULL);
	/* What the framework itself asks of the driver is told elsewhere. */
	if (!*driver || !*oldest || release_compare(driver, oldest) >= 0 ||
	    release_compare(driver, own) < 0)
		return;
	exam_add(x, EXAM_BAD, "NCCL %s of %s %s needs driver %s for CUDA %s; this node has %s",
		 version, jsonio_string(f, "name"), jsonio_string(f, "version"), oldest, cuda,
		 driver);
	exam_why(x, "its first collective fails: the driver is insufficient for the runtime",
		 "install a newer driver, or the nvidia-nccl wheel for the framework's CUDA");
}

/* Reports which NCCL a job would load, by file and by what that file tells of itself: wheels of
 * several CUDAs write one file, and LD_LIBRARY_PATH may lead to another.  @driver: "": none. */
static void add_nccl(struct exam *x, struct rootfs *fs, const char *driver)
{
	char library[PATH_MAX], version[64], cuda[64];
	const char *why;
	json_t *f;
	size_t i;

	json_array_foreach(json_object_get(x->facts, "frameworks"), i, f) {
		if (!*jsonio_string(f, "cuda"))
			continue;
		why = find_nccl(x, fs, f, library);
		if (!why) {
			exam_add(x, EXAM_NOTE, "%s %s of %s finds no libnccl.so.2",
				 jsonio_string(f, "name"), jsonio_string(f, "version"),
				 jsonio_string(f, "python"));
			continue;
		}
		nccllibs_version(fs, library, version, cuda, sizeof(version));
		exam_add(x, EXAM_GOOD, "%s %s of %s loads NCCL %s, %s: %s",
			 jsonio_string(f, "name"), jsonio_string(f, "version"),
			 jsonio_string(f, "python"), *version ? version : "of unknown version",
			 library, why);
		judge_nccl(x, f, version, cuda, driver);
	}
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
	struct rootfs fs;
	int rc = rootfs_open(&fs, x->root, problems, e);

	if (rc) {
		json_decref(problems);
		return rc;
	}
	amd = add_amd(x, &fs);
	if (add_wsl(x, &fs, driver)) {
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
	add_nccl(x, &fs, json_is_object(driver) ? jsonio_string(driver, "version") : "");
	rootfs_close(&fs);
	json_decref(problems);
	return 0;
}
