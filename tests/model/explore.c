/* explore.c - run a few threads of real code through all their interleavings. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "model/explore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum {
	WORDS = 64,     /* atomic words that a run may touch             */
	KEPT = 12,      /* stores to a word that can still be read       */
	CHOICES = 4096, /* of one run                                    */
	STEPS = 100000, /* of one run; more is endless                   */
	EVENTS = 120,   /* last steps that are told of a bug             */
	QUIET = 12,     /* looks in a row without a write: no more switches */
	STUCK = 3000,   /* so many: it waits for others                  */
	PATIENCE = 60,  /* waits that end by themselves: bounded loops   */
	STACK = 256 * 1024,
};

/* What a thread knows: of each word, the number of the oldest store that it may
 * still read. */
struct view {
	uint32_t at[WORDS];
};

struct store {
	uint64_t value;
	struct view view; /* what its reader learns */
};

/* A word and the stores to it: number n lies in kept[n % KEPT]. */
struct word {
	const void *at;
	size_t size;
	uint32_t end; /* the number of the next store */
	struct store kept[KEPT];
};

enum state { READY, ASLEEP, LOOKING, ENDED };

struct thread {
	ucontext_t context;
	enum state state;
	const void *on;       /* the word it sleeps on                          */
	int quiet;            /* looks since anybody has written                */
	int patience;         /* looks that it may still take in vain           */
	uint64_t seen_writes; /* of the last of them                            */
	struct view now;      /* what it knows                                  */
	struct view acquired; /* what an acquire fence would teach it           */
	struct view released; /* what it knew at its last release fence         */
};

struct event {
	int thread;
	const char *what;
	int word;
	uint64_t value;
};

static const struct explore *task;
static struct thread thread[EXPLORE_THREADS];
static struct word words[WORDS];
static const void *where[WORDS]; /* each word's address, side by side for the search */
static int word_count;
static struct view fenced, strong; /* known to all SC fences, by all SC accesses */
static ucontext_t home;
static int current; /* the thread that runs */
static int preemptions, stale;
static uint64_t writes;
static long steps;
static char bug[160];

/* The decisions of this run: those up to choice_count are to be repeated. */
static struct {
	short taken, of;
} choice[CHOICES];
static int choice_at, choice_count;

static struct event events[EVENTS];
static long event_count;
static struct {
	const void *at;
	const char *name;
} names[64];
static int name_count;

static const char *name_of(const void *at)
{
	static char text[32];
	int i;

	for (i = 0; i < name_count; i++)
		if (names[i].at == at)
			return names[i].name;
	snprintf(text, sizeof(text), "%p", at);
	return text;
}

void explore_name(const void *word, const char *name)
{
	int i;

	for (i = 0; i < name_count && names[i].at != word; i++)
		;
	if (i == 64)
		return;
	names[i].at = word;
	names[i].name = name;
	name_count += i == name_count;
}

static void note(const char *what, int word, uint64_t value)
{
	events[event_count++ % EVENTS] = (struct event){ current, what, word, value };
}

static void tell_events(void)
{
	long i = event_count > EVENTS ? event_count - EVENTS : 0;

	for (; i < event_count; i++) {
		const struct event *v = &events[i % EVENTS];

		printf("#   %*s%d: %s %s %llu\n", 4 * v->thread, "", v->thread, v->what,
		       v->word < 0 ? "" : name_of(words[v->word].at),
		       (unsigned long long)v->value);
	}
}

/* ---- decisions ---- */

/* The run is over: nothing returns from here, stacks are simply used again. */
static void stop_run(const char *why)
{
	if (!*bug)
		snprintf(bug, sizeof(bug), "%s", why);
	setcontext(&home);
	abort();
}

void explore_require(bool good, const char *why)
{
	if (good)
		return;
	snprintf(bug, sizeof(bug), "%s", why);
	if (current >= 0)
		stop_run(why);
}

static int choose(int of)
{
	int at = choice_at;

	if (of <= 1)
		return 0;
	if (at == CHOICES)
		stop_run("too many decisions in one run");
	choice_at++;
	if (at < choice_count) {
		if (choice[at].of != of)
			stop_run("the same decisions led elsewhere");
		return choice[at].taken;
	}
	choice[at].taken = 0;
	choice[at].of = (short)of;
	choice_count++;
	return 0;
}

