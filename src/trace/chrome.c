/* chrome.c - trace records as events of a Chrome trace, with Horovod's names. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chrome.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/kinds.h"
#include "ringup.h"

enum {
	TEXT_BYTES = 1 << 20,   /* chrome_is_full() from here on                            */
	SLACK_BYTES = 16 << 10, /* the most that one record adds, without its ticks: a label
				 * and a few events                                         */
	TICK_BYTES = 128,       /* the most that a tick adds                                */
	FIRST_TICKS = 8,
	MOST_TICKS = 1 << 16,
	MOST_LANES = 256, /* messages of one label in flight that have a process each */
};

/* The event of a tensor that has begun and not ended. */
enum state {
	IDLE,
	HELD,        /* NEGOTIATE_x, which is not written yet  */
	NEGOTIATING, /* NEGOTIATE_x                            */
	CARRIED,     /* x                                      */
	ACTIVE,      /* x, and an activity in it               */
};

/* The time at which a rank was ready. */
struct tick {
	int64_t ns;
	int rank;
};

struct chrome_tensor {
	uint32_t label, process;
	enum state state;
	uint8_t kind, dtype, dims, dims_given;
	bool leads;     /* the shape begins with the rows, which only the end tells */
	bool submitted; /* by this rank, and not complete                           */
	uint64_t shape[TRACE_DIMS];
	uint64_t round;
	int64_t first_ns; /* HELD: when the first rank was ready                 */
	int64_t own_ns;   /* this rank's last submission, and the one before     */
	int64_t before_ns;
	int64_t last_ns;   /* its last B or E: none is before it                  */
	int64_t closed_ns; /* the end of its last operation                       */
	struct tick *tick; /* of the next negotiation, or of the one that is open */
	int ticks, room;
	struct chrome_tensor *next_held;
	/* Messages of one label may overlap: each has a lane of its own while it is in flight.
	 */
	int32_t number;
	uint32_t lane;
	struct chrome_tensor *next_lane;
};

static const char *const kinds[] = {
#define X(kind, word, activity, traits) #kind,
	TRACE_OPERATIONS(X)
#undef X
};

/* The name of an activity, without the back end that it begins with. */
static const char *const activities[] = {
#define X(kind, word, activity, traits) activity,
	TRACE_OPERATIONS(X)
#undef X
};

static const char *const dtypes[DTYPE_COUNT] = {
	[RINGUP_U8] = "uint8",    [RINGUP_I8] = "int8",       [RINGUP_U16] = "uint16",
	[RINGUP_I16] = "int16",   [RINGUP_I32] = "int32",     [RINGUP_I64] = "int64",
	[RINGUP_F16] = "float16", [RINGUP_BF16] = "bfloat16", [RINGUP_F32] = "float32",
	[RINGUP_F64] = "float64", [RINGUP_BOOL] = "bool",
};

/* ---- text ---- */

static void chrome_put(struct chrome *c, const char *text)
{
	size_t len = strlen(text);

	memcpy(c->text + c->len, text, len);
	c->len += len;
}

static void put_number(struct chrome *c, uint64_t n)
{
	char digits[20];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + n % 10);
	while (n /= 10);
	memcpy(c->text + c->len, digits + at, sizeof(digits) - at);
	c->len += sizeof(digits) - at;
}

/* Microseconds since the file's beginning, with three digits of the fraction. */
static void put_time(struct chrome *c, int64_t ns)
{
	uint64_t t = ns < c->from.start_ns ? 0 : (uint64_t)(ns - c->from.start_ns);

	put_number(c, t / 1000);
	c->text[c->len++] = '.';
	c->text[c->len++] = (char)('0' + t / 100 % 10);
	c->text[c->len++] = (char)('0' + t / 10 % 10);
	c->text[c->len++] = (char)('0' + t % 10);
}

static void put_metadata(struct chrome *c, const char *what, uint32_t process)
{
	chrome_put(c, ",\n{\"name\": \"");
	chrome_put(c, what);
	chrome_put(c, "\", \"ph\": \"M\", \"pid\": ");
	put_number(c, process);
	chrome_put(c, ", \"args\": {");
}

/* The job of a tensor, if the file has several: " (group 1, job 2)". */
static void put_job(struct chrome *c)
{
	bool counts = c->from.job > 1;

	if (!c->from.part && !counts)
		return;
	chrome_put(c, " (");
	if (c->from.part)
		chrome_put(c, c->from.part);
	if (c->from.part && counts)
		chrome_put(c, ", ");
	if (counts) {
		chrome_put(c, "job ");
		put_number(c, c->from.job);
	}
	chrome_put(c, ")");
}

