/* hardware.c - GPU and memory faults that the kernel reports; unreachable GPUs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/hardware.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "detect/rootfs.h"
#include "detect/text.h"
#include "doctor/exam.h"

/* The number in a file of @dir; 0: there is none. */
static unsigned long number_in(struct rootfs *fs, const char *dir, const char *name)
{
	char path[PATH_MAX];
	size_t len;
	char *data = rootfs_join(path, dir, name) ? rootfs_read(fs, path, 64, &len) : NULL;
	unsigned long number = data ? strtoul(data, NULL, 0) : 0;

	free(data);
	return number;
}

int hardware_on_bus(struct rootfs *fs, char driver[64])
{
	static const char top[] = "/sys/bus/pci/devices";
	enum { NVIDIA = 0x10de, DISPLAY = 0x03 };
	struct names n = rootfs_names(fs, top, "");
	char dir[PATH_MAX], link[PATH_MAX], real[PATH_MAX];
	int count = 0;

	*driver = 0;
	for (size_t i = 0; i < n.count; i++) {
		if (!rootfs_join(dir, top, n.at[i]) || number_in(fs, dir, "vendor") != NVIDIA ||
		    number_in(fs, dir, "class") >> 16 != DISPLAY)
			continue;
		count++;
		if (rootfs_join(link, dir, "driver") && rootfs_real(fs, link, real))
			snprintf(driver, 64, "%.63s", strrchr(real, '/') + 1);
	}
	rootfs_names_free(&n);
	return count;
}

/* Device files, and the fabric manager. */

void hardware_access(struct exam *x, const char *path)
{
	char todo[256];
	struct group *g;
	struct stat st;
	int fd;

	if (!exam_is_live(x) || stat(path, &st))
		return;
	fd = access(path, R_OK | W_OK) ? -1 : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0) {
		close(fd);
	} else if (errno == EACCES) {
		g = getgrgid(st.st_gid);
		exam_add(x, EXAM_BAD, "this user cannot open %s, which belongs to the group %s",
			 path, g ? g->gr_name : "without a name");
		snprintf(todo, sizeof(todo),
			 "sudo usermod -aG %.64s USER, then log in again; docker run "
			 "--group-add "
			 "%u",
			 g ? g->gr_name : "GROUP", st.st_gid);
		exam_why(x, "only programs of root find GPUs", todo);
	} else if (errno == EPERM) {
		exam_add(x, EXAM_BAD, "this container's control group denies access to %s",
			 path);
		exam_why(x,
			 "systemctl daemon-reload on the node takes the GPUs of containers "
			 "away: "
			 "Failed to initialize NVML: Unknown Error",
			 "restart the container");
	}
}

/* A fabric manager: the name and the version of its package. */
struct fabric {
	char package[64], version[64];
};

/* Reads dpkg's status: nvidia-fabricmanager, or nvidia-fabricmanager-530. */
static void read_package(struct rootfs *fs, struct fabric *out)
{
	static const char mark[] = "Package: nvidia-fabricmanager";
	size_t len;
	char *data = rootfs_read(fs, "/var/lib/dpkg/status", 1 << 26, &len), *at, *end;

	for (at = data; at && (at = strstr(at, mark)); at = end) {
		char version[64], status[64];
		const char *name = at + strlen("Package: ");
		size_t n = strcspn(name, "\n"), stem = strlen(mark) - strlen("Package: ");

		end = strstr(at, "\n\n");
		end = end ? end : data + len;
		stem += name[stem] == '-';
		/* Not nvidia-fabricmanager-dev-530. */
		if (stem + strspn(name + stem, "0123456789") != n ||
		    !text_field(at, (size_t)(end - at), "Status", ':', status,
				sizeof(status)) ||
		    strcmp(status, "install ok installed") != 0 ||
		    !text_field(at, (size_t)(end - at), "Version", ':', version,
				sizeof(version)))
			continue;
		text_copy(out->package, sizeof(out->package), name, n);
		text_copy(out->version, sizeof(out->version), version, strcspn(version, "-"));
	}
	free(data);
}

