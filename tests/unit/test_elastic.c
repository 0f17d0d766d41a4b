/* test_elastic.c - an elastic job's decisions, step by step, without a process or a clock. */
#include "launch/elastic.h"

#include <stdio.h>
#include <string.h>

#include "ringup.h"
#include "tap.h"

static struct elastic x;
static int64_t now;
static char said[4096];

static void begin(struct elastic_options how, const char *hosts)
{
	struct hostlist l = { 0 };
	struct err e = { 0 };

	elastic_fini(&x);
	now = 1000000000;
	if (!how.start_ms)
		how.start_ms = 60000;
	if (!how.timeout_ms)
		how.timeout_ms = 600000;
	if (elastic_init(&x, &how, 7, &e) || hostlist_option(&l, hosts, 1, &e))
		printf("# %s\n", e.text);
	elastic_hosts(&x, &l, now);
	hostlist_fini(&l);
}

static void hosts_are(const char *hosts)
{
	struct hostlist l = { 0 };

	if (*hosts && hostlist_option(&l, hosts, 1, NULL))
		printf("# %s\n", hosts);
	elastic_hosts(&x, &l, now);
	hostlist_fini(&l);
}

static void say_members(const struct elastic_action *a)
{
	int i;

	for (i = 0; i < a->count; i++)
		snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s%d", i ? "," : "",
			 x.members[i]);
	snprintf(said + strlen(said), sizeof(said) - strlen(said), ") ");
}

/* All that it wants done, in few words: "start(0 h1/0)", "form1(0,1)", "end(1)". */
static const char *acts(void)
{
	struct elastic_action a;
	int64_t until;
	int n;

	*said = 0;
	for (n = 0; n < 100; n++) {
		char *at = said + strlen(said);
		size_t room = sizeof(said) - strlen(said);

		elastic_next(&x, now, &a, &until);
		if (a.act == ELASTIC_START)
			snprintf(at, room, "start(%d %s/%d) ", a.worker,
				 x.hosts[a.host].spec.name, x.workers[a.worker].slot);
		else if (a.act == ELASTIC_END)
			snprintf(at, room, "end(%d) ", a.worker);
		else if (a.act == ELASTIC_BREAK)
			snprintf(at, room, "break ");
		else if (a.act == ELASTIC_NOTICE)
			snprintf(at, room, "notice(%u) ", a.bits);
		else if (a.act == ELASTIC_SAY)
			snprintf(at, room, "say ");
		else if (a.act == ELASTIC_FORM)
			snprintf(at, room, "form%u(", x.generation), say_members(&a);
		else if (a.act == ELASTIC_DONE)
			snprintf(at, room, "done(%d) ", a.status);
		else
			break;
		if (a.act == ELASTIC_DONE)
			break;
	}
	if (*said)
		said[strlen(said) - 1] = 0;
	return said;
}

static bool are(const char *want)
{
	if (!strcmp(acts(), want))
		return true;
	printf("# got \"%s\"\n# not \"%s\"\n", said, want);
	return false;
}

static void arrive(int from, int to)
{
	for (; from <= to; from++)
		elastic_arrive(&x, from, LOBBY_STATE_UNKNOWN, now);
}

/* @n workers have met. */
static void met(struct elastic_options how, const char *hosts, int n)
{
	begin(how, hosts);
	acts();
	arrive(0, n - 1);
	acts();
}

static void after_ms(int64_t ms)
{
	now += ms * 1000000;
}