/* The number that is written for a rank. */
static int rank_shown(const struct chrome *c, int rank)
{
	return c->from.ranks && rank >= 0 && rank < c->from.size ? c->from.ranks[rank] : rank;
}

/* A tensor appears in the file when it has its first event. */
static void introduce(struct chrome *c, struct chrome_tensor *t)
{
	t->process = c->from.processes
			     ? __atomic_add_fetch(c->from.processes, 1, __ATOMIC_RELAXED)
			     : ++c->processes;
	put_metadata(c, "process_name", t->process);
	chrome_put(c, "\"name\": \"");
	chrome_put(c, label_text(c->labels, t->label));
	if (t->lane) {
		chrome_put(c, " (");
		put_number(c, t->lane + 1);
		chrome_put(c, ")");
	}
	put_job(c);
	chrome_put(c, "\"}}");
	put_metadata(c, "process_sort_index", t->process);
	chrome_put(c, "\"sort_index\": ");
	put_number(c, t->process);
	chrome_put(c, "}}");
}

static void begin_event(struct chrome *c, struct chrome_tensor *t, char phase)
{
	char head[] = ",\n{\"ph\": \"?\"";

	if (!t->process)
		introduce(c, t);
	head[sizeof(head) - 3] = phase;
	chrome_put(c, head);
}

/* The time and the process of an event, after its name. */
static void place_event(struct chrome *c, const struct chrome_tensor *t, int64_t ns)
{
	chrome_put(c, ", \"ts\": ");
	put_time(c, ns);
	chrome_put(c, ", \"pid\": ");
	put_number(c, t->process);
}

/* Keeps a tensor's events in order of time, even if their records are not. */
static int64_t not_before(struct chrome_tensor *t, int64_t ns)
{
	if (ns > t->last_ns)
		t->last_ns = ns;
	return t->last_ns;
}

/* A B event without its closing brace: arguments may follow. */
static void open_interval(struct chrome *c, struct chrome_tensor *t, const char *prefix,
			  const char *name, int64_t ns)
{
	begin_event(c, t, 'B');
	chrome_put(c, ", \"name\": \"");
	chrome_put(c, prefix);
	chrome_put(c, name);
	chrome_put(c, "\"");
	place_event(c, t, not_before(t, ns));
}

static void put_begin(struct chrome *c, struct chrome_tensor *t, const char *prefix,
		      const char *name, int64_t ns)
{
	open_interval(c, t, prefix, name, ns);
	chrome_put(c, "}");
}

static void put_end(struct chrome *c, struct chrome_tensor *t, int64_t ns)
{
	begin_event(c, t, 'E');
	place_event(c, t, not_before(t, ns));
	chrome_put(c, "}");
}

static void put_tick(struct chrome *c, struct chrome_tensor *t, const struct tick *tick)
{
	begin_event(c, t, 'X');
	chrome_put(c, ", \"name\": \"");
	put_number(c, (uint64_t)rank_shown(c, tick->rank));
	chrome_put(c, "\"");
	place_event(c, t, tick->ns > t->closed_ns ? tick->ns : t->closed_ns);
	chrome_put(c, ", \"dur\": 0}");
}

/* ---- tensors ---- */

static struct chrome_tensor *tensor_of(struct chrome *c, uint32_t label)
{
	struct chrome_tensor **more;
	uint32_t n = c->tensors ? c->tensors : LABEL_STEP;

	while (n <= label)
		n *= 2;
	if (n != c->tensors) {
		more = realloc(c->tensor, n * sizeof(struct chrome_tensor *));
		if (!more)
			return NULL;
		memset(more + c->tensors, 0, (n - c->tensors) * sizeof(struct chrome_tensor *));
		c->tensor = more;
		c->tensors = n;
	}
	if (!c->tensor[label] && (c->tensor[label] = calloc(1, sizeof(**more)))) {
		c->tensor[label]->label = label;
		c->tensor[label]->dtype = DTYPE_COUNT;
	}
	return c->tensor[label];
}

static bool has_tick(const struct chrome_tensor *t, int rank)
{
	for (int i = 0; i < t->ticks; i++)
		if (t->tick[i].rank == rank)
			return true;
	return false;
}