/* Reads the version that a fabric manager, of whatever package, gave in the last line of its
 * log when it ended since @driver is another one. */
static void read_log(struct rootfs *fs, const char *driver, struct fabric *out)
{
	static const char mark[] = "driver interface version ";
	size_t len;
	char *data = rootfs_read(fs, "/var/log/fabricmanager.log", 1 << 26, &len), *last;
	char has[64], met[64];

	while (data && len && data[len - 1] == '\n')
		data[--len] = 0;
	last = data ? strrchr(data, '\n') : NULL;
	last = data ? strstr(last ? last : data, mark) : NULL;
	if (last &&
	    sscanf(last + strlen(mark), "%63s don't match with driver version %63[0-9.]", has,
		   met) == 2 &&
	    text_is_version(has) && !strncmp(met, driver, strlen(driver)))
		text_set(out->version, sizeof(out->version), has);
	free(data);
}

/* Reports a fabric manager whose version differs from the driver's: it ends when it starts. */
static void add_fabric(struct exam *x, struct rootfs *fs, const char *driver, bool is_needed)
{
	struct fabric f = { "", "" };
	char todo[320], branch[16] = "";

	read_package(fs, &f);
	if (!*f.version)
		read_log(fs, driver, &f);
	if (!*f.version || !*driver || !strcmp(f.version, driver))
		return;
	exam_add(x, is_needed ? EXAM_BAD : EXAM_NOTE,
		 "the fabric manager is version %s, but the driver is %s", f.version, driver);
	/* nvidia-fabricmanager-530 has the driver's branch in its name. */
	if (strcmp(f.package, "nvidia-fabricmanager") != 0)
		snprintf(branch, sizeof(branch), "-%.*s", (int)strcspn(driver, "."), driver);
	if (*f.package)
		snprintf(todo, sizeof(todo),
			 "sudo apt-get install 'nvidia-fabricmanager%s=%.64s*'; sudo systemctl "
			 "restart nvidia-fabricmanager",
			 branch, driver);
	else
		snprintf(todo, sizeof(todo),
			 "install nvidia-fabric-manager in version %.64s; sudo systemctl "
			 "restart nvidia-fabricmanager",
			 driver);
	exam_why(x,
		 "it ends when it starts; CUDA then fails with error 802, system not yet "
		 "initialized",
		 todo);
}

void hardware_files(struct exam *x, struct rootfs *fs, int gpus, const char *driver)
{
	struct names n = rootfs_names(fs, "/dev", "nvidia");
	bool has_control = false, has_memory = false;
	int numbered = 0;

	for (size_t i = 0; i < n.count; i++) {
		has_control |= !strcmp(n.at[i], "nvidiactl");
		has_memory |= !strcmp(n.at[i], "nvidia-uvm");
		numbered += isdigit((unsigned char)n.at[i][strlen("nvidia")]) != 0;
	}
	/* A recorded tree may lack device files. */
	if (n.count || exam_is_live(x)) {
		if (!numbered || !has_control || !has_memory) {
			exam_add(x, EXAM_BAD, "%s is missing",
				 !numbered      ? "/dev/nvidia0"
				 : !has_control ? "/dev/nvidiactl"
						: "/dev/nvidia-uvm");
			exam_why(x,
				 numbered && has_control
					 ? "CUDA finds no GPU without it, although nvidia-smi "
					   "lists them"
					 : "programs find no GPU without it",
				 "sudo nvidia-modprobe -u -c 0; start a container with docker "
				 "run --gpus all");
		} else if (numbered < gpus) {
			exam_add(x, EXAM_NOTE, "%d of %d GPUs have a device file", numbered,
				 gpus);
			exam_why(x, "programs find only these", NULL);
		}
		hardware_access(x, "/dev/nvidiactl");
	}
	rootfs_names_free(&n);
	n = rootfs_names(fs, "/proc/driver/nvidia-nvswitch/devices", "");
	/* A container cannot see whether it runs. */
	if (n.count && !rootfs_is_file(fs, "/usr/bin/nv-fabricmanager")) {
		exam_add(x, EXAM_NOTE,
			 "the GPUs use %zu NVSwitch%s, but nv-fabricmanager is not installed",
			 n.count, n.count == 1 ? "" : "es");
		exam_why(x,
			 "unless it runs outside this container, CUDA fails with error 802, "
			 "system not yet initialized",
			 "install nvidia-fabricmanager in exactly the driver's version, and "
			 "systemctl enable --now nvidia-fabricmanager");
	} else {
		add_fabric(x, fs, driver, n.count);
	}
	rootfs_names_free(&n);
}

