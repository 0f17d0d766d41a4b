/* reason.c - the reason why a rebuild failed, as one word that programs can test. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/reason.h"

#include <errno.h>

#include "base/err.h"
#include "ringup.h"

static const struct {
	const char *word, *hint;
} reasons[] = { [REASON_NONE] = { "", "" },
#define X(name, word, hint) [REASON_##name] = { word, hint },
		REASONS(X)
#undef X
};

const char *reason_word(enum reason r)
{
	return reasons[r].word;
}

const char *reason_hint(enum reason r)
{
	return reasons[r].hint;
}

enum reason reason_of(const struct err *e, enum reason other)
{
	if (!e->code)
		return REASON_NONE;
	if (e->code == RINGUP_ETIMEDOUT)
		return REASON_TIMEOUT;
	if (e->code == RINGUP_EBUSY)
		return REASON_BUSY;
	if (e->code != RINGUP_ESYSTEM)
		return other;
	switch (e->os) {
	case ENOSPC:
	case EDQUOT:
	case ENOMEM:
		return REASON_SPACE;
	case EACCES:
	case EPERM:
	case EROFS:
		return REASON_RIGHTS;
	default:
		return other;
	}
}
