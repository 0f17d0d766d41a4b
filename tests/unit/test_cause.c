/* test_cause.c - a rank notes because of which other rank it fails; the launcher reads it. */
#include "wire/cause.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/discover.h"

static bool is(const struct cause *c, int rank, bool joined, bool left, int because)
{
	struct cause_seen s = cause_read(c, rank);

	return s.joined == joined && s.left == left && s.rank == because;
}

static void notes(struct cause *launcher, struct cause *rank)
{
	ok(is(launcher, 5, false, false, -1), "nothing is noted at first");
	cause_blame(rank, 3);
	ok(is(launcher, 5, false, false, -1), "a rank that is in no job blames nobody");
	cause_join(rank);
	ok(is(launcher, 5, true, false, -1), "it is in a job");
	cause_blame(rank, 5);
	cause_blame(rank, -1);
	cause_blame(rank, DISCOVER_RANKS);
	ok(is(launcher, 5, true, false, -1),
	   "it blames neither itself nor a rank there is not");
	cause_blame(rank, 0);
	cause_blame(rank, 3);
	ok(is(launcher, 5, true, false, 0), "the first that it blames counts");
	cause_leave(rank);
	ok(is(launcher, 5, true, true, 0), "it leaves");
	cause_join(rank);
	cause_leave(rank);
	cause_blame(rank, 3);
	ok(is(launcher, 5, true, true, -1), "after its leave it blames nobody");
	ok(is(launcher, 4, false, false, -1) && is(launcher, -1, false, false, -1) &&
		   is(launcher, DISCOVER_RANKS, false, false, -1),
	   "others have noted nothing");
}

static void packed(void)
{
	static const int rank[] = { -1, 0, 1, DISCOVER_RANKS - 1 };
	unsigned i;
	bool good = true;

	for (i = 0; i < 16; i++) {
		struct cause_seen x = { i & 1, i & 2, rank[i / 4] };
		struct cause_seen y = cause_unpack(cause_pack(x));

		good &= x.joined == y.joined && x.left == y.left && x.rank == y.rank;
	}
	ok(good, "a number says all of it");
	ok(cause_unpack(0).rank == -1, "and 0 says nothing");
}

int main(void)
{
	struct cause launcher = { 0 }, rank = { 0 }, none = { 0 };
	struct err e = { 0 };
	int fd;

	ok(!cause_create(&launcher, &e) && !cause_map(&rank, launcher.fd, 5, &e), "shared");
	notes(&launcher, &rank);
	packed();
	ok(ftruncate(launcher.fd, 0) < 0, "no rank can take it away");
	cause_join(&none);
	cause_blame(&none, 1);
	cause_leave(&none);
	ok(is(&none, 0, false, false, -1), "without a launcher nothing is noted");
	fd = open("/dev/null", O_RDONLY);
	ok(cause_map(&none, fd, 0, &e) == RINGUP_EINVAL, "another file: %s", e.text);
	close(fd);
	ok(cause_map(&none, 1 << 19, 0, &e) == RINGUP_ESYSTEM, "no file: %s", e.text);
	ok(cause_map(&none, launcher.fd, DISCOVER_RANKS, &e) == RINGUP_EINVAL, "%s", e.text);
	cause_close(&rank);
	cause_close(&launcher);
	cause_close(&launcher);
	cause_close(&none);
	return tap_done();
}
