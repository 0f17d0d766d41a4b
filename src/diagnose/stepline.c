/* stepline.c - find the step that a line of a training run or simulation states. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/stepline.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "diagnose/complaint.h"
#include "diagnose/fields.h"

enum { LOOK = 256, BETWEEN = 4, WIDE = 12, DIGITS = 12, BEFORE_VERB = 8 };

static bool stepline_is_letter(char c)
{
	return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

static size_t lower_copy(char low[LOOK + 1], const char *line, const char *end)
{
	size_t n = (size_t)(end - line) < LOOK ? (size_t)(end - line) : LOOK;

	for (size_t i = 0; i < n; i++)
		low[i] = line[i] >= 'A' && line[i] <= 'Z' ? (char)(line[i] | 0x20)
			 : line[i]                        ? line[i]
							  : ' ';
	low[n] = 0;
	return n;
}

static bool says_one_of(const char *line, const char *end, const char *const *words)
{
	char low[LOOK + 1];

	lower_copy(low, line, end);
	for (; *words; words++)
		if (strstr(low, *words))
			return true;
	return false;
}

/* Does the line tell of a request that a server answered, or of its load? */
static bool stepline_serves(const char *line, const char *end)
{
	static const char *const words[] = { " http/1.1\" 200", " http/1.1\" 30",
					     " http/1.0\" 200", "throughput",
					     " reqs",           "requests/s",
					     " 200 ok",         NULL };

	return says_one_of(line, end, words);
}

bool stepline_waits(const char *line, const char *end)
{
	static const char *const words[] = { "wait",  "stall",   "stuck",       "hung",
					     "hang",  "timeout", "timed out",   "no progress",
					     "alive", "idle",    "not respond", NULL };

	return says_one_of(line, end, words) && !stepline_serves(line, end);
}

bool stepline_is_about_failure(const char *line, const char *end)
{
	static const char *const words[] = { "wait",       "stall", "stuck",     "hung",
					     "timeout",    "fail",  "timed out", "exception",
					     "abort",      "kill",  "resum",     "restart",
					     "collective", "lost",  NULL };
	const char *said;

	return says_one_of(line, end, words) ||
	       complaint_judge(line, end, &said) != COMPLAINT_NONE;
}

bool stepline_sets_up(const char *line, const char *end)
{
	static const char *const words[] = { "init_process_group",
					     "rendezvous",
					     "initializing",
					     "waiting for",
					     "wait for",
					     "barrier",
					     "downloading",
					     "connecting",
					     "joining",
					     "to join",
					     NULL };
	/* One that serves others waits for them, and a launcher for the end of its job. */
	static const char *const calm[] = { "request", "to finish", "to complete", "to end",
					    "client",  "message",   "for job",     "for tasks",
					    "input",   NULL };
	const char *said;

	return says_one_of(line, end, words) && !says_one_of(line, end, calm) &&
	       complaint_judge(line, end, &said) == COMPLAINT_NONE;
}

/* The next word of small letters from *@p on; its length, or 0. */
static size_t next_low(const char **p)
{
	size_t n = 0;

	while (**p && !stepline_is_letter(**p))
		++*p;
	while (stepline_is_letter((*p)[n]) || ((*p)[n] == '-' && n))
		n++;
	return n;
}

static bool stepline_is_one(const char *word, size_t n, const char *const *words)
{
	for (; *words; words++)
		if (strlen(*words) == n && !memcmp(*words, word, n))
			return true;
	return false;
}

/* Does a message begin at @p: after a mark, a level, a name or a time, or at the start? */
static bool is_beginning(const char *low, const char *p)
{
	while (p > low && p[-1] == ' ')
		p--;
	return p == low || strchr("]:|->)=*#.\t", p[-1]) ||
	       (num_is_digit(p[-1]) && p - low < 40);
}

bool stepline_begins(const char *line, const char *end)
{
	static const char *const verbs[] = {
		"saving",        "loading",    "evaluating",    "validating",    "downloading",
		"uploading",     "compiling",  "gathering",     "all-gathering", "building",
		"writing",       "exporting",  "merging",       "flushing",      "syncing",
		"broadcasting",  "resharding", "synchronizing", "checkpointing", "entering",
		"creating",      "preparing",  "tokenizing",    "prefetching",   "caching",
		"consolidating", NULL
	};
	static const char *const runs[] = { "running", "starting", "beginning",
					    "begin",   "start",    NULL };
	static const char *const objects[] = { "eval",   "valid",   "checkpoint", "test",
					       "save",   "barrier", "gather",     "download",
					       "compil", "load",    NULL };
	char low[LOOK + 1];
	const char *p;
	size_t n, words = 0;
	int rank;

	line = fields_unmark(line, end, &rank);
	lower_copy(low, line, end);
	for (p = low; (n = next_low(&p)) && words < BEFORE_VERB; p += n, words++) {
		if (!is_beginning(low, p))
			continue;
		if (stepline_is_one(p, n, verbs))
			return true;
		for (int i = 0; stepline_is_one(p, n, runs) && objects[i]; i++)
			if (strstr(p, objects[i]))
				return true;
	}
	return false;
}

