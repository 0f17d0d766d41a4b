/* test_op_text.c - operations in words, in front of the reasons why they fail. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "engine/ledger.h"
#include "engine/name_table.h"
#include "engine/op_state.h"
#include "engine/op_text.h"
#include "ringup.h"
#include "tap.h"

static const char died[] = "rank 1 (process 7 on b) died";
static struct err e;

static struct request asked(const char *name, int kind)
{
	struct request r;

	request_init(&r, name, NULL, NULL);
	op_signature_init(&r.signature, kind, RINGUP_F32, 10);
	return r;
}

static const char *of_request(const struct request *r, int code, const char *why)
{
	fail(&e, code, "%s", why);
	op_text_fail_request(r, &e);
	return e.text;
}

static const char *of_name(const char *name, const char *why)
{
	struct request r = asked(name, PLAN_ALLREDUCE);

	return of_request(&r, RINGUP_EPEER, why);
}

static const char *of_op(const char *name, size_t len, int kind)
{
	struct name_entry t = { .name = (char *)name, .len = len };
	struct ringup_op op = { .entry = &t };

	op.ask = asked(NULL, kind);
	fail(&e, RINGUP_EPEER, "%s", died);
	op_text_fail(&op, &e);
	return e.text;
}

static void is(const char *text, const char *expected)
{
	ok(!strcmp(text, expected), "%s", text);
}

static void test_words(void)
{
	struct request member = asked("grad", PLAN_ALLGATHER), r = asked("grad", OP_BUNDLE);
	struct ringup_op copy = { .ask = member };

	is(of_name("grad", died), "allreduce 'grad': rank 1 (process 7 on b) died");
	is(of_op("grad", 4, PLAN_BROADCAST), "broadcast 'grad': rank 1 (process 7 on b) died");
	is(of_op("\0#3", 3, PLAN_BARRIER), "barrier #3: rank 1 (process 7 on b) died");
	is(of_op("what", 4, OP_JOIN), "join: rank 1 (process 7 on b) died");
	is(of_op(NAME_GROUP, strlen(NAME_GROUP), PLAN_ALLGATHER),
	   "adding or removing a group: rank 1 (process 7 on b) died");
	is(of_name(NAME_GROUP, died),
	   "adding or removing a group: rank 1 (process 7 on b) died");
	is(of_name(NULL, died), "allreduce: rank 1 (process 7 on b) died");
	r.members = &member;
	is(of_request(&r, RINGUP_EPEER, died),
	   "grouped allgather 'grad': rank 1 (process 7 on b) died");
	r.members = NULL;
	r.copies = &copy;
	is(of_request(&r, RINGUP_EPEER, died),
	   "grouped allgather 'grad': rank 1 (process 7 on b) died");
	r = asked("gradient", PLAN_ALLREDUCE);
	r.name_len = 4;
	is(of_request(&r, RINGUP_EPEER, died),
	   "allreduce 'grad': rank 1 (process 7 on b) died");
	r.signature.digest = OP_TO_ROOT;
	is(of_request(&r, RINGUP_EPEER, died), "reduce 'grad': rank 1 (process 7 on b) died");
	r.signature.kind = PLAN_ALLTOALL;
	is(of_request(&r, RINGUP_EPEER, died), "gather 'grad': rank 1 (process 7 on b) died");
	r.signature.digest = OP_FROM_ROOT;
	is(of_request(&r, RINGUP_EPEER, died), "scatter 'grad': rank 1 (process 7 on b) died");
	ok(e.code == RINGUP_EPEER, "the code stays");
}

static void test_messages(void)
{
	struct p2p_op m = { .is_send = true, .peer = 2, .tag = 7 };
	struct ringup_op op = { .p2p = { .peer = -1, .tag = 8 } };

	op.ask = asked(NULL, PLAN_BARRIER);
	fail(&e, RINGUP_EPEER, "%s", died);
	op_text_fail_message(&m, &op.ask.signature, &e);
	is(e.text, "send of 10 f32 to rank 2 with tag 7: rank 1 (process 7 on b) died");
	fail(&e, RINGUP_EPEER, "%s", died);
	op_text_fail(&op, &e);
	is(e.text, "receive of 10 f32 from any rank with tag 8: rank 1 (process 7 on b) died");
	fail(&e, RINGUP_EABORTED, "receive of 10 f32 from any rank with tag 8 has stalled");
	op_text_fail(&op, &e);
	is(e.text, "receive of 10 f32 from any rank with tag 8 has stalled");
}

/* A sentence that names the operation is not changed, and one that names another is. */
static void test_twice(void)
{
	static const char nccl[] = "rank 0 (process 1 on a): allreduce 'grad': remote error",
			  stalled[] = "allreduce grad has stalled for 2.0 s: rank 0 waits",
			  other[] = "allreduce grad2 has stalled for 2.0 s: rank 0 waits",
			  group[] = "group grad has stalled for 2.0 s: rank 0 waits";
	struct request join = asked(NULL, OP_JOIN), many = asked("grad", OP_BUNDLE);

	is(of_name("grad", nccl), nccl);
	is(of_name("grad", stalled), stalled);
	is(of_name("grad", other),
	   "allreduce 'grad': allreduce grad2 has stalled for 2.0 s: rank 0 waits");
	is(of_name("gra", nccl),
	   "allreduce 'gra': rank 0 (process 1 on a): allreduce 'grad': remote error");
	is(of_name("rank", died), "allreduce 'rank': rank 1 (process 7 on b) died");
	is(of_request(&join, RINGUP_EABORTED, "join has stalled for 2.0 s: rank 0 waits"),
	   "join has stalled for 2.0 s: rank 0 waits");
	is(of_request(&many, RINGUP_EABORTED, group), group);
	is(of_request(&many, RINGUP_EDEADLOCK, died), died);
}

/* NAME_SAME: of a longer name the beginning tells whether a sentence names it. */
static void test_same(void)
{
	enum { SAME = 32 };
	char name[SAME + 2], why[128];
	int bad = 0;

	for (size_t n = SAME - 1; n <= SAME + 1; n++) {
		memset(name, 'n', n);
		name[n] = 0;
		snprintf(why, sizeof(why), "rank 0: allreduce '%s': broken", name);
		bad += strcmp(of_name(name, why), why) != 0;
		snprintf(why, sizeof(why), "rank 0: allreduce '%sn': broken", name);
		bad += (strcmp(of_name(name, why), why) != 0) != (n <= SAME);
	}
	ok(!bad, "names of %d letters: %s", SAME, e.text);
}

/* A name of any length leaves a reason of usual length whole. */
static void test_lengths(void)
{
	char name[NAME_BYTES + 1], why[sizeof(e.text)];
	int cut = 0, lost = 0, few = 0;

	for (size_t n = 20; n <= NAME_BYTES; n++) {
		memset(name, 'n', n);
		memcpy(name + n - 10, "layer.grad", 11);
		of_name(name, died);
		cut += !strstr(e.text, "layer.grad': rank 1");
		lost += strcmp(e.text + strlen(e.text) - strlen(died), died) != 0;
	}
	ok(!cut && !lost, "%s", e.text);
	for (size_t n = 20; n < sizeof(why); n++) {
		memset(why, 'w', n);
		why[n] = 0;
		of_name(name, why);
		few += !strstr(e.text, "nnnlayer.grad': w");
		lost += n < 220 && strlen(e.text + strcspn(e.text, ":") + 2) != n;
	}
	ok(!few && !lost, "%d %d %s", few, lost, e.text);
}

int main(void)
{
	test_words();
	test_messages();
	test_twice();
	test_same();
	test_lengths();
	return tap_done();
}
