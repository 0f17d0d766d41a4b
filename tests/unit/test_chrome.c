/* test_chrome.c - records as Horovod's events: by heart, and with any of them missing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chrome.h"

#include <string.h>

#include "nest.h"
#include "ringup.h"
#include "rounds.h"
#include "tap.h"

enum { START = 1000000, RANKS = 3 };

static struct labels labels;
static struct chrome c;
static uint32_t tensor, node;
static int ranks_set;

static void begin(bool merges)
{
	struct chrome_origin from = { .rank = 0,
				      .merges = merges,
				      .size = RANKS,
				      .host = "h",
				      .clock = "k",
				      .start_ns = START,
				      .epoch_us = 1234567 };

	chrome_close(&c);
	if (chrome_open(&c, &from, &labels))
		exit(1);
	chrome_header(&c);
}

static struct trace_record record(enum trace_what what, int64_t ns)
{
	return (struct trace_record){ .ns = START + ns,
				      .label = tensor,
				      .what = (uint8_t)what };
}

static void shape(void)
{
	struct trace_record r = record(TRACE_SHAPE, 0);

	r.kind = RINGUP_F32;
	r.arg = record_shape(2, 0, 0);
	r.word[0] = 2;
	r.word[1] = 3;
	chrome_take(&c, &r);
}

static void submitted(int64_t ns, int kind)
{
	struct trace_record r = record(TRACE_SUBMITTED, ns);

	r.kind = (uint8_t)kind;
	r.word[0] = 7;
	chrome_take(&c, &r);
}

/* Rank 1 and 2 were ready so long before. */
static void ticks(int64_t ns, float one, float two)
{
	struct trace_record r = record(TRACE_TICKS, ns);

	r.arg = (uint16_t)ranks_set;
	r.ago[0] = 0;
	r.ago[1] = one;
	r.ago[2] = two;
	r.ago[3] = -1;
	chrome_take(&c, &r);
}

static void ready(int64_t ns, bool bad)
{
	struct trace_record r = record(TRACE_READY, ns);

	r.arg = bad;
	r.word[0] = RANKS;
	chrome_take(&c, &r);
}

static void carried(enum trace_what what, int64_t ns)
{
	struct trace_record r = record(what, ns);

	r.arg = what == TRACE_BEGIN ? 2 : 0;
	r.word[0] = what == TRACE_BEGIN ? 4096 : 5;
	r.rank[2] = (int32_t)node;
	r.rank[3] = what == TRACE_FINISHED ? RANKS : 9;
	if (what == TRACE_COMPLETE)
		r.word[1] = 0;
	chrome_take(&c, &r);
}

/* What has come out so far, closed. */
static json_t *trace(void)
{
	json_t *j;

	c.text[c.len] = ']';
	j = json_loadb(c.text, c.len + 1, 0, NULL);
	if (!j)
		printf("# %.*s\n", (int)c.len, c.text);
	return j;
}

static bool says(const char *text)
{
	c.text[c.len] = 0;
	if (strstr(c.text, text))
		return true;
	printf("# no %s in %s\n", text, c.text);
	return false;
}

