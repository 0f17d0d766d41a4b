/* test_segment.c - memory that processes share, and that leaves nothing behind. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/segment.h"

enum { EXTRA = 10000 };

/* Those that do not come are dead, or the job is over: that ends the wait. */
static void the_dead(void)
{
	static const int names[2] = { 4, 7 };
	struct segment_door door = { .fd = -1 };
	int pids[2] = { getpid(), fork() };
	struct segment_peers peers = { 2, pids, names, NULL };
	struct segment s = { 0 };
	struct alarm alarm = { 0 };
	struct err e = { 0 };
	int64_t late;
	int i, rc;

	if (pids[1] == 0)
		_exit(0);
	for (i = 0; i < 3; i++) {
		ok(segment_door_open(&door, &e) == 0, "a door");
		if (i == 2) {
			pids[1] = getpid();
			alarm_raise(&alarm, -1, RINGUP_EABORTED, "all over");
			peers.alarm = &alarm;
		}
		late = clock_deadline(60000);
		rc = segment_make(&s, &door, &peers, SEGMENT_SLOT_AREA, EXTRA, late, &e);
		if (i == 2)
			ok(rc == RINGUP_EABORTED && !strcmp(e.text, "all over"),
			   "the job's alarm: %s", e.text);
		else
			ok(rc == RINGUP_EPEER && strstr(e.text, "rank 7 (process "),
			   "who is dead, %s: %s", i ? "and buried" : "and a zombie", e.text);
		segment_close(&s);
		segment_door_close(&door);
		if (i == 0)
			waitpid(pids[1], NULL, 0);
	}
}

/* A process without stdin, and a door that gets its number. */
static void without_stdin(void)
{
	struct segment_door door = { 0 };
	int in = dup(0), fd;
	struct err e = { 0 };

	segment_door_close(&door);
	ok(fcntl(0, F_GETFD) >= 0, "a door that was never open takes no descriptor along");
	close(0);
	ok(segment_door_open(&door, &e) == 0 && door.fd > 2, "a door keeps off stdin");
	fd = door.fd;
	segment_door_close(&door);
	ok(fcntl(0, F_GETFD) < 0 && fcntl(fd, F_GETFD) < 0, "and leaves nothing");
	dup2(in, 0);
	close(in);
}

int main(void)
{
	struct segment_door door = { .fd = -1 };
	struct segment s = { 0 }, none = { 0 };
	struct err e = { 0 };
	int pids[3] = { getpid(), 0, 0 }, go[2], r, status, bad = 0;
	static const int names[3] = { 4, 5, 7 };
	struct segment_peers peers = { 3, pids, names, NULL };
	unsigned char name[SEGMENT_SOCKET_BYTES];

	alarm(250);
	segment_close(&none);
	ok(1, "closing nothing is harmless");
	if (pipe(go))
		return 1;
	ok(segment_door_open(&door, &e) == 0, "a door opens: %s", e.text);
	for (r = 1; r < 3; r++) {
		pids[r] = fork();
		if (pids[r] == 0) {
			char c;

			close(go[1]);
			if (read(go[0], &c, 1) < 0)
				_exit(9);
			if (segment_join(&s, door.name, pids[0], r, 3, SEGMENT_SLOT_AREA, EXTRA,
					 clock_deadline(60000), &e)) {
				printf("# %s\n", e.text);
				_exit(1);
			}
			while (!__atomic_load_n(&s.waitset.waiters[0].word, __ATOMIC_ACQUIRE))
				clock_sleep_ms(1);
			bad = *segment_slot(&s, 0, SEGMENT_SLOTS + 1) != 77 ||
			      ((char *)s.extra)[EXTRA - 1] != 55;
			*segment_slot(&s, r, 0) = (unsigned char)(100 + r);
			__atomic_store_n(&s.waitset.waiters[r].word, 1, __ATOMIC_RELEASE);
			segment_close(&s);
			_exit(bad ? 2 : 0);
		}
	}
	close(go[0]);
	close(go[1]);
	r = segment_make(&s, &door, &peers, SEGMENT_SLOT_AREA, EXTRA, clock_deadline(60000),
			 &e);
	ok(r == 0, "made and handed out: %s", e.text);
	memcpy(name, door.name, sizeof(name));
	segment_door_close(&door);
	if (r == 0) {
		segment_touch(&s);
		ok(segment_slot(&s, 0, 1) == segment_slot(&s, 0, SEGMENT_SLOTS + 1),
		   "slots come round");
		*segment_slot(&s, 0, 1) = 77;
		((char *)s.extra)[EXTRA - 1] = 55;
		__atomic_store_n(&s.waitset.waiters[0].word, 1, __ATOMIC_RELEASE);
		for (r = 1; r < 3; r++)
			while (!__atomic_load_n(&s.waitset.waiters[r].word, __ATOMIC_ACQUIRE) &&
			       !waitpid(pids[r], &status, WNOHANG))
				clock_sleep_ms(1);
		ok(*segment_slot(&s, 1, 0) == 101 && *segment_slot(&s, 2, SEGMENT_SLOTS) == 102,
		   "each sees what the others write");
	}
	for (r = 1; r < 3; r++)
		bad |= waitpid(pids[r], &status, 0) == pids[r] && status;
	ok(!bad, "all three agree");
	segment_close(&s);

	ok(segment_join(&s, name, 1, 1, 3, SEGMENT_SLOT_AREA, EXTRA, clock_deadline(100), &e) ==
		   RINGUP_EPEER,
	   "a closed door: %s", e.text);
	segment_close(&s);
	ok(segment_door_open(&door, &e) == 0, "another door");
	pids[1] = pids[2] = -1;
	r = segment_make(&s, &door, &peers, SEGMENT_SLOT_AREA, EXTRA, clock_deadline(50), &e);
	ok(r == RINGUP_ETIMEDOUT, "nobody comes: %s", e.text);
	segment_close(&s);
	segment_door_close(&door);
	the_dead();
	without_stdin();
	return tap_done();
}
