/* test_identity.c - one host is one host, another namespace is another. */
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/identity.h"
#include "tap.h"

int main(void)
{
	unsigned char a[IDENTITY_BYTES], b[IDENTITY_BYTES] = { 0 };
	int pipe_fd[2], status;
	pid_t child;

	identity_get(a, "");
	identity_get(b, "");
	ok(!memcmp(a, b, sizeof(a)), "the same twice");
	identity_get(b, "n1");
	ok(memcmp(a, b, sizeof(a)) != 0, "a node with a name is another host than one without");
	identity_get(a, "n2");
	ok(memcmp(a, b, sizeof(a)) != 0, "nodes with different names are different hosts");
	identity_get(a, "n1");
	ok(!memcmp(a, b, sizeof(a)), "nodes of one name are one host");
	identity_get(a, "");
	if (pipe(pipe_fd))
		return 1;
	child = fork();
	if (child == 0) {
		if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
			_exit(77);
		identity_get(b, "");
		_exit(write(pipe_fd[1], b, sizeof(b)) != sizeof(b));
	}
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		printf("ok %d - another network namespace # SKIP none can be made here\n",
		       ++tap_count);
		return tap_done();
	}
	ok(read(pipe_fd[0], b, sizeof(b)) == sizeof(b) && memcmp(a, b, sizeof(a)),
	   "another network namespace is another host");
	return tap_done();
}
