/* cudalibs.c - find CUDA on a node: toolkits and the driver. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/cudalibs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "detect/ldlibs.h"
#include "detect/rootfs.h"
#include "detect/text.h"

enum { MAX_TEXT = 1 << 20 };

bool cudalibs_driver(const char *data, char *out, size_t cap)
{
	const char *p = strstr(data, "Kernel Module");
	size_t n;

	*out = 0;
	for (p = p ? p + strlen("Kernel Module") : NULL; p && *p && *p != '\n'; p += n) {
		p += strspn(p, " \t");
		n = strcspn(p, " \t\n");
		if (n > 2 && n < cap && strspn(p, "0123456789.") == n && memchr(p, '.', n)) {
			text_copy(out, cap, p, n);
			return true;
		}
	}
	return false;
}

const char *cudalibs_driver_for(const char *cuda)
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

/* version.json: {"cuda": {"name": ..., "version": "12.4.1"}, ...} */
static void from_json(struct rootfs *fs, const char *dir, char *out, size_t cap)
{
	char path[PATH_MAX];
	const char *version = NULL;
	json_t *all;
	size_t len;
	char *data = rootfs_join(path, dir, "version.json")
			     ? rootfs_read(fs, path, MAX_TEXT, &len)
			     : NULL;

	if (!data)
		return;
	all = json_loadb(data, len, 0, NULL);
	json_unpack(all, "{s:{s:s}}", "cuda", "version", &version);
	if (version && text_is_version(version))
		text_copy(out, cap, version, strlen(version));
	else
		rootfs_problem(fs, path, "contains no CUDA version");
	json_decref(all);
	free(data);
}

/* version.txt, until CUDA 10: "CUDA Version 10.1.243" */
static void from_txt(struct rootfs *fs, const char *dir, char *out, size_t cap)
{
	static const char words[] = "CUDA Version ";
	char path[PATH_MAX];
	size_t len, n;
	char *data = rootfs_join(path, dir, "version.txt")
			     ? rootfs_read(fs, path, MAX_TEXT, &len)
			     : NULL;

	if (data && !strncmp(data, words, strlen(words))) {
		n = strspn(data + strlen(words), "0123456789.");
		if (n && n < cap)
			text_copy(out, cap, data + strlen(words), n);
	}
	free(data);
}

/* cuda.h: #define CUDA_VERSION 12040 */
static void from_header(struct rootfs *fs, const char *dir, char *out, size_t cap)
{
	char path[PATH_MAX], number[16];
	size_t len;
	char *data = rootfs_join(path, dir, "include/cuda.h")
			     ? rootfs_read(fs, path, 8 * MAX_TEXT, &len)
			     : NULL;

	if (data && text_defined(data, len, "CUDA_VERSION", number, sizeof(number)) &&
	    atoi(number) >= 1000)
		snprintf(out, cap, "%d.%d", atoi(number) / 1000, atoi(number) % 1000 / 10);
	free(data);
}

static void add_toolkit(struct rootfs *fs, const char *dir, json_t *all)
{
	char real[PATH_MAX], nvcc[PATH_MAX], version[64] = "";
	const char *known;
	json_t *o;
	size_t i;

	if (!rootfs_is_dir(fs, dir) || !rootfs_real(fs, dir, real))
		return;
	json_array_foreach(all, i, o) {
		known = json_string_value(json_object_get(o, "path"));
		if (known && !strcmp(known, real))
			return;
	}
	if (!rootfs_join(nvcc, real, "bin/nvcc") || !rootfs_is_file(fs, nvcc))
		*nvcc = 0;
	from_json(fs, real, version, sizeof(version));
	if (!*version)
		from_txt(fs, real, version, sizeof(version));
	if (!*version)
		from_header(fs, real, version, sizeof(version));
	if (!*nvcc && !*version)
		return;
	o = json_object();
	json_object_set_new(o, "path", text_json(real));
	json_object_set_new(o, "version", text_json(version));
	json_object_set_new(o, "nvcc", text_json(nvcc));
	json_array_append_new(all, o);
}

static json_t *find_toolkits(struct rootfs *fs)
{
	static const char *const homes[] = { "CUDA_HOME", "CUDA_PATH" };
	json_t *all = json_array();
	char path[PATH_MAX];
	struct names n;

	for (size_t i = 0; i < 2 && rootfs_is_live(fs); i++)
		if (conf_env(homes[i]) && *conf_env(homes[i]) == '/')
			add_toolkit(fs, conf_env(homes[i]), all);
	/* /usr/local/cuda links to the default toolkit, so it comes first. */
	add_toolkit(fs, "/usr/local/cuda", all);
	n = rootfs_names(fs, "/usr/local", "cuda-");
	for (size_t i = 0; i < n.count; i++)
		if (rootfs_join(path, "/usr/local", n.at[i]))
			add_toolkit(fs, path, all);
	rootfs_names_free(&n);
	add_toolkit(fs, "/opt/cuda", all);
	add_toolkit(fs, "/usr/lib/nvidia-cuda-toolkit", all);
	if (rootfs_is_file(fs, "/usr/include/cuda.h"))
		add_toolkit(fs, "/usr", all);
	return all;
}

static json_t *find_driver(struct rootfs *fs, const struct ldlibs *libs)
{
	char version[64] = "", of_library[64] = "";
	size_t len, cursor = 0;
	const char *library = ldlibs_next(libs, "libcuda.so", &cursor);
	char *data = rootfs_read(fs, "/proc/driver/nvidia/version", MAX_TEXT, &len);
	json_t *o;

	if (data && !cudalibs_driver(data, version, sizeof(version)))
		rootfs_problem(fs, "/proc/driver/nvidia/version", "contains no version");
	free(data);
	if (library)
		ldlibs_version(fs, library, of_library, sizeof(of_library));
	/* libcuda.so.1 without further numbers is a stub; libcuda.so.1.1 is Windows's (WSL),
	 * whose driver only a program can ask for its version. */
	if (!strchr(of_library, '.') || !strncmp(library, "/usr/lib/wsl/", 13))
		*of_library = 0;
	if (!*version)
		text_set(version, sizeof(version), of_library);
	if (!*version && !library)
		return json_null();
	o = json_object();
	json_object_set_new(o, "version", text_json(*version ? version : NULL));
	json_object_set_new(o, "library", text_json(library));
	json_object_set_new(o, "library_version", text_json(*of_library ? of_library : NULL));
	return o;
}

json_t *cudalibs_find(struct rootfs *fs, const struct ldlibs *libs)
{
	struct names gpus = rootfs_names(fs, "/proc/driver/nvidia/gpus", "");
	json_t *o = json_object();

	json_object_set_new(o, "toolkits", find_toolkits(fs));
	json_object_set_new(o, "driver", find_driver(fs, libs));
	json_object_set_new(o, "gpu_count", json_integer((json_int_t)gpus.count));
	rootfs_names_free(&gpus);
	return o;
}