static void test_start(void)
{
	begin((struct elastic_options){ .np = 3, .min_np = 2, .reset_limit = -1 }, "a:2,b:1");
	ok(are("start(0 a/0) start(1 a/1) start(2 b/0)"), "one worker for each slot");
	arrive(0, 1);
	ok(are(""), "all that were started are waited for");
	arrive(2, 2);
	ok(are("form1(0,1,2)"), "then they are the first generation, in their order");
	ok(are(""), "and nothing else happens");
	begin((struct elastic_options){ .np = 2, .min_np = 1, .max_np = 2, .reset_limit = -1 },
	      "a:4");
	ok(are("start(0 a/0) start(1 a/1)"), "never more than were wanted");
	begin((struct elastic_options){ .np = 3,
					.min_np = 2,
					.reset_limit = -1,
					.discovers = true,
					.timeout_ms = 5000 },
	      "a:2");
	ok(are(""), "as many slots as were asked for have to be there first");
	hosts_are("a:2,b:2");
	ok(are("start(0 a/0) start(1 a/1) start(2 b/0) start(3 b/1)"),
	   "and then all are filled");
	begin((struct elastic_options){ .np = 3,
					.min_np = 2,
					.reset_limit = -1,
					.discovers = true,
					.timeout_ms = 5000 },
	      "a:2");
	acts();
	after_ms(5000);
	ok(are("done(1)"), "for so long and no longer");
	begin(
		(struct elastic_options){
			.np = 3, .min_np = 2, .start_ms = 3000, .reset_limit = -1 },
		"a:3");
	acts();
	arrive(0, 1);
	acts();
	after_ms(3000);
	ok(are("end(2) form1(0,1)"), "a worker that does not come is not waited for: %s", said);
}

static void test_lost(void)
{
	struct elastic_options how = { .np = 4, .min_np = 2, .reset_limit = -1 };

	met(how, "a:4", 4);
	elastic_exit(&x, 1, 137, now);
	ok(are("break start(4 a/1)"), "a worker is killed: its slot is filled again");
	elastic_arrive(&x, 0, LOBBY_STATE_UNKNOWN, now);
	elastic_arrive(&x, 3, LOBBY_STATE_UNKNOWN, now);
	ok(are(""), "all that are left are waited for");
	elastic_arrive(&x, 2, LOBBY_STATE_UNKNOWN, now);
	ok(are("form2(0,2,3)"), "those that were there meet at once, in their order");
	elastic_arrive(&x, 4, LOBBY_STATE_UNKNOWN, now);
	ok(are("notice(2)"), "the new one waits, and they are told");
	elastic_arrive(&x, 0, LOBBY_STATE_UNKNOWN, now);
	ok(are("break"), "they come when it suits them");
	arrive(2, 3);
	ok(are("form3(0,2,3,4)"), "and the new one is the last");
	elastic_exit(&x, 0, 137, now);
	acts();
	arrive(2, 4);
	ok(!strncmp(acts(), "form4(2,3,4)", 12), "rank 0 is one that was there: %s", said);

	met(how, "a:4", 4);
	elastic_exit(&x, 1, 137, now);
	acts();
	elastic_arrive(&x, 4, LOBBY_STATE_UNKNOWN, now);
	elastic_arrive(&x, 0, LOBBY_STATE_UNKNOWN, now);
	elastic_exit(&x, 2, 137, now);
	acts();
	elastic_arrive(&x, 3, LOBBY_STATE_UNKNOWN, now);
	ok(!strncmp(acts(), "form2(0,3,4)", 12),
	   "one more is killed while they come; the new one is there already: %s", said);

	met(how, "a:4", 4);
	elastic_exit(&x, 1, 137, now);
	acts();
	elastic_arrive(&x, 0, LOBBY_STATE_UNKNOWN, now);
	elastic_leave(&x, 0);
	elastic_exit(&x, 0, 139, now);
	arrive(2, 3);
	ok(!strncmp(acts(), "form2(2,3)", 10), "or is killed while it waits: %s", said);

	met(how, "a:4", 4);
	elastic_exit(&x, 0, 9, now);
	elastic_exit(&x, 1, 8, now);
	elastic_exit(&x, 2, 7, now);
	elastic_exit(&x, 3, 6, now);
	ok(strstr(acts(), "done(9)"), "all fail: the status of the first: %s", said);

	met(how, "a:4", 4);
	elastic_exit(&x, 1, 137, now);
	acts();
	elastic_arrive(&x, 0, LOBBY_STATE_UNKNOWN, now);
	acts();
	after_ms(600000);
	ok(are("end(2) end(3)"), "who does not come is ended: %s", said);
	elastic_exit(&x, 2, 143, now);
	elastic_exit(&x, 3, 143, now);
	elastic_arrive(&x, 4, LOBBY_STATE_UNKNOWN, now);
	ok(!strncmp(acts(), "start(5 a/2) start(6 a/3) form2(0,4)", 35),
	   "and not waited for: %s", said);
}

