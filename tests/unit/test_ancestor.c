/* test_ancestor.c - a launcher is found behind a wrapper, and ours is no business. */
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"
#include "wire/ancestor.h"

/* In a grandchild of a process called @name: is that the launcher? */
static int found_behind(const char *name)
{
	pid_t top, pid;
	int status;

	top = fork();
	if (top) {
		waitpid(top, &status, 0);
		return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	}
	prctl(PR_SET_NAME, name);
	top = getpid();
	pid = fork();
	if (!pid) {
		prctl(PR_SET_NAME, "sh");
		pid = fork();
		if (!pid) {
			struct pidstat p;

			pid = ancestor_launcher(&p);
			_exit(pid == top && !strcmp(p.name, name) ? 1 : 0);
		}
	}
	waitpid(pid, &status, 0);
	_exit(WEXITSTATUS(status));
}

int main(void)
{
	ok(found_behind("mpirun") == 1, "mpirun");
	ok(found_behind("orted") == 1, "its daemon");
	ok(found_behind("hydra_pmi_proxy") == 1, "Hydra's proxy");
	ok(found_behind("ringup") == 0, "ringup run kills its ranks itself");
	ok(found_behind("bash") == 0, "a shell is no launcher");
	return tap_done();
}
