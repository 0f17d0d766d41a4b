/* test_complaint.c - the level of a line, where loggers put it and nowhere else. */
#include "diagnose/complaint.h"

#include <string.h>

#include "tap.h"

static void check(const char *line, enum complaint want, const char *said)
{
	const char *at;
	enum complaint level = complaint_judge(line, line + strlen(line), &at);

	ok(level == want && (!said || !strcmp(at, said)), "'%s': %d", line, (int)level);
}

int main(void)
{
	static const char warning[] = "WARNING: x", error[] = "There are x";
	char rule[80];

	check("node-1:4711:4712 [0] x.cc:1 NCCL WARN gone", COMPLAINT_ERROR, " gone");
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
	return tap_done();
}
