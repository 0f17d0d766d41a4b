/* lease.c - a lock in a folder that nodes share; a dead holder loses it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/hash.h"
#include "base/jsonio.h"
#include "base/pidstat.h"
#include "base/thread.h"
#include "detect/text.h"
#include "host/identity.h"
#include "ringup.h"

/* An owner writes owner.json at once; a lock without it dies after NAMELESS_MS. */
enum {
	OWNER_MOST = 4096,
	SHORTEST_MS = 50,
	LONGEST_MS = 600000,
	GUARD_MS = 2000,
	NAMELESS_MS = 5000
};

/* The contents of owner.json; it comes from other users, so every field is checked. */
struct owner {
	char token[LEASE_TOKEN_BYTES], identity[2 * IDENTITY_BYTES + 1], host[65];
	int pid, life_ms;
	uint64_t start;
};

static void identity_text(char out[2 * IDENTITY_BYTES + 1])
{
	unsigned char id[IDENTITY_BYTES];

	identity_get(id, "");
	sodium_bin2hex(out, 2 * IDENTITY_BYTES + 1, id, sizeof(id));
}

static void random_text(char out[LEASE_TOKEN_BYTES])
{
	unsigned char bytes[(LEASE_TOKEN_BYTES - 1) / 2];

	randombytes_buf(bytes, sizeof(bytes));
	sodium_bin2hex(out, LEASE_TOKEN_BYTES, bytes, sizeof(bytes));
}

static int in_lock(char out[PATH_MAX], const char *path, const char *name, struct err *e)
{
	if (snprintf(out, PATH_MAX, "%s/%s", path, name) >= PATH_MAX)
		return fail(e, RINGUP_EINVAL, "%.80s...: path too long", path);
	return 0;
}

static int write_owner(const struct lease *l, struct err *e)
{
	char file[PATH_MAX], id[2 * IDENTITY_BYTES + 1], host[65] = "";
	struct pidstat me = { 0 };
	char *text = NULL;
	json_t *j;
	int rc;

	gethostname(host, sizeof(host) - 1);
	identity_text(id);
	pidstat_read(getpid(), &me);
	j = json_pack("{so ss ss si sI sI}", "host", jsonio_text(host), "identity", id, "token",
		      l->token, "pid", (int)getpid(), "start", (json_int_t)me.start, "lease_ms",
		      (json_int_t)l->life_ms);
	text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	json_decref(j);
	rc = text ? in_lock(file, l->path, "owner.json", e)
		  : fail(e, RINGUP_ENOMEM, "no memory for a lock");
	if (!rc)
		rc = file_write(NULL, file, 0644, text, strlen(text), e);
	free(text);
	return rc;
}

/* Rewrites the beat in place with the same length: no reader sees a shorter file, and a full
 * file system does not stop it. */
static void beat(struct lease *l, unsigned count)
{
	char text[16];

	snprintf(text, sizeof(text), "%014u\n", count);
	if (pwrite(l->beat, text, sizeof(text) - 1, 0) > 0)
		fdatasync(l->beat); /* over NFS, other hosts see it from here on */
}

