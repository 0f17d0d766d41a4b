/* test_quiet.c - what a step of a training asks of the system: nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "asks.h"
#include "family.h"
#include "rounds.h"
#include "tap.h"

/*
 * Once all is as it was the last time, starting an operation allocates nothing and calls
 * nobody, nor does finishing one that others have come to.  Who waits may sleep or give way;
 * who comes last to what the ranks carry out together may wake the others.
 */

enum { RANKS = 2, TENSORS = 16, WARM = ROUNDS_SANITIZED ? 4 : 40, ROUNDS = 200 / ROUNDS_LESS };

/* Sanitizers do both themselves; allocations are counted where the C library lets us. */
#if ROUNDS_SANITIZED
#define INSTRUMENTED
#elif defined(__GLIBC__)
#define COUNTED
#endif

/* What this thread may do. */
enum rule { ANYTHING, NOTHING, WAKE, WAIT };

static _Thread_local enum rule rule;
static _Thread_local int allocations, calls, yields, call;
static int gave_way; /* in so many rounds */

/* ---- allocations ---- */

#ifdef COUNTED
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *p);

void *malloc(size_t size)
{
	allocations += rule != ANYTHING;
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	allocations += rule != ANYTHING;
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	allocations += rule != ANYTHING;
	return __libc_realloc(p, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	allocations += rule != ANYTHING;
	return __libc_memalign(align, size);
}

void free(void *p)
{
	allocations += p && rule != ANYTHING;
	__libc_free(p);
}
#endif

/* ---- system calls ---- */

#if defined(INSTRUMENTED)
#elif defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
__asm__(".text\n"
	"quiet_gate:\n"
	"	mov %rdi, %rax\n"
	"	mov (%rsi), %rdi\n"
	"	mov 16(%rsi), %rdx\n"
	"	mov 24(%rsi), %r10\n"
	"	mov 32(%rsi), %r8\n"
	"	mov 40(%rsi), %r9\n"
	"	mov 8(%rsi), %rsi\n"
	"	syscall\n"
	"quiet_gate_end:\n"
	"	ret\n");
static void registers(ucontext_t *u, long *args, greg_t **result)
{
	static const int at[] = { REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9 };
	int i;

	for (i = 0; i < 6; i++)
		args[i] = u->uc_mcontext.gregs[at[i]];
	*result = &u->uc_mcontext.gregs[REG_RAX];
}
typedef greg_t word;
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
__asm__(".text\n"
	"quiet_gate:\n"
	"	mov x8, x0\n"
	"	mov x9, x1\n"
	"	ldp x0, x1, [x9]\n"
	"	ldp x2, x3, [x9, #16]\n"
	"	ldp x4, x5, [x9, #32]\n"
	"	svc #0\n"
	"quiet_gate_end:\n"
	"	ret\n");
typedef unsigned long long word;
static void registers(ucontext_t *u, long *args, word **result)
{
	int i;

	for (i = 0; i < 6; i++)
		args[i] = (long)u->uc_mcontext.regs[i];
	*result = &u->uc_mcontext.regs[0];
}
#endif

#ifdef ARCH
long quiet_gate(long nr, const long *args);
extern const char quiet_gate_end[];

static bool is_allowed(int nr)
{
	switch (nr) {
	case SYS_futex:
		return rule >= WAKE;
	case SYS_sched_getaffinity:
	case SYS_sched_setaffinity:
	case SYS_getcpu:
	case SYS_clock_gettime:
		return rule == WAIT;
	default:
		return false;
	}
}

/* Who finds a lock taken gives way to who has it: that is rare, and counted apart. */
static void count_call(int nr)
{
	if (rule == ANYTHING || is_allowed(nr))
		return;
	if (nr == SYS_sched_yield) {
		yields += rule != WAIT;
		return;
	}
	calls++;
	call = nr;
}

/* Count it, and then do what was asked for. */
static void on_call(int signal, siginfo_t *info, void *context)
{
	long args[6];
	word *result;

	(void)signal;
	count_call(info->si_syscall);
	registers(context, args, &result);
	*result = (word)quiet_gate(info->si_syscall, args);
}

/* From here on this thread's calls come to on_call(); false: that is not permitted. */
static bool catch_calls(void)
{
	const uint64_t gate = (uintptr_t)quiet_gate_end;
	struct sigaction act = { .sa_sigaction = on_call, .sa_flags = SA_SIGINFO };
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 0, 7),
		/* How a handler and a process end; and what signals it takes. */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 4, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, instruction_pointer)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)gate, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, instruction_pointer) + 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(gate >> 32), 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	return !sigaction(SIGSYS, &act, NULL) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
