/* test_ruling.c - two looks at a job: whether it hangs, and because of which rank. */
#include <string.h>

#include "base/clock.h"
#include "hang/ruling.h"
#include "hang/say.h"

#include "tap.h"

/*
 * A look is a word for each rank, both looks alike but for what the second word says:
 *
 *   run     computes, outside all operations       sleep   the same, asleep
 *   wait:X  blocked in X, which ranks that are not in X have not started
 *   call:F  its stack shows that it is in the call F       at:F  in its own function F
 *   nap:F   the same, asleep between two looks of its own     woken:F  asleep, and was woken
 *   spin:F  the same, but the frames in its memory could not be compared
 *   meet    waits in the initialisation             before  has not reached it
 *   stop, gone, disk, mute                          fly:X   X is in flight, not awaited
 *   recv:N  waits for a message of rank N           +       has advanced since
 *   nccl:N  has launched N collectives              init    the communicator starts
 */
enum { WORDS = 10, ELAPSED_MS = 5000 };

static const char *is_word(const char *word, const char *what)
{
	size_t len = strlen(what);

	return !strncmp(word, what, len) ? word + len : NULL;
}

static int split(const char *text, char word[WORDS][64])
{
	int n = 0, used;

	while (n < WORDS && sscanf(text, " %63s%n", word[n], &used) == 1) {
		text += used;
		n++;
	}
	return n;
}

static void add_wait(struct look *l, int rank, const char *what, bool blocked,
		     char word[WORDS][64], int n, bool second)
{
	struct row_wait *w = look_wait(l, rank);

	w->blocked = blocked;
	w->since_ms = second ? 8000 : 3000;
	w->size = n;
	w->all_known = true;
	snprintf(w->what, sizeof(w->what), "%.100s", what);
	for (int r = 0; r < n; r++) {
		const char *in = is_word(word[r], "wait:");

		in = in ? in : is_word(word[r], "fly:");
		if (!in || strcmp(in, what) != 0)
			w->who[w->missing++] = r;
		else
			w->waiting++;
	}
}

static void add_count(struct look *l, int rank, uint64_t launched, bool starting)
{
	struct row_count *c = look_count(l, rank);

	snprintf(c->group, sizeof(c->group), "1f2e");
	snprintf(c->what, sizeof(c->what), "AllReduce");
	c->launched = launched;
	c->starting = starting;
}

static void set_word(struct look *l, struct row_rank *r, const char *w, bool second)
{
	const char *of;

	if (!strcmp(w, "gone"))
		r->state = ROW_GONE;
	else if (!strcmp(w, "stop"))
		r->state = ROW_STOPPED;
	else if (!strcmp(w, "disk"))
		r->state = ROW_DISK;
	else if (!strcmp(w, "mute"))
		r->state = ROW_SILENT;
	else if (!strcmp(w, "unseen"))
		r->state = ROW_UNSEEN;
	else if (!strcmp(w, "meet"))
		r->phase = ROW_MEETING;
	else if (!strncmp(w, "before", 6))
		r->phase = ROW_BEFORE;
	else if ((of = is_word(w, "call:")) || (of = is_word(w, "spin:")) ||
		 (of = is_word(w, "nap:")) || (of = is_word(w, "woken:"))) {
		r->print = *w != 's' ? 7 : 0;
		r->asleep = *w == 'n' || *w == 'w';
		r->switches = second ? 900 : 100;
		r->cpu_ms = second ? 100 : 0;
		snprintf(r->doing, sizeof(r->doing), "%s",
			 *w == 'n' ? "clock_nanosleep" : "poll");
		snprintf(r->call, sizeof(r->call), "%.50s", of);
		snprintf(r->where, sizeof(r->where), "main (%.50s)", of);
		snprintf(r->frame, sizeof(r->frame), "main");
	} else if ((of = is_word(w, "at:"))) {
		snprintf(r->where, sizeof(r->where), "%.50s", of);
		snprintf(r->frame, sizeof(r->frame), "%.*s", (int)strcspn(of, ","), of);
	}
	if (strstr(w, "sleep") || strstr(w, "before:asleep"))
		r->asleep = true;
	else if (second && r->state == ROW_ALIVE && !r->asleep)
		r->cpu_ms += ELAPSED_MS;
	if (strstr(w, "io") == w && second)
		r->io_bytes = 10 << 20;
	if (second && strchr(w, '+'))
		r->progress++;
	l->has_stack |= *r->where != 0;
}

