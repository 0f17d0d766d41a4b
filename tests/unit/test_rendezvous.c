/* test_rendezvous.c - ranks find each other under every kind of launcher. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/discover.h"
#include "wire/meet.h"
#include "wire/rendezvous.h"

enum { RANKS = 4, LATE_MS = 30000 };

static char base[] = "/tmp/test_rendezvous.XXXXXX";

static int count(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	if (!d)
		return -1;
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

/* Meet, compare secrets and ranks, part; 0 if all is as it should be. */
static int meet_once(const struct discovery *d, int64_t wait_ms, struct err *e)
{
	struct {
		int rank;
		struct secret secret;
	} mine = { .rank = d->rank }, all[RANKS];
	struct rendezvous r;
	int i, rc;

	rc = rendezvous_open(&r, d, "127.0.0.1", clock_deadline(wait_ms), e);
	mine.secret = r.secret;
	if (!rc)
		rc = r.exchange(r.ctx, &mine, sizeof(mine), all);
	for (i = 0; !rc && i < d->size; i++)
		if (all[i].rank != i || memcmp(&all[i].secret, &mine.secret, SECRET_BYTES))
			rc = 1;
	rendezvous_close(&r);
	return rc;
}

/* What one rank does; negative status codes come back as 100 - code. */
static void rank(struct discovery *d, int rank, int times, int64_t wait_ms)
{
	struct err e = { 0 };
	int rc = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	d->rank = rank;
	while (times-- && !rc)
		rc = meet_once(d, wait_ms, &e);
	if (rc < 0)
		printf("# rank %d: %s\n", rank, e.text);
	fflush(stdout);
	_exit(rc < 0 ? 100 - rc : rc);
}

/* Statuses of the ranks from @first on, started in reverse order. */
static void job(struct discovery *d, int first, int times, int64_t wait_ms, int *statuses)
{
	pid_t pids[RANKS];
	int i;

	fflush(stdout);
	for (i = d->size - 1; i >= first; i--) {
		pids[i] = fork();
		if (pids[i] == 0)
			rank(d, i, times, wait_ms);
	}
	for (i = first; i < d->size; i++) {
		int status = -1;

		waitpid(pids[i], &status, 0);
		statuses[i] = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	}
}

static int are_all(const int *statuses, int first, int last, int value)
{
	for (; first < last; first++)
		if (statuses[first] != value)
			return 0;
	return 1;
}

static void by_directory(void)
{
	struct discovery d = { .size = RANKS, .source = "test", .meet = "", .secret_fd = -1 };
	char shared[256];
	int s[RANKS];

	snprintf(d.key, sizeof(d.key), "test_rendezvous %d", (int)getpid());
	job(&d, 0, 1, LATE_MS, s);
	ok(are_all(s, 0, RANKS, 0), "four ranks meet through this user's directory");
	ok(count(base) == 0, "which is gone afterwards");
	job(&d, 0, 20, LATE_MS, s);
	ok(are_all(s, 0, RANKS, 0), "and twenty times in a row");
	ok(count(base) == 0, "without a trace");

	job(&d, 1, 1, 300, s);
	ok(are_all(s, 1, RANKS, 100 - RINGUP_ETIMEDOUT), "without rank 0 the others give up");
	d.size = 3;
	job(&d, 0, 1, LATE_MS, s);
	ok(are_all(s, 0, 3, 0), "another number of ranks, another meeting");

	d.size = RANKS;
	snprintf(shared, sizeof(shared), "%s/shared", base);
	d.meet = shared;
	d.spans_hosts = true;
	job(&d, 0, 2, LATE_MS, s);
	ok(are_all(s, 0, RANKS, 0), "hosts meet through a directory that they share");
	ok(count(shared) == 0, "which is empty afterwards");
	rmdir(shared);
	d.meet = "";
	job(&d, 0, 1, LATE_MS, s);
	ok(are_all(s, 0, RANKS, 100 - RINGUP_EINVAL), "and cannot without, as all are told");
	d.spans_hosts = false;
	*d.key = 0;
	job(&d, 0, 1, LATE_MS, s);
	ok(are_all(s, 0, RANKS, 100 - RINGUP_EINVAL), "a job without a name cannot either");
}

