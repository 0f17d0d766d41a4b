/* test_forks.c - a child knows that it is one. */
#include <sys/wait.h>
#include <unistd.h>

#include "base/forks.h"
#include "tap.h"

static int called;

static void hook(void *arg)
{
	called += *(int *)arg;
}

int main(void)
{
	struct forks_hook a, b, none = { 0 };
	int one = 1, ten = 10;
	uint32_t born = forks_count();
	int status;
	pid_t child;

	ok(forks_count() == born, "no fork, no change");
	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(forks_count() == born + 1 ? 0 : 1);
	waitpid(child, &status, 0);
	ok(status == 0, "a child counts one more");
	ok(forks_count() == born, "its parent does not");
	a = (struct forks_hook){ .fn = hook, .arg = &one };
	b = (struct forks_hook){ .fn = hook, .arg = &ten };
	forks_add(&a);
	forks_add(&b);
	forks_remove(&a);
	forks_remove(&none);
	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(called);
	waitpid(child, &status, 0);
	ok(WEXITSTATUS(status) == 10 && !called, "hooks run in the child, removed ones do not");
	forks_remove(&b);
	return tap_done();
}