/* The last decision that can be taken otherwise; false if there is none. */
static bool next_run(void)
{
	while (choice_count &&
	       choice[choice_count - 1].taken + 1 == choice[choice_count - 1].of)
		choice_count--;
	if (!choice_count)
		return false;
	choice[choice_count - 1].taken++;
	return true;
}

/* Nobody can go on, unless one that looks has a limit to how often it does. */
static int look_again(int *able)
{
	int i, asleep = 0, looking = 0;

	for (i = 0; i < task->threads; i++) {
		asleep += thread[i].state == ASLEEP;
		looking += thread[i].state == LOOKING;
		if (thread[i].state != LOOKING || thread[i].patience-- <= 0)
			continue;
		thread[i].state = READY;
		*able = i;
		return 1;
	}
	if (asleep)
		stop_run("a thread sleeps and nobody wakes it");
	if (looking)
		stop_run("a thread waits for what never comes");
	setcontext(&home);
	return 0;
}

/* Somebody goes on: the current thread, or, if that costs nothing or may be
 * afforded, another. */
static void schedule(void)
{
	int able[EXPLORE_THREADS], n = 0, i, was = current;
	bool can_stay = thread[was].state == READY;

	if (++steps > STEPS)
		stop_run("endless");
	if (can_stay)
		able[n++] = was;
	if (!can_stay || (preemptions && thread[was].quiet <= QUIET))
		for (i = 0; i < task->threads; i++)
			if (i != was && thread[i].state == READY)
				able[n++] = i;
	if (!n)
		n = look_again(able);
	current = able[choose(n)];
	if (current == was)
		return;
	preemptions -= can_stay;
	swapcontext(&thread[was].context, &thread[current].context);
}

/* ---- memory ---- */

static uint64_t raw_load(const void *p, size_t size)
{
	uint64_t v = 0;

	/* Little-endian, as the library asks for. */
	memcpy(&v, p, size);
	return v;
}

static void join(struct view *a, const struct view *b)
{
	int i;

	for (i = 0; i < word_count; i++)
		if (b->at[i] > a->at[i])
			a->at[i] = b->at[i];
}

static struct store *newest(struct word *w)
{
	return &w->kept[(w->end - 1) % KEPT];
}

static int word_of(const void *p, size_t size)
{
	struct word *w;
	int i;

	for (i = 0; i < word_count && where[i] != p; i++)
		;
	w = &words[i];
	if (i == word_count) {
		if (i == WORDS)
			stop_run("too many words");
		word_count++;
		w->at = where[i] = p;
		w->size = size;
		w->end = 1;
		memset(&w->kept[0].view, 0, sizeof(w->kept[0].view));
		w->kept[0].value = raw_load(p, size);
	}
	/* A plain store has come between: it is as if all had known of it. */
	newest(w)->value = raw_load(p, size);
	return i;
}

static bool is_acquire(int order)
{
	return order == __ATOMIC_ACQUIRE || order == __ATOMIC_ACQ_REL ||
	       order == __ATOMIC_SEQ_CST || order == __ATOMIC_CONSUME;
}

static bool is_release(int order)
{
	return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL ||
	       order == __ATOMIC_SEQ_CST;
}

static int order_of(const void *p, int order)
{
	return p == task->weak ? __ATOMIC_RELAXED : order;
}

/* The current thread reads store number @n of word @i. */
static uint64_t read_store(int i, uint32_t n, int order)
{
	struct thread *t = &thread[current];
	const struct store *s = &words[i].kept[n % KEPT];

	t->now.at[i] = n;
	if (is_acquire(order))
		join(&t->now, &s->view);
	join(&t->acquired, &s->view);
	return s->value;
}

static void write_store(int i, uint64_t value, int order, const struct view *passed_on)
{
	struct thread *t = &thread[current];
	struct word *w = &words[i];
	bool same = value == newest(w)->value;
	struct store *s;
	int k;

	if (w->at == task->lost)
		return;
	s = &w->kept[w->end % KEPT];
	t->now.at[i] = w->end;
	s->value = value;
	s->view = is_release(order) ? t->now : t->released;
	s->view.at[i] = w->end;
	if (passed_on)
		join(&s->view, passed_on);
	if (order == __ATOMIC_SEQ_CST)
		strong.at[i] = w->end;
	w->end++;
	memcpy((void *)(uintptr_t)w->at, &value, w->size);
	/* To take a lock that is taken is no more than to look at it. */
	writes += !same;
	for (k = 0; k < task->threads && !same; k++)
		if (thread[k].state == LOOKING) {
			thread[k].state = READY;
			thread[k].quiet = 0;
			thread[k].patience = PATIENCE;
		}
}

