/* whereami.c - print what discover() makes of the environment. */
#include <stdio.h>

#include "base/err.h"
#include "wire/discover.h"

int main(void)
{
	struct discovery d;
	struct err e = { 0 };

	if (discover(&d, &e)) {
		fprintf(stderr, "whereami: %s\n", e.text);
		return 3;
	}
	/* One write each, so that lines of several ranks do not mix. */
	setvbuf(stdout, NULL, _IOFBF, BUFSIZ);
	printf("source=%s rank=%d size=%d local_rank=%d local_size=%d spans=%d key=%s\n",
	       d.source, d.rank, d.size, d.local_rank, d.local_size, d.spans_hosts, d.key);
	return 0;
}
