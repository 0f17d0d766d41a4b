/* kmod.c - find why NVIDIA's kernel module is not loaded. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/kmod.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "detect/rootfs.h"
#include "detect/text.h"
#include "doctor/exam.h"
#include "doctor/hardware.h"

/* Folders of modules are as deep as kernel/drivers/video/nvidia; a hostile tree ends the
 * search. */
enum { MOST_DEPTH = 5, MOST_ENTRIES = 1 << 17 };

static const char modules[] = "/lib/modules";

/* The kernel that runs, and NVIDIA's modules on disk. */
struct kernel {
	char name[64];         /* as in "5.15.0-94-generic"; or ""        */
	char module[PATH_MAX]; /* NVIDIA's, for this kernel; or ""        */
	char other[64];        /* another kernel that has one; or ""      */
	bool has_folder;       /* is there a folder of its modules?       */
	bool has_headers;      /* can modules be compiled for it?         */
	bool has_source;       /* does DKMS have the source of NVIDIA's?  */
};

/* Is that the main module's file: nvidia.ko.zst, or Debian's nvidia-current.ko?  Others are
 * nvidia-uvm.ko, nvidiafb.ko. */
static bool is_module(const char *name)
{
	static const char *const marks[] = { "nvidia", "-current", "-tesla", "-legacy",
					     "-open" };

	if (strncmp(name, marks[0], strlen(marks[0])) != 0)
		return false;
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (!strncmp(name, marks[i], strlen(marks[i])))
			name += strlen(marks[i]);
	name += strspn(name, "-0123456789x");
	return !strncmp(name, ".ko", 3);
}

/* Finds NVIDIA's module below the folder @dir; *@left entries may still be looked at. */
static bool find_module(struct rootfs *fs, const char *dir, int depth, int *left,
			char out[PATH_MAX])
{
	struct names n = rootfs_names(fs, dir, "");
	char path[PATH_MAX];
	bool is_found = false;

	for (size_t i = 0; i < n.count && !is_found && (*left)-- > 0; i++) {
		/* These are the kernel's whole source. */
		if (!strcmp(n.at[i], "build") || !strcmp(n.at[i], "source") ||
		    !rootfs_join(path, dir, n.at[i]))
			continue;
		if (strstr(n.at[i], ".ko")) {
			is_found = is_module(n.at[i]) && rootfs_is_file(fs, path);
			if (is_found)
				text_set(out, PATH_MAX, path);
		} else if (depth && rootfs_is_dir(fs, path)) {
			is_found = find_module(fs, path, depth - 1, left, out);
		}
	}
	rootfs_names_free(&n);
	return is_found;
}

/* Does the folder @dir have an entry that begins with @prefix and is the driver's, not that of
 * nvidia-fs or nvidia-peermem? */
static bool has_driver(struct rootfs *fs, const char *dir, const char *prefix)
{
	struct names n = rootfs_names(fs, dir, prefix);
	bool is = false;

	for (size_t i = 0; i < n.count; i++)
		is |= strncmp(n.at[i], "nvidia-fs", 9) && strncmp(n.at[i], "nvidia-peer", 11);
	rootfs_names_free(&n);
	return is;
}

/* Reads the name of the kernel that runs; "" if a tree has none. */
static void read_name(struct rootfs *fs, char name[64])
{
	size_t len;
	char *data = rootfs_read(fs, "/proc/sys/kernel/osrelease", 4096, &len);

	text_copy(name, 64, data ? data : "", data ? strcspn(data, "\n") : 0);
	free(data);
	if (!text_is_version(name))
		*name = 0;
}

static void read_kernel(struct rootfs *fs, struct kernel *k)
{
	struct names n = { 0 };
	char dir[PATH_MAX], path[PATH_MAX];
	int left = MOST_ENTRIES;

	*k = (struct kernel){ .name = "" };
	read_name(fs, k->name);
	if (*k->name && rootfs_join(dir, modules, k->name)) {
		k->has_folder = rootfs_is_dir(fs, dir);
		k->has_headers = rootfs_join(path, dir, "build") && rootfs_is_dir(fs, path);
		find_module(fs, dir, MOST_DEPTH, &left, k->module);
		n = rootfs_names(fs, modules, "");
	}
	for (size_t i = 0; !*k->module && i < n.count; i++)
		if (text_is_version(n.at[i]) && rootfs_join(dir, modules, n.at[i]) &&
		    rootfs_is_dir(fs, dir) && find_module(fs, dir, MOST_DEPTH, &left, path))
			text_set(k->other, sizeof(k->other), n.at[i]);
	rootfs_names_free(&n);
	k->has_source = has_driver(fs, "/var/lib/dkms", "nvidia") ||
			has_driver(fs, "/usr/src", "nvidia-");
}

