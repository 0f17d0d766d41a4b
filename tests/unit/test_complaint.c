/* test_complaint.c - the level of a line, where loggers put it and nowhere else. */
#include "diagnose/complaint.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

static void check(const char *line, enum complaint want, const char *said)
{
	const char *at;
	enum complaint level = complaint_judge(line, line + strlen(line), &at);

	ok(level == want && (!said || !strcmp(at, said)), "'%s': %d", line, (int)level);
}

/* Words and marks in any order: where one complains, it is not passed over. */
static void look(void)
{
	static const char *const words[] = {
		"node-1:41:42",
		" [0] ",
		"NCCL ",
		"WARN ",
		"x:12<warn> ",
		"x:12\\u003cwarn\\u003e ",
		"INFO ",
		"ERROR: ",
		"error: ",
		"Fatal: ",
		"fatal: ",
		"CRITICAL ",
		"SEVERE ",
		"PANIC: ",
		"panic: ",
		"warning: ",
		"failed",
		"E0822 ",
		"W822 ",
		"[E ",
		" 12:00:00.123: F ",
		"KeyError",
		"SystemExit",
		"x.GizmoException",
		"KeyboardInterrupt",
		"Exception in thread \"main\"",
		"Killed",
		"Terminated",
		"Aborted (core dumped)",
		"Bus error",
		"Segmentation fault",
		"Floating point exception",
		"Illegal instruction",
		"\033[31m",
		"gone",
		" ",
		"\n",
		"--------------------------------------------------------------------------",
	};
	char text[1024], *line, *end;
	const char *said, *at;
	int i, n, complaints = 0, missed = 0;

	srand(1);
	for (i = 0; i < 20000; i++) {
		memset(text, ' ', sizeof(text));
		for (n = rand() % 300; n < 700 && rand() % 16;) {
			const char *w =
				words[(size_t)rand() % (sizeof(words) / sizeof(words[0]))];

			memcpy(text + n, w, strlen(w));
			n += (int)strlen(w);
		}
		for (line = text; line < text + n; line = end + 1) {
			end = memchr(line, '\n', (size_t)(text + n - line));
			end = end ? end : text + n;
			if (complaint_judge(line, end, &said) == COMPLAINT_NONE)
				continue;
			complaints++;
			missed += complaint_look(line, text + sizeof(text)) >= end;
		}
	}
	ok(complaints > 1000 && !missed, "%d complaints, %d passed over", complaints, missed);
	memset(text, 'x', sizeof(text));
	at = complaint_look(text, text + sizeof(text));
	ok(at > text + sizeof(text) - 80, "what does not complain is passed over");
}

static void levels(void)
{
	static const char *const lines[] = { "x.cc:1 NCCL INFO f", "DEBUG:x:f", "x<info> f",
					     "WARN f" };
	static const char bare[] = "bash: line 1: x: Permission denied";
	enum complaint level;
	size_t i, n = 0;

	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		n += complaint_has_level(lines[i], lines[i] + strlen(lines[i]), &level) &&
		     level == (i < 3 ? COMPLAINT_NONE : COMPLAINT_WARNING);
	ok(n == i, "%zu of %zu levels are found, harmless ones too", n, i);
	ok(!complaint_has_level(bare, bare + strlen(bare), &level), "a shell has none");
}

int main(void)
{
	static const char warning[] = "WARNING: x", error[] = "There are x";
	char rule[80];

	check("node-1:4711:4712 [0] x.cc:1 NCCL WARN gone", COMPLAINT_ERROR, " gone");
	check("libfabric:41:17::core:core:f():1010<warn> f failed", COMPLAINT_WARNING,
	      "> f failed");
	check("libfabric:41:17::core:core:f():1010<info> ERROR gone", COMPLAINT_NONE, NULL);
	check("node-1:4711:4712 [0] NCCL INFO ERROR gone", COMPLAINT_NONE, NULL);
	check("ERROR gone", COMPLAINT_ERROR, " gone");
	check("ERROR", COMPLAINT_NONE, NULL);
	check("the log level ERROR is set", COMPLAINT_NONE, NULL);
	check("WARN slow", COMPLAINT_NONE, NULL);
	check("WARN could not connect", COMPLAINT_WARNING, NULL);
	check("error: 0.5", COMPLAINT_NONE, NULL);
	check("error: no gizmo", COMPLAINT_ERROR, NULL);
	check("I0822 10:01:12.1 4711 x.cc:1] it failed", COMPLAINT_NONE, NULL);
	check("F0822 10:01:12.1 4711 x.cc:1] gone", COMPLAINT_ERROR, NULL);
	check("KeyError: 'x'", COMPLAINT_EXCEPTION, "KeyError: 'x'");
	check("  KeyError", COMPLAINT_EXCEPTION, NULL);
	check("    raise KeyError('x')", COMPLAINT_NONE, NULL);
	check("x.py:3: UserWarning: it failed", COMPLAINT_NONE, NULL);
	check("Exception ignored in: <function x>", COMPLAINT_NONE, NULL);
	check("Exception in thread \"main\" x.Y", COMPLAINT_EXCEPTION, NULL);
	check("Killed", COMPLAINT_DEATH, NULL);
	check("Killed all of them", COMPLAINT_NONE, NULL);
	check("", COMPLAINT_NONE, NULL);
	memset(rule, '-', 74);
	rule[74] = 0;
	check(rule, COMPLAINT_RULE, NULL);
	rule[73] = 0;
	check(rule, COMPLAINT_NONE, NULL);
	ok(complaint_box(warning, warning + 10) == COMPLAINT_WARNING, "a warning in a box");
	ok(complaint_box(error, error + 11) == COMPLAINT_ERROR, "an error in a box");
	levels();
	look();
	return tap_done();
}