static void make(struct look *l, const char *text, bool second)
{
	char word[WORDS][64];
	int n = split(text, word);
	const char *of;

	memset(l, 0, sizeof(*l));
	l->size = n;
	for (int i = 0; i < n; i++) {
		struct row_rank *r = look_rank(l, i);

		r->pid = 100 + i;
		r->state = ROW_ALIVE;
		r->counts = true;
		set_word(l, r, word[i], second);
		if ((of = is_word(word[i], "nccl:")))
			add_count(l, i, strtoull(of, NULL, 10), false);
		else if (!strcmp(word[i], "init"))
			add_count(l, i, 0, true);
		if ((of = is_word(word[i], "wait:"))) {
			r->phase = ROW_BLOCKED;
			r->asleep = true;
			add_wait(l, i, of, true, word, n, second);
		} else if ((of = is_word(word[i], "fly:"))) {
			r->phase = ROW_FLYING;
			add_wait(l, i, of, false, word, n, second);
		} else if ((of = is_word(word[i], "recv:"))) {
			struct row_wait *w = look_wait(l, i);

			r->phase = ROW_BLOCKED;
			w->blocked = w->message = true;
			w->peer = atoi(of);
			snprintf(w->what, sizeof(w->what), "receive from rank %d", w->peer);
			w->since_ms = second ? 8000 : 3000;
		}
		l->has_page |= r->phase != ROW_UNKNOWN;
	}
}

/* "1,3" */
static void name_culprits(const struct ruling *r, char *out, size_t size)
{
	size_t at = 0;

	*out = 0;
	for (int i = 0; i < r->size; i++)
		if (r->culprit[i])
			at += (size_t)snprintf(out + at, size - at, "%s%d", at ? "," : "", i);
}

struct row {
	const char *name, *before, *now;
	enum ruling_kind kind;
	const char *culprits;
};

