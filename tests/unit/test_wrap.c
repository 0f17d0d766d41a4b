/* test_wrap.c - the message in a line of JSON or of syslog. */
#include "diagnose/wrap.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

/* What is in a line, and whether the line says that it is an error; as an array without a 0
 * behind it, so that a byte too far is found. */
static void check_open(const char *line, const char *want, bool is_error)
{
	size_t n = strlen(line);
	char *copy = malloc(n ? n : 1);
	const char *at = copy, *end = copy + n;
	bool said;

	memcpy(copy, line, n);
	said = wrap_open(&at, &end);
	ok((size_t)(end - at) == strlen(want) && !memcmp(at, want, strlen(want)) &&
		   said == is_error,
	   "%s", line);
	free(copy);
}

static void check_next(const char *text, const char *want)
{
	size_t n = strlen(text);
	const char *stop = NULL, *at = wrap_next(text, text + n, &stop);

	ok(want ? at && (size_t)(stop - at) == strlen(want) && !memcmp(at, want, strlen(want))
		: !at,
	   "%s", text);
}

static void check_skip(const char *line, const char *want)
{
	ok(!strcmp(wrap_skip_syslog(line, line + strlen(line)), want), "%s", line);
}

int main(void)
{
	check_open("{\"log\":\"gizmo\\n\",\"stream\":\"stderr\"}", "gizmo", false);
	check_open("{\"time\":\"x\",\"message\": \"a \\\"b\\\" c\"}", "a \\\"b\\\" c", false);
	check_open("{\"MESSAGE\":\"gizmo\",\"PRIORITY\":\"3\"}", "gizmo", false);
	check_open("{\"level\":\"error\",\"msg\":\"gizmo\"}", "gizmo", true);
	check_open("{\"levelname\": \"CRITICAL\", \"message\": \"gizmo\"}", "gizmo", true);
	check_open("{\"level\":\"info\",\"msg\":\"no error\"}", "no error", false);
	check_open("{\"log\":\"it goes on behind the block \\",
		   "it goes on behind the block \\", false);
	check_open("{\"log\":7,\"msg\":\"gizmo\"}", "gizmo", false);
	check_open("{'loss': 0.4589, 'epoch': 1.22}", "{'loss': 0.4589, 'epoch': 1.22}", false);
	check_open("{\"log\":\"", "{\"log\":\"", false);
	check_open("", "", false);
	check_next("\",\"stream\":\"stderr\"}\n{\"log\":\"gizmo\\n\",\"stream\":\"stderr\"}\n",
		   "gizmo");
	check_next("\"}\n{\"message\":\"gizmo\"}", "gizmo");
	check_next("\"}\nplain", NULL);
	check_next("\" is a quote}\n{\"message\":\"gizmo\"}", NULL);
	check_next("\"}", NULL);
	check_skip("<6>1 2026-11-27T10:00:00Z node-4 train 41 - - gizmo", "gizmo");
	check_skip("<6>1 2026-11-27T10:00:00Z node-4 train 41 ID [a b=\"c\"] gizmo", "gizmo");
	check_skip("<6>1 2026-11-27T10:00:00Z node-4 train",
		   "<6>1 2026-11-27T10:00:00Z node-4 train");
	check_skip("<warn> gizmo of the engine", "<warn> gizmo of the engine");
	return tap_done();
}