bool stepline_is_done(const char *line, const char *end)
{
	static const char *const alone[] = { "done",    "finished", "bye",
					     "goodbye", "exiting",  NULL };
	static const char *const ends[] = { "done",     "finished",   "complete",   "completed",
					    "ended",    "exiting",    "successful", "succeeded",
					    "finishes", "terminated", NULL };
	static const char *const wholes[] = { "training",   "train",       "job",
					      "run",        "program",     "experiment",
					      "script",     "fit",         "pipeline",
					      "workflow",   "everything",  "all",
					      "main",       "pretraining", "finetune",
					      "finetuning", "fine-tuning", "simulation",
					      "inference",  "benchmark",   NULL };
	static const char *const parts[] = {
		"epoch",    "step",    "iter",     "eval",    "valid", "warm",
		"batch",    "not ",    "before",   "until",   "when",  "will",
		"init",     "compil",  "download", "n't",     "if ",   "shard",
		"preproce", "tokeniz", "stage",    "phase",   "load",  "setup",
		"with ",    "built",   "data",     "nothing", NULL
	};
	static const char *const any[] = { "done",   "finish",  "bye",   "complete",
					   "ended",  "exiting", "succe", "terminat",
					   "end of", "early",   NULL };
	static const char *const early[] = { "stopped early", "early stopping", NULL };
	char low[LOOK + 1];
	const char *p, *whole = NULL, *last = NULL;
	size_t n, words = 0;
	int rank;

	if (end - line > LOOK || !says_one_of(line, end, any))
		return false;
	line = fields_unmark(line, end, &rank);
	/* Of several sentences the last one tells. */
	for (p = line; (p = memmem(p, (size_t)(end - p), ". ", 2)); p++)
		line = end - p > 4 ? p + 2 : line;
	if (stepline_is_about_failure(line, end))
		return false;
	if (says_one_of(line, end, early))
		return true;
	if (says_one_of(line, end, parts))
		return false;
	lower_copy(low, line, end);
	for (p = low; (n = next_low(&p)); p += n, words++) {
		if (stepline_is_one(p, n, alone) && is_beginning(low, p))
			return true;
		if (whole && words < 6 && stepline_is_one(p, n, ends))
			return true;
		if (last && words < 4 && stepline_is_one(p, n, wholes))
			return true;
		if (!strncmp(p, "end of ", 7)) {
			last = p;
			words = 0;
		}
		if (!whole && stepline_is_one(p, n, wholes)) {
			whole = p;
			words = 0;
		}
	}
	return false;
}

/* The whole number at @p, after at most a few marks, or blanks that align it with those of
 * other lines; -1 if there is none. */
static long number_after(const char *p, const char *end)
{
	const char *start = p;
	long v = 0;
	int digits = 0, marks = 0;

	for (; p < end && p - start < WIDE && *p && strchr(" =:#[('\"\t", *p); p++)
		if (*p != ' ' && ++marks > BETWEEN)
			break;
	for (; p < end && num_is_digit(*p) && digits < DIGITS; digits++)
		v = 10 * v + (*p++ - '0');
	return digits && p > start && (p == end || !stepline_is_letter(*p)) ? v : -1;
}

/* Words before the number of a step.  A longer word may end in one: "global_step". */
static bool is_step_word(const char *p, size_t len)
{
	static const char words[][12] = { "step",  "epoch",      "iter",     "iteration",
					  "cycle", "batch",      "round",    "episode",
					  "it",    "update",     "timestep", "sample",
					  "trial", "shard",      "fold",     "sweep",
					  "chunk", "generation", "" };
	size_t k;

	for (int i = 0; *words[i]; i++) {
		for (k = 0; k < len && (p[k] | 0x20) == words[i][k]; k++)
			;
		if (k == len && !words[i][k])
			return true;
	}
	return false;
}

/* Is it the beginning of what a bar shows: " [5:15:39<6:53:09", " [==>...]" of Keras 2, or a
 * line that Keras 3 draws? */
