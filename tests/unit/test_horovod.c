/* test_horovod.c - Horovod's variables are all accounted for. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/horovod.h"
#include "base/log.h"
#include "tap.h"

/* What horovod_tell() writes to stderr. */
static const char *told(const char *level)
{
	static char text[4096];
	FILE *f = tmpfile();
	int saved = dup(STDERR_FILENO);
	struct err e;

	if (log_set_level(level, &e))
		return "";
	dup2(fileno(f), STDERR_FILENO);
	horovod_tell();
	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(f);
	memset(text, 0, sizeof(text));
	if (!fread(text, 1, sizeof(text) - 1, f))
		*text = 0;
	fclose(f);
	return text;
}

int main(void)
{
	const struct horovod *h, *again;
	const struct setting *s;
	char text[HOROVOD_TEXT];
	const char *out;
	size_t len;
	int bad = 0;

	for (h = horovods; h->name; h++) {
		horovod_meaning(h, text);
		for (again = h + 1; again->name; again++)
			bad += !strcmp(again->name, h->name);
		bad += !*text || !horovod_is(h->name, &len) || len != strlen(h->name);
		bad += (h->kind == HOROVOD_ALIAS) != !*h->meaning;
	}
	ok(!bad, "each is listed once, and means something");
	for (s = settings; s->name; s++) {
		h = *s->alias ? horovod_find(conf_alias(s), strlen(conf_alias(s))) : NULL;
		bad += *s->alias && (!h || h->kind != HOROVOD_ALIAS);
	}
	ok(!bad, "every alias of conf.def is one of them");
	h = horovod_find("HOROVOD_FUSION_THRESHOLD=1", 24);
	ok(h && !strncmp(horovod_meaning(h, text), "RINGUP_FUSION_BYTES: ", 21),
	   "an alias is explained by the setting: %s", text);
	h = horovod_find("HOROVOD_HIERARCHICAL_ALLREDUCE", 30);
	ok(h && strstr(horovod_meaning(h, text), "NCCL chooses for itself"),
	   "what is true of both kinds of memory is said: %s", text);
	h = horovod_find("HOROVOD_STALL_CHECK_DISABLE", 27);
	ok(h && !strncmp(horovod_meaning(h, text), "not RINGUP_STALL_CHECK: ", 24),
	   "or by its opposite: %s", text);
	ok(!horovod_find("HOROVOD_FUSION", 14) && !horovod_find("HOROVOD_RANKS", 13),
	   "half a name is none");
	ok(!horovod_is("RINGUP_RANK=1", &len) && horovod_is("HOROVOD_NEW=1", &len) && len == 11,
	   "which variables are Horovod's");

	clearenv();
	setenv("HOROVOD_CYCLE_TIME", "1", 1);
	setenv("HOROVOD_AUTOTUNE_LOG", "/tmp/t.csv", 1);
	setenv("HOROVOD_MPI_THREADS_DISABLE", "0", 1);
	setenv("HOROVOD_FUSION_THRESHOLD", "1", 1);
	setenv("HOROVOD_NEW", "1", 1);
	out = told("info");
	ok(strstr(out, "warn: HOROVOD_AUTOTUNE_LOG has no effect: tuning is not logged"),
	   "a warning of what is not done: %s", out);
	ok(strstr(out, "info: HOROVOD_CYCLE_TIME: no effect: ringup has no cycle"),
	   "a word on the harmless");
	ok(strstr(out, "info: HOROVOD_MPI_THREADS_DISABLE: "),
	   "what asks for nothing is harmless");
	ok(strstr(out, "info: HOROVOD_NEW is not a Horovod 0.28 variable"),
	   "what is unknown is said");
	ok(!strstr(out, "FUSION"), "settings are not mentioned");
	ok(!*told("info"), "all that only once");
	return tap_done();
}
