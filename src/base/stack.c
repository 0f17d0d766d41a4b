/* stack.c - stacks that are large enough, whatever `ulimit -s` says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stack.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#include "ringup.h"

/* makecontext(3) passes nothing but int. */
static struct {
	int (*program)(int argc, char **argv);
	int argc, status;
	char **argv;
} run;

static void enter(void)
{
	run.status = run.program(run.argc, run.argv);
}

static bool is_below(rlim_t bytes, struct rlimit *r)
{
	return !getrlimit(RLIMIT_STACK, r) && r->rlim_cur != RLIM_INFINITY &&
	       r->rlim_cur < bytes;
}

int stack_run(int (*program)(int argc, char **argv), int argc, char **argv)
{
	static ucontext_t back, there;
	size_t guard = (size_t)sysconf(_SC_PAGESIZE);
	struct rlimit r;
	char *stack;

	if (!is_below(STACK_BYTES, &r))
		return program(argc, argv);
	/* The limit is unchanged, because child programs inherit it. */
	stack = mmap(NULL, guard + STACK_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED || mprotect(stack, guard, PROT_NONE) || getcontext(&there))
		return program(argc, argv);
	there.uc_stack.ss_sp = stack + guard;
	there.uc_stack.ss_size = STACK_BYTES;
	there.uc_link = &back;
	run.program = program;
	run.argc = argc;
	run.argv = argv;
	makecontext(&there, enter, 0);
	if (swapcontext(&back, &there))
		return program(argc, argv);
	return run.status;
}

int stack_check(struct err *e)
{
	struct rlimit r;

	if (!is_below(STACK_LEAST_BYTES, &r))
		return 0;
	return fail(e, RINGUP_ESYSTEM,
		    "the stack of this process may grow to %llu KiB, and ringup needs %d: "
		    "raise the limit before "
		    "the program starts (ulimit -s 8192)",
		    (unsigned long long)r.rlim_cur >> 10, STACK_LEAST_BYTES >> 10);
}