static bool is_bar(const char *q, const char *end)
{
	static const char drawn[] = " \xe2\x94\x81";

	if (end - q < 4 || *q != ' ')
		return false;
	return (q[1] == '[' && (num_is_digit(q[2]) || strchr("=>", q[2]))) ||
	       !memcmp(q, drawn, sizeof(drawn) - 1);
}

/* The factor of the letter that may follow a number that a bar shows: "2.25M"; 1 for others. */
static long scale_of(char c)
{
	return c == 'k' ? 1000 : c == 'M' ? 1000000 : c == 'G' ? 1000000000 : 1;
}

/* "366/903 [5:15:39<6:53:09, 46.16s/it]", "2.25M/10.0M [04:30<15:30": the number before the
 * slash. */
static long bar_at(const char *slash, const char *line, const char *end)
{
	long scale = slash > line ? scale_of(slash[-1]) : 1, part = 0, v = 0;
	const char *stop = slash - (scale > 1), *p = stop, *q = slash + 1;

	while (q < end && (num_is_digit(*q) || *q == '.'))
		q++;
	q += q < end && scale_of(*q) > 1;
	while (p > line && (num_is_digit(p[-1]) || (scale > 1 && p[-1] == '.')) &&
	       slash - p < DIGITS)
		p--;
	if (p == stop || q == slash + 1 || !is_bar(q, end))
		return -1;
	for (; p < stop && *p != '.'; p++)
		v = 10 * v + (*p - '0');
	if (scale > 1 && v > 1000000000)
		return -1;
	v *= scale;
	for (part = scale / 10, p++; p < stop && num_is_digit(*p); p++, part /= 10)
		v += part * (*p - '0');
	return v;
}

/* "[ 50/2000]" and "[640/60000 (1%)]": the number before the slash. */
static long bracket_at(const char *slash, const char *line, const char *end)
{
	const char *p = slash, *q = slash + 1, *number;
	long v = 0;

	while (q < end && num_is_digit(*q))
		q++;
	while (p > line && num_is_digit(p[-1]) && slash - p < DIGITS)
		p--;
	number = p;
	while (p > line && p[-1] == ' ')
		p--;
	if (number == slash || q == slash + 1 || p == line || p[-1] != '[' || q == end ||
	    (*q != ']' && *q != ' '))
		return -1;
	for (; number < slash; number++)
		v = 10 * v + (*number - '0');
	return v;
}

/* "Finished task 3.0 in stage 2.1 (TID 17)" and "Job 2 finished: " of Spark. */
static long spark_step(const char *line, const char *end)
{
	const char *at =
		memmem(line, (size_t)(end - line), "TaskSetManager: Finished task ", 30);

	if (at)
		return number_after(at + 29, end);
	at = memmem(line, (size_t)(end - line), "DAGScheduler: Job ", 18);
	return at && memmem(at, (size_t)(end - at), " finished: ", 11)
		       ? number_after(at + 17, end)
		       : -1;
}

/* The number behind the next word for a step; *@at is set behind the word. */
static long next_step(const char **at, const char *end)
{
	const char *p = *at, *word;
	long step;

	while (p < end) {
		if (!stepline_is_letter(*p)) {
			p++;
			continue;
		}
		for (word = p; p < end && stepline_is_letter(*p); p++)
			;
		if (p - word < 11 && is_step_word(word, (size_t)(p - word)) &&
		    (step = number_after(p, end)) >= 0) {
			*at = p;
			return step;
		}
	}
	return -1;
}

/* "50 / 900", and "50/900" behind a blank. */
static long share_at(const char *slash, const char *line, const char *end)
{
	const char *p = slash, *q = slash + 1, *number;
	long v = 0;

	while (p > line && p[-1] == ' ')
		p--;
	while (q < end && *q == ' ')
		q++;
	for (number = p; number > line && num_is_digit(number[-1]) && p - number < DIGITS;)
		number--;
	if (number == p || number == line || number[-1] != ' ' || q == end || !num_is_digit(*q))
		return -1;
	for (; number < p; number++)
		v = 10 * v + (*number - '0');
	return v;
}

/* " 600/1251 loss 5.5": the number before the slash, with a measure behind the one after it. */
static long measured_at(const char *slash, const char *line, const char *end)
{
	static const char *const words[] = {
		"loss", "train_loss", "lr", "reward", "acc", "ppl"
	};
	const char *q = slash + 1, *word;

	while (q < end && num_is_digit(*q))
		q++;
	for (word = q; q < end && (*q == ' ' || *q == '|' || *q == ','); q++)
		;
	if (word == slash + 1 || q == word)
		return -1;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i]);

		if ((size_t)(end - q) > n && !memcmp(q, words[i], n) &&
		    !stepline_is_letter(q[n]))
			return share_at(slash, line, end);
	}
	return -1;
}

