/* test_starter.c - the words that start an agent, and that it ends. */
#include "launch/starter.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"

static const char *words(struct starter_options how)
{
	static char out[2048];
	char buf[2048], *argv[STARTER_WORDS];
	struct err e = { 0 };
	int i;

	*out = 0;
	if (starter_words(&how, "n1", argv, buf, sizeof(buf), &e))
		return "!";
	for (i = 0; argv[i]; i++)
		snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s%s", i ? " " : "",
			 argv[i]);
	return out;
}

static bool is(struct starter_options how, const char *want)
{
	return !strcmp(words(how), want);
}

static void test_words(void)
{
	char self[1024] = "";

	ok(is((struct starter_options){ .ringup = "/r" },
	      "ssh -T -o BatchMode=yes -o ConnectTimeout=5 -o LogLevel=ERROR n1 /r net agent"),
	   "ssh");
	ok(is((struct starter_options){ .ringup = "/r", .shell = "pdsh  -w" },
	      "pdsh -w n1 /r net agent"),
	   "somebody's command");
	ok(is((struct starter_options){ .ringup = "/r",
					.shell = "nsenter --net=/run/netns/%h --" },
	      "nsenter --net=/run/netns/n1 -- /r net agent"),
	   "with the node in the midst of it");
	ok(is((struct starter_options){ .kind = STARTER_MPIRUN, .ringup = "/r" },
	      "mpirun -np 1 --host n1 /r net agent"),
	   "mpirun");
	ok(is((struct starter_options){ .kind = STARTER_SRUN, .ringup = "/r" },
	      "srun -N1 -n1 --overlap --input=0 -w n1 /r net agent"),
	   "srun");
	ok(is((struct starter_options){ .ringup = "/r;reboot" }, "!") &&
		   is((struct starter_options){ .ringup = "/my r" }, "!"),
	   "no path that a shell would read otherwise");
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) > 0)
		ok(strstr(words((struct starter_options){ 0 }), self) != NULL,
		   "this program's path");
}

static void test_end(void)
{
	struct starter_options how = { .shell = "sh -c cat;exec${IFS}sleep${IFS}100 --",
				       .ringup = "x" };
	int64_t start = clock_ns();
	struct starter s;
	struct err e = { 0 };
	pid_t pid;

	ok(!starter_begin(&s, &how, "n1", &e), "begun: %s", e.text);
	pid = s.pid;
	starter_hang_up(&s);
	starter_end(&s, clock_deadline(100));
	ok(kill(-pid, 0) && errno == ESRCH && !s.pid, "nothing is left of it");
	ok(clock_ns() - start < 20000000000ll, "though it would have stayed");
	how.shell = "/does/not/exist";
	ok(starter_begin(&s, &how, "n1", &e) < 0 && strstr(e.text, "/does/not/exist"),
	   "a command that is not there is named");
	starter_end(&s, 0);
}

int main(void)
{
	test_words();
	test_end();
	return tap_done();
}
