/* stepline.c - find the step that a line of a training run or simulation states. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/stepline.h"

#include <stddef.h>
#include <string.h>

#include "base/num.h"
#include "diagnose/complaint.h"

enum { LOOK = 256, BETWEEN = 4, DIGITS = 12 };

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

bool stepline_waits(const char *line, const char *end)
{
	static const char *const words[] = { "wait",  "stall",   "stuck",       "hung",
					     "hang",  "timeout", "timed out",   "no progress",
					     "alive", "idle",    "not respond", NULL };

	return says_one_of(line, end, words);
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

/* The whole number at @p, after at most a few marks; -1 if there is none. */
static long number_after(const char *p, const char *end)
{
	const char *start = p;
	long v = 0;
	int digits = 0;

	while (p < end && p - start < BETWEEN && strchr(" =:#[('\"\t", *p) && *p)
		p++;
	for (; p < end && num_is_digit(*p) && digits < DIGITS; digits++)
		v = 10 * v + (*p++ - '0');
	return digits && p > start && (p == end || !stepline_is_letter(*p)) ? v : -1;
}

/* Words before the number of a step.  A longer word may end in one: "global_step". */
static bool is_step_word(const char *p, size_t len)
{
	static const char *const words[] = { "step",   "epoch",     "iter",   "iteration",
					     "cycle",  "batch",     "round",  "episode",
					     "update", "timestep",  "sample", "it",
					     "trial",  "shard",     "fold",   "sweep",
					     "chunk",  "generation" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i]), k = 0;

		while (k < n && n == len && (p[k] | 0x20) == words[i][k])
			k++;
		if (k == n && n == len)
			return true;
	}
	return false;
}

/* "366/903 [5:15:39<6:53:09, 46.16s/it]": the number before the slash. */
static long bar_at(const char *slash, const char *line, const char *end)
{
	const char *p = slash, *q = slash + 1;
	long v = 0;

	while (q < end && num_is_digit(*q))
		q++;
	while (p > line && num_is_digit(p[-1]) && slash - p < DIGITS)
		p--;
	if (p == slash || q == slash + 1 || end - q < 3 || q[0] != ' ' || q[1] != '[' ||
	    !num_is_digit(q[2]))
		return -1;
	for (; p < slash; p++)
		v = 10 * v + (*p - '0');
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

static long find_step(const char *line, const char *end)
{
	const char *p;
	long step;

	for (p = line; p < end && (p = memchr(p, '/', (size_t)(end - p))); p++)
		if ((step = bar_at(p, line, end)) >= 0 ||
		    (step = bracket_at(p, line, end)) >= 0)
			return step;
	p = line;
	return next_step(&p, end);
}

long stepline_within(const char *line, const char *end)
{
	const char *p = line, *slash;
	long step;

	if (end - line > LOOK)
		end = line + LOOK;
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
	long step;

	if (end - line > LOOK)
		end = line + LOOK;
	step = find_step(line, end);
	if (step < 0)
		step = spark_step(line, end);
	return step >= 0 && !stepline_is_about_failure(line, end) ? step : -1;
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
