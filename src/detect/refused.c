/* refused.c - find library files that the dynamic loader would refuse to map. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/refused.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/release.h"
#include "detect/elffile.h"
#include "detect/override.h"
#include "detect/rootfs.h"

/* The first glibc that refuses an executable stack instead of making the stack executable. */
#define STACK_GLIBC "2.41"

#if defined(__aarch64__)
enum { OWN_MACHINE = EM_AARCH64 };
#else
enum { OWN_MACHINE = EM_X86_64 };
#endif

static bool refuse(struct refused *out, enum refused_kind kind, const char *path,
		   const char *why)
{
	out->kind = kind;
	snprintf(out->path, sizeof(out->path), "%s", path);
	snprintf(out->why, sizeof(out->why), "%s", why);
	return false;
}

/* Does the file at @path begin as an ELF file does? */
static bool has_magic(int fd)
{
	char mark[SELFMAG];

	return pread(fd, mark, sizeof(mark), 0) == (ssize_t)sizeof(mark) &&
	       !memcmp(mark, ELFMAG, SELFMAG);
}

/* The number of bytes that the segments of @f cover. */
static uint64_t covered(const struct elffile *f)
{
	uint64_t end = 0;

	for (int i = 0; i < f->head.e_phnum; i++) {
		const Elf64_Phdr *p = &f->seg[i];

		if (p->p_type == PT_LOAD && p->p_filesz <= UINT64_MAX - p->p_offset &&
		    p->p_offset + p->p_filesz > end)
			end = p->p_offset + p->p_filesz;
	}
	return end;
}

static bool wants_stack(const struct elffile *f)
{
	for (int i = 0; i < f->head.e_phnum; i++)
		if (f->seg[i].p_type == PT_GNU_STACK)
			return f->seg[i].p_flags & PF_X;
	return false;
}

/* Does this node's glibc refuse an executable stack? */
static bool refuses_stack(struct rootfs *fs, const char *path)
{
	const char *tuned = rootfs_is_live(fs) ? conf_env("GLIBC_TUNABLES") : NULL;
	char newest[64];

	return !(tuned && strstr(tuned, "glibc.rtld.execstack=2")) &&
	       override_newest(fs, path, "libc.so.6", "GLIBC_", newest) &&
	       release_compare(newest, STACK_GLIBC) >= 0;
}

static bool judge(struct rootfs *fs, const char *path, const struct elffile *f,
		  struct refused *out)
{
	const char *name = strrchr(path, '/') + 1;
	char why[REFUSED_WHY];

	if (covered(f) > f->size) {
		snprintf(why, sizeof(why), "%.200s is truncated: it has %llu of %llu bytes",
			 name, (unsigned long long)f->size, (unsigned long long)covered(f));
		return refuse(out, REFUSED_DAMAGED, path, why);
	}
	if (rootfs_is_live(fs) && f->head.e_machine != OWN_MACHINE) {
		snprintf(why, sizeof(why),
			 "%.200s was built for another type of processor than this node's",
			 name);
		return refuse(out, REFUSED_MACHINE, path, why);
	}
	if (wants_stack(f) && refuses_stack(fs, path)) {
		snprintf(why, sizeof(why),
			 "%.200s asks for an executable stack, which glibc " STACK_GLIBC
			 " and later refuse",
			 name);
		return refuse(out, REFUSED_STACK, path, why);
	}
	return true;
}

/* @is_whole: empty files count as damaged. */
static bool refused_look(struct rootfs *fs, const char *path, bool is_whole,
			 struct refused *out)
{
	struct elffile *f;
	char why[REFUSED_WHY];
	struct err e = { 0 };
	bool good = true;
	size_t size;
	int fd = rootfs_fd(fs, path, &size);

	if (fd < 0)
		return true;
	f = malloc(sizeof(*f));
	if (!size && is_whole) {
		snprintf(why, sizeof(why), "%.200s is empty", strrchr(path, '/') + 1);
		good = refuse(out, REFUSED_DAMAGED, path, why);
	} else if (f && has_magic(fd) && elffile_open(f, fd, &e)) {
		snprintf(why, sizeof(why), "%.200s is damaged: %.200s", strrchr(path, '/') + 1,
			 e.text);
		good = refuse(out, REFUSED_DAMAGED, path, why);
	} else if (f && has_magic(fd)) {
		good = judge(fs, path, f, out);
	}
	free(f);
	close(fd);
	return good;
}

bool refused_file(struct rootfs *fs, const char *path, struct refused *out)
{
	*out = (struct refused){ .kind = REFUSED_NOT };
	return refused_look(fs, path, rootfs_is_live(fs), out);
}

/* Has any library of the folder @dir contents? */
static bool has_contents(struct rootfs *fs, const char *dir, const struct names *n)
{
	char path[PATH_MAX];
	size_t size = 0;

	for (size_t i = 0; i < n->count && !size; i++) {
		int fd = strstr(n->at[i], ".so") && rootfs_join(path, dir, n->at[i]) &&
					 rootfs_is_file(fs, path)
				 ? rootfs_fd(fs, path, &size)
				 : -1;

		if (fd >= 0)
			close(fd);
		else
			size = 0;
	}
	return size;
}

bool refused_folder(struct rootfs *fs, const char *dir, struct refused *out)
{
	char path[PATH_MAX];
	struct statvfs v;
	struct names n;
	bool good = true, is_whole;

	*out = (struct refused){ .kind = REFUSED_NOT };
	n = rootfs_names(fs, dir, "");
	is_whole = rootfs_is_live(fs) || has_contents(fs, dir, &n);
	for (size_t i = 0; i < n.count && good; i++) {
		const char *so = strstr(n.at[i], ".so");

		/* Not libx.so.py or libx.so.debug, which nobody loads. */
		if (!so || (so[3] && (so[3] != '.' || so[4] < '0' || so[4] > '9')) ||
		    !rootfs_join(path, dir, n.at[i]) || !rootfs_is_file(fs, path))
			continue;
		if (rootfs_is_live(fs) && !statvfs(dir, &v) && v.f_flag & ST_NOEXEC)
			good = refuse(out, REFUSED_MOUNT, dir,
				      "it is on a file system that is mounted noexec");
		else
			good = refused_look(fs, path, is_whole, out);
	}
	rootfs_names_free(&n);
	return good;
}