static void test_pause(void)
{
	struct elastic_options how = { .np = 2, .min_np = 1, .reset_limit = -1 };

	met(how, "a:2", 2);
	elastic_exit(&x, 1, 1, now);
	ok(are("break start(2 a/1)"), "the first failure is made good at once");
	elastic_arrive(&x, 0, LOBBY_STATE_UNKNOWN, now);
	elastic_arrive(&x, 2, LOBBY_STATE_UNKNOWN, now);
	acts();
	elastic_exit(&x, 2, 1, now);
	ok(are("break"), "the second not");
	after_ms(ELASTIC_PAUSE_MS);
	ok(are("start(3 a/1)"), "but after a pause");
	elastic_arrive(&x, 0, LOBBY_STATE_UNKNOWN, now);
	elastic_arrive(&x, 3, LOBBY_STATE_UNKNOWN, now);
	acts();
	after_ms(ELASTIC_STEADY_MS);
	elastic_exit(&x, 3, 1, now);
	ok(are("break start(4 a/1)"),
	   "a worker that has lived for a while has made the host good");
}

static void test_blacklist(void)
{
	struct elastic_options how = { .np = 4, .min_np = 2, .reset_limit = -1 };

	met(how, "a:2,b:2", 4);
	elastic_exit(&x, 0, 137, now);
	ok(are("break say end(1)"), "the others have room: the host is used no more");
	elastic_exit(&x, 1, 143, now);
	arrive(2, 3);
	ok(are("form2(2,3)"), "and the others go on");
	after_ms(3600000);
	ok(are(""), "for ever");
	elastic_exit(&x, 2, 137, now);
	ok(are("break start(4 b/0)"), "the last host cannot be spared");

	how.cooldown_min_ms = 1000;
	how.cooldown_max_ms = 10000;
	met(how, "a:2,b:2", 4);
	elastic_exit(&x, 0, 137, now);
	acts();
	elastic_exit(&x, 1, 143, now);
	arrive(2, 3);
	acts();
	after_ms(1999);
	ok(are(""), "with a cooldown not before twice its lower limit");
	after_ms(1002);
	ok(are("start(4 a/0) start(5 a/1)"), "and soon after that");
}

static void test_hosts(void)
{
	struct elastic_options how = {
		.np = 2, .min_np = 1, .reset_limit = -1, .discovers = true
	};

	met(how, "a:2", 2);
	hosts_are("a:2,b:1");
	ok(are("start(2 b/0)"), "a host is found");
	elastic_arrive(&x, 2, LOBBY_STATE_UNKNOWN, now);
	ok(are("notice(2)"), "they are told when it is ready");
	arrive(0, 1);
	ok(are("break form2(0,1,2)"), "and meet it");
	hosts_are("b:1");
	ok(are("notice(1)"), "a host is gone: they are told");
	elastic_arrive(&x, 2, LOBBY_STATE_UNKNOWN, now);
	ok(are("break end(0) end(1) form3(2)"), "its ranks are not waited for");
	hosts_are("");
	ok(are(""), "no host is listed: the ranks that have the state go on");
	elastic_exit(&x, 2, 137, now);
	ok(are("break done(137)"), "until they fail");

	met(how, "a:3", 3);
	hosts_are("a:2");
	ok(are("notice(1)"), "a host has fewer slots");
	arrive(0, 2);
	ok(are("break end(2) form2(0,1)"), "the last of its workers goes");
}

