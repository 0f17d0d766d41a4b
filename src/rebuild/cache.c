/* cache.c - the shared build cache: signed archives addressed by a key, checked before use. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/proc.h"
#include "rebuild/keyring.h"
#include "ringup.h"

enum {
	NAP_MS = 500,
	TAR_MS = 600000,
	STALE_S = 86400, /* then the part of an entry is a killed node's */
	CHUNK = 1 << 16,
	HEAD_BYTES = 512 /* more than both lines take */
};
#define LARGEST ((uint64_t)4 << 30) /* bytes of an archive */

/* The two lines before an archive. */
struct head {
	char key[CACHE_KEY_BYTES], sum[CACHE_KEY_BYTES], signer[SIGNKEY_ID_BYTES];
	unsigned char signature[SIGNKEY_SIGNATURE_BYTES];
};

enum found {
	FOUND_NONE,    /* no entry, or one that cannot be read now       */
	FOUND_FOREIGN, /* another node's, whose key is not trusted here  */
	FOUND_DAMAGED,
	FOUND_GOOD
};

/* An open cache. */
struct cache {
	const struct cache_how *how;
	struct keyring ring;
};

void cache_conf(struct cache_how *how, const struct conf *c)
{
	*how = (struct cache_how){ .dir = c->cache,
				   .key = c->cache_key,
				   .trust = c->cache_trust,
				   .wait_ms = c->cache_wait_ms };
}

void cache_key(char out[CACHE_KEY_BYTES], const char *text)
{
	unsigned char sum[crypto_hash_sha256_BYTES];

	crypto_hash_sha256(sum, (const unsigned char *)text, strlen(text));
	sodium_bin2hex(out, CACHE_KEY_BYTES, sum, sizeof(sum));
}

static bool is_key(const char *text)
{
	return strspn(text, "0123456789abcdef") == 64 && !text[64];
}

static int cache_open(struct cache *c, const struct cache_how *how, struct err *e)
{
	*c = (struct cache){ .how = how };
	return keyring_open(&c->ring, how->key, how->trust, e);
}

/* The same for the entry @key; clears @said. */
static int cache_open_for(struct cache *c, const struct cache_how *how, const char *key,
			  struct cache_said *said, struct err *e)
{
	*said = (struct cache_said){ 0 };
	if (!is_key(key))
		return fail(e, RINGUP_EINVAL,
			    "not a key of the cache (64 hexadecimal digits): %.80s", key);
	return cache_open(c, how, e);
}

static void cache_close(struct cache *c)
{
	keyring_close(&c->ring);
}

static void note(struct cache_said *said, const char *text)
{
	if (!*said->note)
		snprintf(said->note, sizeof(said->note), "%s", text);
}

/* Heads. */

static int head_line(const struct head *h, char out[HEAD_BYTES])
{
	return snprintf(out, HEAD_BYTES, "ringup-cache/2 %s %s %s\n", h->key, h->sum,
			h->signer);
}

static int head_print(const struct head *h, char out[HEAD_BYTES])
{
	int n = head_line(h, out);

	sodium_bin2base64(out + n, HEAD_BYTES - (size_t)n, h->signature, sizeof(h->signature),
			  sodium_base64_VARIANT_ORIGINAL);
	n += (int)strlen(out + n);
	out[n++] = '\n';
	return n;
}

/* Parses the first @len bytes of an entry; returns how many the head takes, or 0. */
static size_t head_parse(struct head *h, const char *text, size_t len)
{
	static const char digit[] = "0123456789abcdef";
	char again[HEAD_BYTES], line[HEAD_BYTES] = "", signature[96] = "";
	size_t n;

	*h = (struct head){ 0 };
	memcpy(line, text, len < sizeof(line) ? len : sizeof(line) - 1);
	if (sscanf(line, "ringup-cache/2 %64s %64s %64s %95s", h->key, h->sum, h->signer,
		   signature) != 4 ||
	    strspn(h->key, digit) != 64 || strspn(h->sum, digit) != 64 ||
	    sodium_base642bin(h->signature, sizeof(h->signature), signature, strlen(signature),
			      NULL, &n, NULL, sodium_base64_VARIANT_ORIGINAL) ||
	    n != sizeof(h->signature))
		return 0;
	/* It can be written in one way only. */
	n = (size_t)head_print(h, again);
	return n <= len && !memcmp(again, text, n) ? n : 0;
}

/* The signer is named, which tells a foreign entry from a damaged one. */
static enum found head_verify(const struct cache *c, const struct head *h, const char *key,
			      struct err *why)
{
	char line[HEAD_BYTES], one[SIGNKEY_ID_BYTES];
	size_t len = (size_t)head_line(h, line);

