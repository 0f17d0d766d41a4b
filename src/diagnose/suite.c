/* suite.c - tell from the summary of a test runner whether its tests passed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/suite.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"
#include "diagnose/fields.h"
#include "diagnose/wrap.h"

enum { WIDE = 400, SUITE_TEXT = 300, HEAD = 96 };

/* Counts of a summary. */
struct counts {
	long passed, failed;
};

static bool suite_is_letter(char c)
{
	return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

static bool starts(const char *p, const char *text)
{
	return !strncmp(p, text, strlen(text));
}

/* Copies the line without marks, colours and blanks around it; false if it is too long for a
 * summary. */
static bool copy_plain(char out[SUITE_TEXT + 1], const char *line, const char *end)
{
	size_t n = 0;
	int rank;

	if (end - line > WIDE)
		return false;
	line = fields_unmark(line, end, &rank);
	while (line < end && n < SUITE_TEXT) {
		if (*line == 0x1b && end - line > 1 && line[1] == '[') {
			for (line += 2; line < end && !suite_is_letter(*line); line++)
				;
			line += line < end;
			continue;
		}
		if (n || *line > ' ')
			out[n++] = (unsigned char)*line < ' ' && *line != '\t' ? ' ' : *line;
		line++;
	}
	while (n && (unsigned char)out[n - 1] <= ' ')
		n--;
	out[n] = 0;
	return line == end;
}

/* Adds "61 passed"; other words, such as skipped, are neither. */
static void add_count(struct counts *c, long n, const char *word, size_t len)
{
	if (len == 6 && !memcmp(word, "passed", 6))
		c->passed += n;
	else if ((len == 6 && !memcmp(word, "failed", 6)) ||
		 (len > 4 && len < 7 && !memcmp(word, "error", 5)))
		c->failed += n;
}

static enum suite judge_counts(const struct counts *c)
{
	return c->failed ? SUITE_FAILED : c->passed ? SUITE_PASSED : SUITE_NONE;
}

/* "== 1 failed, 60 passed, 2 warnings in 3.20s (0:00:03) ==": reads the counts backwards from
 * the duration. */
static enum suite read_pytest(const char *text)
{
	const char *in = NULL, *p, *word, *next = text;
	struct counts c = { 0, 0 };

	while ((next = strstr(next, " in "))) {
		in = next;
		next += 4;
	}
	if (!in || !num_is_digit(in[4]))
		return SUITE_NONE;
	p = in + 4 + strspn(in + 4, "0123456789.");
	if (*p != 's' || (p[1] && p[1] != ' '))
		return SUITE_NONE;
	for (p = in;; p -= 2) {
		for (word = p; word > text && suite_is_letter(word[-1]); word--)
			;
		if (word == p || word < text + 2 || word[-1] != ' ')
			return SUITE_NONE;
		next = word - 1;
		while (next > text && num_is_digit(next[-1]))
			next--;
		if (next == word - 1)
			return SUITE_NONE;
		add_count(&c, strtol(next, NULL, 10), word, (size_t)(p - word));
		p = next;
		if (p < text + 2 || memcmp(p - 2, ", ", 2) != 0)
			break;
	}
	return p == text || p[-1] == ' ' ? judge_counts(&c) : SUITE_NONE;
}

/* "Tests:       1 failed, 60 passed, 61 total" of Jest */
static enum suite read_jest(const char *text)
{
	struct counts c = { 0, 0 };
	const char *p = text + 6, *word;
	char *rest;
	long n;

	for (;; p += strspn(p, ", ")) {
		n = strtol(p, &rest, 10);
		if (rest == p || *rest != ' ')
			return judge_counts(&c);
		for (word = p = rest + 1; suite_is_letter(*p); p++)
			;
		add_count(&c, n, word, (size_t)(p - word));
	}
}

/* The number behind the words in @text, or -1. */
static long count_behind(const char *text, const char *words)
{
	char *rest;
	long n;

	text += strlen(words);
	n = strtol(text, &rest, 10);
	return rest > text ? n : -1;
}

/* "61 tests, 0 failures" of Bats; "100% tests passed, 0 tests failed out of 61" of ctest. */
static enum suite read_counted(const char *text)
{
	char *rest;
	long n = strtol(text, &rest, 10);

	if (starts(rest, "% tests passed, "))
		return strtol(rest + 16, NULL, 10) || n < 100 ? SUITE_FAILED : SUITE_PASSED;
	if (!starts(rest, " test"))
		return SUITE_NONE;
	rest += rest[5] == 's' ? 6 : 5;
	if (starts(rest, " failed out of ") && num_is_digit(rest[15]))
		return n > 0 ? SUITE_FAILED : SUITE_NONE;
	if (!starts(rest, ", ") || !num_is_digit(rest[2]))
		return SUITE_NONE;
	n = strtol(rest + 2, &rest, 10);
	if (!starts(rest, " failure"))
		return SUITE_NONE;
	return n ? SUITE_FAILED : SUITE_PASSED;
}

/* "All 30 tests passed!" of MPICH, from the number on. */
static enum suite read_all(const char *text)
{
	char *rest;
	long n = strtol(text, &rest, 10);

	return n > 0 && starts(rest, " tests passed") && strlen(rest) < 16 ? SUITE_PASSED
									   : SUITE_NONE;
}

/* "# PASS:  61" of automake, "# pass 61" of TAP. */
static enum suite read_comment(const char *text)
{
	const char *p = text + 6 + (text[6] == ':');
	long n = *p == ' ' ? strtol(p, NULL, 10) : 0;

	if (n < 1)
		return SUITE_NONE;
	return !strncasecmp(text + 2, "pass", 4) ? SUITE_PASSED : SUITE_FAILED;
}

/* Is it a test of pytest: "FAILED tests/test_x.py::test_y"? */
static bool names_test(const char *p)
{
	size_t n = strcspn(p, " ");

	return n > 4 && (memmem(p, n, "::", 2) || memmem(p, n, ".py", 3));
}

static enum suite read_case(const char *text)
{
	static const char *const heads[] = { "FAIL: ", "ERROR: test",
					     "--- FAIL: ", "[  FAILED  ] " };

	if (starts(text, "not ok ") && num_is_digit(text[7]))
		return strcasestr(text, "# todo") || strcasestr(text, "# skip") ? SUITE_NONE
										: SUITE_CASE;
	if ((starts(text, "FAILED ") && names_test(text + 7)) ||
	    (starts(text, "ERROR ") && names_test(text + 6)))
		return SUITE_CASE;
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		if (starts(text, heads[i]))
			return SUITE_CASE;
	if (starts(text, "test ") && strlen(text) > 10 &&
	    !strcmp(text + strlen(text) - 10, "... FAILED"))
		return SUITE_CASE;
	return SUITE_NONE;
}

/* Is it the rest of a line of Go on a package: "  \texample.org/x\t0.12s" after "ok"? */
static bool is_package(const char *p)
{
	const char *tab;

	p += strspn(p, " ");
	tab = *p == '\t' ? strchr(p + 1, '\t') : NULL;
	return tab && tab > p + 1 && (num_is_digit(tab[1]) || tab[1] == '(');
}

/* What the text says, which is all of a line behind its marks. */
static enum suite read_text(const char *text)
{
	static const struct {
		const char *head;
		enum suite says;
	} heads[] = {
		{ "FAILED (failures=", SUITE_FAILED },
		{ "FAILED (errors=", SUITE_FAILED },
		{ "test result: ok. ", SUITE_PASSED },
		{ "test result: FAILED. ", SUITE_FAILED },
		{ "All tests successful", SUITE_PASSED },
		{ "Test project /", SUITE_BEGINS },
		{ "[==========] Running ", SUITE_BEGINS },
		{ "Result: PASS", SUITE_PASSED },
		{ "Result: FAIL", SUITE_FAILED },
		{ "OK (skipped=", SUITE_OK },
		{ "OK (expected failures=", SUITE_OK },
	};

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		if (starts(text, heads[i].head))
			return heads[i].says;
	if (*text == '=' && strstr(text, " test session starts "))
		return SUITE_BEGINS;
	if (!strcmp(text, "OK"))
		return SUITE_OK;
	if (starts(text, "Ran ") && num_is_digit(text[4]) && strstr(text, " in "))
		return strstr(text, " test") ? SUITE_RAN : SUITE_NONE;
	if (starts(text, "All ") && num_is_digit(text[4]))
		return read_all(text + 4);
	if (starts(text, "# All ") && num_is_digit(text[6]))
		return read_all(text + 6);
	if (starts(text, "Tests: "))
		return read_jest(text);
	if (starts(text, "[  PASSED  ] "))
		return count_behind(text, "[  PASSED  ] ") > 0 ? SUITE_PASSED : SUITE_NONE;
	if (starts(text, "[  FAILED  ] ") && count_behind(text, "[  FAILED  ] ") > 0)
		return SUITE_FAILED;
	if (starts(text, "ok") && is_package(text + 2))
		return SUITE_PASSED;
	if (!strcmp(text, "FAIL") || (starts(text, "FAIL") && is_package(text + 4)))
		return SUITE_FAILED;
	if (!strncasecmp(text, "# pass", 6) || !strncasecmp(text, "# fail", 6))
		return read_comment(text);
	if (num_is_digit(*text) && read_counted(text) != SUITE_NONE)
		return read_counted(text);
	return read_case(text);
}

/* The text behind the next mark of a launcher or a collector of logs, or NULL. */
static const char *next_text(const char *text, const char *start)
{
	const char *p = text;

	for (; *p && p - start < HEAD; p++)
		if (*p == ' ' && p > text && (strchr("]:)|-FZ", p[-1]) || p[1] == '['))
			return p + 1;
	return NULL;
}

/* Has the line a word that all summaries have one of: "pass", "fail", "OK", "Ran", "ERROR",
 * "success"?  It takes less time than to read the line. */
static bool may_say(const char *p, const char *end)
{
	char c, next;

	for (; p + 1 < end; p++) {
		c = *p | 0x20;
		next = p[1] | 0x20;
		if ((c == 'a' && ((next == 's' && end - p > 2 && (p[2] | 0x20) == 's') ||
				  (next == 'i' && end - p > 2 && (p[2] | 0x20) == 'l'))) ||
		    (c == 'o' && next == 'k' && (end - p == 2 || !suite_is_letter(p[2]))) ||
		    (*p == 'R' && (p[1] == 'a' || p[1] == 'R')) || (*p == '=' && p[1] == '=') ||
		    (*p == 'T' && p[1] == 'e') ||
		    (*p == 'u' && p[1] == 'c' && end - p > 2 && p[2] == 'c'))
			return true;
	}
	return false;
}

long suite_tests(const char *line, const char *end)
{
	char text[SUITE_TEXT + 1];
	const char *p, *word;
	struct counts c = { 0, 0 };
	char *rest;
	long n;

	wrap_open(&line, &end);
	if (!copy_plain(text, line, end))
		return 0;
	p = strstr(text, " out of ");
	if (p)
		return strtol(p + 8, NULL, 10);
	for (p = text; (p += strcspn(p, "0123456789")), *p; p = rest) {
		n = strtol(p, &rest, 10);
		if (*rest != ' ')
			continue;
		rest += !strncmp(rest, " tests ", 7) ? 7 : 1;
		for (word = rest; suite_is_letter(*rest); rest++)
			;
		if (n < 1000000)
			add_count(&c, n, word, (size_t)(rest - word));
	}
	return c.passed + c.failed;
}

enum suite suite_read(const char *line, const char *end)
{
	char text[SUITE_TEXT + 1];
	const char *p;
	enum suite is;

	if (!may_say(line, end))
		return SUITE_NONE;
	wrap_open(&line, &end);
	if (!copy_plain(text, line, end))
		return SUITE_NONE;
	is = read_pytest(text);
	for (p = text; p && is == SUITE_NONE; p = next_text(p, text))
		is = read_text(p);
	return is;
}