/* One that has waited in vain, twice, and tries again, meets who has only come then. */
static void in_vain(void)
{
	struct discovery d = { .size = 2, .source = "test", .meet = "", .secret_fd = -1 };
	struct err e = { 0 };
	pid_t pids[2];
	int ends[2], status[2], i;
	char byte;

	snprintf(d.key, sizeof(d.key), "test_rendezvous vain %d", (int)getpid());
	fflush(stdout);
	if (pipe(ends))
		return;
	pids[1] = fork();
	if (pids[1] == 0) {
		d.rank = 1;
		for (i = 0; i < 2; i++)
			if (meet_once(&d, 20, &e) != RINGUP_ETIMEDOUT)
				_exit(1);
		if (write(ends[1], "x", 1) != 1)
			_exit(1);
		rank(&d, 1, 2, 10000);
	}
	close(ends[1]);
	ok(read(ends[0], &byte, 1) == 1, "a rank waits for rank 0 in vain, twice");
	close(ends[0]);
	pids[0] = fork();
	if (pids[0] == 0)
		rank(&d, 0, 2, 10000);
	for (i = 0; i < 2; i++)
		waitpid(pids[i], &status[i], 0);
	ok(!status[0] && !status[1], "and meets it when it has come, and once more");
	ok(count(base) == 0, "without a trace");
}

/* Rank 0 comes, and dies while it waits. */
static void a_dead_host(void)
{
	struct discovery d = { .size = 2, .source = "test", .meet = "", .secret_fd = -1 };
	char path[256];
	pid_t child;
	int s[RANKS], status, i;

	snprintf(d.key, sizeof(d.key), "test_rendezvous dead %d", (int)getpid());
	snprintf(path, sizeof(path), "%s/ringup", base);
	fflush(stdout);
	child = fork();
	if (child == 0)
		rank(&d, 0, 1, LATE_MS);
	for (i = 0; i < 1000 && count(path) < 1; i++)
		clock_sleep_ms(10);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	ok(count(path) == 1, "a rank 0 that is killed leaves an offer");
	job(&d, 0, 1, LATE_MS, s);
	ok(are_all(s, 0, 2, 0), "that does not disturb the next job of that name");
	ok(count(base) == 0, "and is swept");
}

/* A server has a thread, and who has one had better not fork: so it is in a process of its own,
 * until the last descriptor of the pipe's other end is closed.  Returns that, and its address.
 */
static int host(const struct secret *secret, char *where, size_t size)
{
	int ready[2], end[2];
	ssize_t n;

	if (pipe(ready) || pipe(end))
		return -1;
	fflush(stdout);
	if (!fork()) {
		struct meet_server *server = NULL;
		struct err e = { 0 };
		char c;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(end[1]);
		if (meet_serve("127.0.0.1", RANKS, secret, &server, &e))
			_exit(1);
		n = write(ready[1], meet_where(server), strlen(meet_where(server)));
		close(ready[1]);
		n = n < 0 ? n : read(end[0], &c, 1);
		meet_stop(server);
		_exit(n != 0);
	}
	close(ready[1]);
	close(end[0]);
	n = read(ready[0], where, size - 1);
	where[n > 0 ? n : 0] = 0;
	close(ready[0]);
	return end[1];
}

static void by_launcher(void)
{
	struct discovery d = { .size = RANKS, .source = "ringup run" };
	struct secret secret, other;
	struct err e = { 0 };
	char where[256] = "";
	int s[RANKS], server = -1, status = -1;

	ok(secret_new(&secret, &e) == 0 &&
		   (server = host(&secret, where, sizeof(where))) >= 0 && *where,
	   "a launcher hosts the meeting %s", e.text);
	d.meet = where;
	d.secret_fd = secret_to_fd(&secret, &e);
	job(&d, 0, 3, LATE_MS, s);
	ok(are_all(s, 0, RANKS, 0), "and the ranks meet there three times");
	close(d.secret_fd);
	ok(secret_new(&other, &e) == 0, "somebody else's secret");
	d.secret_fd = secret_to_fd(&other, &e);
	job(&d, 0, 1, LATE_MS, s);
	ok(are_all(s, 0, RANKS, 100 - RINGUP_EAUTH), "opens no door");
	close(d.secret_fd);
	d.secret_fd = -1;
	job(&d, 0, 1, LATE_MS, s);
	ok(are_all(s, 0, RANKS, 100 - RINGUP_EINVAL), "and none at all is a mistake");
	close(server);
	ok(wait(&status) > 0 && !status, "the launcher ends");
}

static int pretend(void *ctx, const void *mine, size_t len, void *all)
{
	memset(all, 'k', 3 * len);
	for (int i = 0; i < 3; i++)
		memcpy((char *)all + i * len, mine, 1);
	return *(int *)ctx;
}

static void by_the_caller(void)
{
	struct discovery alone = { .size = 1, .source = "none", .meet = "" };
	struct rendezvous r;
	struct err e = { 0 };
	int answer = 0;
	char all;
	struct rendezvous_caller c = {
		.rank = 1, .size = 3, .exchange = pretend, .ctx = &answer
	};

	ok(rendezvous_open(&r, &alone, NULL, 0, &e) == 0 &&
		   r.exchange(r.ctx, "x", 1, &all) == 0 && all == 'x',
	   "one rank meets itself");
	rendezvous_close(&r);
	ok(rendezvous_adopt(&r, &c, &e) == 0 && r.secret.key[0] == 'k',
	   "an exchange brings rank 0's secret");
	rendezvous_close(&r);
	answer = 5;
	ok(rendezvous_adopt(&r, &c, &e) == RINGUP_ESYSTEM, "or it fails: %s", e.text);
	rendezvous_close(&r);
	rendezvous_close(&r);
}