static void test_by_heart(void)
{
	json_t *j;
	int open;

	begin(false);
	ok(says("[\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"args\": "
		"{\"start_time_since_epoch_in_micros\": 1234567}},\n{\"name\": "
		"\"process_sort_index\", \"ph\": \"M\", \"pid\": 0, \"args\": {\"sort_index\": "
		"0}}"),
	   "the header");
	shape();
	submitted(5000, TRACE_ALLREDUCE);
	ticks(9000, 6000, 500);
	ready(9000, false);
	carried(TRACE_BEGIN, 10000);
	carried(TRACE_COMPLETE, 12345);
	ok(says(",\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"args\": "
		"{\"name\": "
		"\"allreduce.t\"}},\n{\"name\": \"process_sort_index\", \"ph\": \"M\", "
		"\"pid\": 1, "
		"\"args\": {\"sort_index\": 1}},\n"),
	   "a tensor is a process");
	ok(says("{\"ph\": \"B\", \"name\": \"NEGOTIATE_ALLREDUCE\", \"ts\": 3.000, \"pid\": "
		"1},\n"
		"{\"ph\": \"X\", \"name\": \"1\", \"ts\": 3.000, \"pid\": 1, \"dur\": 0},\n"
		"{\"ph\": \"X\", \"name\": \"0\", \"ts\": 5.000, \"pid\": 1, \"dur\": 0},\n"
		"{\"ph\": \"X\", \"name\": \"2\", \"ts\": 8.500, \"pid\": 1, \"dur\": 0},\n"
		"{\"ph\": \"E\", \"ts\": 8.500, \"pid\": 1},\n"),
	   "its negotiation, from the first rank to the last");
	ok(says("{\"ph\": \"B\", \"name\": \"ALLREDUCE\", \"ts\": 8.500, \"pid\": 1},\n"
		"{\"ph\": \"B\", \"name\": \"QUEUE\", \"ts\": 8.500, \"pid\": 1},\n"
		"{\"ph\": \"E\", \"ts\": 10.000, \"pid\": 1},\n"
		"{\"ph\": \"B\", \"name\": \"NODE_ALLREDUCE\", \"ts\": 10.000, \"pid\": 1, "
		"\"args\": {\"plan\": 9, \"tensors\": 2, \"bytes\": 4096}},\n"
		"{\"ph\": \"E\", \"ts\": 12.345, \"pid\": 1},\n"
		"{\"ph\": \"E\", \"ts\": 12.345, \"pid\": 1, \"args\": {\"dtype\": "
		"\"float32\", "
		"\"shape\": \"[2, 3]\"}}"),
	   "and what carried it out");
	j = trace();
	ok(j && !nest_check(j, &open) && !open, "all nests");
	json_decref(j);
}

static void test_kinds(void)
{
	json_t *j;
	int open, kind;

	begin(false);
	for (kind = 0; kind < TRACE_KINDS; kind++) {
		submitted(kind * 1000 + 100, kind);
		ready(kind * 1000 + 200, false);
		carried(TRACE_BEGIN, kind * 1000 + 300);
		carried(TRACE_COMPLETE, kind * 1000 + 400);
	}
	j = trace();
	ok(j && !nest_check(j, &open) && !open, "each kind nests");
	ok(says("NEGOTIATE_BROADCAST") && says("\"BROADCAST\"") && says("NODE_BCAST"),
	   "a broadcast's activity has Horovod's short name");
	ok(says("NEGOTIATE_ADASUM") && says("NODE_ADASUM_ALLREDUCE"),
	   "Adasum is one of its own");
	ok(says("NEGOTIATE_BARRIER") && says("NEGOTIATE_JOIN") &&
		   !strstr(c.text, "\"BARRIER\"") && !strstr(c.text, "\"JOIN\"") &&
		   !strstr(c.text, "NODE_BARRIER"),
	   "a barrier and a join are negotiated, and no more");
	ok(!strstr(c.text, "dtype"), "what has no shape shows none");
	json_decref(j);
}

static void test_late(void)
{
	struct trace_record r;
	json_t *j;
	int open;

	begin(false);
	submitted(1000, TRACE_ALLREDUCE);
	ok(!strstr((c.text[c.len] = 0, c.text), "NEGOTIATE"), "a negotiation is kept back");
	ok(chrome_settle(&c, START + 900) && !strstr((c.text[c.len] = 0, c.text), "NEGOTIATE"),
	   "while it is young");
	ok(chrome_settle(&c, START + 2000) && says("NEGOTIATE_ALLREDUCE\", \"ts\": 1.000"),
	   "then it is written: who waits for ever is in the file");
	r = record(TRACE_ARRIVED, 3000);
	r.rank[0] = 1;
	r.rank[1] = 1;
	r.rank[2] = r.rank[3] = -1;
	chrome_take(&c, &r);
	ok(says("\"X\", \"name\": \"1\", \"ts\": 3.000"),
	   "as are ranks of other hosts, at once");
	ticks(9000, -1, 8500);
	ready(9000, false);
	ok(says("\"X\", \"name\": \"2\", \"ts\": 0.500"),
	   "who was early is shown where it was");
	carried(TRACE_COMPLETE, 9500);
	r = record(TRACE_ARRIVED, 10000);
	r.rank[0] = 1;
	r.rank[1] = 2;
	r.rank[2] = r.rank[3] = -1;
	chrome_take(&c, &r);
	submitted(11000, TRACE_ALLREDUCE);
	ready(12000, false);
	ok(says("NEGOTIATE_ALLREDUCE\", \"ts\": 10.000") && says("\"E\", \"ts\": 11.000"),
	   "a negotiation begins with the first rank, here or elsewhere");
	carried(TRACE_COMPLETE, 12000);
	j = trace();
	ok(j && !nest_check(j, &open) && !open, "all nests");
	json_decref(j);
}