static const struct row table[] = {
	{ "a rank sleeps", "wait:a sleep wait:a", NULL, RULING_LATE, "1" },
	{ "a rank spins, and its stack stays", "wait:a at:spin wait:a", NULL, RULING_LATE,
	  "1" },
	{ "a rank computes: its stack moves", "wait:a at:f wait:a", "wait:a at:g wait:a",
	  RULING_SLOW, "" },
	{ "a rank spins on two lines of a function", "wait:a at:spin,1 wait:a",
	  "wait:a at:spin,2 wait:a", RULING_LATE, "1" },
	{ "a rank computes in main", "wait:a at:main,1 wait:a", "wait:a at:main,2 wait:a",
	  RULING_SLOW, "" },
	{ "a rank computes, and there is no stack", "wait:a run wait:a", NULL, RULING_UNSURE,
	  "" },
	{ "a rank writes a checkpoint", "wait:a io wait:a", NULL, RULING_SLOW, "" },
	{ "two ranks sleep: both are missing", "wait:a sleep sleep", NULL, RULING_LATE, "1,2" },
	{ "the waits are others", "wait:a sleep wait:a", "wait:b sleep wait:b", RULING_SLOW,
	  "" },
	{ "a rank advances", "wait:a run wait:a", "wait:a + wait:a", RULING_MOVES, "" },
	{ "nobody waits", "run run run", NULL, RULING_UNSURE, "" },
	{ "operations are in flight, and nobody waits", "fly:a fly:a run", NULL, RULING_SLOW,
	  "" },
	{ "a rank skipped one", "wait:a wait:b wait:a", NULL, RULING_ODD, "1" },
	{ "two ranks in two operations", "wait:a wait:b", NULL, RULING_APART, "" },
	{ "two against two", "wait:a wait:b wait:a wait:b", NULL, RULING_APART, "" },
	{ "all have started it", "wait:a wait:a wait:a", NULL, RULING_UNENDING, "" },
	{ "a circle of receives", "recv:1 recv:2 recv:0", NULL, RULING_CIRCLE, "0,1,2" },
	{ "a chain of receives ends in a sleeper", "recv:1 recv:2 sleep", NULL, RULING_LATE,
	  "2" },
	{ "one waits for a subgroup that waits for a sleeper", "wait:a recv:2 sleep wait:a",
	  NULL, RULING_LATE, "2" },
	{ "the only rank that can be late is on a host that was not sampled",
	  "wait:a unseen wait:a", NULL, RULING_LATE, "1" },
	{ "ranks wait in two operations, for each other and for one that was not sampled",
	  "wait:a wait:b unseen", NULL, RULING_UNSURE, "" },
	{ "a chain of receives ends at a rank that was not sampled", "recv:1 recv:2 unseen",
	  NULL, RULING_UNSURE, "" },
	{ "a process is gone", "wait:a gone wait:a", NULL, RULING_DEAD, "1" },
	{ "one is gone, one is late: missing beats late", "wait:a gone sleep", NULL,
	  RULING_DEAD, "1" },
	{ "one is gone, and the others end, too", "run gone run", NULL, RULING_UNSURE, "" },
	{ "a process is stopped", "wait:a stop wait:a", NULL, RULING_STOPPED, "1" },
	{ "it is stopped in one look only", "wait:a stop wait:a", "wait:b run wait:b",
	  RULING_SLOW, "" },
	{ "a process is in the kernel", "wait:a disk wait:a", NULL, RULING_DISK, "1" },
	{ "nobody waits for one in the kernel", "run disk run", NULL, RULING_UNSURE, "" },
	{ "a rank sleeps before the start", "meet before:asleep meet", NULL, RULING_INIT, "1" },
	{ "a rank computes before the start", "meet before meet", NULL, RULING_UNSURE, "" },
	{ "all wait in the start", "meet meet meet", NULL, RULING_UNSURE, "" },
	{ "MPI: one sleeps", "call:MPI_Allreduce at:load:sleep call:MPI_Allreduce", NULL,
	  RULING_LATE, "1" },
	{ "MPI: one sleeps, and the calls may be others",
	  "spin:MPI_Allreduce at:load:sleep spin:MPI_Allreduce", NULL, RULING_UNSURE, "" },
	{ "ranks that nap in the initialisation wake by themselves",
	  "nap:MPI_Init at:load:sleep nap:MPI_Init", NULL, RULING_LATE, "1" },
	{ "ranks that were woken have waited for something else",
	  "woken:MPI_Wait at:load:sleep woken:MPI_Wait", NULL, RULING_MOVES, "" },
	{ "MPI: another branch", "call:MPI_Allreduce call:MPI_Barrier call:MPI_Allreduce", NULL,
	  RULING_ODD, "1" },
	{ "MPI: two ranks, two branches", "call:MPI_Allreduce call:MPI_Barrier", NULL,
	  RULING_APART, "" },
	{ "MPI: all in the same call", "call:MPI_Bcast call:MPI_Bcast", NULL, RULING_UNENDING,
	  "" },
	{ "MPI: all receive", "call:MPI_Recv call:MPI_Recv", NULL, RULING_CIRCLE, "0,1" },
	{ "MPI: stacks change", "call:MPI_Bcast at:f", "at:f call:MPI_Bcast", RULING_MOVES,
	  "" },
	{ "MPI: nobody waits", "at:f at:f at:g", NULL, RULING_SLOW, "" },
	{ "NCCL: one is behind", "nccl:41 nccl:40 nccl:41 nccl:41", NULL, RULING_BEHIND, "1" },
	{ "NCCL: one is behind, and all advance", "nccl:138 nccl:136 nccl:138",
	  "nccl:259 nccl:257 nccl:259", RULING_MOVES, "" },
	{ "NCCL: one starts", "nccl:3 init nccl:3 nccl:3", NULL, RULING_INIT, "1" },
	{ "NCCL: one is silent, another behind", "nccl:5 mute nccl:5 nccl:3", NULL,
	  RULING_SILENT, "1" },
	{ "NCCL: all are level", "nccl:5 nccl:5", NULL, RULING_UNSURE, "" },
};

