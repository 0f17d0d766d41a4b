/* hostlist.c - parse hosts and their slots from -H, a hostfile or a discovery script. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/hostlist.h"

#include <ctype.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "base/err.h"
#include "base/file.h"
#include "ringup.h"

enum { FILE_BYTES = 4 << 20 };

/* A name becomes an argument of ssh, and a shell there may read it, so it has only characters
 * of names and addresses. */
static bool hostlist_is_name(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("._-@%:", text[i]))
			return false;
	return len > 0 && len < HOSTLIST_NAME && text[0] != '-';
}

static int slots_read(const char *text, size_t len, int *slots)
{
	long n = 0;

	for (size_t i = 0; i < len; i++) {
		if (!isdigit((unsigned char)text[i]))
			return -1;
		n = n * 10 + (text[i] - '0');
		if (n > HOSTLIST_SLOTS)
			return -1;
	}
	*slots = (int)n;
	return len ? 0 : -1;
}

/* Adds a host; one that is in the list already gets the slots of both entries. */
static int host_add(struct hostlist *l, const char *name, size_t len, int slots, struct err *e)
{
	struct hostlist_host *h;

	for (int i = 0; i < l->count; i++)
		if (strlen(l->host[i].name) == len && !memcmp(l->host[i].name, name, len)) {
			l->host[i].slots += slots;
			if (l->host[i].slots <= HOSTLIST_SLOTS)
				return 0;
			return fail(e, RINGUP_EINVAL, "%.80s: more than %d slots",
				    l->host[i].name, HOSTLIST_SLOTS);
		}
	if (l->count == HOSTLIST_HOSTS)
		return fail(e, RINGUP_EINVAL, "more than %d hosts", HOSTLIST_HOSTS);
	h = array_more(&l->host, &l->count, sizeof(*h));
	if (!h)
		return fail(e, RINGUP_ENOMEM, "no memory for %d hosts", l->count + 1);
	h->slots = slots;
	memcpy(h->name, name, len);
	return 0;
}

/* "h1", "h1:2", "[fe80::1]:2"; an address of IPv6 without brackets has no number of slots. */
static int host_read(struct hostlist *l, const char *text, size_t len, int slots, struct err *e)
{
	const char *colon = memchr(text, ':', len), *close;
	const char *name = text;
	size_t n = len;

	if (len && *text == '[') {
		close = memchr(text, ']', len);
		if (!close)
			return fail(e, RINGUP_EINVAL, "%.*s: [ without ]", (int)len, text);
		name = text + 1;
		n = (size_t)(close - name);
		colon = close + 1 < text + len ? close + 1 : NULL;
		if (colon && *colon != ':')
			return fail(e, RINGUP_EINVAL, "%.*s: not HOST:SLOTS", (int)len, text);
	} else if (colon && memchr(colon + 1, ':', len - (size_t)(colon + 1 - text))) {
		colon = NULL;
	} else if (colon) {
		n = (size_t)(colon - text);
	}
	if (colon && slots_read(colon + 1, len - (size_t)(colon + 1 - text), &slots))
		return fail(e, RINGUP_EINVAL, "%.*s: not HOST:SLOTS, with up to %d slots",
			    (int)len, text, HOSTLIST_SLOTS);
	if (!n)
		return fail(e, RINGUP_EINVAL, "a host without a name");
	if (!hostlist_is_name(name, n))
		return fail(e, RINGUP_EINVAL, "%.*s: not the name of a host",
			    (int)(len < 80 ? len : 80), text);
	return host_add(l, name, n, slots, e);
}

int hostlist_option(struct hostlist *l, const char *text, int slots, struct err *e)
{
	size_t len;
	int rc = 0;

	for (; *text && !rc; text += len + (text[len] == ',')) {
		len = strcspn(text, ",");
		rc = host_read(l, text, len, slots, e);
	}
	if (!rc && !l->count)
		rc = fail(e, RINGUP_EINVAL, "no hosts");
	return rc;
}

static const char *word_next(const char **p, const char *end, size_t *len)
{
	const char *word;

	while (*p < end && isspace((unsigned char)**p))
		(*p)++;
	word = *p;
	while (*p < end && !isspace((unsigned char)**p))
		(*p)++;
	*len = (size_t)(*p - word);
	return *len ? word : NULL;
}

/* "h1", "h1:2", "h1 slots=2 max_slots=4", as in mpirun's and horovodrun's hostfiles. */
static int line_read(struct hostlist *l, const char *line, const char *end, int slots,
		     struct err *e)
{
	const char *comment = memchr(line, '#', (size_t)(end - line)), *host, *word;
	size_t len, n;

