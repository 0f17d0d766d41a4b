/* entry.c - one cache entry: published whole, checked before use, quarantined if damaged. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/entry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/folder.h"
#include "rebuild/lease.h"
#include "ringup.h"

enum { CHUNK = 1 << 16 };

static int path_of(char out[PATH_MAX], const struct shelf *s, const char *key, const char *rest,
		   struct err *e)
{
	if (snprintf(out, PATH_MAX, "%s/%s%s", s->dir, key, rest) >= PATH_MAX)
		return fail(e, RINGUP_EINVAL, "%.80s...: path too long", s->dir);
	return 0;
}

/* Copies @in to @out, unless that is -1, and hashes it on the way: the copy is checked, so no
 * process can change it in between.  -1: read failed, -2: write failed, with errno. */
static int copy_hash(int in, int out, uint64_t most, uint64_t *size, unsigned char sum[32])
{
	static _Thread_local unsigned char buf[CHUNK];
	crypto_hash_sha256_state h;
	ssize_t n;

	crypto_hash_sha256_init(&h);
	for (*size = 0; *size <= most; *size += (uint64_t)n) {
		n = read(in, buf, sizeof(buf));
		if (n < 0 && errno == EINTR) {
			n = 0;
			continue;
		}
		if (n < 0)
			return -1;
		if (!n)
			break;
		if (out >= 0 && file_put(out, buf, (size_t)n))
			return -2;
		crypto_hash_sha256_update(&h, buf, (unsigned long long)n);
	}
	crypto_hash_sha256_final(&h, sum);
	return 0;
}

static int open_plain(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
		close(fd);
		errno = EINVAL;
		fd = -1;
	}
	return fd;
}

/* Is the text signed by a trusted key?  The manifest names its signer, which tells a foreign
 * entry from a damaged one. */
static enum entry_found check_signature(const struct shelf *s, const struct manifest *m,
					const char *text, size_t len, const unsigned char *sig,
					size_t sig_len, struct err *e)
{
	char line[SIGNKEY_ID_BYTES];

	for (int i = 0; i < s->ring->trusts; i++) {
		signkey_line(&s->ring->trust[i], line);
		if (strcmp(line, m->signer))
			continue;
		if (sig_len == SIGNKEY_SIGNATURE_BYTES &&
		    !signkey_verify(&s->ring->trust[i], text, len, sig))
			return ENTRY_GOOD;
		fail(e, RINGUP_EINVAL, "its signature is wrong");
		return ENTRY_DAMAGED;
	}
	fail(e, RINGUP_EINVAL, "it is signed by a key that is not trusted here: %.20s...",
	     m->signer);
	return ENTRY_FOREIGN;
}

/* A missing file or one of a wrong type stays so; other errors may pass. */
static enum entry_found unreadable(int rc)
{
	if (rc == RINGUP_EINVAL)
		return ENTRY_DAMAGED;
	return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? ENTRY_DAMAGED
								     : ENTRY_MISSING;
}

/* Reads, parses and verifies the manifest of the entry @key. */
static enum entry_found read_manifest(const struct shelf *s, const char *key,
				      struct manifest *m, struct err *e)
{
	char path[PATH_MAX], *text = NULL, *sig = NULL;
	enum entry_found found = ENTRY_DAMAGED;
	size_t len, sig_len;
	int rc;

	*m = (struct manifest){ 0 };
	if (path_of(path, s, key, "", e))
		return ENTRY_MISSING;
	if (!file_exists(NULL, path)) {
		fail(e, RINGUP_EINVAL, "it is not in the cache");
		return ENTRY_MISSING;
	}
	path_of(path, s, key, "/MANIFEST", e);
	rc = file_read(NULL, path, MANIFEST_LARGEST, &text, &len, e);
	if (rc)
		return unreadable(rc);
	path_of(path, s, key, "/MANIFEST.sig", e);
	rc = file_read(NULL, path, SIGNKEY_SIGNATURE_BYTES, &sig, &sig_len, e);
	if (rc)
		found = unreadable(rc);
	else if (!manifest_parse(m, text, len, e))
		found = check_signature(s, m, text, len, (unsigned char *)sig, sig_len, e);
	if (found == ENTRY_GOOD && strcmp(m->key, key)) {
		fail(e, RINGUP_EINVAL, "it is the entry of another key, %.12s...", m->key);
		found = ENTRY_DAMAGED;
	}
	free(text);
	free(sig);
	return found;
}