/* Reports a kernel for which there is no module of NVIDIA's. */
static void add_missing(struct exam *x, struct rootfs *fs, const struct kernel *k,
			const char *gpus)
{
	char todo[1024];
	const char *why = "programs find no GPU: the kernel was upgraded, and the driver's "
			  "module was not";

	if (!k->has_folder) {
		exam_add(x, EXAM_BAD, "%s, but the modules of kernel %s, which runs, are gone",
			 gpus, k->name);
		snprintf(todo, sizeof(todo),
			 "restart the node into an installed kernel, such as %s; start a "
			 "container with docker run --gpus all",
			 k->other);
		exam_why(x,
			 "programs find no GPU: an upgrade has removed this kernel's modules, "
			 "and nvidia among them",
			 todo);
		return;
	}
	exam_add(x, EXAM_BAD, "%s, but kernel %s has no module nvidia%s%s", gpus, k->name,
		 *k->other ? "; it was built for " : "", k->other);
	if (!k->has_source) {
		snprintf(todo, sizeof(todo),
			 "install the driver's module for this kernel (Ubuntu: a package "
			 "linux-modules-nvidia-*-%s), or install the driver again",
			 k->name);
	} else if (k->has_headers) {
		why = "programs find no GPU: DKMS has not built the module for this kernel; "
		      "make.log below /var/lib/dkms says why";
		snprintf(todo, sizeof(todo),
			 "sudo dkms autoinstall -k %s; sudo modprobe nvidia", k->name);
	} else {
		bool is_debian = rootfs_is_file(fs, "/var/lib/dpkg/status");

		why = "programs find no GPU: DKMS cannot build the module without the headers "
		      "of this kernel";
		snprintf(todo, sizeof(todo),
			 "sudo %s-%s; sudo dkms autoinstall -k %s; sudo modprobe nvidia",
			 is_debian ? "apt-get install linux-headers"
				   : "dnf install kernel-devel",
			 k->name, k->name);
	}
	if (*k->other)
		snprintf(todo + strlen(todo), sizeof(todo) - strlen(todo), "; or boot %s",
			 k->other);
	exam_why(x, why, todo);
}

/* Does the firmware let the kernel load only modules with a trusted signature? */
static bool is_secure_boot(struct rootfs *fs)
{
	size_t len;
	char *data = rootfs_read(fs,
				 "/sys/firmware/efi/efivars/"
				 "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
				 64, &len);
	/* Four bytes of attributes come before the value. */
	bool is = data && len == 5 && data[4] == 1;

	free(data);
	return is;
}

/* Is the file at @path a module without a signature?  False for a compressed one. */
static bool is_unsigned(struct rootfs *fs, const char *path)
{
	static const char mark[] = "~Module signature appended~\n";
	char last[sizeof(mark) - 1];
	size_t size, len = strlen(path);
	int fd = len > 3 && !strcmp(path + len - 3, ".ko") ? rootfs_fd(fs, path, &size) : -1;
	bool is = false;

	if (fd >= 0) {
		is = size >= sizeof(last) &&
		     pread(fd, last, sizeof(last), (off_t)(size - sizeof(last))) ==
			     (ssize_t)sizeof(last) &&
		     memcmp(last, mark, sizeof(last)) != 0;
		close(fd);
	}
	return is;
}

/* Reports a module that is not loaded, where the kernel has one or a tree does not show it;
 * @by: the driver that has the GPUs. */
static void add_unloaded(struct exam *x, struct rootfs *fs, const struct kernel *k,
			 const char *gpus, const char *by)
{
	const char *why = "programs find no GPU; usual causes are a kernel upgrade without a "
			  "new module, and Secure Boot with an unsigned one";
	const char *todo =
		"sudo modprobe nvidia shows the reason; rebuild the module (dkms autoinstall), "
		"or reinstall the driver";

	exam_add(x, EXAM_BAD, "%s, but the kernel module nvidia is not loaded%s%s", gpus,
		 *by ? "; the driver in use is " : "", by);
	if (!strcmp(by, "nouveau")) {
		why = "programs find no GPU while nouveau has it";
		todo = "echo 'blacklist nouveau' | sudo tee /etc/modprobe.d/nouveau.conf; "
		       "sudo update-initramfs -u, or sudo dracut -f; restart the node";
	} else if (!strcmp(by, "vfio-pci")) {
		why = "programs of this node find no GPU: it is reserved for virtual machines";
		todo = "remove the GPU from vfio-pci's ids (/etc/modprobe.d, or the kernel's "
		       "command line), then restart the node";
	} else if (*k->module && is_secure_boot(fs)) {
		why = is_unsigned(fs, k->module)
			      ? "programs find no GPU: Secure Boot is on, and the module has "
				"no signature (modprobe: Key was rejected by service)"
			      : "programs find no GPU; Secure Boot is on, and the kernel loads "
				"only modules that a key it knows has signed";
		todo = "sudo modprobe nvidia shows the reason; sign the module with a key that "
		       "sudo mokutil --import has enrolled, or turn Secure Boot off";
	} else if (*k->module) {
		why = "programs find no GPU, although this kernel has the module";
		todo = "sudo modprobe nvidia; if that fails, sudo dmesg shows the reason";
	}
	exam_why(x, why, todo);
}

bool kmod_add(struct exam *x, struct rootfs *fs, bool has_library)
{
	char by[64], gpus[64];
	struct kernel k;
	int count =
		rootfs_is_file(fs, "/proc/driver/nvidia/version") ? 0 : hardware_on_bus(fs, by);

	if (!count)
		return false;
	snprintf(gpus, sizeof(gpus), "%d NVIDIA GPU%s", count, count == 1 ? "" : "s");
	read_kernel(fs, &k);
	if (!has_library && (*k.module || (!*k.other && !k.has_source))) {
		exam_add(x, EXAM_NOTE, "%s, but no NVIDIA driver", gpus);
		exam_why(x, "programs find no GPU",
			 "install the driver, or start the container with its GPUs "
			 "(docker run --gpus all)");
	} else if (*k.name && !*k.module && (k.has_folder || *k.other)) {
		add_missing(x, fs, &k, gpus);
	} else {
		add_unloaded(x, fs, &k, gpus, by);
	}
	return true;
}
