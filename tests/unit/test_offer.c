/* test_offer.c - what rank 0 offers is read back, and nothing else is taken for it. */
#include <string.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/offer.h"

int main(void)
{
	struct offer o = { 0 }, back;
	struct secret made = { 0 }, taken = { 0 };
	char line[OFFER_LINE_BYTES];
	struct err e = { 0 };

	memset(o.text, 'w', sizeof(o.text) - 1);
	ok(!offer_make(&o, "", &made, &e) && o.kind == OFFER_KEY, "an offer with a key");
	offer_print(&o, line);
	ok(strlen(line) < sizeof(line) && !offer_parse(line, &back, &e) &&
		   !memcmp(&back, &o, sizeof(o)),
	   "is read back, with the longest text: %s", e.text);
	ok(!offer_take(&back, "", &taken, &e) && !memcmp(&made, &taken, sizeof(made)),
	   "and the key is the same");
	ok(offer_take(&back, "text", &taken, &e) == RINGUP_EAUTH &&
		   strstr(e.text, "rank 0 has no RINGUP_SECRET and this rank has one"),
	   "a rank with a secret does not take it: %s", e.text);

	ok(!offer_make(&o, "text", &made, &e) && o.kind == OFFER_NONCE,
	   "an offer with a nonce");
	ok(!offer_take(&o, "text", &taken, &e) && !memcmp(&made, &taken, sizeof(made)),
	   "brings the same key to a rank with the same secret");
	ok(!offer_take(&o, "other", &taken, &e) && memcmp(&made, &taken, sizeof(made)) != 0,
	   "and another to a rank with another");
	ok(offer_take(&o, "", &taken, &e) == RINGUP_EAUTH &&
		   strstr(e.text, "rank 0 has a RINGUP_SECRET and this rank has none"),
	   "and none to one without: %s", e.text);

	o = (struct offer){ .kind = OFFER_FAILED, .text = "no address" };
	offer_print(&o, line);
	ok(!offer_parse(line, &back, &e) && offer_take(&back, "", &taken, &e) == RINGUP_EPEER &&
		   strstr(e.text, "rank 0 cannot start: no address"),
	   "a failure is passed on: %s", e.text);

	o = (struct offer){ .kind = OFFER_KEY, .text = "10.0.0.5:1" };
	offer_print(&o, line);
	ok(!offer_parse(line, &back, &e) && offer_take(&back, "", &taken, &e) == RINGUP_EINVAL,
	   "a key of zeros is none: %s", e.text);
	line[4] = '7';
	ok(offer_parse(line, &back, &e) == RINGUP_EMISMATCH, "another kind: %s", e.text);
	line[0] = '6';
	ok(offer_parse(line, &back, &e) == RINGUP_EMISMATCH, "another version: %s", e.text);
	line[9] = 0;
	ok(offer_parse(line, &back, &e) == RINGUP_EMISMATCH, "one that is cut short");
	ok(offer_parse("", &back, &e) == RINGUP_EMISMATCH, "nothing");
	ok(offer_parse("no digits", &back, &e) == RINGUP_EMISMATCH, "words");
	return tap_done();
}