/* What is added together is met together. */
static void test_together(void)
{
	struct elastic_options how = {
		.np = 2, .min_np = 1, .reset_limit = -1, .discovers = true, .start_ms = 3000
	};

	met(how, "a:2", 2);
	hosts_are("a:2,b:3");
	ok(are("start(2 b/0) start(3 b/1) start(4 b/2)"), "a host with three slots is found");
	elastic_arrive(&x, 3, LOBBY_STATE_UNKNOWN, now);
	ok(are(""), "the first that is ready waits for the others");
	elastic_arrive(&x, 2, LOBBY_STATE_UNKNOWN, now);
	ok(are(""), "and so does the second");
	elastic_arrive(&x, 4, LOBBY_STATE_UNKNOWN, now);
	ok(are("notice(2)"), "all are ready: they are announced once");
	arrive(0, 1);
	ok(are("break form2(0,1,2,3,4)"), "and met once");

	met(how, "a:2", 2);
	hosts_are("a:2,b:1,c:1");
	acts();
	elastic_arrive(&x, 2, LOBBY_STATE_UNKNOWN, now);
	acts();
	elastic_exit(&x, 3, 1, now);
	ok(are("say notice(2)"), "one that fails is waited for no longer: %s", said);

	how.min_np = 2;
	met(how, "a:3,b:1", 4);
	elastic_exit(&x, 1, 137, now);
	elastic_exit(&x, 2, 137, now);
	ok(are("break"), "two are lost");
	after_ms(ELASTIC_PAUSE_MS);
	ok(are("start(4 a/1) start(5 a/2)"), "both are replaced");
	elastic_arrive(&x, 0, LOBBY_STATE_UNKNOWN, now);
	elastic_arrive(&x, 3, LOBBY_STATE_UNKNOWN, now);
	ok(are("form2(0,3)"), "those that are left go on");
	elastic_arrive(&x, 4, LOBBY_STATE_UNKNOWN, now);
	ok(are(""), "the first to replace one waits for the second");
	elastic_arrive(&x, 5, LOBBY_STATE_UNKNOWN, now);
	ok(are("notice(2)"), "which is the last");

	met(how, "a:2", 2);
	hosts_are("a:2,b:2");
	acts();
	after_ms(1000);
	elastic_arrive(&x, 2, LOBBY_STATE_UNKNOWN, now);
	ok(are(""), "one of two is ready");
	hosts_are("a:2,b:2,c:1");
	ok(are("start(4 c/0)"), "one more is found before the second is");
	after_ms(1000);
	elastic_arrive(&x, 3, LOBBY_STATE_UNKNOWN, now);
	ok(are(""), "and waited for as well");
	after_ms(1999);
	ok(are(""), "as long as a worker has to start");
	after_ms(1);
	ok(are("notice(2)"), "since the first was ready: nobody waits for ever");
	elastic_arrive(&x, 0, LOBBY_STATE_UNKNOWN, now);
	elastic_arrive(&x, 4, LOBBY_STATE_UNKNOWN, now);
	elastic_arrive(&x, 1, LOBBY_STATE_UNKNOWN, now);
	ok(are("break form2(0,1,2,3,4)"), "it comes while they gather, and is met with them");

	met(how, "a:2", 2);
	hosts_are("a:2,b:2");
	acts();
	after_ms(2000);
	elastic_arrive(&x, 2, LOBBY_STATE_UNKNOWN, now);
	ok(are(""), "one of two is ready in time");
	after_ms(999);
	ok(are(""), "the other still may be");
	after_ms(1);
	ok(are("notice(2)"), "until it has had as long as one before the first meeting has");
}

