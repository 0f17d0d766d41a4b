/* test_elastic.c - an elastic job's decisions, step by step, without a process or a clock. */
#include "launch/elastic.h"

#include <stdio.h>
#include <string.h>

#include "ringup.h"
#include "tap.h"

static struct elastic x;
static int64_t now;
static char said[4096];

static void begin(struct elastic_how how, const char *hosts)
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
				 x.hosts[a.host].is.name, x.workers[a.worker].slot);
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
		elastic_arrive(&x, from, now);
}

/* @n workers have met. */
static void met(struct elastic_how how, const char *hosts, int n)
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
	begin((struct elastic_how){ .np = 3, .min_np = 2, .reset_limit = -1 }, "a:2,b:1");
	ok(are("start(0 a/0) start(1 a/1) start(2 b/0)"), "one worker for each slot");
	arrive(0, 1);
	ok(are(""), "all that were started are waited for");
	arrive(2, 2);
	ok(are("form1(0,1,2)"), "then they are the first generation, in their order");
	ok(are(""), "and nothing else happens");
	begin((struct elastic_how){ .np = 2, .min_np = 1, .max_np = 2, .reset_limit = -1 },
	      "a:4");
	ok(are("start(0 a/0) start(1 a/1)"), "never more than were wanted");
	begin((struct elastic_how){ .np = 3,
				    .min_np = 2,
				    .reset_limit = -1,
				    .discovers = true,
				    .timeout_ms = 5000 },
	      "a:2");
	ok(are(""), "as many slots as were asked for have to be there first");
	hosts_are("a:2,b:2");
	ok(are("start(0 a/0) start(1 a/1) start(2 b/0) start(3 b/1)"),
	   "and then all are filled");
	begin((struct elastic_how){ .np = 3,
				    .min_np = 2,
				    .reset_limit = -1,
				    .discovers = true,
				    .timeout_ms = 5000 },
	      "a:2");
	acts();
	after_ms(5000);
	ok(are("done(1)"), "for so long and no longer");
	begin((struct elastic_how){ .np = 3, .min_np = 2, .start_ms = 3000, .reset_limit = -1 },
	      "a:3");
	acts();
	arrive(0, 1);
	acts();
	after_ms(3000);
	ok(are("end(2) form1(0,1)"), "a worker that does not come is not waited for: %s", said);
}

static void test_lost(void)
{
	struct elastic_how how = { .np = 4, .min_np = 2, .reset_limit = -1 };

	met(how, "a:4", 4);
	elastic_exit(&x, 1, 137, now);
	ok(are("break start(4 a/1)"), "a worker is killed: its slot is filled again");
	elastic_arrive(&x, 0, now);
	elastic_arrive(&x, 3, now);
	ok(are(""), "all that are left are waited for");
	elastic_arrive(&x, 2, now);
	ok(are("form2(0,2,3)"), "those that were there meet at once, in their order");
	elastic_arrive(&x, 4, now);
	ok(are("notice(2)"), "the new one waits, and they are told");
	elastic_arrive(&x, 0, now);
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
	elastic_arrive(&x, 4, now);
	elastic_arrive(&x, 0, now);
	elastic_exit(&x, 2, 137, now);
	acts();
	elastic_arrive(&x, 3, now);
	ok(!strncmp(acts(), "form2(0,3,4)", 12),
	   "one more is killed while they come; the new one is there already: %s", said);

	met(how, "a:4", 4);
	elastic_exit(&x, 1, 137, now);
	acts();
	elastic_arrive(&x, 0, now);
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
	elastic_arrive(&x, 0, now);
	acts();
	after_ms(600000);
	ok(are("end(2) end(3)"), "who does not come is ended: %s", said);
	elastic_exit(&x, 2, 143, now);
	elastic_exit(&x, 3, 143, now);
	elastic_arrive(&x, 4, now);
	ok(!strncmp(acts(), "start(5 a/2) start(6 a/3) form2(0,4)", 35),
	   "and not waited for: %s", said);
}

static void test_pause(void)
{
	struct elastic_how how = { .np = 2, .min_np = 1, .reset_limit = -1 };

	met(how, "a:2", 2);
	elastic_exit(&x, 1, 1, now);
	ok(are("break start(2 a/1)"), "the first failure is made good at once");
	elastic_arrive(&x, 0, now);
	elastic_arrive(&x, 2, now);
	acts();
	elastic_exit(&x, 2, 1, now);
	ok(are("break"), "the second not");
	after_ms(ELASTIC_PAUSE_MS);
	ok(are("start(3 a/1)"), "but after a pause");
	elastic_arrive(&x, 0, now);
	elastic_arrive(&x, 3, now);
	acts();
	after_ms(ELASTIC_STEADY_MS);
	elastic_exit(&x, 3, 1, now);
	ok(are("break start(4 a/1)"),
	   "a worker that has lived for a while has made the host good");
}