/* Xids. */

/* What a hardware Xid means; NULL for an Xid that a program caused. */
static const char *xid_meaning(int xid)
{
	static const struct {
		int xid;
		const char *meaning;
	} all[] = {
		{ 46, "the GPU stopped processing" },
		{ 48, "an uncorrectable ECC error" },
		{ 62, "the GPU's microcontroller halted" },
		{ 63, "an ECC error: memory rows or pages were remapped" },
		{ 64, "an ECC error: memory rows or pages could not be remapped" },
		{ 74, "an NVLink failed" },
		{ 79, "the GPU fell off the bus" },
		{ 92, "a high rate of corrected ECC errors" },
		{ 94, "an ECC error that ended one program" },
		{ 95, "an ECC error that may have corrupted data of every program" },
		{ 119, "the GPU's firmware (GSP) did not answer" },
		{ 120, "the GPU's firmware (GSP) failed" },
		{ 140, "an uncorrectable ECC error" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].xid == xid)
			return all[i].meaning;
	return NULL;
}

/* An Xid in the kernel log, and the number of Xids of its kind. */
struct xid {
	int number, times;
	char device[32], text[200];
};

/* Reads the last program Xid and the last hardware Xid from the kernel log @f. */
static void read_xids(FILE *f, struct xid last[2])
{
	char *line = NULL;
	const char *at;
	size_t cap = 0;
	struct xid now;
	bool is_bad;

	/* EPIPE: the kernel overwrote a record before it was read. */
	while (getline(&line, &cap, f) > 0 || errno == EPIPE) {
		if (ferror(f)) {
			clearerr(f);
			errno = 0;
			continue;
		}
		at = strstr(line, "NVRM: Xid (");
		if (!at || sscanf(at, "NVRM: Xid (%31[^)]): %d, %199[^\n]", now.device,
				  &now.number, now.text) != 3)
			continue;
		is_bad = xid_meaning(now.number);
		now.times = last[is_bad].times + 1;
		last[is_bad] = now;
	}
	free(line);
}

static void add_xids(struct exam *x, int gpus)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	struct xid last[2] = { { 0 } };
	char why[128];

	if (f) {
		read_xids(f, last);
		fclose(f);
	} else if (fd >= 0) {
		close(fd);
	} else if (gpus && (errno == EACCES || errno == EPERM)) {
		exam_add(x, EXAM_NOTE, "this user may not read the kernel log");
		exam_why(x, "GPU errors (Xids) are logged there", "sudo ringup doctor");
	}
	for (int i = 1; i >= 0; i--) {
		if (!last[i].times)
			continue;
		exam_add(x, i ? EXAM_BAD : EXAM_NOTE,
			 "the kernel log has %d Xid%s%s; the last one is %d, on %s: %s",
			 last[i].times, last[i].times == 1 ? "" : "s",
			 i ? " for hardware faults" : "", last[i].number, last[i].device,
			 last[i].text);
		snprintf(why, sizeof(why), "%s",
			 i ? xid_meaning(last[i].number) : "a program failed on a GPU");
		exam_why(x, why,
			 i ? "run nvidia-smi -q -d ECC,ROW_REMAPPER; reset the GPU, or drain "
			     "the "
			     "node"
			   : "look up the number in NVIDIA's Xid catalog");
	}
}