static void test_end(void)
{
	struct elastic_options how = { .np = 3, .min_np = 2, .reset_limit = 1 };

	met(how, "a:3", 3);
	elastic_exit(&x, 0, 0, now);
	elastic_exit(&x, 1, 0, now);
	ok(are("break"), "one that has ended well waits for the others");
	elastic_exit(&x, 2, 0, now);
	ok(are("done(0)"), "all have ended well");

	met(how, "a:3", 3);
	elastic_exit(&x, 0, 0, now);
	elastic_exit(&x, 1, 137, now);
	elastic_arrive(&x, 2, LOBBY_STATE_UNKNOWN, now);
	ok(are("break done(137)"), "after a success nobody meets again");

	met(how, "a:3", 3);
	elastic_exit(&x, 1, 137, now);
	elastic_arrive(&x, 0, LOBBY_STATE_UNKNOWN, now);
	elastic_arrive(&x, 2, LOBBY_STATE_UNKNOWN, now);
	ok(strstr(acts(), "form2(0,2)"), "one reset is allowed: %s", said);
	elastic_exit(&x, 0, 0, now);
	elastic_exit(&x, 2, 0, now);
	ok(strstr(acts(), "done(0)"), "a failure that was made good is none: %s", said);

	met(how, "a:3", 3);
	elastic_exit(&x, 1, 137, now);
	elastic_arrive(&x, 0, LOBBY_STATE_UNKNOWN, now);
	elastic_arrive(&x, 2, LOBBY_STATE_UNKNOWN, now);
	acts();
	elastic_arrive(&x, 0, LOBBY_STATE_UNKNOWN, now);
	elastic_arrive(&x, 2, LOBBY_STATE_UNKNOWN, now);
	ok(strstr(acts(), "done(137)"), "two are not: %s", said);

	begin(how, "a:3");
	acts();
	elastic_exit(&x, 0, 0, now);
	elastic_exit(&x, 1, 0, now);
	elastic_exit(&x, 2, 3, now);
	ok(strstr(acts(), "done(3)"), "they never meet, and one fails: %s", said);
	begin(how, "a:3");
	acts();
	elastic_exit(&x, 0, 7, now);
	elastic_exit(&x, 1, 7, now);
	ok(strstr(acts(), "done(7)"), "too few are left before they have met: %s", said);

	how.timeout_ms = 2000;
	how.cooldown_min_ms = how.cooldown_max_ms = 3600000;
	how.min_np = 3;
	met(how, "a:3", 3);
	elastic_exit(&x, 0, 137, now);
	arrive(1, 2);
	ok(are("break"), "too few are left: they wait");
	after_ms(2000);
	ok(are("done(137)"), "so long");
}

/* -- a random walk ------------------------------------------------------------------ */

/* What is true of each worker, whatever the policy believes. */
struct truth {
	bool lives, has, waits; /* a process; with the state; in the lobby        */
	bool synced;            /* it has got the state in its generation         */
	bool ending;            /* told to end                                    */
};

enum { WALK_WORKERS = 4096, WALK_STEPS = 100000, WALK_HOSTS = 4 };

static struct truth truth[WALK_WORKERS];
static int walk_members[WALK_WORKERS], walk_size, walk_slots[WALK_HOSTS];
static bool walk_broken, walk_told, walk_ever, walk_over;
static int walk_lost, walk_rank0, walk_short, walk_jobs, walk_forms, walk_handed;
static uint32_t walk_seed = 20261128;

static int draw(int n)
{
	walk_seed = walk_seed * 1664525 + 1013904223;
	return (int)((walk_seed >> 8) % (uint32_t)n);
}

/* Living workers with the state that have not been told to end. */
static int walk_holders(void)
{
	int n = 0;

	for (int i = 0; i < x.worker_count; i++)
		n += truth[i].lives && truth[i].has && !truth[i].ending;
	return n;
}

static void walk_form(const struct elastic_action *a)
{
	walk_forms++;
	walk_broken = walk_told = false;
	walk_size = a->count;
	for (int i = 0; i < a->count; i++) {
		walk_members[i] = x.members[i];
		truth[x.members[i]].waits = truth[x.members[i]].synced = false;
	}
	walk_rank0 += walk_ever && !truth[x.members[0]].has;
}