/* Make room for this many ticks, and for their text. */
static int chrome_make_room(struct chrome *c, struct chrome_tensor *t, int ticks)
{
	size_t size = TEXT_BYTES + SLACK_BYTES + (size_t)ticks * TICK_BYTES;
	struct tick *more = realloc(t->tick, (size_t)ticks * sizeof(*more));
	char *text;

	if (!more)
		return -1;
	t->tick = more;
	if (size > c->size) {
		text = realloc(c->text, size);
		if (!text)
			return -1;
		c->text = text;
		c->size = size;
	}
	t->room = ticks;
	return 0;
}

static void add_tick(struct chrome *c, struct chrome_tensor *t, int rank, int64_t ns)
{
	if (t->ticks == t->room &&
	    (t->ticks >= MOST_TICKS ||
	     chrome_make_room(c, t, t->room ? t->room * 2 : FIRST_TICKS))) {
		c->failed = true;
		return;
	}
	t->tick[t->ticks++] = (struct tick){ ns, rank };
	/* The negotiation is in the file already, so the tick follows at once. */
	if (t->state == NEGOTIATING)
		put_tick(c, t, &t->tick[t->ticks - 1]);
}

/* Keep the beginning of a negotiation back: see chrome.h. */
static void hold(struct chrome *c, struct chrome_tensor *t, int64_t ns)
{
	if (t->state == HELD) {
		t->first_ns = ns < t->first_ns ? ns : t->first_ns;
		return;
	}
	t->state = HELD;
	t->first_ns = ns;
	t->next_held = c->held;
	c->held = t;
}

/* Take @t out of the list of tensors that are held. */
static void release(struct chrome *c, const struct chrome_tensor *t)
{
	struct chrome_tensor **p = &c->held;

	while (*p != t)
		p = &(*p)->next_held;
	*p = t->next_held;
}

static int by_time(const void *a, const void *b)
{
	const struct tick *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return x->rank - y->rank;
}

/* Write the beginning of a negotiation that was held, and its ticks. */
static void negotiate(struct chrome *c, struct chrome_tensor *t)
{
	release(c, t);
	if (t->ticks)
		qsort(t->tick, (size_t)t->ticks, sizeof(*t->tick), by_time);
	if (t->ticks && t->tick[0].ns < t->first_ns)
		t->first_ns = t->tick[0].ns;
	open_interval(c, t, "NEGOTIATE_", kinds[t->kind], t->first_ns);
	if (c->from.merges && t->round) {
		chrome_put(c, ", \"args\": {\"round\": ");
		put_number(c, t->round);
		chrome_put(c, "}");
	}
	chrome_put(c, "}");
	t->state = NEGOTIATING;
	for (int i = 0; i < t->ticks; i++)
		put_tick(c, t, &t->tick[i]);
}

/* Join and barrier are negotiated and nothing more, as in Horovod. */
static bool has_interval(const struct chrome_tensor *t)
{
	return t->kind != TRACE_JOIN && t->kind != TRACE_BARRIER;
}

static void put_shape(struct chrome *c, const struct chrome_tensor *t, uint64_t rows)
{
	chrome_put(c, ", \"args\": {\"dtype\": \"");
	chrome_put(c, dtypes[t->dtype]);
	chrome_put(c, "\", \"shape\": \"[");
	if (t->leads)
		put_number(c, rows);
	for (int i = 0; i < t->dims; i++) {
		if (i || t->leads)
			chrome_put(c, ", ");
		put_number(c, t->shape[i]);
	}
	chrome_put(c, "]\"}");
}

/* End all open events of a tensor; @known: with the dtype and shape of the result. */
static void close_all(struct chrome *c, struct chrome_tensor *t, int64_t ns, bool known,
		      uint64_t rows)
{
	if (t->state == HELD)
		negotiate(c, t);
	if (t->state == ACTIVE || t->state == NEGOTIATING)
		put_end(c, t, ns);
	if (t->state == ACTIVE || t->state == CARRIED) {
		begin_event(c, t, 'E');
		place_event(c, t, not_before(t, ns));
		if (known && t->dtype < DTYPE_COUNT && t->dims_given >= t->dims)
			put_shape(c, t, rows);
		chrome_put(c, "}");
	}
	if (t->state == NEGOTIATING)
		t->ticks = 0;
	if (t->state != IDLE)
		t->closed_ns = t->last_ns;
	t->state = IDLE;
	t->submitted = false;
}

/* At the end of an operation: other ranks may have submitted the next one. */
static void look_ahead(struct chrome *c, struct chrome_tensor *t)
{
	if (t->state == IDLE && t->ticks)
		hold(c, t, t->tick[0].ns);
}