/* ECC. */

/* Errors that memory has counted since the node started. */
struct ecc {
	long long lost, corrected;
	int counters;
};

/* Adds the count in file @name of folder @dir: a bare number, or the number after @mark. */
static bool add_count(struct rootfs *fs, const char *dir, const char *name, const char *mark,
		      long long *sum)
{
	char path[PATH_MAX];
	size_t len;
	char *data = rootfs_join(path, dir, name) ? rootfs_read(fs, path, 4096, &len) : NULL;
	const char *at = data ? strstr(data, mark) : NULL;

	if (at)
		*sum += atoll(at + strlen(mark));
	free(data);
	return at;
}

static void add_ecc(struct exam *x, const char *memory, const struct ecc *c, const char *todo)
{
	if (c->lost) {
		exam_add(x, EXAM_BAD, "%s: %lld uncorrectable ECC error%s", memory, c->lost,
			 c->lost == 1 ? "" : "s");
		exam_why(x, "memory has lost data since this node started", todo);
	} else if (c->corrected) {
		exam_add(x, EXAM_NOTE, "%s: %lld ECC error%s corrected", memory, c->corrected,
			 c->corrected == 1 ? " was" : "s were");
		exam_why(x,
			 "no data was lost, but many such errors mean that a module is failing",
			 todo);
	} else if (c->counters) {
		exam_add(x, EXAM_GOOD, "%s: no ECC errors since this node started", memory);
	}
}

/* Reports main memory errors that the kernel's EDAC drivers have counted. */
static void add_ecc_of_memory(struct exam *x, struct rootfs *fs)
{
	static const char top[] = "/sys/devices/system/edac/mc";
	struct names n = rootfs_names(fs, top, "mc");
	struct ecc sum = { 0 };
	char dir[PATH_MAX];

	for (size_t i = 0; i < n.count; i++) {
		if (!rootfs_join(dir, top, n.at[i]) ||
		    !add_count(fs, dir, "ue_count", "", &sum.lost))
			continue;
		add_count(fs, dir, "ce_count", "", &sum.corrected);
		sum.counters++;
	}
	rootfs_names_free(&n);
	add_ecc(x, "main memory", &sum,
		"ras-mc-ctl --error-count (package rasdaemon) names the module");
}

/* Reports errors of AMD GPUs: each GPU block has its own file. */
static void add_ecc_of_amd(struct exam *x, struct rootfs *fs)
{
	static const char top[] = "/sys/class/drm";
	struct names cards = rootfs_names(fs, top, "card");
	char dir[PATH_MAX], ras[PATH_MAX];
	struct ecc sum = { 0 };

	for (size_t i = 0; i < cards.count; i++) {
		struct names n;

		if (!rootfs_join(dir, top, cards.at[i]) || !rootfs_join(ras, dir, "device/ras"))
			continue;
		n = rootfs_names(fs, ras, "");
		for (size_t k = 0; k < n.count; k++)
			if (strstr(n.at[k], "_err_count") &&
			    add_count(fs, ras, n.at[k], "ue:", &sum.lost)) {
				add_count(fs, ras, n.at[k], "ce:", &sum.corrected);
				sum.counters++;
			}
		rootfs_names_free(&n);
	}
	rootfs_names_free(&cards);
	add_ecc(x, "AMD GPUs", &sum, "rocm-smi --showrasinfo all names the GPU");
}

void hardware_faults(struct exam *x, struct rootfs *fs, int gpus)
{
	if (exam_is_live(x))
		add_xids(x, gpus);
	add_ecc_of_amd(x, fs);
	add_ecc_of_memory(x, fs);
}