static void test_blacklist(void)
{
	struct elastic_how how = { .np = 4, .min_np = 2, .reset_limit = -1 };

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
	struct elastic_how how = { .np = 2, .min_np = 1, .reset_limit = -1, .discovers = true };

	met(how, "a:2", 2);
	hosts_are("a:2,b:1");
	ok(are("start(2 b/0)"), "a host is found");
	elastic_arrive(&x, 2, now);
	ok(are("notice(2)"), "they are told when it is ready");
	arrive(0, 1);
	ok(are("break form2(0,1,2)"), "and meet it");
	hosts_are("b:1");
	ok(are("notice(1)"), "a host is gone: they are told");
	elastic_arrive(&x, 2, now);
	ok(are("break end(0) end(1) form3(2)"), "its ranks are not waited for");
	hosts_are("");
	ok(are("notice(1)"), "the last one is gone");
	elastic_arrive(&x, 2, now);
	ok(are("break end(2) done(1)"), "and nobody is left");

	met(how, "a:3", 3);
	hosts_are("a:2");
	ok(are("notice(1)"), "a host has fewer slots");
	arrive(0, 2);
	ok(are("break end(2) form2(0,1)"), "the last of its workers goes");
}

/* What is added together is met together. */
static void test_together(void)
{
	struct elastic_how how = {
		.np = 2, .min_np = 1, .reset_limit = -1, .discovers = true, .start_ms = 3000
	};

	met(how, "a:2", 2);
	hosts_are("a:2,b:3");
	ok(are("start(2 b/0) start(3 b/1) start(4 b/2)"), "a host with three slots is found");
	elastic_arrive(&x, 3, now);
	ok(are(""), "the first that is ready waits for the others");
	elastic_arrive(&x, 2, now);
	ok(are(""), "and so does the second");
	elastic_arrive(&x, 4, now);
	ok(are("notice(2)"), "all are ready: they are announced once");
	arrive(0, 1);
	ok(are("break form2(0,1,2,3,4)"), "and met once");

	met(how, "a:2", 2);
	hosts_are("a:2,b:1,c:1");
	acts();
	elastic_arrive(&x, 2, now);
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
	elastic_arrive(&x, 0, now);
	elastic_arrive(&x, 3, now);
	ok(are("form2(0,3)"), "those that are left go on");
	elastic_arrive(&x, 4, now);
	ok(are(""), "the first to replace one waits for the second");
	elastic_arrive(&x, 5, now);
	ok(are("notice(2)"), "which is the last");

	met(how, "a:2", 2);
	hosts_are("a:2,b:2");
	acts();
	after_ms(1000);
	elastic_arrive(&x, 2, now);
	ok(are(""), "one of two is ready");
	hosts_are("a:2,b:2,c:1");
	ok(are("start(4 c/0)"), "one more is found before the second is");
	after_ms(1000);
	elastic_arrive(&x, 3, now);
	ok(are(""), "and waited for as well");
	after_ms(1999);
	ok(are(""), "as long as a worker has to start");
	after_ms(1);
	ok(are("notice(2)"), "since the first was ready: nobody waits for ever");
	elastic_arrive(&x, 0, now);
	elastic_arrive(&x, 4, now);
	elastic_arrive(&x, 1, now);
	ok(are("break form2(0,1,2,3,4)"), "it comes while they gather, and is met with them");

	met(how, "a:2", 2);
	hosts_are("a:2,b:2");
	acts();
	after_ms(2000);
	elastic_arrive(&x, 2, now);
	ok(are(""), "one of two is ready in time");
	after_ms(999);
	ok(are(""), "the other still may be");
	after_ms(1);
	ok(are("notice(2)"), "until it has had as long as one before the first meeting has");
}

static void test_end(void)
{
	struct elastic_how how = { .np = 3, .min_np = 2, .reset_limit = 1 };

	met(how, "a:3", 3);
	elastic_exit(&x, 0, 0, now);
	elastic_exit(&x, 1, 0, now);
	ok(are("break"), "one that has ended well waits for the others");
	elastic_exit(&x, 2, 0, now);
	ok(are("done(0)"), "all have ended well");

	met(how, "a:3", 3);
	elastic_exit(&x, 0, 0, now);
	elastic_exit(&x, 1, 137, now);
	elastic_arrive(&x, 2, now);
	ok(are("break done(137)"), "after a success nobody meets again");

	met(how, "a:3", 3);
	elastic_exit(&x, 1, 137, now);
	elastic_arrive(&x, 0, now);
	elastic_arrive(&x, 2, now);
	ok(strstr(acts(), "form2(0,2)"), "one reset is allowed: %s", said);
	elastic_exit(&x, 0, 0, now);
	elastic_exit(&x, 2, 0, now);
	ok(strstr(acts(), "done(0)"), "a failure that was made good is none: %s", said);

	met(how, "a:3", 3);
	elastic_exit(&x, 1, 137, now);
	elastic_arrive(&x, 0, now);
	elastic_arrive(&x, 2, now);
	acts();
	elastic_arrive(&x, 0, now);
	elastic_arrive(&x, 2, now);
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

int main(void)
{
	test_start();
	test_lost();
	test_pause();
	test_blacklist();
	test_hosts();
	test_together();
	test_end();
	elastic_fini(&x);
	return tap_done();
}
