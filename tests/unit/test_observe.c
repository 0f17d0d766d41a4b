/* test_observe.c - observation page: what a rank writes, and what a reader believes. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/err.h"
#include "ringup.h"
#include "wire/observe.h"

#include "tap.h"

static void count(void *arg, int fd)
{
	struct observed x;
	struct err e;

	if (!observe_read(fd, &x, &e) && x.page.pid == getpid())
		(*(int *)arg)++;
	observe_free(&x);
}

static int page_count(void)
{
	int n = 0;

	observe_find(getpid(), count, &n);
	return n;
}

static void fill(struct observe *o)
{
	observe_begin(o);
	o->page->rank = 1;
	o->page->size = 3;
	o->page->waits = 1;
	o->page->wait[0].missing = 1;
	o->page->wait[0].who[0] = 2;
	o->page->wait[0].peer = -1;
	memset(o->page->wait[0].what, 'x', sizeof(o->page->wait[0].what));
	for (int i = 0; i < 3; i++)
		o->peers[i] = (struct observe_peer){ .pid = 100 + i, .as = i };
	observe_end(o);
	observe_enter(o, OBSERVE_RUNNING);
}

static int read_again(int fd, struct err *e)
{
	struct observed x;
	int rc = observe_read(fd, &x, e);

	observe_free(&x);
	return rc;
}

/* A copy of the page that anybody may write. */
static int forge(const struct observe_page *p, size_t len)
{
	int fd = memfd_create("forged", MFD_CLOEXEC);

	return write(fd, p, len) == (ssize_t)len ? fd : -1;
}

static int forged(const struct observe_page *p, size_t len, struct err *e)
{
	int fd = forge(p, len), rc = read_again(fd, e);

	close(fd);
	return rc;
}

int main(void)
{
	struct observe o;
	struct observe_page bad;
	struct observed x;
	struct err e = { 0 };
	int status = 0;
	pid_t child;

	observe_open(&o);
	ok(o.page && page_count() == 1, "a process finds its own page by its descriptor");
	ok(!observe_read(o.fd, &x, &e) && x.page.rank == -1 && !x.peers,
	   "it has no rank before the ranks have met");
	observe_free(&x);
	fill(&o);
	ok(!observe_read(o.fd, &x, &e) && x.page.rank == 1 && x.peers && x.peers[2].pid == 102,
	   "then it has, and knows the others");
	ok(strlen(x.page.wait[0].what) == sizeof(x.page.wait[0].what) - 1,
	   "a text always ends");
	observe_free(&x);
	ok((fcntl(o.fd, F_GET_SEALS) & F_SEAL_SHRINK) && ftruncate(o.fd, 0),
	   "nobody can cut it off");
	observe_begin(&o);
	ok(read_again(o.fd, &e) == RINGUP_EBUSY,
	   "a page that is being written is not believed");
	observe_end(&o);

	bad = *o.page;
	bad.version++;
	ok(forged(&bad, sizeof(bad), &e) == RINGUP_EMISMATCH && strstr(e.text, "version"),
	   "another version is refused, with a reason: %s", e.text);
	bad = *o.page;
	ok(forged(&bad, sizeof(bad), &e) == RINGUP_EINVAL, "one without the peers is refused");
	ok(forged(&bad, 40, &e) == RINGUP_EINVAL, "so is one that is cut off");
	bad.waits = OBSERVE_WAITS + 1;
	ok(forged(&bad, sizeof(bad), &e) == RINGUP_EINVAL, "so are numbers that cannot be");
	bad = *o.page;
	bad.records = OBSERVE_RECORDS + 1;
	ok(forged(&bad, sizeof(bad), &e) == RINGUP_EINVAL,
	   "so are more records than there are");
	bad = *o.page;
	bad.wait[0].who[0] = 3;
	ok(forged(&bad, sizeof(bad), &e) == RINGUP_EINVAL, "so is a rank that the job lacks");
	memset(&bad, 0, sizeof(bad));
	ok(forged(&bad, sizeof(bad), &e) == RINGUP_EINVAL, "so is what is no page");

	child = fork();
	if (!child)
		_exit(page_count());
	ok(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 0,
	   "a child of fork() inherits the descriptor, and is no rank");
	observe_close(&o);
	ok(!page_count(), "it is gone once it is closed");
	observe_close(&o);
	return tap_done();
}