/* Two hosts of a job: a rank without a page on one, those that wait for it on the other. */
static void check_hosts(void)
{
	struct look l = { .size = 3, .has_page = true };

	for (int i = 0; i < 3; i++) {
		look_rank(&l, i)->state = i == 2 ? ROW_UNSEEN : ROW_ALIVE;
		look_find(&l, i)->phase = i ? ROW_UNKNOWN : ROW_MEETING;
	}
	look_compare(&l);
	ok(look_find(&l, 0)->phase == ROW_MEETING && look_find(&l, 1)->phase == ROW_BEFORE &&
		   look_find(&l, 2)->phase == ROW_UNKNOWN,
	   "a process without a page has not reached the initialisation");
	look_free(&l);
}

static void check_table(void)
{
	static struct ruling r;
	struct look before, now;
	char culprits[64], text[SAY_TEXT];

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct row *t = &table[i];

		make(&before, t->before, false);
		make(&now, t->now ? t->now : t->before, true);
		ruling_make(&r, &before, &now, ELAPSED_MS);
		name_culprits(&r, culprits, sizeof(culprits));
		say_ruling(&r, &now, ELAPSED_MS, text, sizeof(text));
		ok(r.kind == t->kind && !strcmp(culprits, t->culprits), "%s: %s, %s", t->name,
		   ruling_name(r.kind), *culprits ? culprits : "no rank");
		ok(*text && text[strlen(text) - 1] == '\n' &&
			   (r.status == 1) == (r.culprits > 0 || r.kind == RULING_APART),
		   "%s: it is said, and the status fits", t->name);
		look_free(&before);
		look_free(&now);
	}
}

/* Half of @n ranks are in another call than the others: as many of them are shown. */
static void check_shown(int n, int shown)
{
	static struct ruling r;
	struct look before, now;
	char words[512] = "", text[SAY_TEXT];
	const char *at = text;
	int lines = 0;

	for (int i = 0; i < n; i++)
		strcat(words, i % 2 ? "call:MPI_Bcast " : "call:MPI_Barrier ");
	make(&before, words, false);
	make(&now, words, true);
	ruling_make(&r, &before, &now, ELAPSED_MS);
	say_ruling(&r, &now, ELAPSED_MS, text, sizeof(text));
	while ((at = strstr(at, "\n  rank "))) {
		at++;
		lines++;
	}
	ok(r.kind == RULING_APART && lines == shown, "of %d ranks apart %d are shown", n,
	   lines);
	look_free(&before);
	look_free(&now);
}

/* 1,024 ranks wait in 32 communicators each, in all of which rank 700 is missing. */
static void check_many(void)
{
	static struct ruling r;
	struct look l[2] = { { 0 }, { 0 } };
	int64_t start, took;

	for (int k = 0; k < 2; k++) {
		l[k].size = 1024;
		l[k].has_page = true;
		for (int i = 0; i < 1024; i++) {
			struct row_rank *x = look_rank(&l[k], i);

			x->state = ROW_ALIVE;
			x->counts = x->asleep = true;
			x->phase = i == 700 ? ROW_OUTSIDE : ROW_BLOCKED;
			for (int c = 0; c < 32 && i != 700; c++) {
				struct row_wait *w = look_wait(&l[k], i);

				snprintf(w->group, sizeof(w->group), "group %d", c);
				snprintf(w->what, sizeof(w->what), "allreduce grad");
				w->blocked = w->all_known = true;
				w->since_ms = 5000;
				w->missing = 1;
				w->who[0] = 700;
			}
		}
	}
	start = clock_ns();
	ruling_make(&r, &l[0], &l[1], ELAPSED_MS);
	took = clock_ns() - start;
	ok(r.kind == RULING_LATE && r.culprits == 1 && r.culprit[700],
	   "1,024 ranks in 32 communicators: rank 700");
	printf("# it took %.1f ms\n", (double)took / 1e6);
	ok(took < 20 * INT64_C(50000000), "within a second, also on a machine that is loaded");
	look_free(&l[0]);
	look_free(&l[1]);
}

int main(void)
{
	check_table();
	check_shown(2, 2);
	check_shown(8, 8);
	check_shown(10, 8);
	check_hosts();
	check_many();
	return tap_done();
}