/* Who only looks gives way, and waits once it has looked long enough. */
static void look_on(void)
{
	struct thread *t = &thread[current];

	if (t->seen_writes != writes)
		t->quiet = 0;
	t->seen_writes = writes;
	if (t->quiet++ < STUCK)
		return;
	t->state = LOOKING;
	schedule();
}

uint64_t explore_load(const void *p, size_t size, int order)
{
	uint32_t oldest, back;
	struct thread *t;
	struct word *w;
	uint64_t v;
	int i;

	if (current < 0)
		return raw_load(p, size);
	t = &thread[current];
	look_on();
	schedule();
	order = order_of(p, order);
	i = word_of(p, size);
	w = &words[i];
	oldest = t->now.at[i];
	if (order == __ATOMIC_SEQ_CST && strong.at[i] > oldest)
		oldest = strong.at[i];
	if (w->end > KEPT && oldest < w->end - KEPT)
		oldest = w->end - KEPT;
	back = stale && t->quiet <= QUIET ? (uint32_t)choose((int)(w->end - oldest)) : 0;
	stale -= back > 0;
	v = read_store(i, w->end - 1 - back, order);
	note(back ? "load outdated" : "load", i, v);
	return v;
}

void explore_store(void *p, size_t size, uint64_t value, int order)
{
	int i;

	if (current < 0) {
		memcpy(p, &value, size);
		return;
	}
	schedule();
	i = word_of(p, size);
	write_store(i, value, order_of(p, order), NULL);
	note("store", i, value);
}

static uint64_t result_of(char op, uint64_t was, uint64_t operand)
{
	switch (op) {
	case '+':
		return was + operand;
	case '-':
		return was - operand;
	case '|':
		return was | operand;
	case '&':
		return was & operand;
	default:
		return operand;
	}
}

/* A read-modify-write reads the newest; what the store before it has released
 * is passed on. */
static uint64_t modify(int i, char op, uint64_t operand, int order)
{
	struct word *w = &words[i];
	const struct view passed = newest(w)->view;
	uint64_t was = read_store(i, w->end - 1, order), mask = ~(uint64_t)0;

	if (w->size < 8)
		mask = ((uint64_t)1 << 8 * w->size) - 1;
	if (w->at == task->torn)
		schedule();
	write_store(i, result_of(op, was, operand) & mask, order, &passed);
	return was;
}

uint64_t explore_rmw(void *p, size_t size, char op, uint64_t operand, int order)
{
	uint64_t was;
	int i;

	if (current < 0) {
		was = raw_load(p, size);
		operand = result_of(op, was, operand);
		memcpy(p, &operand, size);
		return was;
	}
	look_on();
	schedule();
	i = word_of(p, size);
	was = modify(i, op, operand, order_of(p, order));
	note("modify", i, was);
	return was;
}

bool explore_cas(void *p, size_t size, uint64_t *expected, uint64_t desired, int order,
		 int failed)
{
	uint64_t was;
	int i;

	if (current < 0) {
		was = raw_load(p, size);
		if (was != *expected) {
			*expected = was;
			return false;
		}
		memcpy(p, &desired, size);
		return true;
	}
	/* Trying again and again is no more than looking. */
	look_on();
	schedule();
	i = word_of(p, size);
	was = newest(&words[i])->value;
	if (was != *expected) {
		*expected = read_store(i, words[i].end - 1, order_of(p, failed));
		note("compare", i, was);
		return false;
	}
	modify(i, '=', desired, order_of(p, order));
	note("exchange", i, desired);
	return true;
}

static void full_fence(void)
{
	struct thread *t = &thread[current];

	join(&t->now, &t->acquired);
	join(&t->now, &fenced);
	fenced = t->now;
	t->released = t->now;
}

void explore_fence(int order)
{
	struct thread *t;

	if (current < 0 || task->no_fences)
		return;
	t = &thread[current];
	if (order == __ATOMIC_SEQ_CST) {
		full_fence();
		return;
	}
	if (is_acquire(order))
		join(&t->now, &t->acquired);
	if (is_release(order))
		t->released = t->now;
}

