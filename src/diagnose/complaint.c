/* complaint.c - tell from its form alone whether a line of a log is a complaint. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/complaint.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "diagnose/wrap.h"

enum { PROSE = 2, WORDS = 14, LOOK_FOR_FAILURE = 400, RULE = 74 };

/* A word of a line's head. */
struct word {
	const char *at;
	size_t len;
	char before, after; /* neighbours; 0 at the ends of the line */
};

static bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

/* Separators of words; other bytes are parts of words. */
static bool is_gap(char c)
{
	static const bool gaps[256] = {
		true,         true,         true,         true,         true,
		true,         true,         true,         true,         true,
		true,         true,         true,         true,         true,
		true,         true,         true,         true,         true,
		true,         true,         true,         true,         true,
		true,         true,         true,         true,         true,
		true,         true,         true,         ['['] = true, [']'] = true,
		['('] = true, [')'] = true, ['|'] = true, ['<'] = true, ['>'] = true,
		['{'] = true, ['}'] = true, ['"'] = true, [','] = true,
	};

	return gaps[(unsigned char)c];
}

/* Skips a terminal's colour sequence. */
static const char *skip_colour(const char *at, const char *end)
{
	for (at += 2; at < end && (num_is_digit(*at) || *at == ';'); at++)
		;
	return at < end ? at + 1 : at;
}

/* Is nothing left but blanks and ends of colours? */
static bool is_end(const char *p, const char *end)
{
	while (p < end && (unsigned char)*p <= ' ')
		p = *p == 0x1b && p + 1 < end && p[1] == '[' ? skip_colour(p, end) : p + 1;
	return p == end;
}

static bool word_is(const struct word *w, const char *text)
{
	return strlen(text) == w->len && !memcmp(w->at, text, w->len);
}

static bool word_ends(const struct word *w, const char *tail)
{
	size_t n = strlen(tail);

	return w->len >= n && !memcmp(w->at + w->len - n, tail, n);
}

/* Copies the beginning of the text at @p in small letters. */
static void lower(char low[LOOK_FOR_FAILURE + 1], const char *p, const char *end)
{
	size_t i,
		n = (size_t)(end - p) < LOOK_FOR_FAILURE ? (size_t)(end - p) : LOOK_FOR_FAILURE;

	for (i = 0; i < n; i++)
		low[i] = is_upper(p[i]) ? (char)(p[i] | 0x20) : p[i] ? p[i] : ' ';
	low[n] = 0;
}

/* Does a message say how the program goes on despite the failure? */
static bool goes_on(const char *p, const char *end)
{
	static const char *const calm[] = { "will proceed",    "proceeding",
					    "falling back",    "fall back to",
					    "using default",   "will default",
					    "will be ignored", "trying the next",
					    "going on without" };
	char low[LOOK_FOR_FAILURE + 1];

	lower(low, p, end);
	for (size_t i = 0; i < sizeof(calm) / sizeof(calm[0]); i++)
		if (strstr(low, calm[i]))
			return true;
	return false;
}

/* ---- levels ---- */

static enum complaint letter_level(char letter)
{
	return letter == 'E' || letter == 'F' ? COMPLAINT_ERROR
	       : letter == 'W'                ? COMPLAINT_WARNING
					      : COMPLAINT_NONE;
}

/* E1122 of glog and absl: the level, the month and the day; torch writes no leading zero. */
static bool is_glog(const struct word *w)
{
	size_t i;

	if (w->len < 4 || w->len > 9 || !memchr("IWEF", *w->at, 4) || w->after != ' ')
		return false;
	for (i = 1; i < w->len && num_is_digit(w->at[i]); i++)
		;
	return i == w->len;
}

static bool is_digits(const struct word *w)
{
	size_t i;

	for (i = 0; i < w->len && num_is_digit(w->at[i]); i++)
		;
	return i == w->len;
}

/* "[W socket.cpp:464]" of torch, "12:00:00.123: W tensorflow/" of TensorFlow,
 * "12:00:00,123 E 41 42]" of Ray. */
static bool is_letter_level(const struct word *w, const struct word *last)
{
	if (w->len != 1 || !memchr("TDIWEF", *w->at, 6) || w->after != ' ')
		return false;
	return w->before == '[' || (last->before == ',' && last->len == 3 && is_digits(last)) ||
	       (last->len > 4 && num_is_digit(*last->at) && last->at[last->len - 1] == ':');
}