static void *lease_keep(void *arg)
{
	struct lease *l = arg;
	struct timespec until;
	unsigned count = 1;
	int64_t ns;

	pthread_mutex_lock(&l->lock);
	while (!l->end) {
		ns = clock_ns() + l->life_ms * 1000000 / 5;
		until.tv_sec = ns / 1000000000;
		until.tv_nsec = ns % 1000000000;
		if (pthread_cond_timedwait(&l->wake, &l->lock, &until) == ETIMEDOUT) {
			pthread_mutex_unlock(&l->lock);
			beat(l, count++);
			pthread_mutex_lock(&l->lock);
		}
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

static int lease_start_thread(struct lease *l)
{
	pthread_condattr_t attr;
	int rc;

	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->wake, &attr);
	pthread_condattr_destroy(&attr);
	rc = thread_start(&l->thread, lease_keep, l);
	return rc;
}

static int lease_fill(struct lease *l, struct err *e)
{
	char file[PATH_MAX];
	int rc = write_owner(l, e);

	if (!rc)
		rc = in_lock(file, l->path, "beat", e);
	if (rc)
		return rc;
	l->beat = open(file, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (l->beat < 0)
		return fail_os(e, "%s", file);
	beat(l, 0);
	l->has_thread = !lease_start_thread(l);
	return l->has_thread ? 0 : fail(e, RINGUP_ESYSTEM, "cannot start a thread");
}

int lease_take(struct lease *l, const char *path, int64_t life_ms, struct err *e)
{
	int rc;

	*l = (struct lease){ .beat = -1, .life_ms = life_ms };
	if (sodium_init() < 0)
		return fail(e, RINGUP_ESYSTEM, "libsodium finds no random numbers here");
	if (snprintf(l->path, sizeof(l->path), "%s", path) >= (int)sizeof(l->path))
		return fail(e, RINGUP_EINVAL, "%.80s...: path too long", path);
	random_text(l->token);
	if (mkdir(path, 0755))
		return errno == EEXIST ? LEASE_BUSY : fail_os(e, "%s", path);
	l->is_held = true;
	rc = lease_fill(l, e);
	if (rc)
		lease_give(l);
	return rc;
}

int lease_guard(const char *path)
{
	char file[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int64_t end = clock_deadline(GUARD_MS);
	int fd;

	if (snprintf(file, sizeof(file), "%.*sguard", slash ? (int)(slash - path) + 1 : 0,
		     path) >= (int)sizeof(file))
		return -1;
	fd = open(file, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return -1;
	/* The holder may be a stopped process: after GUARD_MS go on without the lock. */
	while (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK && clock_left_ms(end))
		clock_sleep_ms(1);
	return fd;
}

/* Reads a small file in the lock into @out; returns its length. */
static size_t lease_look_at(const char *path, const char *name, char *out, size_t size)
{
	char file[PATH_MAX], *text;
	size_t len;

	*out = 0;
	if (in_lock(file, path, name, NULL) ||
	    file_read(NULL, file, size - 1, &text, &len, NULL))
		return 0;
	memcpy(out, text, len);
	out[len] = 0;
	free(text);
	return len;
}

static void parse_owner(struct owner *o, const char *text, size_t len)
{
	json_t *j = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	json_t *start = json_object_get(j, "start");

	*o = (struct owner){ 0 };
	jsonio_get_text(j, "token", o->token, sizeof(o->token));
	jsonio_get_text(j, "identity", o->identity, sizeof(o->identity));
	jsonio_get_text(j, "host", o->host, sizeof(o->host));
	jsonio_get_int(j, "pid", 1, INT_MAX, 0, &o->pid);
	if (!jsonio_get_int(j, "lease_ms", SHORTEST_MS, LONGEST_MS, LEASE_MS, &o->life_ms))
		o->life_ms = LEASE_MS;
	if (json_is_integer(start) && json_integer_value(start) > 0)
		o->start = (uint64_t)json_integer_value(start);
	if (!*o->token)
		o->life_ms = NAMELESS_MS;
	json_decref(j);
}

/* Has an owner on this host ended, as the kernel tells?  Other hosts cannot be asked. */
static bool is_dead_here(const struct owner *o)
{
	char here[2 * IDENTITY_BYTES + 1];

	identity_text(here);
	return o->pid > 0 && !strcmp(o->identity, here) && !pidstat_is_alive(o->pid, o->start);
}

/* May a lock exist that cannot be seen now?  Not where the path itself is impossible. */
static bool may_be_held(int why)
{
	return why != ENOENT && why != ENOTDIR && why != EACCES && why != ELOOP &&
	       why != ENAMETOOLONG;
}

/* Cleans the owner's name for its host, since that is shown on our terminal. */
static void name_owner(struct lease_watch *w, const struct owner *o)
{
	char host[61];

	text_clean(host, sizeof(host), *o->host ? o->host : "a node");
	snprintf(w->who, sizeof(w->who), "%s, process %d", host, o->pid);
}

enum lease_state lease_look(struct lease_watch *w, const char *path)
{
	char text[OWNER_MOST + 64];
	struct owner o;
	struct stat st;
	size_t len;
	uint64_t seen;

	if (lstat(path, &st)) {
		w->seen = 0;
		return may_be_held(errno) ? LEASE_HELD : LEASE_FREE;
	}
	len = lease_look_at(path, "owner.json", text, OWNER_MOST);
	parse_owner(&o, text, len);
	len += lease_look_at(path, "beat", text + len, 64);
	seen = hash_bytes(text, len) | 1;
	name_owner(w, &o);
	if (seen != w->seen) {
		w->seen = seen;
		w->since_ns = clock_ns();
	}
	if (is_dead_here(&o))
		return LEASE_DEAD;
	return clock_ns() - w->since_ns > (int64_t)o.life_ms * 1500000 ? LEASE_DEAD
								       : LEASE_HELD;
}

/* Moves the lock away in one step, then removes it. */
static bool take_away(const char *path)
{
	char gone[PATH_MAX], token[LEASE_TOKEN_BYTES];

	random_text(token);
	if (snprintf(gone, sizeof(gone), "%s.gone.%s", path, token) >= (int)sizeof(gone))
		return false;
	if (!rename(path, gone)) {
		folder_remove(gone, NULL);
		return true;
	}
	/* An overlay renames no folder of a lower layer.  The lock of an image is dead for
	 * sure. */
	return errno == ENOENT || (errno == EXDEV && !folder_remove(path, NULL));
}

bool lease_break(struct lease_watch *w, const char *path)
{
	int guard = lease_guard(path);
	struct lease_watch now = *w;
	bool is_gone = true;

	/* Another process may have put a live lock in the dead one's place. */
	if (lease_look(&now, path) == LEASE_DEAD && now.seen == w->seen)
		is_gone = take_away(path);
	w->seen = 0;
	if (guard >= 0)
		close(guard);
	return is_gone;
}

static bool is_still_ours(const struct lease *l)
{
	char text[OWNER_MOST];
	struct owner o;

	parse_owner(&o, text, lease_look_at(l->path, "owner.json", text, sizeof(text)));
	/* Without an owner the lock is ours: writing failed, and no other process starts so. */
	return *o.token ? !strcmp(o.token, l->token) : !l->has_thread;
}

void lease_give(struct lease *l)
{
	int guard;

	if (!l->is_held)
		return;
	if (l->has_thread) {
		pthread_mutex_lock(&l->lock);
		l->end = true;
		pthread_cond_signal(&l->wake);
		pthread_mutex_unlock(&l->lock);
		pthread_join(l->thread, NULL);
		pthread_cond_destroy(&l->wake);
		pthread_mutex_destroy(&l->lock);
	}
	if (l->beat >= 0)
		close(l->beat);
	guard = lease_guard(l->path);
	if (is_still_ours(l))
		take_away(l->path);
	if (guard >= 0)
		close(guard);
	*l = (struct lease){ .beat = -1 };
}