/* Makes the folders above @path, which is below @top. */
static int make_above(const char *top, const char *path, struct err *e)
{
	char dir[PATH_MAX];
	char *slash;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	*slash = 0;
	return strlen(dir) > strlen(top) ? folder_make(dir, 0755, e) : 0;
}

/* Checks one file of the entry, and copies it to the new file @to unless that is NULL. */
static int take_file(const char *from, const char *to, const struct manifest_item *it,
		     enum entry_found *found, struct err *e)
{
	int in = open_plain(from), out = -1, rc = 0;
	unsigned char sum[32];
	uint64_t size;

	if (in < 0) {
		*found = ENTRY_DAMAGED;
		return fail_os(e, "%s", it->path);
	}
	if (to) {
		out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
			   it->program ? 0755 : 0644);
		if (out < 0 || fchmod(out, it->program ? 0755 : 0644))
			rc = fail_os(e, "%s", to);
	}
	if (!rc) {
		switch (copy_hash(in, out, it->size, &size, sum)) {
		case -1:
			*found = ENTRY_MISSING;
			rc = fail_os(e, "%s", from);
			break;
		case -2:
			rc = fail_os(e, "%s", to);
			break;
		default:
			if (size == it->size && !sodium_memcmp(sum, it->sum, sizeof(sum)))
				break;
			*found = ENTRY_DAMAGED;
			rc = fail(e, RINGUP_EINVAL, "%.100s is not what its manifest says",
				  it->path);
		}
	}
	close(in);
	if (out >= 0 && close(out) && !rc)
		rc = fail_os(e, "%s", to);
	return rc;
}

static int take_item(const struct shelf *s, const struct manifest *m, int i, const char *into,
		     enum entry_found *found, struct err *e)
{
	const struct manifest_item *it = &m->item[i];
	char from[PATH_MAX], to[PATH_MAX];
	int rc;

	if (path_of(from, s, m->key, "/files/", e) ||
	    strlen(from) + strlen(it->path) >= sizeof(from) ||
	    (into && snprintf(to, sizeof(to), "%s/%s", into, it->path) >= (int)sizeof(to)))
		return fail(e, RINGUP_EINVAL, "%.80s...: path too long", it->path);
	memcpy(from + strlen(from), it->path, strlen(it->path) + 1);
	rc = into ? make_above(into, to, e) : 0;
	if (rc)
		return rc;
	if (!it->target)
		return take_file(from, into ? to : NULL, it, found, e);
	return into && symlink(it->target, to) ? fail_os(e, "%s", to) : 0;
}

/* Checks all files of the entry, and copies them to the empty folder @into unless that is NULL.
 * A code with ENTRY_GOOD: writing failed here, and the entry is good. */
static int entry_take(const struct shelf *s, const struct manifest *m, const char *into,
		      enum entry_found *found, struct err *e)
{
	int rc = 0;

	/* The manifest is sorted: links come last, so no file is written through one. */
	for (int i = 0; *found == ENTRY_GOOD && !rc && i < m->items; i++)
		rc = take_item(s, m, i, into, found, e);
	return *found == ENTRY_GOOD ? rc : 0;
}

/* Renames @new to @path unless that exists: 0, 1 if it does. */
static int move_in(const char *new, const char *path, struct err *e)
{
	if (!syscall(SYS_renameat2, AT_FDCWD, new, AT_FDCWD, path, 1 /* NOREPLACE */))
		return 0;
	/* NFS and others know no flags; but no file system renames a folder onto one that is
	 * not empty. */
	if ((errno == EINVAL || errno == ENOSYS) && !rename(new, path))
		return 0;
	return errno == EEXIST || errno == ENOTEMPTY ? 1 : fail_os(e, "%s", path);
}

