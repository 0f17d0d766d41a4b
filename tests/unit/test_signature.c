/* test_signature.c - the table keeps the rules that signature.h sets. */
#include "diagnose/signature.h"

#include <stdbool.h>
#include <string.h>

#include "tap.h"

/* Is each field known, and what follows {*} literal? */
static bool is_well_formed(const char *text)
{
	static const char fields[] = " ip port host if rank loopback docker linklocal endpoint "
				     "local errno word value status "
				     "signal * ** ";
	const char *p = text, *close;
	char name[16];

	for (; (p = strpbrk(p, "{\n")) && *p == '{'; p = close + 1) {
		close = strchr(p, '}');
		if (!close || close - p > 12)
			return false;
		snprintf(name, sizeof(name), " %.*s ", (int)(close - p - 1), p + 1);
		if (!strstr(fields, name) ||
		    (p[1] == '*' && (close[1] == '{' || close[1] == '\n')))
			return false;
	}
	return true;
}

static void check(const struct signature *s)
{
	bool good = true, blanks = true;
	const char *p, *eol;

	for (p = s->texts; *p; p = eol + 1) {
		eol = strchr(p, '\n');
		good &= strcspn(p, "{\n") >= SIGNATURE_ANCHOR && *p != ' ' && is_well_formed(p);
		blanks &= !memmem(p, (size_t)(eol - p), "  ", 2);
	}
	ok(good && p > s->texts, "%s: its texts begin with enough and hold known fields",
	   s->id);
	ok(blanks, "%s: one blank stands for all", s->id);
	ok(*s->cause && s->cause[strlen(s->cause) - 1] != '.', "%s: it says a cause", s->id);
	ok(!strpbrk(s->command, "$`\\\"';|&<>()*?~!"), "%s: a shell takes its command as it is",
	   s->id);
	ok(*s->remedy || s->kind == SIGNATURE_FACT || s->kind == SIGNATURE_ECHO,
	   "%s: it says a remedy", s->id);
}

int main(void)
{
	int i, k;

	for (i = 0; i < signature_count; i++) {
		check(&signatures[i]);
		for (k = 0; k < i && strcmp(signatures[i].id, signatures[k].id) != 0;)
			k++;
		ok(k == i, "%s: nobody else has its id", signatures[i].id);
	}
	ok(signature_find("M1") && !strcmp(signature_find("M1")->library, "openmpi"),
	   "M1 is found");
	ok(!signature_find("M"), "M is not");
	return tap_done();
}
