/* fuzz_pmi.c - any answers of a launcher by PMI, and any words of rank 0 in them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"
#include "wire/offer.h"

/* The client's own functions, without the environment. */
#include "wire/pmi.c"

/* Each line is a message of its own, since a launcher waits for the next question. */
static void send_lines(int fd, const uint8_t *data, size_t len)
{
	while (len) {
		const uint8_t *end = memchr(data, '\n', len);
		size_t n = end ? (size_t)(end - data) + 1 : len;

		if (send(fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			break;
		data += n;
		len -= n;
	}
	shutdown(fd, SHUT_WR);
}

static void take_offer(const char *value)
{
	struct secret key;
	struct offer o;
	struct err e;

	if (offer_parse(value, &o, &e))
		return;
	fuzz_require(strnlen(o.text, sizeof(o.text)) < sizeof(o.text));
	if (!offer_take(&o, "", &key, &e))
		fuzz_require(o.kind == OFFER_KEY);
	if (!offer_take(&o, "a secret", &key, &e))
		fuzz_require(o.kind == OFFER_NONCE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char value[KVS_VALUE_BYTES];
	struct err e;
	int fd[2];

	fuzz_require(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd));
	send_lines(fd[1], data, len);
	memset(&pmi, 0, sizeof(pmi));
	pmi.fd = fd[0];
	if (!introduce(&e)) {
		fuzz_require(strnlen(pmi.name, sizeof(pmi.name)) < sizeof(pmi.name));
		fuzz_require(!strchr(pmi.name, ' ') && !strchr(pmi.name, '\n'));
		if (!pmi_put("key", "value", &e) && !pmi_fence(&e) &&
		    !pmi_get("key", value, &e)) {
			fuzz_require(strnlen(value, sizeof(value)) < sizeof(value));
			fuzz_require(!strchr(value, ' ') && !strchr(value, '\n'));
			take_offer(value);
		}
	}
	pmi_close();
	close(fd[1]);
	return 0;
}