/* ---- records ---- */

static void take_shape(struct chrome_tensor *t, const struct trace_record *r)
{
	int i, first = record_first(r);

	if (first == 0) {
		t->dtype = r->kind;
		t->dims = (uint8_t)(record_dims(r) < TRACE_DIMS ? record_dims(r) : TRACE_DIMS);
		t->dims_given = 0;
		t->leads = r->arg & TRACE_ROWS_LEAD;
	}
	/* Only the next dimensions: if others are missing, their records were dropped. */
	for (i = 0; i < 2 && first == t->dims_given - i && first + i < t->dims;
	     i++, t->dims_given++)
		t->shape[first + i] = r->word[i];
}

static void take_submitted(struct chrome *c, struct chrome_tensor *t,
			   const struct trace_record *r)
{
	/* The record of the last operation's end was dropped. */
	if (t->submitted || t->state == CARRIED || t->state == ACTIVE)
		close_all(c, t, r->ns, false, 0);
	t->kind = r->kind < TRACE_KINDS ? r->kind : TRACE_ALLREDUCE;
	t->round = r->word[0];
	t->before_ns = t->own_ns;
	t->own_ns = r->ns;
	t->submitted = true;
	add_tick(c, t, c->from.rank, r->ns);
	if (t->state != NEGOTIATING)
		hold(c, t, r->ns);
}

static void take_arrived(struct chrome *c, struct chrome_tensor *t,
			 const struct trace_record *r)
{
	/* A rank that has a tick already is ready for a later round. */
	if (has_tick(t, r->rank[0]))
		return;
	for (int i = 0; i < 4; i += 2)
		for (int k = r->rank[i]; k >= 0 && k <= r->rank[i + 1]; k++)
			add_tick(c, t, k, r->ns);
	if (t->state == IDLE) {
		t->kind = r->kind < TRACE_KINDS ? r->kind : TRACE_ALLREDUCE;
		hold(c, t, r->ns);
	}
}

/*
 * The times at which other ranks of the host were ready.  A rank that told none has left the
 * time of an earlier round.  It submits a round only after the round before is complete, that
 * is after this rank has submitted the round before, so an earlier time is an old one.
 */
static void take_ticks(struct chrome *c, struct chrome_tensor *t, const struct trace_record *r)
{
	const struct label_set *set = label_ranks(c->labels, r->arg);
	int64_t least = t->before_ns ? t->before_ns : c->from.since_ns, ns;
	int at;

	for (int i = 0; set && i < TRACE_FOUR; i++) {
		at = TRACE_FOUR * r->kind + i;
		if (at >= set->count || set->ranks[at] == c->from.rank || !(r->ago[i] >= 0) ||
		    r->ago[i] > 1e18f)
			continue;
		ns = r->ns - (int64_t)r->ago[i];
		if (ns >= least)
			add_tick(c, t, set->ranks[at], ns);
	}
}

/* When the last of @size ranks was ready; @ns if the time of a rank is missing. */
static int64_t ready_time(const struct chrome_tensor *t, uint64_t size, int64_t ns)
{
	int64_t last = t->ticks ? t->tick[0].ns : ns;

	for (int i = 1; i < t->ticks; i++)
		last = t->tick[i].ns > last ? t->tick[i].ns : last;
	return (uint64_t)t->ticks >= size && last < ns ? last : ns;
}

/* End the negotiation, and begin the operation. */
static void be_ready(struct chrome *c, struct chrome_tensor *t, int64_t ns, uint64_t size,
		     bool bad)
{
	if (t->state == HELD)
		negotiate(c, t);
	if (t->state == NEGOTIATING) {
		ns = ready_time(t, size, ns);
		put_end(c, t, ns);
		ns = t->last_ns;
	}
	t->ticks = 0;
	t->state = IDLE;
	if (!has_interval(t)) {
		t->closed_ns = t->last_ns;
		return;
	}
	put_begin(c, t, "", bad ? "ERROR" : kinds[t->kind], ns);
	t->state = CARRIED;
}

static void take_ready(struct chrome *c, struct chrome_tensor *t, const struct trace_record *r)
{
	if (t->state == CARRIED || t->state == ACTIVE || !t->submitted)
		return;
	be_ready(c, t, r->ns, r->word[0], r->arg);
	if (t->state != CARRIED)
		return;
	put_begin(c, t, "", "QUEUE", t->last_ns);
	t->state = ACTIVE;
}