	for (int i = 0; i < c->ring.trusts; i++) {
		signkey_line(&c->ring.trust[i], one);
		if (strcmp(one, h->signer))
			continue;
		if (signkey_verify(&c->ring.trust[i], line, len, h->signature))
			fail(why, RINGUP_EINVAL, "its signature is wrong");
		else if (strcmp(h->key, key))
			fail(why, RINGUP_EINVAL, "it is the entry of another key, %.12s...",
			     h->key);
		else
			return FOUND_GOOD;
		return FOUND_DAMAGED;
	}
	fail(why, RINGUP_EINVAL, "it is signed by a key that is not trusted here: %.20s...",
	     h->signer);
	return FOUND_FOREIGN;
}

/* Archives. */

/* Runs tar with @in and @out as stdin and stdout; no variable changes what it does. */
static int archive_run(const char *const argv[], int in, int out, struct err *e)
{
	const int fds[] = { in, out, -1 };
	const struct proc_how how = { .argv = (char *const *)argv, .fds = fds, .nfds = 3 };
	int status, rc = proc_run(&how, TAR_MS, &status, e);

	return !rc && status ? fail(e, RINGUP_ESYSTEM, "tar failed: is the disk full?") : rc;
}

static int archive_make(const char *from, int out, struct err *e)
{
	const char *const argv[] = {
		"env", "-i", "LC_ALL=C", "tar", "--owner=0", "--group=0", "--mode=u=rwX,go=rX",
		"-C",  from, "-cf",      "-",   ".",         NULL
	};

	return archive_run(argv, -1, out, e);
}

static int archive_unpack(int in, const char *into, struct err *e)
{
	const char *const argv[] = { "env", "-i", "LC_ALL=C", "tar", "--no-same-owner",
				     "-p",  "-C", into,       "-xf", "-",
				     NULL };

	return archive_run(argv, in, -1, e);
}

int cache_copy_hash(int in, int out, char sum[CACHE_KEY_BYTES])
{
	unsigned char buf[CHUNK], bytes[crypto_hash_sha256_BYTES];
	crypto_hash_sha256_state h;
	uint64_t total = 0;
	ssize_t n;

	crypto_hash_sha256_init(&h);
	while ((n = read(in, buf, sizeof(buf)))) {
		if (n < 0 && errno == EINTR)
			continue;
		total += n > 0 ? (uint64_t)n : 0;
		if (total > LARGEST)
			errno = EFBIG;
		if (n < 0 || total > LARGEST || (out >= 0 && file_put(out, buf, (size_t)n)))
			return -1;
		crypto_hash_sha256_update(&h, buf, (unsigned long long)n);
	}
	crypto_hash_sha256_final(&h, bytes);
	sodium_bin2hex(sum, CACHE_KEY_BYTES, bytes, sizeof(bytes));
	return 0;
}

/* Anonymous memory, so that nothing is left behind and no process can change it. */
static int memory_open(struct err *e)
{
	int fd = memfd_create("ringup-cache", MFD_CLOEXEC);

	return fd < 0 ? fail_os(e, "memory for an entry of the cache") : fd;
}

/* Entries. */

static int entry_path(char out[PATH_MAX], const struct cache *c, const char *key,
		      const char *rest, struct err *e)
{
	if (snprintf(out, PATH_MAX, "%s/%s%s", c->how->dir, key, rest) >= PATH_MAX)
		return fail(e, RINGUP_EINVAL, "%.80s...: path too long", c->how->dir);
	return 0;
}

/* Checks the entry in @in; with @out its archive as well, of which @out gets a copy unless it
 * is -1. */
static enum found entry_read(const struct cache *c, const char *key, int in, const int *out,
			     struct err *why)
{
	char text[HEAD_BYTES], sum[CACHE_KEY_BYTES];
	bool is_plain;
	ssize_t len = 0;
	struct head h;
	size_t size;
	enum found found;
	struct stat st;

	is_plain = !fstat(in, &st) && S_ISREG(st.st_mode);
	if (is_plain)
		len = pread(in, text, sizeof(text), 0);
	if (len < 0) {
		fail_os(why, "it cannot be read");
		return FOUND_NONE;
	}
	size = head_parse(&h, text, (size_t)len);
	if (!is_plain || !size) {
		fail(why, RINGUP_EINVAL, "it is not an entry");
		return FOUND_DAMAGED;
	}
	found = head_verify(c, &h, key, why);
	if (found != FOUND_GOOD || !out)
		return found;
	if (lseek(in, (off_t)size, SEEK_SET) < 0 || cache_copy_hash(in, *out, sum)) {
		fail_os(why, "it cannot be copied");
		return FOUND_NONE;
	}
	if (strcmp(sum, h.sum)) {
		fail(why, RINGUP_EINVAL, "its archive is not what was signed");
		return FOUND_DAMAGED;
	}
	return FOUND_GOOD;
}