/* Does more text follow the word, as after a level? */
static bool is_followed(const struct word *w, const char *end)
{
	const char *p = w->at + w->len;

	/* A line of dashes after the level, as PETSc writes, is no text. */
	while (p < end && *p != 0x1b && (is_gap(*p) || strchr(":-=*", *p)))
		p++;
	return !is_end(p, end);
}

/* "error: 0.25" is a number that a training run prints. */
static bool is_number_after(const struct word *w, const char *end)
{
	const char *p = w->at + w->len;

	while (p < end && *p == ' ')
		p++;
	return p < end && (num_is_digit(*p) || *p == '-' || *p == '+');
}

/* Level words, some with the text that follows directly: "ERROR:root:" of Python. */
static const struct {
	const char *text;
	enum complaint level;
	bool may_go_on;
	bool in_prose; /* in prose a number may follow this word; it is no level then */
} levels[] = {
	{ "TRACE", COMPLAINT_NONE, false, false },
	{ "DEBUG", COMPLAINT_NONE, false, false },
	{ "DEBUG:", COMPLAINT_NONE, true, false },
	{ "INFO", COMPLAINT_NONE, false, false },
	{ "INFO:", COMPLAINT_NONE, true, false },
	{ "NOTICE", COMPLAINT_NONE, false, false },
	{ "Info:", COMPLAINT_NONE, false, false },
	{ "info:", COMPLAINT_NONE, false, false },
	{ "WARN", COMPLAINT_WARNING, false, false },
	{ "WARN:", COMPLAINT_WARNING, true, false },
	{ "WARNING", COMPLAINT_WARNING, false, false },
	{ "WARNING:", COMPLAINT_WARNING, true, false },
	{ "Warning:", COMPLAINT_WARNING, false, false },
	{ "warning:", COMPLAINT_WARNING, false, false },
	{ "ERR", COMPLAINT_ERROR, false, false },
	{ "ERROR", COMPLAINT_ERROR, false, false },
	{ "ERROR:", COMPLAINT_ERROR, true, false },
	{ "FATAL", COMPLAINT_ERROR, false, false },
	{ "FATAL:", COMPLAINT_ERROR, true, false },
	{ "CRITICAL", COMPLAINT_ERROR, false, false },
	{ "CRITICAL:", COMPLAINT_ERROR, true, false },
	{ "CCL_WARN", COMPLAINT_WARNING, false, false },
	{ "CCL_ERROR", COMPLAINT_ERROR, false, false },
	{ "SEVERE", COMPLAINT_ERROR, false, false },
	{ "SEVERE:", COMPLAINT_ERROR, false, false },
	{ "PANIC:", COMPLAINT_ERROR, false, false },
	{ "error:", COMPLAINT_ERROR, false, true },
	{ "Error:", COMPLAINT_ERROR, false, true },
	{ "fatal:", COMPLAINT_ERROR, false, true },
	{ "Fatal:", COMPLAINT_ERROR, false, true },
	{ "panic:", COMPLAINT_ERROR, false, true },
};

/* Can the word be a level, by the case of its letters? */
static bool may_be_level(const struct word *w)
{
	return w->len > 2 && (is_upper(w->at[1]) || w->at[w->len - 1] == ':') &&
	       (is_upper(*w->at) || is_lower(*w->at));
}

/* "<warn>" of libfabric, also in JSON's form, where it is part of a word. */
static bool is_angle_level(const struct word *w, enum complaint *level)
{
	static const struct {
		const char *text, *json;
		enum complaint level;
	} angles[] = {
		{ "warn", "\\u003cwarn\\u003e", COMPLAINT_WARNING },
		{ "info", "\\u003cinfo\\u003e", COMPLAINT_NONE },
		{ "debug", "\\u003cdebug\\u003e", COMPLAINT_NONE },
		{ "trace", "\\u003ctrace\\u003e", COMPLAINT_NONE },
	};
	bool is_json = w->at[w->len - 1] == 'e' && word_ends(w, "\\u003e");

	if (!is_json && (w->before != '<' || w->after != '>'))
		return false;
	for (size_t i = 0; i < sizeof(angles) / sizeof(angles[0]); i++)
		if (is_json ? word_ends(w, angles[i].json) : word_is(w, angles[i].text)) {
			*level = angles[i].level;
			return true;
		}
	return false;
}

