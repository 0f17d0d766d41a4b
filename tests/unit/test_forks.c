/* test_forks.c - a child knows that it is one. */
#include <sys/wait.h>
#include <unistd.h>

#include "base/forks.h"
#include "tap.h"

int main(void)
{
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
	return tap_done();
}