/* Is the entry at @path still the same one?  A rebuilt entry is another. */
static bool is_still(const char *path, const struct file_identity *was)
{
	struct file_identity now;

	return file_identity(AT_FDCWD, path, &now) && file_is_same(&now, was);
}

/* Moves the entry away and keeps it for inspection, unless another process has done so already
 * and there is a new one. */
static void quarantine(const struct shelf *s, const char *key, const struct file_identity *was)
{
	char from[PATH_MAX], to[PATH_MAX];
	int guard;

	if (path_of(from, s, key, "", NULL) || path_of(to, s, "quarantine", "", NULL))
		return;
	if (mkdir(to, 0755) && errno != EEXIST)
		return;
	guard = lease_guard(from);
	for (int i = 1; i < 100 && is_still(from, was); i++) {
		if (snprintf(to, sizeof(to), "%s/quarantine/%s.%d", s->dir, key, i) >=
			    (int)sizeof(to) ||
		    move_in(from, to, NULL) < 0)
			break;
	}
	if (guard >= 0)
		close(guard);
}

/* Adds the outcome to @why, which has the cause, and quarantines a damaged entry. */
static void entry_judge(const struct shelf *s, const char *key, enum entry_found found,
			const struct file_identity *was, struct err *why)
{
	if (found == ENTRY_DAMAGED) {
		fail_in(why, "entry %.12s... is damaged and goes to quarantine", key);
		quarantine(s, key, was);
	} else if (found == ENTRY_FOREIGN) {
		fail_in(why, "entry %.12s... is not used", key);
	}
}

enum entry_found entry_check(const struct shelf *s, const char *key, bool all,
			     struct manifest *m, struct err *why)
{
	enum entry_found found = read_manifest(s, key, m, why);

	if (all)
		entry_take(s, m, NULL, &found, why);
	return found;
}

/* Fills @into, which exists afterwards only if the entry is good. */
static int fill_folder(const struct shelf *s, const struct manifest *m, const char *into,
		       enum entry_found *found, struct err *why, struct err *e)
{
	int rc = folder_claim(into, e);

	if (rc)
		return rc;
	rc = entry_take(s, m, into, found, why);
	if (rc)
		*e = *why;
	if (rc || *found != ENTRY_GOOD)
		folder_remove(into, NULL);
	return rc;
}

int entry_fetch(const struct shelf *s, const char *key, const char *into,
		enum entry_found *found, struct err *why, struct err *e)
{
	struct manifest m;
	char path[PATH_MAX];
	struct file_identity was;
	int rc = path_of(path, s, key, "", e);

	if (rc)
		return rc;
	fail_none(why);
	(void)file_identity(AT_FDCWD, path, &was);
	*found = read_manifest(s, key, &m, why);
	if (*found == ENTRY_GOOD)
		rc = fill_folder(s, &m, into, found, why, e);
	manifest_free(&m);
	if (!rc)
		entry_judge(s, key, *found, &was, why);
	return rc;
}

/* Arguments of put_item(). */
struct putting {
	const char *from, *files; /* .../files of the new entry */
	struct manifest m;
};

static int put_file(const char *from, const char *to, struct manifest_item *it, struct err *e)
{
	int in = open_plain(from), out, rc = 0;

	if (in < 0)
		return fail_os(e, "%s", from);
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (out < 0)
		rc = fail_os(e, "%s", to);
	else if (copy_hash(in, out, MANIFEST_TOTAL, &it->size, it->sum))
		rc = fail_os(e, "%s", to);
	else
		fchmod(out, 0644); /* for other users, whatever our umask; FUSE may refuse */
	close(in);
	if (out >= 0 && close(out) && !rc)
		rc = fail_os(e, "%s", to);
	return rc;
}