/* "[proxy:0:1@node-2] HYDU_sock_connect (sock.c:143): ..." of MPICH's launcher, which names the
 * place in its source only in messages about a failure. */
static bool is_hydra(const struct word *w, const char *line)
{
	const char *colon;

	if (w->before != '(' || w->after != ')')
		return false;
	colon = memrchr(w->at, ':', w->len);
	return colon && colon > w->at + 2 && !memcmp(colon - 2, ".c", 2) &&
	       num_is_digit(colon[1]) &&
	       (memmem(line, (size_t)(w->at - line), "[proxy:", 7) ||
		memmem(line, (size_t)(w->at - line), "[mpiexec@", 9));
}

/* Words by which single languages and tools begin a message about an end: "forrtl: severe",
 * "thread 'main' panicked at", "==4711==ERROR:", "Warning  Failed  12s" of Kubernetes'
 * events. */
static bool is_special(const struct word *w, const struct word *last, const char *end,
		       enum complaint *level)
{
	if (w->len < 6 || !memchr("sp=W", *w->at, 4))
		return false;
	*level = COMPLAINT_ERROR;
	if (word_is(w, "severe"))
		return word_is(last, "forrtl:");
	if (word_is(w, "panicked"))
		return last->len > 2 && last->at[last->len - 1] == '\'';
	if (*w->at == '=')
		return word_ends(w, "==ERROR:");
	*level = COMPLAINT_WARNING;
	return word_is(w, "Warning") && w->at + 9 < end && !memcmp(w->at + 7, "  ", 2);
}

/* "Error in routine readpp (1):" and "Error in f(x) : no such index" at the start of a message,
 * "Fatal error:" with its text in the next line. */
static bool is_headline(const struct word *w, const struct word *last, const char *end)
{
	const char *p = w->at + w->len, *colon;

	if (w->len != 5 || end - p < 6 ||
	    (last->len && (is_lower(*last->at) || is_upper(*last->at))))
		return false;
	if (word_is(w, "Fatal"))
		return !memcmp(p, " error", 6);
	if (!word_is(w, "Error") || memcmp(p, " in ", 4) != 0)
		return false;
	colon = memchr(p, ':', (size_t)(end - p));
	if (!colon || (colon + 1 < end && colon[1] != ' '))
		return false;
	for (p = colon + 1; p < end && *p == ' '; p++)
		;
	return p == end || !strchr("+-.0123456789", *p);
}

/* Is the word a level?  Then *@level is set. */
static bool level_of(const struct word *w, const struct word *last, const char *line,
		     const char *end, enum complaint *level)
{
	size_t n;

	if (is_hydra(w, line)) {
		*level = COMPLAINT_ERROR;
		return true;
	}
	if (is_angle_level(w, level) || is_special(w, last, end, level))
		return true;
	if (is_headline(w, last, end)) {
		*level = COMPLAINT_ERROR;
		return true;
	}
	if (is_glog(w) || is_letter_level(w, last)) {
		*level = letter_level(*w->at);
		return true;
	}
	for (size_t i = 0; may_be_level(w) && i < sizeof(levels) / sizeof(levels[0]); i++) {
		if (*w->at != *levels[i].text)
			continue;
		n = strlen(levels[i].text);
		if (w->len < n || memcmp(w->at, levels[i].text, n) != 0 ||
		    (w->len > n && !levels[i].may_go_on))
			continue;
		if (levels[i].level != COMPLAINT_NONE &&
		    (!is_followed(w, end) || (levels[i].in_prose && is_number_after(w, end))))
			return false;
		*level = levels[i].level;
		if (*level == COMPLAINT_WARNING && word_is(last, "NCCL"))
			*level = goes_on(w->at, end) ? COMPLAINT_NONE : COMPLAINT_ERROR;
		return true;
	}
	return false;
}

/* ---- exceptions ---- */

/* "torch.distributed.DistStoreError: ..." as the first words of a line: the end of a Python
 * traceback and the beginning of a Java one. */
