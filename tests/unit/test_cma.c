/* test_cma.c - another process's memory: found, refused, ended, not there. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"
#include "wire/cma.h"

enum { PAGE = 4096, PAGES = 40 };

static uint64_t at_of(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

/* A child that has what this process had, until it is killed. */
static pid_t sleeper(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* Does the kernel let a nobody reach into us?  0 if not, as it should be. */
static int as_nobody(const struct cma *r)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(setgid(65534) || setuid(65534) ? 2 : cma_try(r));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void between(unsigned char *p)
{
	static unsigned char back[PAGES * PAGE];
	struct cma theirs;
	pid_t pid = sleeper();
	int i;

	cma_self(&theirs);
	theirs.pid = pid;
	ok(cma_try(&theirs), "a child has the same word at the same place");
	for (i = 0; i < PAGES * PAGE; i++)
		p[i] = (unsigned char)(i * 7 + i / 251);
	ok(!cma_write(pid, at_of(p) + 5, p + 5, PAGES * PAGE - 9) &&
		   !cma_read(pid, back, at_of(p), PAGES * PAGE),
	   "written there, and read again");
	ok(!memcmp(back + 5, p + 5, PAGES * PAGE - 9) && back[4] == 0 &&
		   back[PAGES * PAGE - 4] == 0,
	   "all of it, and no byte more");
	ok(!cma_write(pid, at_of(p), p, 0) && !cma_read(pid, back, 1, 0), "nothing is done");
	munmap(p + (PAGES - 1) * PAGE, PAGE);
	ok(cma_read(getpid(), back, at_of(p), PAGES * PAGE) == EFAULT,
	   "a page is missing: known");
	ok(!cma_mine(p, PAGES * PAGE) && cma_mine(p, (PAGES - 1) * PAGE),
	   "nor is such memory lent");
	end(pid);
	ok(cma_read(pid, back, at_of(p), PAGE) == ESRCH &&
		   cma_write(pid, at_of(p), back, PAGE) == ESRCH && !cma_try(&theirs),
	   "who has ended is not there");
}

int main(void)
{
	unsigned char *p = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct cma mine, other;

	ok(cma_self(&mine) && mine.pid == getpid() && cma_self(&other) &&
		   other.word == mine.word,
	   "a process has one word");
	if (!cma_try(&mine)) {
		printf("ok 2 - # SKIP this kernel or container forbids "
		       "process_vm_readv\n1..2\n");
		return 0;
	}
	ok(cma_try(&mine), "and finds it");
	other.word++;
	ok(!cma_try(&other), "another word is another process");
	other = (struct cma){ mine.pid, at_of(&other), 0 };
	ok(!cma_try(&other), "none is none");
	other = (struct cma){ mine.pid, 8, mine.word };
	ok(!cma_try(&other), "nor is what is not there");
	ok(cma_mine(NULL, 0) && !cma_mine(NULL, 1) && cma_mine(&mine, sizeof(mine)),
	   "what may be lent");
	if (geteuid())
		printf("ok %d - # SKIP only root can become another user\n", ++tap_count);
	else
		ok(as_nobody(&mine) == 0, "another user is refused");
	between(p);
	return tap_done();
}