/* What passes between two ranks, which are threads; as an eavesdropper sees it. */
struct board {
	pthread_barrier_t written, read;
	unsigned char now[2][64], said[1024];
	size_t said_len;
};

struct half {
	struct board *board;
	struct rendezvous_caller c;
	struct rendezvous r;
	struct err e;
	int rc;
};

static int on_board(void *ctx, const void *mine, size_t len, void *all)
{
	struct half *h = ctx;
	struct board *b = h->board;
	int i;

	memcpy(b->now[h->c.rank], mine, len);
	pthread_barrier_wait(&b->written);
	for (i = 0; i < 2; i++)
		memcpy((unsigned char *)all + (size_t)i * len, b->now[i], len);
	if (h->c.rank == 0) {
		memcpy(b->said + b->said_len, all, 2 * len);
		b->said_len += 2 * len;
	}
	pthread_barrier_wait(&b->read);
	return 0;
}

static void *adopt(void *arg)
{
	struct half *h = arg;

	h->rc = rendezvous_adopt(&h->r, &h->c, &h->e);
	return NULL;
}

/* Two ranks with these secrets meet. */
static void meet_with(struct board *b, struct half h[2], const char *zero, const char *one)
{
	pthread_t other;
	int i;

	*b = (struct board){ 0 };
	pthread_barrier_init(&b->written, NULL, 2);
	pthread_barrier_init(&b->read, NULL, 2);
	for (i = 0; i < 2; i++) {
		h[i] = (struct half){ .board = b };
		h[i].c = (struct rendezvous_caller){ i, 2, on_board, &h[i], i ? one : zero };
	}
	if (pthread_create(&other, NULL, adopt, &h[1]))
		abort();
	adopt(&h[0]);
	pthread_join(other, NULL);
	pthread_barrier_destroy(&b->written);
	pthread_barrier_destroy(&b->read);
}

static void by_the_caller_with_a_secret(void)
{
	static const char good[] = "0123456789abcdef0123456789abcdef";
	static const char other[] = "0123456789abcdef0123456789abcdeF";
	unsigned char before[SECRET_BYTES];
	struct board b;
	struct half h[2];

	meet_with(&b, h, "", NULL);
	ok(!h[0].rc && !h[1].rc && memmem(b.said, b.said_len, h[1].r.secret.key, SECRET_BYTES),
	   "without a secret the key can be read where ranks meet");
	meet_with(&b, h, good, good);
	ok(!h[0].rc && !h[1].rc && !memcmp(&h[0].r.secret, &h[1].r.secret, SECRET_BYTES),
	   "with one both ranks have a key: %s%s", h[0].e.text, h[1].e.text);
	ok(!memmem(b.said, b.said_len, h[0].r.secret.key, SECRET_BYTES) &&
		   !memmem(b.said, b.said_len, good, sizeof(good) - 1),
	   "which cannot be read, nor can the secret");
	memcpy(before, h[0].r.secret.key, sizeof(before));
	meet_with(&b, h, good, good);
	ok(memcmp(before, h[0].r.secret.key, sizeof(before)) != 0,
	   "the next meeting has another");
	meet_with(&b, h, good, other);
	ok(h[0].rc == RINGUP_EAUTH && h[1].rc == RINGUP_EAUTH &&
		   strstr(h[0].e.text, "rank 1 does not know the RINGUP_SECRET of rank 0"),
	   "a rank with another one is refused: %s", h[0].e.text);
	meet_with(&b, h, good, "");
	ok(h[0].rc == RINGUP_EAUTH && h[1].rc == RINGUP_EAUTH &&
		   strstr(h[0].e.text, "rank 0 has a RINGUP_SECRET and rank 1 has none"),
	   "and one without: %s", h[0].e.text);
	h[0].c.secret = "short";
	adopt(&h[0]);
	ok(h[0].rc == RINGUP_EINVAL, "a short one is refused: %s", h[0].e.text);
}

int main(void)
{
	if (!mkdtemp(base))
		return 1;
	setenv("XDG_RUNTIME_DIR", base, 1);
	by_directory();
	in_vain();
	a_dead_host();
	by_launcher();
	by_the_caller();
	by_the_caller_with_a_secret();
	ok(count(base) == 0, "nothing is left behind");
	rmdir(base);
	return tap_done();
}