/* Opens and checks an entry; in a folder where others may write, it may be anything. */
static enum found entry_check(const struct cache *c, const char *key, const int *out,
			      struct err *why)
{
	char path[PATH_MAX];
	enum found found;
	int fd;

	if (entry_path(path, c, key, "", why))
		return FOUND_NONE;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	if (fd < 0) {
		found = errno == ELOOP || errno == ENXIO ? FOUND_DAMAGED : FOUND_NONE;
		fail_os(why, "it cannot be opened");
	} else {
		found = entry_read(c, key, fd, out, why);
		close(fd);
	}
	if (found == FOUND_DAMAGED)
		fail_in(why, "entry %.12s... is damaged", key);
	if (found == FOUND_FOREIGN)
		fail_in(why, "entry %.12s... is not used", key);
	return found;
}

static int entry_unpack(int archive, const char *into, struct err *e)
{
	int rc = folder_claim(into, e);

	if (rc)
		return rc;
	rc = lseek(archive, 0, SEEK_SET) ? fail_os(e, "the archive")
					 : archive_unpack(archive, into, e);
	if (rc)
		folder_remove(into, NULL);
	return rc;
}

/* Unpacks the entry into @into, which exists afterwards only if the entry is good.  Returns 0
 * with *@found, or a code if @into could not be written. */
static int entry_fetch(const struct cache *c, const char *key, const char *into,
		       enum found *found, struct cache_said *said, struct err *e)
{
	int copy = memory_open(e), rc = 0;
	struct err why = { 0 };

	if (copy < 0)
		return e->code;
	*found = entry_check(c, key, &copy, &why);
	if (*found == FOUND_GOOD) {
		rc = entry_unpack(copy, into, e);
		if (!rc)
			said->from = CACHE_HIT;
	} else if (*found != FOUND_NONE) {
		note(said, why.text);
	}
	close(copy);
	return rc;
}

/* Removes parts of @key that killed nodes left: they are a day older than @now, the time of a
 * new file in that folder. */
static void sweep(const struct cache *c, const char *key, time_t now)
{
	DIR *d = opendir(c->how->dir);
	char path[PATH_MAX];
	struct dirent *it;
	struct stat st;

	while (d && (it = readdir(d)))
		if (!strncmp(it->d_name, key, 64) && !strncmp(it->d_name + 64, ".new.", 5) &&
		    !entry_path(path, c, it->d_name, "", NULL) && !lstat(path, &st) &&
		    st.st_mtime < now - STALE_S)
			unlink(path);
	if (d)
		closedir(d);
}

/* Writes the entry of @archive to the new file @path. */
static int entry_write(const struct cache *c, const char *key, int archive, const char *path,
		       time_t *now, struct err *e)
{
	struct signkey_public own;
	struct head h = { 0 };
	char text[HEAD_BYTES], sum[CACHE_KEY_BYTES];
	struct stat st = { 0 };
	int fd, rc = 0;

	memcpy(h.key, key, sizeof(h.key));
	if (lseek(archive, 0, SEEK_SET) || cache_copy_hash(archive, -1, h.sum))
		return fail_os(e, "the archive");
	signkey_public_of(&c->ring.key, &own);
	signkey_line(&own, h.signer);
	signkey_sign(&c->ring.key, text, (size_t)head_line(&h, text), h.signature);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return fail_os(e, "%s", path);
	if (file_put(fd, text, (size_t)head_print(&h, text)) || lseek(archive, 0, SEEK_SET) ||
	    cache_copy_hash(archive, fd, sum) || fstat(fd, &st))
		rc = fail_os(e, "%s", path);
	fchmod(fd, 0644); /* for other users, whatever our umask; FUSE may refuse */
	if (close(fd) && !rc)
		rc = fail_os(e, "%s", path);
	*now = st.st_mtime;
	return rc;
}

static int entry_publish(const struct cache *c, const char *key, const char *from,
			 struct err *e)
{
	char new[PATH_MAX], path[PATH_MAX], suffix[40];
	int archive, rc;
	time_t now = 0;

	mkdir(c->how->dir, 0755); /* nothing above it, so that an unmounted volume shows */
	snprintf(suffix, sizeof(suffix), ".new.%08x%08x", randombytes_random(),
		 randombytes_random());
	if (entry_path(path, c, key, "", e) || entry_path(new, c, key, suffix, e))
		return e->code;
	archive = memory_open(e);
	if (archive < 0)
		return e->code;
	rc = archive_make(from, archive, e);
	if (!rc)
		rc = entry_write(c, key, archive, new, &now, e);
	if (!rc && rename(new, path))
		rc = fail_os(e, "%s", path);
	close(archive);
	if (rc)
		unlink(new);
	else
		sweep(c, key, now);
	return rc;
}