static bool is_exception(const struct word *w, const char *end)
{
	static const char *const tails[] = { "Error", "Exception", "Interrupt", "Exit" };
	struct word bare = *w;
	bool colon = w->at[w->len - 1] == ':';
	const char *close;

	bare.len -= colon;
	if (!memchr("rnt", w->at[bare.len - 1], 3))
		return false;
	/* "ray.exceptions.RayTaskError(ValueError): " */
	if (w->after == '(') {
		close = memchr(w->at, ')', (size_t)(end - w->at));
		colon = close && close + 1 < end && close[1] == ':';
	}
	if (!colon && !is_end(w->at + w->len, end))
		return w->at + w->len + 11 < end && !memcmp(w->at, "Exception in thread", 19);
	for (size_t i = 0; i < bare.len; i++)
		if (!is_upper(bare.at[i]) && !is_lower(bare.at[i]) &&
		    !num_is_digit(bare.at[i]) && bare.at[i] != '.' && bare.at[i] != '_' &&
		    bare.at[i] != '$')
			return false;
	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++)
		if (bare.len > 3 && word_ends(&bare, tails[i]))
			return !colon || !is_number_after(w, end) || bare.len > 5;
	return false;
}

/* A shell's message about a process killed by a signal, and nothing else on the line. */
static bool is_death(const char *p, const char *end)
{
	static const char *const said[] = { "Killed",
					    "Terminated",
					    "Aborted",
					    "Bus error",
					    "Segmentation fault",
					    "Floating point exception",
					    "Illegal instruction",
					    "Aborted (core dumped)",
					    "Bus error (core dumped)",
					    "Segmentation fault (core dumped)",
					    "Illegal instruction (core dumped)" };
	size_t n;

	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		n = strlen(said[i]);
		if ((size_t)(end - p) >= n && !memcmp(p, said[i], n) && is_end(p + n, end))
			return true;
	}
	return false;
}

/* ---- warnings ---- */

/* Warnings are many, and few of them are about a failure. */
static bool tells_failure(const char *p, const char *end)
{
	static const char *const words[] = {
		"fail",      "error",      "unable",    "not able", "cannot",    "can't",
		"could not", "refused",    "timed out", "timeout",  "lost",      "unreachable",
		"broken",    "reset by",   "denied",    "abort",    "exceeded",  "killed",
		"died",      "dead",       "no such",   "mismatch", "not found", "retry",
		"closed",    "disconnect",
	};
	char low[LOOK_FOR_FAILURE + 1];

	lower(low, p, end);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(low, words[i]))
			return true;
	return false;
}

/* ---- the head of a line ---- */

static bool next_word(const char **p, const char *end, struct word *w)
{
	const char *at = *p;

	w->before = 0;
	while (at < end && (is_gap(*at) || *at == ':')) {
		w->before = *at;
		if (*at == 0x1b && at + 1 < end && at[1] == '[')
			at = skip_colour(at, end);
		else
			at++;
	}
	w->at = at;
	while (at < end && !is_gap(*at))
		at++;
	w->len = (size_t)(at - w->at);
	w->after = at < end ? *at : 0;
	*p = at;
	return w->len > 0;
}

/* A word as in a sentence: no name, number or date, and no mark of a logger. */
static bool is_prose(const struct word *w)
{
	size_t i, n = w->len - (w->at[w->len - 1] == ':');

	for (i = 0; i < n; i++)
		if (!is_lower(w->at[i]) && !(i == 0 && is_upper(w->at[i])))
			return false;
	return n > 1 && (!w->before || w->before == ' ' || w->before == '\t') &&
	       w->after != '[' && !word_is(w, "stderr") && !word_is(w, "stdout");
}

static bool is_time(const struct word *w)
{
	return w->len >= 8 && num_is_digit(w->at[0]) && w->at[2] == ':' &&
	       num_is_digit(w->at[4]) && w->at[5] == ':';
}

/* A Java class that relays lines of another program, whose level is not its own. */
static bool is_relay(const struct word *w)
{
	return w->at[w->len - 1] == ':' && (memmem(w->at, w->len, "PythonDriver", 12) ||
					    memmem(w->at, w->len, "Redirect", 8) ||
					    memmem(w->at, w->len, "PipeReader", 10));
}

static bool is_rule(const char *line, const char *end)
{
	int n = 0;

	while (end > line && (unsigned char)end[-1] <= ' ')
		end--;
	if (end - line < RULE)
		return false;
	while (end > line && end[-1] == '-' && n <= RULE) {
		end--;
		n++;
	}
	return n == RULE && (end == line || end[-1] == ':' || end[-1] == ' ' || end[-1] == '>');
}

