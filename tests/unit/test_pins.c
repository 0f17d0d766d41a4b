/* test_pins.c - what is pinned: the lines of ringup's block, and no others. */
#include <stdio.h>
#include <string.h>

#include "host/pins.h"
#include "tap.h"

static struct pins p;

static const char *pinned(const char *text, const char *name)
{
	const char *value;

	pins_parse(&p, text, strlen(text));
	value = pins_get(&p, name);
	return value ? value : "(not)";
}

#define BLOCK(lines) "# >>> ringup made\n" lines "# <<< ringup\n"

static void test_lines(void)
{
	static const struct {
		const char *text, *value;
	} tests[] = {
		{ BLOCK("NCCL_SOCKET_IFNAME==eth0\n"), "=eth0" },
		{ BLOCK("# by `ringup net fix`\nNCCL_SOCKET_IFNAME=eth0\n"), "eth0" },
		{ BLOCK("NCCL_SOCKET_IFNAME=a\nNCCL_SOCKET_IFNAME=b\n"), "a" },
		{ BLOCK("NCCL_SOCKET_IFNAME=\n"), "" },
		{ BLOCK(" NCCL_SOCKET_IFNAME=eth0\n"), "(not)" },
		{ BLOCK("#NCCL_SOCKET_IFNAME=eth0\n"), "(not)" },
		{ BLOCK("NCCL_SOCKET_IFNAME\n"), "(not)" },
		{ "NCCL_SOCKET_IFNAME=eth0\n" BLOCK(""), "(not)" },
		{ BLOCK("") "NCCL_SOCKET_IFNAME=eth0\n", "(not)" },
		{ "# >>> ringup\nNCCL_SOCKET_IFNAME=eth0", "eth0" },
		{ "", "(not)" },
	};
	size_t i;

	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		ok(!strcmp(pinned(tests[i].text, "NCCL_SOCKET_IFNAME"), tests[i].value),
		   "text %zu: %s", i + 1, tests[i].value);
	ok(!strcmp(pinned(BLOCK("LD_PRELOAD=x\n"), "LD_PRELOAD"), "(not)"),
	   "only NCCL's own settings");
	ok(!strcmp(pinned(BLOCK("NCCL_ENV_PLUGIN=x\n"), "NCCL_ENV_PLUGIN"), "(not)"),
	   "not what names the plug-in, which NCCL asks the environment for");
	pinned("#\n" BLOCK("NCCL_DEBUG=WARN\n"), "");
	ok(p.n == 1 && p.at[0].line == 3, "the line of the file: %d", p.at[0].line);
}

/* More than there is room for: what fits is kept, and nothing beyond is written. */
static void test_limits(void)
{
	static char text[4 * PINS_TEXT];
	size_t len = (size_t)snprintf(text, sizeof(text), "# >>> ringup\n");
	int i;

	for (i = 0; i < 2 * PINS_MOST; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "NCCL_%d=x\n", i);
	pins_parse(&p, text, len);
	ok(p.n == PINS_MOST && pins_get(&p, "NCCL_31") && !pins_get(&p, "NCCL_32"),
	   "as many as fit: %d", p.n);
	memset(text, 'x', sizeof(text));
	memcpy(text, "# >>> ringup\nNCCL_A=", 20);
	memcpy(text + 3 * PINS_TEXT, "\nNCCL_B=1\n", 10);
	pins_parse(&p, text, sizeof(text));
	ok(p.n == 1 && pins_get(&p, "NCCL_B"), "a line that does not fit is passed over");
	memcpy(text, "# >>> ringup\nNCCL_A=\0b\nNCCL_C=2\n", 33);
	pins_parse(&p, text, 33);
	ok(!pins_get(&p, "NCCL_A") && pins_get(&p, "NCCL_C"), "and one with a NUL");
}

int main(void)
{
	test_lines();
	test_limits();
	return tap_done();
}
