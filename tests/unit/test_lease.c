/* test_lease.c - one holder at a time, for as long as it lives and no longer. */
/* needs: waits */
#include "rebuild/lease.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/folder.h"
#include "ringup.h"
#include "tap.h"

static void write_text(const char *path, const char *text)
{
	if (file_write(NULL, path, 0644, text, strlen(text), NULL))
		abort();
}

/* Until the holder of ./lock gives another sign of life. */
static bool beats(void)
{
	int64_t enough = clock_deadline(60000);
	char *was, *now;
	bool same = true;
	size_t len;

	if (file_read(NULL, "./lock/beat", 64, &was, &len, NULL))
		return false;
	while (same && clock_left_ms(enough)) {
		clock_sleep_ms(10);
		if (file_read(NULL, "./lock/beat", 64, &now, &len, NULL))
			break;
		same = !strcmp(was, now);
		free(now);
	}
	free(was);
	return !same;
}

static void test_one(void)
{
	enum { LIFE_MS = 4000 }; /* it beats five times meanwhile */
	struct lease_watch w = { 0 };
	struct lease a, b;
	struct err e = { 0 };

	ok(lease_look(&w, "./lock") == LEASE_FREE, "free");
	ok(lease_take(&a, "./lock", LIFE_MS, &e) == LEASE_TAKEN, "taken: %s", e.text);
	ok(lease_take(&b, "./lock", 200, &e) == LEASE_BUSY, "once");
	lease_give(&b);
	ok(lease_look(&w, "./lock") == LEASE_HELD && strstr(w.who, "process"), "held by %s",
	   w.who);
	ok(beats() && lease_look(&w, "./lock") == LEASE_HELD, "and kept fresh");
	ok(lease_break(&w, "./lock") && lease_look(&w, "./lock") == LEASE_HELD,
	   "the living are not robbed");
	lease_give(&a);
	ok(lease_look(&w, "./lock") == LEASE_FREE && access("lock", F_OK), "given back");
	lease_give(&a);
	ok(lease_take(&a, "./none/lock", 200, &e) == RINGUP_ESYSTEM, "nowhere to put it: %s",
	   e.text);
	lease_give(&a);
	write_text("./file", "");
	ok(lease_look(&w, "./file/lock") == LEASE_FREE, "in a file nobody holds one");
	unlink("./file");
}

/* A child that takes the lock and is killed. */
static void die_with(const char *path)
{
	struct lease l;
	pid_t pid = fork();

	if (!pid) {
		if (lease_take(&l, path, 60000, NULL))
			_exit(1);
		raise(SIGKILL);
	}
	waitpid(pid, NULL, 0);
}

static void test_dead(void)
{
	struct lease_watch w = { 0 }, late = { 0 };
	struct lease l;
	struct err e = { 0 };

	die_with("./lock");
	ok(lease_look(&w, "./lock") == LEASE_DEAD, "who is killed here is known to be dead");
	ok(lease_look(&late, "./lock") == LEASE_DEAD, "to everybody");
	ok(lease_break(&w, "./lock") && !lease_take(&l, "./lock", 200, &e), "so it is free: %s",
	   e.text);
	ok(lease_break(&late, "./lock") && lease_look(&w, "./lock") == LEASE_HELD,
	   "who comes late does not take it from the next");
	lease_give(&l);
	ok(folder_is_empty(".") || !system("ls -A >&2; test \"$(ls -A)\" = guard"),
	   "nothing is left");
}

/* One of another host: only time tells. */
static void test_silent(void)
{
	struct lease_watch w = { 0 };
	struct err e = { 0 };
	int i;

	mkdir("silent", 0755);
	write_text("./silent/owner.json",
		   "{\"host\":\"far\",\"identity\":\"00\",\"token\":\"t\","
		   "\"pid\":1,\"start\":1,\"lease_ms\":100}");
	for (i = 0; i < 5; i++) {
		write_text("./silent/beat", i % 2 ? "1\n" : "2\n");
		if (lease_look(&w, "./silent") != LEASE_HELD)
			break;
		clock_sleep_ms(80);
	}
	ok(i == 5, "as long as something changes it lives");
	clock_sleep_ms(160);
	ok(lease_look(&w, "./silent") == LEASE_DEAD, "then not");
	ok(lease_break(&w, "./silent") && access("silent", F_OK), "it is removed: %s", e.text);
}

/* Whatever stands in owner.json. */
static void test_hostile(void)
{
	static const char *const texts[] = {
		"",
		"{",
		"[]",
		"{\"pid\":-1}",
		"{\"lease_ms\":1e99}",
		"{\"lease_ms\":-5}",
		"{\"host\":7,\"token\":[]}",
		"{\"pid\":1,\"identity\":null,\"start\":-1}",
		"\xff",
	};
	struct lease_watch w;
	size_t i;

	mkdir("odd", 0755);
	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		w = (struct lease_watch){ 0 };
		write_text("./odd/owner.json", texts[i]);
		ok(lease_look(&w, "./odd") == LEASE_HELD, "held by %s", w.who);
	}
	folder_remove("odd", NULL);
	write_text("./odd", "a file");
	w = (struct lease_watch){ 0 };
	ok(lease_look(&w, "./odd") == LEASE_HELD, "a file in its place is no lock of ours");
}

int main(void)
{
	char top[] = "/tmp/test_lease.XXXXXX";

	if (!mkdtemp(top) || chdir(top))
		return 1;
	test_one();
	test_dead();
	test_silent();
	test_hostile();
	folder_remove(top, NULL);
	return tap_done();
}