static void walk_act(const struct elastic_action *a)
{
	bool had;

	if (a->act == ELASTIC_START) {
		truth[a->worker] = (struct truth){ .lives = true };
	} else if (a->act == ELASTIC_END) {
		had = truth[a->worker].has && truth[a->worker].lives;
		truth[a->worker].ending = true;
		walk_lost += had && !walk_holders();
		walk_handed += had;
	} else if (a->act == ELASTIC_FORM) {
		walk_form(a);
	} else if (a->act == ELASTIC_NOTICE) {
		walk_told = true;
	} else if (a->act == ELASTIC_DONE) {
		walk_over = true;
		if (strstr(a->why, "needed"))
			walk_short++;
		else
			walk_lost += a->status && walk_ever && walk_holders();
	}
}

static void walk_on(void)
{
	struct elastic_action a;
	int64_t until;

	do {
		elastic_next(&x, now, &a, &until);
		walk_act(&a);
	} while (a.act != ELASTIC_NOTHING && a.act != ELASTIC_DONE);
}

static bool is_member(int worker)
{
	for (int i = 0; i < walk_size; i++)
		if (walk_members[i] == worker)
			return true;
	return false;
}

static void walk_exit(int worker, int status)
{
	if (!truth[worker].lives)
		return;
	truth[worker].lives = false;
	walk_broken |= is_member(worker) && !truth[worker].waits;
	if (truth[worker].waits)
		elastic_leave(&x, worker);
	elastic_exit(&x, worker, status, now);
	walk_on();
}

static void walk_arrive(int worker)
{
	struct truth *t = &truth[worker];

	if (walk_over || !t->lives || t->waits || t->ending)
		return;
	t->waits = true;
	walk_broken |= is_member(worker);
	elastic_arrive(&x, worker, t->synced ? LOBBY_STATE_HELD : LOBBY_STATE_NONE, now);
	walk_on();
}

/* All ranks of a generation in which none is lost get rank 0's state; others' is old then. */
static void walk_sync(void)
{
	if (walk_broken || !walk_size)
		return;
	for (int i = 0; i < x.worker_count; i++)
		truth[i].has = truth[i].synced = is_member(i);
	walk_ever = true;
}

static void walk_hosts_change(void)
{
	char text[64] = "";
	int kind = draw(6), h = draw(WALK_HOSTS);

	if (kind == 0)
		memset(walk_slots, 0, sizeof(walk_slots));
	else if (kind == 1)
		walk_slots[h] = 0;
	else if (kind == 2)
		for (int i = 0; i < WALK_HOSTS; i++)
			walk_slots[i] = walk_slots[i] ? 0 : draw(4);
	else
		walk_slots[h] = draw(4);
	for (int i = 0; i < WALK_HOSTS; i++)
		if (walk_slots[i])
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%c:%d",
				 *text ? "," : "", 'a' + i, walk_slots[i]);
	hosts_are(text);
	walk_on();
}

static int any_worker(bool member)
{
	int i, n = member ? walk_size : x.worker_count;

	if (!n)
		return -1;
	i = draw(n);
	return member ? walk_members[i] : i;
}

/* A rank comes back if its generation is over, or if it has been told of a change: that it
 * asks for with a commit, after the state has been synchronized. */
static void walk_come_back(int worker)
{
	if (walk_broken || (walk_told && truth[worker].synced))
		walk_arrive(worker);
}

static void walk_gather(void)
{
	for (int i = 0, n = walk_size; i < n && i < walk_size; i++)
		walk_come_back(walk_members[i]);
}