	if (comment)
		end = comment;
	host = word_next(&line, end, &len);
	if (!host)
		return 0;
	while ((word = word_next(&line, end, &n))) {
		if (n > 6 && !memcmp(word, "slots=", 6)) {
			if (slots_read(word + 6, n - 6, &slots))
				return fail(e, RINGUP_EINVAL, "%.*s: not slots=N", (int)n,
					    word);
		} else if (!(n > 10 && !memcmp(word, "max_slots=", 10)) &&
			   !(n > 10 && !memcmp(word, "max-slots=", 10))) {
			return fail(e, RINGUP_EINVAL,
				    "%.*s: not of the form HOST slots=N or HOST:N",
				    (int)(n < 80 ? n : 80), word);
		}
	}
	return host_read(l, host, len, slots, e);
}

static int text_read(struct hostlist *l, const char *text, int slots, int *number,
		     struct err *e)
{
	size_t len;
	int rc = 0;

	for (*number = 1; *text && !rc; text += len + (text[len] == '\n')) {
		len = strcspn(text, "\n");
		rc = line_read(l, text, text + len, slots, e);
		*number += !rc;
	}
	return rc;
}

int hostlist_file(struct hostlist *l, const char *path, int slots, struct err *e)
{
	char *text;
	size_t len;
	int line, rc = file_read("", path, FILE_BYTES, &text, &len, e);

	if (rc)
		return rc;
	rc = text_read(l, text, slots, &line, e);
	free(text);
	if (rc)
		return fail_in(e, "%s:%d", path, line);
	return l->count ? 0 : fail(e, RINGUP_EINVAL, "%s: no hosts", path);
}

int hostlist_script(struct hostlist *l, const char *text, int slots, struct err *e)
{
	int line;

	return text_read(l, text, slots, &line, e);
}

int hostlist_slots(const struct hostlist *l)
{
	int n = 0;

	for (int i = 0; i < l->count; i++)
		n += l->host[i].slots;
	return n;
}

static bool address_is_loopback(const struct sockaddr *a)
{
	const struct sockaddr_in *in = (const void *)a;
	const struct sockaddr_in6 *in6 = (const void *)a;

	return a->sa_family == AF_INET ? ntohl(in->sin_addr.s_addr) >> 24 == 127
				       : IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

/* An address of this machine is one that a socket can be bound to. */
static bool address_is_local(const struct addrinfo *a)
{
	int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ours = fd >= 0 && !bind(fd, a->ai_addr, a->ai_addrlen);

	if (fd >= 0)
		close(fd);
	return ours;
}

/* Has @name an address of this machine?  @loopback: one of those counts, too. */
static bool resolves_here(const char *name, bool loopback)
{
	struct addrinfo how = { .ai_socktype = SOCK_DGRAM }, *all, *a;
	bool ours = false;

	if (getaddrinfo(name, NULL, &how, &all))
		return false;
	for (a = all; a && !ours; a = a->ai_next)
		ours = (loopback || !address_is_loopback(a->ai_addr)) && address_is_local(a);
	freeaddrinfo(all);
	return ours;
}

/* Is @name what this machine calls itself? */
static bool name_is_self(const char *name)
{
	char self[HOSTLIST_NAME] = "";
	size_t len;

	if (!strcasecmp(name, "localhost") || !strcmp(name, "127.0.0.1") ||
	    !strcmp(name, "::1"))
		return true;
	if (gethostname(self, sizeof(self) - 1))
		return false;
	/* "node1" and "node1.cluster.example" are one host. */
	len = strcspn(self, ".");
	return !strcasecmp(name, self) ||
	       (strlen(name) == len && !strncasecmp(name, self, len));
}

bool hostlist_is_local(const char *name)
{
	return name_is_self(name) || !strncmp(name, "127.", 4) || resolves_here(name, true);
}

static bool addresses_meet(const char *a, const char *b)
{
	struct addrinfo how = { .ai_socktype = SOCK_DGRAM }, *all, *more = NULL, *p, *q;
	bool meet = false;

	if (getaddrinfo(a, NULL, &how, &all))
		return false;
	if (getaddrinfo(b, NULL, &how, &more))
		more = NULL;
	for (p = all; p && !meet; p = p->ai_next)
		for (q = more; q && !meet; q = q->ai_next)
			meet = p->ai_addrlen == q->ai_addrlen &&
			       !memcmp(p->ai_addr, q->ai_addr, p->ai_addrlen);
	freeaddrinfo(all);
	if (more)
		freeaddrinfo(more);
	return meet;
}

bool hostlist_is_same(const char *a, const char *b)
{
	bool self = name_is_self(a), other = name_is_self(b);

	if (!strcasecmp(a, b) || (self && other))
		return true;
	if (self != other && resolves_here(self ? b : a, false))
		return true;
	return addresses_meet(a, b);
}

void hostlist_fini(struct hostlist *l)
{
	free(l->host);
	*l = (struct hostlist){ 0 };
}
