/* test_shell.c - what a shell takes as one word is what was meant. */
#include "base/shell.h"

#include <string.h>

#include "tap.h"

int main(void)
{
	static const struct {
		const char *word, *is;
	} cases[] = {
		{ "eth0", "eth0" },
		{ "=eth0,10.0.0.0/8", "=eth0,10.0.0.0/8" },
		{ "", "''" },
		{ "two words", "'two words'" },
		{ "it's", "'it'\\''s'" },
		{ "'", "''\\'''" },
		{ "$(rm)", "'$(rm)'" },
		{ "%s", "%s" },
		{ "%s %n", "'%s %n'" },
	};
	char out[64], small[6];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		shell_word(cases[i].word, out, SHELL_ROOM(strlen(cases[i].word)));
		ok(!strcmp(out, cases[i].is), "%s becomes %s, %s", cases[i].word, cases[i].is,
		   out);
	}
	shell_word("a very long $WORD", small, sizeof(small));
	ok(strlen(small) == 5, "what does not fit is cut");
	return tap_done();
}