static void walk_step(void)
{
	int w, event = draw(100);

	if (event < 5) {
		walk_hosts_change();
	} else if (event < 9) {
		w = any_worker(true);
		if (w >= 0)
			walk_exit(w, 137);
	} else if (event < 10) {
		for (int i = 0; i < 2 && !walk_over; i++) {
			w = any_worker(false);
			if (w >= 0)
				walk_exit(w, 1);
		}
	} else if (event < 30) {
		w = any_worker(true);
		if (w >= 0)
			walk_come_back(w);
	} else if (event < 38) {
		walk_gather();
	} else if (event < 60) {
		w = any_worker(false);
		if (w >= 0 && !is_member(w))
			walk_arrive(w);
	} else if (event < 78) {
		walk_sync();
	} else if (event < 90) {
		after_ms(draw(20) ? draw(2000) : 61000);
		walk_on();
	} else {
		for (w = 0; w < x.worker_count && !walk_over; w++)
			if (truth[w].ending)
				walk_exit(w, 143);
	}
}

/* Without further events every living rank ends up in a place, as many as there may be. */
static bool walk_settles(void)
{
	int want = 0, placed = 0;

	for (int i = 0; i < 400 && !walk_over; i++) {
		for (int w = 0; w < x.worker_count && !walk_over; w++) {
			if (truth[w].ending)
				walk_exit(w, 143);
			else if (!is_member(w))
				walk_arrive(w);
		}
		walk_sync();
		walk_gather();
		if (walk_over)
			break;
		after_ms(1000);
		walk_on();
	}
	if (walk_over)
		return true;
	for (int i = 0; i < x.host_count; i++)
		want += x.hosts[i].listed && !x.hosts[i].blacklisted ? x.hosts[i].spec.slots
								     : 0;
	if (x.how.max_np && want > x.how.max_np)
		want = x.how.max_np;
	for (int i = 0; i < walk_size; i++) {
		const struct elastic_worker *w = &x.workers[walk_members[i]];

		placed += truth[walk_members[i]].lives && x.hosts[w->host].listed &&
			  !x.hosts[w->host].blacklisted;
	}
	return !x.generation || want < x.how.min_np || placed == want;
}

static void walk_begin(void)
{
	struct elastic_options how = { .np = 2,
				       .min_np = 1 + draw(2),
				       .max_np = draw(3) ? 0 : 2 + draw(3),
				       .reset_limit = -1,
				       .discovers = true,
				       .cooldown_min_ms = draw(2) ? 0 : 1000 };

	how.cooldown_max_ms = how.cooldown_min_ms * 10;
	memset(walk_slots, 0, sizeof(walk_slots));
	walk_slots[0] = 2;
	walk_size = 0;
	walk_broken = walk_told = walk_ever = walk_over = false;
	begin(how, "a:2");
	walk_jobs++;
	walk_on();
}

/*
 * Hosts are added, removed, named no more or changed, ranks die, alone and together, start
 * slowly and come late: whatever happens, no rank is ended that alone has the state, none
 * without it becomes rank 0, and the job ends for want of ranks alone.
 */
static void test_walk(void)
{
	int stuck = 0, settled = 0;

	walk_begin();
	for (int i = 0; i < WALK_STEPS; i++) {
		if (walk_over || x.worker_count > WALK_WORKERS - 64)
			walk_begin();
		walk_step();
		if (i % 50 == 49 && !walk_over) {
			settled++;
			stuck += !walk_settles();
		}
	}
	printf("# %d jobs, %d generations, %d ranks with the state ended for others, %d jobs "
	       "with too few ranks\n",
	       walk_jobs, walk_forms, walk_handed, walk_short);
	ok(!walk_lost, "no rank that alone has the state is ended: %d were", walk_lost);
	ok(!walk_rank0, "rank 0 always has it: %d had not", walk_rank0);
	ok(!stuck, "%d of %d jobs that are left alone fill their slots", settled - stuck,
	   settled);
	ok(walk_forms > 1000 && walk_handed > 100, "and the walk has met these cases");
}

int main(void)
{
	test_start();
	test_lost();
	test_pause();
	test_blacklist();
	test_hosts();
	test_together();
	test_end();
	test_walk();
	elastic_fini(&x);
	return tap_done();
}