static void open_activity(struct chrome *c, struct chrome_tensor *t, uint32_t carrier,
			  int64_t ns)
{
	open_interval(c, t, label_text(c->labels, carrier), activities[t->kind], ns);
}

static void take_begin(struct chrome *c, struct chrome_tensor *t, const struct trace_record *r)
{
	if (!t->submitted || !has_interval(t))
		return;
	if (t->state == HELD || t->state == NEGOTIATING)
		be_ready(c, t, r->ns, 0, false);
	if (t->state == ACTIVE)
		put_end(c, t, r->ns);
	if (t->state == IDLE)
		return;
	open_activity(c, t, (uint32_t)r->rank[2], r->ns);
	chrome_put(c, ", \"args\": {\"plan\": ");
	put_number(c, (uint32_t)r->rank[3]);
	chrome_put(c, ", \"tensors\": ");
	put_number(c, r->arg);
	chrome_put(c, ", \"bytes\": ");
	put_number(c, r->word[0]);
	chrome_put(c, "}}");
	t->state = ACTIVE;
}

static void take_end(struct chrome *c, struct chrome_tensor *t, const struct trace_record *r)
{
	if (t->state != ACTIVE)
		return;
	put_end(c, t, r->ns);
	t->state = CARRIED;
}

static void take_complete(struct chrome *c, struct chrome_tensor *t,
			  const struct trace_record *r)
{
	/* An open event may belong to the next operation, which other ranks have submitted. */
	if (!t->submitted)
		return;
	close_all(c, t, r->ns, !r->arg, r->word[0]);
	look_ahead(c, t);
}

static void take_finished(struct chrome *c, struct chrome_tensor *t,
			  const struct trace_record *r)
{
	if (!r->arg && t->submitted && (t->state == HELD || t->state == NEGOTIATING)) {
		be_ready(c, t, r->ns, (uint32_t)r->rank[3], false);
		if (t->state == CARRIED) {
			open_activity(c, t, (uint32_t)r->rank[2], t->last_ns);
			chrome_put(c, "}");
			t->state = ACTIVE;
		}
	}
	take_complete(c, t, r);
}

/* ---- messages ---- */

/* The lane of the message @number; if it @begins, a free one.  NULL: there is none. */
static struct chrome_tensor *lane_of(struct chrome *c, struct chrome_tensor *t, int32_t number,
				     bool begins)
{
	struct chrome_tensor *next;

	while (begins ? t->submitted : !t->submitted || t->number != number) {
		next = t->next_lane;
		if (!next && begins && t->lane + 1 < MOST_LANES) {
			next = t->next_lane = calloc(1, sizeof(*next));
			if (next) {
				next->label = t->label;
				next->lane = t->lane + 1;
			}
		}
		if (!next) {
			c->failed |= begins;
			return NULL;
		}
		t = next;
	}
	return t;
}

static void begin_message(struct chrome *c, struct chrome_tensor *t,
			  const struct trace_record *r)
{
	/* A tensor of the program may have the same name. */
	if (t->state != IDLE)
		close_all(c, t, r->ns, false, 0);
	t->kind = r->kind == TRACE_SEND ? TRACE_SEND : TRACE_RECV;
	t->round = 0;
	t->leads = false;
	t->dtype = r->arg < DTYPE_COUNT ? (uint8_t)r->arg : DTYPE_COUNT;
	t->dims = t->dims_given = 1;
	t->shape[0] = r->word[0];
	t->number = r->rank[3];
	t->submitted = true;
	t->ticks = 0;
	add_tick(c, t, c->from.rank, r->ns);
	hold(c, t, r->ns);
}

static void match_message(struct chrome *c, struct chrome_tensor *t,
			  const struct trace_record *r)
{
	if (t->state != HELD && t->state != NEGOTIATING)
		return;
	if (r->rank[0] >= 0 && !has_tick(t, r->rank[0]))
		add_tick(c, t, r->rank[0], r->ns);
	be_ready(c, t, r->ns, UINT64_MAX, r->arg);
	if (r->arg || t->state != CARRIED)
		return;
	open_activity(c, t, (uint32_t)r->rank[2], t->last_ns);
	chrome_put(c, "}");
	t->state = ACTIVE;
}

static void take_message(struct chrome *c, struct chrome_tensor *t,
			 const struct trace_record *r)
{
	t = lane_of(c, t, r->rank[3], r->what == TRACE_MESSAGE);
	if (!t)
		return;
	if (r->what == TRACE_MESSAGE)
		begin_message(c, t, r);
	else if (r->what == TRACE_MATCHED)
		match_message(c, t, r);
	else
		close_all(c, t, r->ns, !r->arg, 0);
}

