/* test_reason.c - each reason has a word of its own, and the system's errors have theirs. */
#include "rebuild/reason.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"

static void test_words(void)
{
	static const enum reason all[] = {
#define X(name, word, hint) REASON_##name,
		REASONS(X)
#undef X
	};
	size_t i, k;

	ok(!*reason_word(REASON_NONE) && !*reason_hint(REASON_NONE), "none has no word");
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const char *word = reason_word(all[i]);
		bool is_own = *word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyz")];

		for (k = 0; k < i; k++)
			is_own &= strcmp(word, reason_word(all[k])) != 0;
		ok(is_own && *reason_hint(all[i]), "'%s' is a word, has a hint", word);
	}
}

static enum reason of_os(int error, enum reason other)
{
	struct err e = { 0 };

	errno = error;
	fail_os(&e, "x");
	fail_in(&e, "y");
	return reason_of(&e, other);
}

static enum reason of_code(int code, enum reason other)
{
	struct err e = { 0 };

	errno = ENOSPC; /* of something before */
	fail(&e, code, "x");
	return reason_of(&e, other);
}

int main(void)
{
	struct err none = { 0 };

	test_words();
	ok(reason_of(&none, REASON_PROVE) == REASON_NONE, "nothing has failed");
	ok(of_os(ENOSPC, REASON_SYSTEM) == REASON_SPACE, "a full disk");
	ok(of_os(EDQUOT, REASON_COMPILE) == REASON_SPACE, "a quota");
	ok(of_os(EACCES, REASON_SYSTEM) == REASON_RIGHTS, "rights");
	ok(of_os(EROFS, REASON_SYSTEM) == REASON_RIGHTS, "a file system to read");
	ok(of_os(ENOENT, REASON_SOURCE) == REASON_SOURCE, "anything else says nothing");
	ok(of_code(RINGUP_ETIMEDOUT, REASON_PROVE) == REASON_TIMEOUT, "a limit");
	ok(of_code(RINGUP_EBUSY, REASON_SYSTEM) == REASON_BUSY, "somebody else");
	ok(of_code(RINGUP_ESYSTEM, REASON_NETWORK) == REASON_NETWORK,
	   "an old errno is no reason");
	ok(of_code(RINGUP_ENOBACKEND, REASON_PROVE) == REASON_PROVE, "a proof");
	return tap_done();
}