#else
static bool catch_calls(void)
{
	return false;
}
#endif

/* In a process that can be spared: are calls counted here, and still carried out? */
static bool can_catch(void)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (!catch_calls())
			_exit(1);
		rule = NOTHING;
		_exit(syscall(SYS_getpid) != getpid() || calls < 1 || call != SYS_getpid);
	}
	return waitpid(pid, &status, 0) == pid && !status;
}

/* ---- ranks ---- */

struct job {
	const char *what;
	int tensors;
	uint64_t count;
	bool small; /* then it travels with its announcement */
	bool recorded;
};

static const struct job jobs[] = {
	{ "a sum of 4 numbers", 1, 4, true, false },
	{ "a sum of 300 numbers", 1, 300, true, false },
	{ "16 tensors of 16 numbers together", TENSORS, 16, true, false },
	{ "a sum of 1 MiB", 1, 1 << 18, false, false },
	{ "16 tensors of 64 KiB together", TENSORS, 1 << 14, false, false },
	{ "a sum of 4 numbers, recorded", 1, 4, true, true },
	{ "16 tensors of 64 KiB together, recorded", TENSORS, 1 << 14, false, true },
};

static const struct job *job;
static float *v[TENSORS];

static int ask(struct ringup_group *g, struct ringup_op **opp)
{
	struct ringup_reduce a[TENSORS];
	int i;

	for (i = 0; i < job->tensors; i++)
		a[i] = (struct ringup_reduce)ASK_REDUCE(i ? NULL : "quiet", v[i], v[i],
							job->count, .dtype = RINGUP_F32);
	return job->tensors > 1 ? ringup_allreduce_many(g, a, job->tensors, opp)
				: ringup_allreduce(g, a, opp);
}

static int bad; /* what this rank found wrong */

enum { ALLOCATES = 1, CALLS = 2, WRONG = 4 };

static void check(bool cond, const char *what)
{
	if (cond)
		return;
	printf("# rank %d: %s: %s (%s)\n", family_rank, job->what, what, ringup_error());
	bad |= WRONG;
}

static void watch(enum rule what)
{
	allocations = calls = 0;
	rule = what;
}

static void unwatch(const char *what, bool warm)
{
	rule = ANYTHING;
	if (warm && allocations) {
		printf("# rank %d: %s: %s: %d allocations\n", family_rank, job->what, what,
		       allocations);
		bad |= ALLOCATES;
	}
	if (warm && calls) {
		printf("# rank %d: %s: %s: %d system calls, the last is number %d\n",
		       family_rank, job->what, what, calls, call);
		bad |= CALLS;
	}
}

/* Each rank says how far it is; the other waits for that without the library. */
static void reach(int where)
{
	__atomic_store_n(&family->note[family_rank], where, __ATOMIC_RELEASE);
}

static void await(int where)
{
	while (__atomic_load_n(&family->note[!family_rank], __ATOMIC_ACQUIRE) < where)
		usleep(50);
}

static void fill(void)
{
	uint64_t k;
	int i;

	for (i = 0; i < job->tensors; i++)
		for (k = 0; k < job->count; k++)
			v[i][k] = (float)(family_rank + i + 1);
}

static bool is_summed(void)
{
	uint64_t k;
	int i;

	for (i = 0; i < job->tensors; i++)
		for (k = 0; k < job->count; k++)
			if (v[i][k] != (float)(3 + 2 * i))
				return false;
	return true;
}

