/* fuzz_sock.c - text for the address parser: what it takes, it gives back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fuzz/fuzz.h"
#include "wire/sock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = malloc(len + 1), out[SOCK_TEXT], again[SOCK_TEXT];
	struct sock_addr a, b;
	struct err e = { 0 };

	if (!text)
		return 0;
	memcpy(text, data, len);
	text[len] = 0;
	if (!sock_parse(text, &a, &e)) {
		sock_text(&a, out);
		fuzz_require(!sock_parse(out, &b, &e) && sock_same_host(&a, &b));
		fuzz_require(!strcmp(sock_text(&b, again), out));
	} else {
		fuzz_require(*e.text);
	}
	if (!sock_parse_address(text, &a, &e))
		fuzz_require(*sock_text(&a, out));
	free(text);
	return 0;
}