/* Does an error end with a word that the program leaves out what failed? */
static bool passes_over(const char *p, const char *end)
{
	static const char *const words[] = { ", skipping", ", continuing" };

	while (end > p && ((unsigned char)end[-1] <= ' ' || end[-1] == '.'))
		end--;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i]);

		if ((size_t)(end - p) > n && !memcmp(end - n, words[i], n))
			return true;
	}
	return false;
}

static enum complaint with_level(enum complaint level, const struct word *w, const char *end)
{
	const char *said = w->at + w->len;

	if (level == COMPLAINT_ERROR && passes_over(said, end))
		level = COMPLAINT_WARNING;
	if (level != COMPLAINT_WARNING)
		return level;
	return tells_failure(said, end) && !goes_on(said, end) ? level : COMPLAINT_NONE;
}

bool complaint_has_level(const char *line, const char *end, enum complaint *level)
{
	const char *head = end - line > COMPLAINT_HEAD ? line + COMPLAINT_HEAD : end, *p = line;
	struct word w = { 0 }, last = { "", 0, 0, 0 };
	int prose = 0, words = 0;

	*level = COMPLAINT_NONE;
	p = line = wrap_skip_syslog(line, head);
	while (prose <= PROSE && words++ < WORDS && next_word(&p, head, &w)) {
		if (!level_of(&w, &last, line, end, level)) {
			prose = is_time(&w) ? 0 : prose + is_prose(&w);
		} else if (w.after != ' ' || !next_word(&p, head, &w) || !is_relay(&w)) {
			return true;
		}
		last = w;
	}
	return false;
}

bool complaint_tries_again(const char *p, const char *end)
{
	static const char *const words[] = { "etry ", "ttempt " };
	size_t len =
		(size_t)(end - p) < LOOK_FOR_FAILURE ? (size_t)(end - p) : LOOK_FOR_FAILURE;
	char counts[32];
	const char *at;
	char *rest;
	long n;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		at = memmem(p, len, words[i], strlen(words[i]));
		if (!at)
			continue;
		at += strlen(words[i]);
		snprintf(counts, sizeof(counts), "%.*s",
			 (int)((size_t)(end - at) < sizeof(counts) ? (size_t)(end - at)
								   : sizeof(counts) - 1),
			 at);
		n = strtol(counts, &rest, 10);
		rest += !strncmp(rest, " of ", 4) ? 4 : *rest == '/';
		if (n > 0 && n < strtol(rest, NULL, 10))
			return true;
	}
	return false;
}

bool complaint_is_detail(const char *start, const char *line, const char *end)
{
	static const char *const packages[] = { "java.", "javax.", "scala.", "org.apache.",
						"io.netty." };
	const char *last;
	enum complaint level;
	bool is_java = false;
	size_t n;

	if (line == end || *line < 'i' || *line > 's')
		return false;
	for (size_t i = 0; i < sizeof(packages) / sizeof(packages[0]); i++) {
		n = strlen(packages[i]);
		is_java |= (size_t)(end - line) > n && !memcmp(line, packages[i], n);
	}
	if (!is_java || line <= start + 1)
		return false;
	last = memrchr(start, '\n', (size_t)(line - 1 - start));
	return complaint_has_level(last ? last + 1 : start, line - 1, &level) &&
	       level != COMPLAINT_ERROR;
}

enum complaint complaint_judge(const char *line, const char *end, const char **said)
{
	const char *head = end - line > COMPLAINT_HEAD ? line + COMPLAINT_HEAD : end, *p = line;
	struct word w = { 0 }, last = { "", 0, 0, 0 };
	enum complaint level = COMPLAINT_NONE;
	int prose = 0, words = 0;

	*said = line;
	if (end - line >= RULE && end[-2] == '-' && is_rule(line, end))
		return COMPLAINT_RULE;
	p = line = wrap_skip_syslog(line, head);
	while (prose <= PROSE && words++ < WORDS && next_word(&p, head, &w)) {
		if (level_of(&w, &last, line, end, &level)) {
			*said = w.at + w.len;
			last = w;
			/* A program that relays lines has its own level before theirs. */
			if (w.after != ' ' || !next_word(&p, head, &w) || !is_relay(&w))
				return with_level(level, &last, end);
			last = w;
			continue;
		}
		if (*w.at == 'T' && word_is(&w, "Traceback") && w.at + 15 < end &&
		    !memcmp(w.at + 9, " (most", 6))
			return *said = w.at, COMPLAINT_TRACEBACK;
		if (!prose && is_upper(*w.at) && w.len <= 20 && is_death(w.at, end))
			return *said = w.at, COMPLAINT_DEATH;
		if (!prose && w.len > 3 && is_exception(&w, end))
			return *said = w.at, COMPLAINT_EXCEPTION;
		/* Only a date, if anything, stands before a time of day. */
		prose = is_time(&w) ? 0 : prose + is_prose(&w);
		last = w;
	}
	return COMPLAINT_NONE;
}