/* "[  300] loss: 2.1" and "[2,   300] loss: 2.1": the last number in the brackets, and *@part
 * the first of two. */
static long loss_at(const char *line, const char *end, long *part)
{
	const char *p, *q, *close;
	long first, last;
	int rank;

	*part = 0;
	p = fields_unmark(line, end, &rank);
	close = p < end && *p == '[' && end - p > 8 ? memchr(p, ']', (size_t)(end - p)) : NULL;
	if (!close || close - p > 2 * DIGITS || end - close < 6 ||
	    memcmp(close, "] loss", 6) != 0)
		return -1;
	first = number_after(p, close);
	q = memchr(p, ',', (size_t)(close - p));
	last = q ? number_after(q + 1, close) : first;
	*part = q && first > 0 ? first : 0;
	return last;
}

/* "41\timages/sec: 848.7", in the benchmarks of TensorFlow: the number before a rate that
 * begins at @rate. */
static long rate_at(const char *rate, const char *line, const char *end)
{
	static const char *const units[] = { "images/sec:", "samples/sec:", "tokens/sec:",
					     "examples/sec:" };
	const char *p;
	long v = 0;

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t n = strlen(units[i]);

		if ((size_t)(end - rate) < n || memcmp(rate, units[i], n) != 0)
			continue;
		while (rate > line && (rate[-1] == ' ' || rate[-1] == '\t'))
			rate--;
		for (p = rate; p > line && num_is_digit(p[-1]) && rate - p < DIGITS; p--)
			;
		/* A mark of a rank, or nothing, is before it. */
		if (p == rate || (p > line && !strchr(" :>]", p[-1])))
			return -1;
		for (; p < rate; p++)
			v = 10 * v + (*p - '0');
		return v;
	}
	return -1;
}

/* "steps: 120 loss: 2.1 iter time (s): 0.3" of DeepSpeed.  Elsewhere the word counts those that
 * are to come. */
static long deepspeed_step(const char *line, const char *end)
{
	const char *at = memmem(line, (size_t)(end - line), "steps: ", 7);

	if (!at || (at > line && at[-1] != ' ' && at[-1] != ']') ||
	    !memmem(at, (size_t)(end - at), " loss: ", 7))
		return -1;
	return number_after(at + 5, end);
}

static long find_step(const char *line, const char *end)
{
	const char *p, *word;
	long step, part;

	if ((step = loss_at(line, end, &part)) >= 0)
		return step;
	for (p = line; p < end && (p = memchr(p, '/', (size_t)(end - p))); p++) {
		if ((step = bar_at(p, line, end)) >= 0 ||
		    (step = bracket_at(p, line, end)) >= 0 ||
		    (step = measured_at(p, line, end)) >= 0)
			return step;
		if (end - p > 4 && !memcmp(p, "/sec:", 5)) {
			for (word = p; word > line && stepline_is_letter(word[-1]); word--)
				;
			if ((step = rate_at(word, line, end)) >= 0)
				return step;
		}
	}
	p = line;
	step = next_step(&p, end);
	return step >= 0 ? step : deepspeed_step(line, end);
}

long stepline_total(const char *line, const char *end)
{
	long step = stepline_read(line, end), total = 0;
	const char *p = line, *q;

	if (end - line > LOOK)
		end = line + LOOK;
	for (; step >= 0 && p < end && (p = memchr(p, '/', (size_t)(end - p))); p++) {
		for (q = p; q > line && num_is_digit(q[-1]) && p - q < DIGITS; q--)
			;
		if (q == p || strtol(q, NULL, 10) != step || (q > line && q[-1] == '/'))
			continue;
		for (q = p + 1; q < end && *q == ' '; q++)
			;
		for (; q < end && num_is_digit(*q) && q - p < DIGITS; q++)
			total = 10 * total + (*q - '0');
		return q < end && *q == '/' ? 0 : total;
	}
	return 0;
}