void chrome_take(struct chrome *c, const struct trace_record *r)
{
	struct chrome_tensor *t;

	/* A thread had not yet seen that the recording before this one ended. */
	if (r->ns < c->from.start_ns)
		return;
	if (r->what == TRACE_CYCLE) {
		chrome_tick(c, r->ns);
		return;
	}
	t = r->label ? tensor_of(c, r->label) : NULL;
	if (!t) {
		c->failed |= r->label > 0;
		return;
	}
	switch ((enum trace_what)r->what) {
	case TRACE_SHAPE:
		take_shape(t, r);
		break;
	case TRACE_SUBMITTED:
		take_submitted(c, t, r);
		break;
	case TRACE_ARRIVED:
		take_arrived(c, t, r);
		break;
	case TRACE_TICKS:
		take_ticks(c, t, r);
		break;
	case TRACE_READY:
		take_ready(c, t, r);
		break;
	case TRACE_BEGIN:
		take_begin(c, t, r);
		break;
	case TRACE_END:
		take_end(c, t, r);
		break;
	case TRACE_COMPLETE:
		take_complete(c, t, r);
		break;
	case TRACE_FINISHED:
		take_finished(c, t, r);
		break;
	case TRACE_MESSAGE:
	case TRACE_MATCHED:
	case TRACE_MOVED:
		take_message(c, t, r);
		break;
	case TRACE_CYCLE:
		break;
	}
}

/* ---- files ---- */

int chrome_open(struct chrome *c, const struct chrome_origin *from, const struct labels *labels)
{
	memset(c, 0, sizeof(*c));
	c->from = *from;
	c->labels = labels;
	c->size = TEXT_BYTES + SLACK_BYTES;
	c->text = malloc(c->size);
	c->cycle_ns = from->start_ns;
	return c->text ? 0 : -1;
}

void chrome_close(struct chrome *c)
{
	struct chrome_tensor *t, *next;

	for (uint32_t i = 0; i < c->tensors; i++)
		for (t = c->tensor[i]; t; t = next) {
			next = t->next_lane;
			free(t->tick);
			free(t);
		}
	free(c->tensor);
	free(c->text);
	memset(c, 0, sizeof(*c));
}

void chrome_header(struct chrome *c)
{
	const struct chrome_origin *o = &c->from;
	size_t first = c->len;

	put_metadata(c, "process_name", 0);
	chrome_put(c, "\"start_time_since_epoch_in_micros\": ");
	put_number(c, (uint64_t)o->epoch_us);
	if (o->merges)
		c->len +=
			(size_t)snprintf(c->text + c->len, SLACK_BYTES / 2,
					 ", \"rank\": %d, \"size\": %d, \"host\": \"%.255s\", "
					 "\"clock\": \"%.255s\", \"start_ns\": %lld",
					 rank_shown(c, o->rank), o->size, o->host, o->clock,
					 (long long)o->start_ns);
	chrome_put(c, "}}");
	put_metadata(c, "process_sort_index", 0);
	chrome_put(c, "\"sort_index\": 0}}");
	/* The first event has the bracket of the array in the place of a comma. */
	c->text[first] = '[';
}

bool chrome_is_full(const struct chrome *c)
{
	return c->len >= TEXT_BYTES;
}

bool chrome_settle(struct chrome *c, int64_t ns)
{
	struct chrome_tensor *t, *next;

	for (t = c->held; t && !chrome_is_full(c); t = next) {
		next = t->next_held;
		if (t->first_ns <= ns)
			negotiate(c, t);
	}
	return !t;
}

static void put_marker(struct chrome *c, const char *name, int64_t ns)
{
	chrome_put(c, ",\n{\"ph\": \"i\", \"name\": \"");
	chrome_put(c, name);
	chrome_put(c, "\", \"ts\": ");
	put_time(c, ns);
	chrome_put(c, ", \"s\": \"g\"");
}

void chrome_tick(struct chrome *c, int64_t ns)
{
	put_marker(c, "CYCLE_START", ns);
	chrome_put(c, "}");
	c->cycle_ns = ns;
}

void chrome_dropped(struct chrome *c, uint64_t count, int64_t ns)
{
	put_marker(c, "DROPPED_EVENTS", ns);
	chrome_put(c, ", \"args\": {\"dropped_events\": ");
	put_number(c, count);
	chrome_put(c, "}}");
}