/* One rank is there before the other, by turns: so the other finds all that it needs, and
 * what it does is not waiting.  It may wait at once, or later. */
static void early_and_late(struct ringup_group *g)
{
	struct ringup_op *op;
	bool early, warm;
	int round, rc;

	for (round = 0; round < WARM + ROUNDS; round++) {
		early = round % 2 == family_rank;
		warm = round >= WARM;
		op = NULL;
		yields = 0;
		fill();
		if (!early)
			await(3 * round + 1);
		watch(early || job->small ? NOTHING : WAKE);
		rc = ask(g, early || !job->small || round / 2 % 2 ? &op : NULL);
		unwatch(early ? "started" : "started, or done at once", warm);
		check(!rc, "start");
		reach(3 * round + 1);
		if (early)
			await(3 * round + 1);
		watch(job->small ? NOTHING : WAIT);
		while (op && !ringup_poll(op))
			;
		rc = op ? ringup_wait(op, -1) : 0;
		unwatch("polled and waited for", warm);
		check(!rc && is_summed(), "result");
		gave_way += warm && yields;
		reach(3 * round + 3);
		await(3 * round + 3);
	}
}

/* As it comes: now and then one has to wait for the other. */
static void side_by_side(struct ringup_group *g)
{
	struct ringup_op *op;
	int round, rc;

	for (round = 0; round < WARM + ROUNDS; round++) {
		fill();
		op = NULL;
		watch(WAIT);
		rc = ask(g, round % 2 ? &op : NULL);
		rc = op && !rc ? ringup_wait(op, -1) : rc;
		unwatch("at the same time", round >= WARM);
		check(!rc && is_summed(), "result");
	}
}

static bool catching;
static char timeline[64]; /* "%r" is the rank */

static void remove_timelines(void)
{
	char path[64];
	int r;

	for (r = 0; r < RANKS; r++) {
		snprintf(path, sizeof(path), "%s", timeline);
		path[strlen(path) - 2] = (char)('0' + r);
		path[strlen(path) - 1] = 0;
		unlink(path);
	}
}

static int body(void)
{
	struct ringup *r;
	int i;

	for (i = 0; i < job->tensors; i++)
		v[i] = malloc(job->count * sizeof(*v[i]));
	if (job->recorded)
		setenv("RINGUP_TIMELINE", timeline, 1);
	if (family_join(&r))
		return WRONG;
	if (catching && !catch_calls())
		bad |= WRONG;
	early_and_late(ringup_world(r));
	/* Whose lock it waits for may have lost its processor: once, not each time. */
	if (gave_way > ROUNDS / 4) {
		printf("# rank %d: %s: gave way in %d rounds\n", family_rank, job->what,
		       gave_way);
		bad |= CALLS;
	}
	side_by_side(ringup_world(r));
	ringup_fini(r);
	for (i = 0; i < job->tensors; i++)
		free(v[i]);
	return bad;
}

int main(void)
{
#ifdef COUNTED
	const char *unseen = "";
#else
	const char *unseen = " # SKIP this build cannot count them";
#endif
	char dir[] = "/tmp/ringup-quiet-XXXXXX";
	int status[RANKS], found, r;
	size_t k;

	if (!mkdtemp(dir))
		return 1;
	snprintf(timeline, sizeof(timeline), "%s/t.%%r", dir);
	catching = can_catch();
	for (k = 0; k < sizeof(jobs) / sizeof(*jobs); k++) {
		job = &jobs[k];
		family_run(RANKS, body, status);
		for (found = r = 0; r < RANKS; r++)
			found |= WIFEXITED(status[r]) ? WEXITSTATUS(status[r]) : WRONG;
		family_end();
		ok(!(found & WRONG), "%s", job->what);
		ok(!(found & ALLOCATES), "%s: nothing is allocated%s", job->what, unseen);
		ok(!(found & CALLS), "%s: nobody is called%s", job->what,
		   catching ? "" : " # SKIP no system calls can be counted here");
	}
	remove_timelines();
	rmdir(dir);
	return tap_done();
}