int stepline_percent(const char *line, const char *end)
{
	static const char *const words[] = { "complete", "progress", "done", NULL };
	const char *sign, *p, *q;

	if (end - line > LOOK)
		end = line + LOOK;
	if (stepline_read(line, end) < 0 || !says_one_of(line, end, words))
		return -1;
	for (sign = line; sign < end && (sign = memchr(sign, '%', (size_t)(end - sign)));
	     sign++) {
		for (p = sign;
		     p > line && (num_is_digit(p[-1]) || p[-1] == '.') && sign - p < DIGITS;)
			p--;
		for (q = p; q > line && strchr(" :=(", q[-1]); q--)
			;
		if (p < sign && num_is_digit(*p) &&
		    ((q - line > 7 && says_one_of(q - 8, q, words)) ||
		     says_one_of(sign, end - sign > 12 ? sign + 12 : end, words)))
			return atoi(p);
	}
	return -1;
}

/* Is the text up to @end, from @line on, one that announces steps: "total ", "--train-"? */
static bool is_announced(const char *line, const char *end)
{
	static const char *const words[] = {
		"total", "max", "num", "train", "optimization", "-"
	};
	const char *stop = end > line && strchr(" _-", end[-1]) ? end - 1 : end;

	for (size_t i = 0; stop < end && i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i]);

		if ((size_t)(stop - line) >= n && !memcmp(stop - n, words[i], n) &&
		    (stop - n == line || !stepline_is_letter(stop[-1 - (ptrdiff_t)n])))
			return true;
	}
	return false;
}

long stepline_plan(const char *line, const char *end)
{
	static const char *const units[] = { "steps", "iters" };
	char low[LOOK + 1];
	const char *at;
	size_t n = lower_copy(low, line, end);

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		for (at = low; (at = strstr(at, units[i])); at++)
			if (is_announced(low, at) && number_after(at + 5, low + n) > 0)
				return number_after(at + 5, low + n);
	return 0;
}

bool stepline_is_drawn(const char *line, const char *end)
{
	const char *p = line;

	for (; p < end && (p = memchr(p, '/', (size_t)(end - p))); p++)
		if (bar_at(p, line, end) >= 0)
			return true;
	return false;
}

bool stepline_counts(const char *line, const char *end)
{
	static const char *const others[] = { "epoch", "round", "episode", "trial",
					      "fold",  "shard", "chunk",   NULL };

	return !says_one_of(line, end, others);
}

/* Hugging Face's "{'loss': 2.1, 'learning_rate': 1e-05, 'epoch': 0.0}", or NULL.  The names in
 * it are the program's: 'compile_fail_rate' is no failure. */
static const char *find_measures(const char *line, const char *end)
{
	const char *p = memchr(line, '{', (size_t)(end - line));

	return p && end - p > 9 && p[1] == '\'' && memmem(p, (size_t)(end - p), "'epoch': ", 9)
		       ? p
		       : NULL;
}

/* A number for all that the line measures, since its epoch has few digits. */
static long measured(const char *p, const char *end)
{
	unsigned long h = 0;

	for (; p < end; p++)
		if (num_is_digit(*p) || *p == 'e' || *p == '-')
			h = 31 * h + (unsigned char)*p;
	return (long)(h % 1000000007 + 1);
}

long stepline_within(const char *line, const char *end)
{
	const char *p = find_measures(line, end), *slash;
	long step, part;

	if (p)
		return measured(p, end);
	p = line;

	if (end - line > LOOK)
		end = line + LOOK;
	if (loss_at(line, end, &part) >= 0)
		return part;
	if (next_step(&p, end) < 0)
		return 0;
	slash = memchr(p, '/', (size_t)(end - p));
	step = next_step(&p, end);
	if (step < 0 && slash)
		step = share_at(slash, line, end);
	return step > 0 ? step : 0;
}

long stepline_read(const char *line, const char *end)
{
	const char *measures = find_measures(line, end);
	long step;

	if (measures)
		return number_after((const char *)memmem(measures, (size_t)(end - measures),
							 "'epoch': ", 9) +
					    7,
				    end);
	if (end - line > LOOK)
		end = line + LOOK;
	step = find_step(line, end);
	if (step < 0)
		step = spark_step(line, end);
	return step >= 0 && !stepline_begins(line, end) && !stepline_is_about_failure(line, end)
		       ? step
		       : -1;
}

bool stepline_is_calm(const char *line, const char *end)
{
	static const char *const words[] = { "nccl ", "  file \"",   "frame #",   "\tat ",
					     "fail",  "waiting for", "wait for",  "timed out",
					     "retry", "timeout",     "exception", "abort",
					     "kill",  "stall",       "restart",   NULL };
	const char *p = line, *said;

	while (p < end && !num_is_digit(*p))
		p++;
	/* Lines that go on with a message begin with blanks. */
	return p < end && *line != ' ' && *line != '\t' && !says_one_of(line, end, words) &&
	       complaint_judge(line, end, &said) == COMPLAINT_NONE;
}
