/* test_pidstat.c - a process is known by its number and its start. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pidstat.h"
#include "tap.h"

int main(void)
{
	static const char env[] = "AB=1\0B=x=y\0EMPTY=\0LAST=cut";
	static const char line[] =
		"77 (a) R 1 (b) c) S 42 70 71 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9876 0 0";
	struct pidstat p, mine;
	pid_t child;

	ok(pidstat_parse(line, &p) == 0, "a line with a spiteful name parses");
	ok(p.pid == 77 && p.parent == 42 && p.session == 71 && p.start == 9876 &&
		   p.state == 'S',
	   "into its fields");
	ok(strcmp(p.name, "a) R 1 (b) c") == 0, "name: %s", p.name);
	ok(pidstat_parse("77 (cut off", &p) < 0, "half a line is none");
	ok(pidstat_parse("", &p) < 0, "nor is nothing");
	ok(pidstat_parse("x (y) S 1 2 3", &p) < 0, "nor a short one");
	ok(pidstat_parse(") 77 (", &p) < 0, "nor a reversed one");

	ok(pidstat_read(getpid(), &mine) == 0 && mine.pid == getpid() &&
		   mine.parent == getppid() && mine.session == getsid(0),
	   "of this process");
	ok(pidstat_is_alive(getpid(), mine.start), "which is alive");
	ok(!pidstat_is_alive(getpid(), mine.start + 1), "but not one that started later");
	child = fork();
	if (child == 0)
		_exit(0);
	siginfo_t gone;
	ok(waitid(P_PID, (id_t)child, &gone, WEXITED | WNOWAIT) == 0 &&
		   pidstat_read(child, &p) == 0 && p.state == 'Z',
	   "a dead child that nobody has waited for is a zombie");
	ok(!pidstat_is_alive(child, p.start), "and not alive");
	waitpid(child, NULL, 0);
	ok(pidstat_read(child, &p) < 0, "then it is gone");

	ok(!strcmp(pidstat_variable(env, sizeof(env) - 1, "B"), "x=y") &&
		   !*pidstat_variable(env, sizeof(env) - 1, "EMPTY") &&
		   !strcmp(pidstat_variable(env, sizeof(env) - 1, "LAST"), "cut"),
	   "variables of an environment");
	ok(!pidstat_variable(env, sizeof(env) - 1, "A") &&
		   !pidstat_variable(env, sizeof(env) - 1, "x") &&
		   !pidstat_variable(env, 0, "B"),
	   "and none that begins or ends alike");
	return tap_done();
}