static int put_item(void *arg, const char *name, const struct stat *st, struct err *e)
{
	struct putting *p = arg;
	struct manifest_item it = { .path = (char *)name, .program = st->st_mode & 0100 };
	char from[PATH_MAX], to[PATH_MAX], target[PATH_MAX];
	ssize_t n;
	int rc = 0;

	if (snprintf(from, sizeof(from), "%s/%s", p->from, name) >= (int)sizeof(from) ||
	    snprintf(to, sizeof(to), "%s/%s", p->files, name) >= (int)sizeof(to))
		return fail(e, RINGUP_EINVAL, "%.80s...: path too long", name);
	switch (st->st_mode & S_IFMT) {
	case S_IFDIR:
		return mkdir(to, 0755) ? fail_os(e, "%s", to) : 0;
	case S_IFLNK:
		n = readlink(from, target, sizeof(target) - 1);
		if (n < 0)
			return fail_os(e, "%s", from);
		target[n] = 0;
		it.target = target;
		break;
	case S_IFREG:
		rc = put_file(from, to, &it, e);
		break;
	default:
		rc = fail(e, RINGUP_EINVAL, "%s is neither a file nor a link", from);
	}
	return rc ? rc : manifest_add(&p->m, &it, e);
}

static int write_in(const char *dir, const char *name, const void *data, size_t len,
		    struct err *e)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return fail(e, RINGUP_EINVAL, "%.80s...: path too long", dir);
	return file_write(NULL, path, 0644, data, len, e);
}

/* Fills the folder @new: files, manifest, signature. */
static int fill_entry(const struct shelf *s, const char *key, const char *from, const char *new,
		      struct err *e)
{
	unsigned char sig[SIGNKEY_SIGNATURE_BYTES];
	struct putting p = { .from = from };
	struct signkey_public own;
	char files[PATH_MAX], *text = NULL;
	size_t len;
	int rc;

	if (snprintf(files, sizeof(files), "%s/files", new) >= (int)sizeof(files))
		return fail(e, RINGUP_EINVAL, "%.80s...: path too long", new);
	p.files = files;
	rc = folder_make(files, 0755, e);
	if (!rc)
		rc = folder_walk(from, put_item, &p, e);
	memcpy(p.m.key, key, sizeof(p.m.key));
	signkey_public_of(&s->ring->key, &own);
	signkey_line(&own, p.m.signer);
	if (!rc)
		rc = manifest_text(&p.m, &text, &len, e);
	manifest_free(&p.m);
	if (rc)
		return rc;
	signkey_sign(&s->ring->key, text, len, sig);
	rc = write_in(new, "MANIFEST", text, len, e);
	if (!rc)
		rc = write_in(new, "MANIFEST.sig", sig, sizeof(sig), e);
	free(text);
	return rc;
}

int entry_publish(const struct shelf *s, const char *key, const char *from, bool *is_new,
		  struct err *e)
{
	char new[PATH_MAX], path[PATH_MAX], suffix[40];
	int rc;

	snprintf(suffix, sizeof(suffix), ".new.%08x%08x", randombytes_random(),
		 randombytes_random());
	*is_new = false;
	rc = path_of(path, s, key, "", e);
	if (!rc)
		rc = path_of(new, s, key, suffix, e);
	if (rc)
		return rc;
	if (mkdir(new, 0755))
		return fail_os(e, "%s", new);
	rc = fill_entry(s, key, from, new, e);
	if (!rc)
		rc = move_in(new, path, e);
	*is_new = !rc;
	if (rc)
		folder_remove(new, NULL);
	return rc < 0 ? rc : 0;
}

void entry_sweep(const struct shelf *s, const char *key)
{
	DIR *d = opendir(s->dir);
	size_t len = strlen(key);
	char path[PATH_MAX];
	struct dirent *entry;

	while (d && (entry = readdir(d))) {
		const char *rest = entry->d_name + len;

		if (strncmp(entry->d_name, key, len) ||
		    (strncmp(rest, ".new.", 5) && strncmp(rest, ".lock.gone.", 11)))
			continue;
		if (!path_of(path, s, entry->d_name, "", NULL))
			folder_remove(path, NULL);
	}
	if (d)
		closedir(d);
}