enum complaint complaint_box(const char *line, const char *end)
{
	static const char warning[] = "WARNING";

	while (line < end && (unsigned char)*line <= ' ')
		line++;
	if (line == end)
		return COMPLAINT_NONE;
	return memmem(line, (size_t)(end - line), warning, sizeof(warning) - 1)
		       ? COMPLAINT_WARNING
		       : COMPLAINT_ERROR;
}

/* ---- many lines at once ---- */

enum { LANES = 16, AT_ONCE = 4 * LANES };

typedef unsigned char lanes __attribute__((vector_size(LANES), aligned(1), may_alias));
typedef uint64_t halves __attribute__((vector_size(LANES)));

/* For each byte and the next two: can they be part of a word of levels[], exceptions or deaths,
 * of a letter that is a level, of a colour or of a line of dashes? */
static inline halves complaint_look_at(const char *p)
{
	lanes c = *(const lanes *)p, n = *(const lanes *)(p + 1), m = *(const lanes *)(p + 2);
	lanes is_e = (lanes)(c == 'E'), is_f = (lanes)(c == 'F'), hit;

	/* ER, CR and AR of WARN; FA, PA. */
	hit = (lanes)((c | 6) == 'G') & (lanes)(n == 'R');
	hit |= (is_f | (lanes)(c == 'P')) & (lanes)(n == 'A');
	/* Error, Interrupt; Exception, Exit. */
	hit |= (lanes)(c == 'r') & (lanes)(n == 'r') & ((lanes)(m == 'o') | (lanes)(m == 'u'));
	hit |= is_e & (lanes)(n == 'x');
	/* warning, panic, fatal */
	hit |= ((lanes)((c | 8) == 'i') | (lanes)(c == 'n')) &
	       ((lanes)((n | 4) == 'g') | (lanes)(n == 'l')) & (lanes)(m == ':');
	hit |= (is_e | is_f | (lanes)(c == 'W')) &
	       ((lanes)(n == ' ') | (lanes)((n & 0xf0) == '0'));
	/* <warn>, and its form in JSON */
	hit |= (lanes)(c == 'n') & ((lanes)(n == '>') | (lanes)(n == '\\'));
	/* Killed, Terminated, Aborted, Segmentation, Floating, Illegal */
	hit |= (lanes)(c == 'K') | ((lanes)(c == 'T') & (lanes)(n == 'e'));
	/* Traceback */
	hit |= (lanes)(c == 'T') & (lanes)(n == 'r') & (lanes)(m == 'a');
	/* forrtl, panicked, "Warning  " */
	hit |= (lanes)(c == 'r') & (lanes)(n == 't') & (lanes)(m == 'l');
	hit |= (lanes)(c == 'k') & (lanes)(n == 'e') & (lanes)(m == 'd');
	hit |= (lanes)(c == 'g') & (lanes)(n == ' ') & (lanes)(m == ' ');
	hit |= (lanes)(c == 'A') & (lanes)(n == 'b');
	hit |= (lanes)(c == 'g') & (lanes)(n == 'm');
	hit |= (is_f | (lanes)(c == 'I')) & (lanes)(n == 'l');
	/* "[mpiexec@" and "[proxy:0:1@" of MPICH's launcher */
	hit |= (lanes)(n == '@') & ((lanes)(c == 'c') | (lanes)((c & 0xf0) == '0'));
	hit |= (lanes)(c == 0x1b) | ((lanes)(c == '-') & (lanes)(n == '-'));
	return (halves)hit;
}

const char *complaint_look(const char *p, const char *end)
{
	halves any;

	for (; end - p > AT_ONCE + 1; p += AT_ONCE) {
		any = (halves){ 0 };
		for (int i = 0; i < AT_ONCE; i += LANES)
			any |= complaint_look_at(p + i);
		if (any[0] | any[1])
			return p;
	}
	return p;
}