static void test_old_ticks(void)
{
	begin(false);
	submitted(1000, TRACE_ALLREDUCE);
	ticks(2000, 0, 0);
	carried(TRACE_FINISHED, 2000);
	submitted(5000, TRACE_ALLREDUCE);
	/* What stands there is from a round before: nobody has told. */
	ticks(6000, 5500, 1000);
	carried(TRACE_FINISHED, 6000);
	c.text[c.len] = 0;
	ok(!strstr(c.text, "\"name\": \"1\", \"ts\": 0.500"),
	   "a time of an earlier round is not believed");
	ok(says("\"X\", \"name\": \"2\", \"ts\": 5.000"), "one of this round is");
	ok(says("NODE_ALLREDUCE\", \"ts\": 6.000"),
	   "as long as not all ranks are known, it was ready at the end");
}

static void test_errors(void)
{
	struct trace_record r;
	json_t *j;
	int open;

	begin(false);
	shape();
	submitted(1000, TRACE_ALLREDUCE);
	ready(2000, true);
	r = record(TRACE_COMPLETE, 3000);
	r.arg = 1;
	chrome_take(&c, &r);
	ok(says("\"B\", \"name\": \"ERROR\"") && !strstr(c.text, "float32"),
	   "ranks that disagree are an ERROR, without a result");
	submitted(4000, TRACE_ALLREDUCE);
	r = record(TRACE_COMPLETE, 5000);
	r.arg = 1;
	chrome_take(&c, &r);
	j = trace();
	ok(j && !nest_check(j, &open) && !open, "what fails before all are ready ends, too");
	json_decref(j);
	r = record(TRACE_SUBMITTED, -1);
	open = (int)c.len;
	chrome_take(&c, &r);
	ok((int)c.len == open, "what is from before the file is not in it");
	chrome_dropped(&c, 17, START + 9000);
	ok(says("\"DROPPED_EVENTS\", \"ts\": 9.000, \"s\": \"g\", \"args\": "
		"{\"dropped_events\": 17}}"),
	   "what is missing is counted in the file");
	chrome_tick(&c, START + 9000);
	ok(says("{\"ph\": \"i\", \"name\": \"CYCLE_START\", \"ts\": 9.000, \"s\": \"g\"}"),
	   "a cycle is Horovod's marker");
}

static void test_merges(void)
{
	begin(true);
	submitted(1000, TRACE_ALLREDUCE);
	ready(2000, false);
	ok(says("\"rank\": 0, \"size\": 3, \"host\": \"h\", \"clock\": \"k\", \"start_ns\": "
		"1000000}}"),
	   "what shall be merged says where it is from");
	ok(says("\"args\": {\"round\": 7}}"), "and which round it is");
}

/* ---- messages ---- */

static void message(enum trace_what what, int64_t ns, int kind, int number, int arg)
{
	struct trace_record r = record(what, ns);

	r.kind = (uint8_t)kind;
	r.arg = (uint16_t)arg;
	if (what == TRACE_MESSAGE) {
		r.word[0] = 9;
	} else {
		r.rank[0] = 1;
		r.rank[2] = (int32_t)node;
	}
	r.rank[3] = number;
	chrome_take(&c, &r);
}

