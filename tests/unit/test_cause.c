/* test_cause.c - a rank notes because of which other rank it fails; the launcher reads it. */
#include "wire/cause.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/discover.h"

static struct cause_pipe pipe_;
static struct err lost = { .code = RINGUP_EPEER, .text = "rank 3 (process 4 on h) died" };

/* Takes all notes of rank @number; false if there is one of another rank. */
static bool read_all(struct cause_seen *s, uint32_t number)
{
	struct cause_note note;
	const char *why;
	bool good = true;

	while (cause_next(&pipe_, &note, &why)) {
		good &= note.number == number;
		cause_take(s, &note, why);
	}
	return good;
}

static bool is(struct cause_seen *s, uint32_t number, bool joined, bool left, int because)
{
	return read_all(s, number) && s->joined == joined && s->left == left &&
	       s->rank == because;
}

static void notes(void)
{
	struct cause rank = { 0 }, again = { 0 };
	struct err e = { 0 };
	struct cause_seen s;

	cause_begin(&s);
	ok(!cause_open(&rank, pipe_.out, 5, &e) && is(&s, 5, false, false, -1),
	   "nothing is noted at first");
	cause_blame(&rank, 3, ALARM_MOVES, &lost);
	ok(is(&s, 5, false, false, -1), "a rank that is in no job blames no rank");
	cause_join(&rank);
	ok(is(&s, 5, true, false, -1), "it is in a job");
	cause_blame(&rank, 5, ALARM_MOVES, &lost);
	ok(is(&s, 5, true, false, -1) && !s.code, "it does not blame itself");
	cause_blame(&rank, 0, ALARM_FROZEN, &lost);
	cause_blame(&rank, 3, ALARM_MOVES, &lost);
	ok(is(&s, 5, true, false, 0), "the first that it blames counts");
	ok(s.stillness == ALARM_FROZEN && s.code == RINGUP_EPEER && !strcmp(s.why, lost.text),
	   "with the sentence: %s", s.why);
	ok(!cause_open(&again, pipe_.out, 5, &e), "a second job of the same process");
	cause_join(&again);
	cause_leave(&again);
	ok(is(&s, 5, true, false, 0), "it is in one of two jobs still");
	cause_leave(&rank);
	ok(is(&s, 5, true, true, 0), "it leaves");
	cause_blame(&rank, 3, ALARM_MOVES, &lost);
	ok(is(&s, 5, true, true, 0), "after its leave it blames no rank");
	again = (struct cause){ 0 };
	ok(!cause_open(&again, pipe_.out, 5, &e), "once more");
	cause_join(&again);
	ok(is(&s, 5, true, false, -1) && !s.why, "and what was before is forgotten");
	cause_blame(&again, -1, ALARM_MOVES, &lost);
	ok(is(&s, 5, true, false, -1) && s.code, "no single rank is to blame");
	cause_forget(&s);
}

/* Another process under the same number, as of a script that starts a program twice. */
static void processes(void)
{
	struct cause_note join = { .kind = CAUSE_JOIN, .pid = 7, .rank = -1 };
	struct cause_note blame = { .kind = CAUSE_BLAME, .pid = 7, .rank = 2, .code = -5 };
	struct cause_note leave = { .kind = CAUSE_LEAVE, .pid = 8, .rank = -1 };
	struct cause_seen s;

	cause_begin(&s);
	cause_take(&s, &join, "");
	cause_take(&s, &blame, "x");
	ok(s.rank == 2, "the first process blames a rank");
	join.pid = 8;
	cause_take(&s, &join, "");
	cause_take(&s, &blame, "y");
	ok(s.rank == -1 && s.joined && !s.left, "the second begins anew; the first is over");
	cause_take(&s, &leave, "");
	ok(s.left, "and leaves");
	blame.pid = join.pid = 9;
	blame.rank = INT_MAX;
	blame.stillness = 77;
	cause_take(&s, &join, "");
	cause_take(&s, &blame, "z");
	ok(s.rank == -1 && s.stillness == ALARM_MOVES, "a rank there is not is no rank");
	cause_forget(&s);
}

static void hostile(void)
{
	struct cause_note bad = { .kind = CAUSE_BLAME, .len = UINT32_MAX }, note;
	struct cause rank = { 0 };
	const char *why;
	struct err e = { 0 };

	ok(write(pipe_.out, &bad, sizeof(bad)) == sizeof(bad) &&
		   !cause_next(&pipe_, &note, &why),
	   "a note that is too long is none");
	bad = (struct cause_note){ .kind = 99 };
	ok(write(pipe_.out, &bad, sizeof(bad)) == sizeof(bad) &&
		   write(pipe_.out, &bad, 3) == 3 && !cause_next(&pipe_, &note, &why),
	   "nor is one of no kind");
	ok(!cause_open(&rank, pipe_.out, 1, &e), "a rank");
	cause_join(&rank);
	ok(cause_next(&pipe_, &note, &why) && note.number == 1, "what comes later is read");
	for (int i = 0; i < 100000; i++) {
		rank.joined = false;
		cause_join(&rank);
	}
	ok(true, "a launcher that does not read stops no rank");
	while (cause_next(&pipe_, &note, &why))
		;
}

int main(void)
{
	struct cause none = { 0 }, rank = { 0 };
	struct cause_note note;
	const char *why;
	struct err e = { 0 };
	int fd;

	ok(!cause_create(&pipe_, &e), "a pipe");
	notes();
	processes();
	hostile();
	cause_join(&none);
	cause_blame(&none, 1, ALARM_MOVES, &lost);
	cause_leave(&none);
	ok(!cause_next(&pipe_, &note, &why), "without a launcher nothing is noted");
	fd = open("/dev/null", O_RDWR);
	ok(cause_open(&none, fd, 0, &e) == RINGUP_EINVAL, "another file: %s", e.text);
	close(fd);
	ok(cause_open(&none, pipe_.in, 0, &e) == RINGUP_EINVAL, "the other end: %s", e.text);
	ok(cause_open(&none, 1 << 19, 0, &e) == RINGUP_ESYSTEM, "no file: %s", e.text);
	ok(cause_open(&none, pipe_.out, -1, &e) == RINGUP_EINVAL, "%s", e.text);
	ok(!cause_open(&rank, dup(pipe_.out), 1, &e), "a rank");
	cause_close(&pipe_);
	signal(SIGPIPE, SIG_DFL);
	cause_join(&rank);
	ok(true, "a launcher that is gone raises no signal");
	close(rank.fd);
	cause_close(&pipe_);
	ok(!cause_next(&pipe_, &note, &why), "a pipe that is closed has no notes");
	return tap_done();
}