/* Builds. */

/* Arguments of cache_provide(). */
struct want {
	const struct cache *c;
	const char *key, *into;
	cache_make *make;
	void *arg;
	struct cache_said *said;
};

static int build(const struct want *w, struct err *e)
{
	int rc = folder_claim(w->into, e);

	if (rc)
		return rc;
	rc = w->make(w->arg, w->into, e);
	if (rc)
		folder_remove(w->into, NULL);
	else
		w->said->from = CACHE_BUILT;
	return rc;
}

/* Takes the entry once it exists, or builds after the time limit. */
static int provide(const struct want *w, struct err *e)
{
	int64_t begin = clock_ns(), end = clock_deadline(w->c->how->wait_ms);
	enum found found = FOUND_NONE;
	struct err why = { 0 };
	int rc;

	while (!(rc = entry_fetch(w->c, w->key, w->into, &found, w->said, e)) &&
	       found == FOUND_NONE && clock_left_ms(end)) {
		clock_sleep_ms(NAP_MS);
		w->said->waited_ms = (clock_ns() - begin) / 1000000;
	}
	if (rc || found == FOUND_GOOD)
		return rc;
	rc = build(w, e);
	/* A foreign entry is of use to others. */
	if (rc || found == FOUND_FOREIGN || !w->c->ring.can_sign)
		return rc;
	if (entry_publish(w->c, w->key, w->into, &why)) {
		fail_in(&why, "not published");
		note(w->said, why.text);
	} else {
		w->said->is_published = true;
	}
	return 0;
}

int cache_provide(const struct cache_how *how, const char *key, const char *into,
		  cache_make *make, void *arg, struct cache_said *said, struct err *e)
{
	struct cache c = { .how = how };
	struct want w = { &c, key, into, make, arg, said };
	int rc;

	*said = (struct cache_said){ 0 };
	if (!how || !how->dir || !*how->dir)
		return build(&w, e);
	rc = cache_open_for(&c, how, key, said, e);
	if (!rc)
		rc = provide(&w, e);
	cache_close(&c);
	return rc;
}

int cache_get(const struct cache_how *how, const char *key, const char *into,
	      struct cache_said *said, struct err *e)
{
	enum found found = FOUND_NONE;
	struct cache c;
	int rc = cache_open_for(&c, how, key, said, e);

	if (rc)
		return rc;
	rc = entry_fetch(&c, key, into, &found, said, e);
	cache_close(&c);
	if (!rc && found != FOUND_GOOD) {
		note(said, "not in the cache");
		rc = 1;
	}
	return rc;
}

int cache_put(const struct cache_how *how, const char *key, const char *from,
	      struct cache_said *said, struct err *e)
{
	const int none = -1;
	enum found found;
	struct cache c;
	struct err why;
	int rc = cache_open_for(&c, how, key, said, e);

	if (rc)
		return rc;
	found = entry_check(&c, key, &none, &why);
	if (!c.ring.can_sign)
		rc = fail(e, RINGUP_EINVAL,
			  "publishing needs the private key: set RINGUP_CACHE_KEY");
	else if (found != FOUND_GOOD && found != FOUND_FOREIGN)
		rc = entry_publish(&c, key, from, e);
	said->is_published = !rc && found != FOUND_GOOD && found != FOUND_FOREIGN;
	cache_close(&c);
	return rc;
}

static int is_entry(const struct dirent *d)
{
	return is_key(d->d_name);
}

int cache_each(const struct cache_how *how, bool all, cache_see *see, void *arg, struct err *e)
{
	const int none = -1;
	struct dirent **names;
	struct cache c;
	int n, i, rc = cache_open(&c, how, e);

	if (rc)
		return rc;
	n = scandir(how->dir, &names, is_entry, alphasort);
	if (n < 0)
		rc = fail_os(e, "%s", how->dir);
	for (i = 0; i < n; i++) {
		struct cache_entry one = { 0 };
		struct err why = { 0 };
		char path[PATH_MAX];
		struct stat st;

		memcpy(one.key, names[i]->d_name, sizeof(one.key));
		free(names[i]);
		if (!entry_path(path, &c, one.key, "", NULL) && !lstat(path, &st)) {
			one.made = st.st_mtime;
			one.bytes = (uint64_t)st.st_size;
		}
		if (!rc && entry_check(&c, one.key, all ? &none : NULL, &why) != FOUND_GOOD)
			snprintf(one.wrong, sizeof(one.wrong), "%s", why.text);
		if (!rc)
			rc = see(arg, &one, e);
	}
	if (n >= 0)
		free(names);
	cache_close(&c);
	return rc;
}