/* ---- the kernel's part; its own barriers make the word's value certain ---- */

void explore_futex_wait(const uint32_t *word, uint32_t seen, int64_t deadline_ns)
{
	int i;

	(void)deadline_ns;
	schedule();
	i = word_of(word, sizeof(*word));
	full_fence();
	note("sleep on", i, seen);
	if (newest(&words[i])->value != seen)
		return;
	thread[current].state = ASLEEP;
	thread[current].on = word;
	schedule();
	full_fence();
}

void explore_futex_wake(const uint32_t *word)
{
	int i;

	schedule();
	full_fence();
	note("wake", word_of(word, sizeof(*word)), 0);
	for (i = 0; i < task->threads; i++)
		if (thread[i].state == ASLEEP && thread[i].on == word) {
			thread[i].state = READY;
			thread[i].quiet = 0;
		}
}

/* A datagram socket, as far as somebody waits for it. */
static uint32_t knocks;

int explore_poll(struct pollfd *p, unsigned long n, int ms)
{
	explore_futex_wait(&knocks, 0, ms);
	p[n - 1].revents = POLLIN;
	return 1;
}

void explore_knock(void)
{
	explore_store(&knocks, sizeof(knocks), 1, __ATOMIC_SEQ_CST);
	explore_futex_wake(&knocks);
}

long explore_unknock(void)
{
	return explore_rmw(&knocks, sizeof(knocks), '=', 0, __ATOMIC_SEQ_CST) ? 1 : -1;
}

/* Nothing to do: once it is certain that there is nothing, wait for a write. */
void explore_idle(void)
{
	struct thread *t = &thread[current];

	if (t->seen_writes == writes && t->quiet > QUIET) {
		t->state = LOOKING;
		schedule();
	} else {
		t->seen_writes = writes;
		t->quiet = QUIET + 1;
	}
}

int explore_yield(void)
{
	if (current >= 0)
		explore_idle();
	return 0;
}

/* Time stands still: no deadline passes, and no yield takes long. */
int64_t explore_clock(void)
{
	return 0;
}

/* ---- runs ---- */

static void thread_main(int i)
{
	task->body(i);
	thread[i].state = ENDED;
	/* If another goes on, this one is never continued. */
	schedule();
}

static void prepare(void)
{
	static char *stacks;
	int i;

	if (!stacks)
		stacks = malloc((size_t)EXPLORE_THREADS * STACK);
	if (!stacks)
		abort();
	preemptions = task->preemptions;
	stale = task->stale;
	word_count = 0;
	choice_at = 0;
	steps = 0;
	event_count = 0;
	writes = 0;
	knocks = 0;
	memset(&fenced, 0, sizeof(fenced));
	memset(&strong, 0, sizeof(strong));
	for (i = 0; i < task->threads; i++) {
		struct thread *t = &thread[i];

		t->state = READY;
		t->quiet = 0;
		t->patience = PATIENCE;
		t->seen_writes = 0;
		memset(&t->now, 0, sizeof(t->now));
		memset(&t->acquired, 0, sizeof(t->acquired));
		memset(&t->released, 0, sizeof(t->released));
		getcontext(&t->context);
		t->context.uc_stack.ss_sp = stacks + (size_t)i * STACK;
		t->context.uc_stack.ss_size = STACK;
		t->context.uc_link = &home;
		makecontext(&t->context, (void (*)(void))thread_main, 1, i);
	}
}

static void run_once(void)
{
	current = -1;
	task->reset();
	prepare();
	/* Whoever begins is the first decision, and costs nothing. */
	current = choose(task->threads);
	swapcontext(&home, &thread[current].context);
	current = -1;
	if (!*bug && task->check)
		task->check();
}

struct explored explore_run(const struct explore *x, bool tell)
{
	struct explored out = { 0 };
	long most = x->runs ? x->runs : 1000000;

	task = x;
	choice_count = 0;
	*bug = 0;
	do {
		run_once();
		out.runs++;
	} while (!*bug && next_run() && out.runs < most);
	out.all = !*bug && !choice_count;
	snprintf(out.bug, sizeof(out.bug), "%s", bug);
	if (*bug && tell)
		tell_events();
	return out;
}