/* Two are in flight at the same time, and the second is complete first. */
static void test_messages(void)
{
	json_t *j;
	int open;
	long first, second;

	tensor = label_enter(&labels, 0, "send to rank 1, tag 5", 21);
	begin(false);
	message(TRACE_MESSAGE, 100, TRACE_SEND, 70, RINGUP_F32);
	message(TRACE_MESSAGE, 200, TRACE_SEND, 71, RINGUP_F64);
	message(TRACE_MATCHED, 300, TRACE_SEND, 71, false);
	message(TRACE_MOVED, 400, TRACE_SEND, 71, false);
	message(TRACE_MATCHED, 500, TRACE_SEND, 70, false);
	message(TRACE_MOVED, 600, TRACE_SEND, 70, false);
	j = trace();
	first = nest_pid(j, "send to rank 1, tag 5");
	second = nest_pid(j, "send to rank 1, tag 5 (2)");
	ok(j && !nest_check(j, &open) && !open && first > 0 && second > 0,
	   "messages that overlap are processes of their own");
	ok(nest_count(j, "B", "NEGOTIATE_SEND", first) == 1 &&
		   nest_count(j, "B", "SEND", first) == 1 &&
		   nest_count(j, "B", "NODE_SEND", first) == 1 &&
		   nest_count(j, "X", "1", first) == 1 &&
		   !strcmp(nest_arg(j, first, "dtype"), "float32") &&
		   !strcmp(nest_arg(j, second, "dtype"), "float64") &&
		   !strcmp(nest_arg(j, second, "shape"), "[9]"),
	   "each waits for the other rank, is carried and has a type and a shape");
	json_decref(j);

	begin(false);
	message(TRACE_MESSAGE, 100, TRACE_RECV, 72, RINGUP_F32);
	message(TRACE_MATCHED, 200, TRACE_RECV, 72, true);
	message(TRACE_MOVED, 300, TRACE_RECV, 72, true);
	message(TRACE_MATCHED, 400, TRACE_RECV, 73, false);
	message(TRACE_MOVED, 500, TRACE_RECV, 73, false);
	j = trace();
	ok(j && !nest_check(j, &open) && !open && nest_count(j, "B", "ERROR", -1) == 1 &&
		   !nest_count(j, "B", "RECV", -1) && nest_count(j, "B", "", -1) == 2,
	   "ranks that disagree are an error, and a message whose beginning is missing "
	   "nothing");
	json_decref(j);
}

/* Records in any order, of any content, and of some tensors: what comes out nests. */
static void test_anything(void)
{
	uint32_t seed = 1, label[4];
	struct trace_record r;
	int round, i, k, open, bad = 0, rounds = rounds_few(400, 60);
	const char *why;
	json_t *j;

	for (i = 0; i < 4; i++)
		label[i] = label_enter(&labels, 0, &"abcd"[i], 1);
	for (round = 0; round < rounds; round++) {
		begin(round & 1);
		for (i = 0; i < 300; i++) {
			uint32_t *p = (uint32_t *)&r;

			for (k = 0; k < 8; k++)
				p[k] = (seed = seed * 1664525 + 1013904223) >> 4;
			r.ns = START + i * 100 + r.ns % 2000;
			r.label = label[r.label % 4];
			r.what %= TRACE_MOVED + 2;
			r.rank[3] = r.rank[2] = r.rank[0];
			r.rank[1] = r.rank[0] = (int32_t)(seed % 5);
			if (r.what == TRACE_ARRIVED)
				r.rank[2] = r.rank[3] = -1;
			if (r.what == TRACE_BEGIN || r.what == TRACE_FINISHED)
				r.rank[2] = (int32_t)node;
			chrome_take(&c, &r);
			if (i % 50 == 0)
				chrome_settle(&c, START + i * 100);
		}
		j = trace();
		why = j ? nest_check(j, &open) : "no JSON";
		if (why && !bad++)
			printf("# %s\n", why);
		json_decref(j);
	}
	ok(!bad, "whatever records come, the events nest: %d files do not", bad);
}

int main(void)
{
	int ranks[RANKS] = { 0, 1, 2 };

	tensor = label_enter(&labels, 0, "allreduce.t", 11);
	node = label_enter(&labels, 0, "NODE", 4);
	ranks_set = label_set(&labels, ranks, RANKS);
	test_by_heart();
	test_kinds();
	test_late();
	test_old_ticks();
	test_errors();
	test_merges();
	test_messages();
	test_anything();
	chrome_close(&c);
	labels_free(&labels);
	return tap_done();
}
