/* ras_server.c - the server side of NCCL RAS: a loopback port that reports a job's counts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/ras_server.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "ringup.h"

enum { MS = 1000000, SECOND = 1000 * MS, ANSWER = 128 };

int ras_server_open(struct ras_server *s, int port,
		    char *(*report)(void *arg, enum ras_format format, size_t *len), void *arg,
		    struct err *e)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = file_lift(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
	    on = 1;

	memset(s, 0, sizeof(*s));
	if (fd < 0)
		return fail_os(e, "socket");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, RAS_CLIENTS)) {
		fail_os(e, "listen at 127.0.0.1:%d", port);
		close(fd);
		return e->code;
	}
	s->port = port;
	s->fd = fd;
	s->report = report;
	s->arg = arg;
	for (int i = 0; i < RAS_CLIENTS; i++)
		s->client[i].fd = -1;
	return 0;
}

static void client_close(struct ras_client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	free(c->out);
	*c = (struct ras_client){ .fd = -1 };
}

void ras_server_close(struct ras_server *s)
{
	if (!s->port)
		return;
	for (int i = 0; i < RAS_CLIENTS; i++)
		client_close(&s->client[i]);
	/* Children of fork() may have it, too, and would be given connections. */
	shutdown(s->fd, SHUT_RDWR);
	close(s->fd);
	for (int i = 0; i < RAS_FORMATS; i++)
		free(s->kept[i]);
	memset(s, 0, sizeof(*s));
}

/* ---- what to wait for ---- */

static struct ras_client *free_client(struct ras_server *s)
{
	for (int i = 0; i < RAS_CLIENTS; i++)
		if (s->client[i].fd < 0)
			return &s->client[i];
	return NULL;
}

static bool rests(const struct ras_server *s, int64_t now)
{
	return s->accepted >= RAS_SECOND && now - s->second_ns < SECOND;
}

void ras_server_list(const struct ras_server *s, struct pollfd *p, int64_t now)
{
	bool room = false;

	for (int i = 0; i < RAS_CLIENTS; i++) {
		const struct ras_client *c = &s->client[i];

		p[1 + i] =
			(struct pollfd){ s->port ? c->fd : -1, c->out ? POLLOUT : POLLIN, 0 };
		room |= c->fd < 0;
	}
	p[0] = (struct pollfd){ s->port && room && !rests(s, now) ? s->fd : -1, POLLIN, 0 };
}

int64_t ras_server_until(const struct ras_server *s)
{
	int64_t until = INT64_MAX;

	if (!s->port)
		return until;
	if (s->accepted >= RAS_SECOND)
		until = s->second_ns + SECOND;
	for (int i = 0; i < RAS_CLIENTS; i++)
		if (s->client[i].fd >= 0 && s->client[i].until_ns < until)
			until = s->client[i].until_ns;
	return until;
}

/* ---- a client ---- */

static void answer(struct ras_client *c, const char *text)
{
	c->out = strdup(text);
	c->len = c->out ? strlen(c->out) : 0;
	c->sent = 0;
	if (!c->out)
		client_close(c);
}

/* Many clients, and those that ask again and again, get one report. */
static void status(struct ras_server *s, struct ras_client *c, int64_t now)
{
	enum ras_format f = c->format;

	if (!s->kept[f] || now - s->kept_ns[f] >= (int64_t)RAS_REPORT_MS * MS) {
		free(s->kept[f]);
		s->kept[f] = s->report(s->arg, f, &s->kept_len[f]);
		s->kept_ns[f] = now;
	}
	c->out = s->kept[f] ? malloc(s->kept_len[f] + 1) : NULL;
	if (!c->out) {
		client_close(c);
		return;
	}
	memcpy(c->out, s->kept[f], s->kept_len[f]);
	c->len = s->kept_len[f];
	c->sent = 0;
	c->ending = true;
}

/* What follows @word in @line, or NULL; words are separated by one space or more. */
static const char *after(const char *line, const char *word)
{
	size_t len = strlen(word);

	if (strncasecmp(line, word, len) != 0 || (line[len] && line[len] != ' '))
		return NULL;
	return line + len + strspn(line + len, " ");
}

static void obey(struct ras_server *s, struct ras_client *c, const char *line, int64_t now)
{
	char text[ANSWER], *end;
	const char *rest;

	if (after(line, "CLIENT PROTOCOL")) {
		answer(c, "SERVER PROTOCOL 2\n");
	} else if ((rest = after(line, "TIMEOUT"))) {
		/* No report takes any time here, so the limit does not matter. */
		answer(c, *rest && strtod(rest, &end) >= 0 && !*end
				  ? "OK\n"
				  : "ERROR: Invalid timeout\n");
	} else if ((rest = after(line, "SET FORMAT"))) {
		if (!strcasecmp(rest, "json") || !strcasecmp(rest, "text"))
			c->format = strcasecmp(rest, "json") ? RAS_AS_TEXT : RAS_AS_JSON;
		else
			rest = NULL;
		answer(c, rest ? "OK\n" : "ERROR: Invalid format\n");
	} else if (!strcasecmp(line, "STATUS") || !strcasecmp(line, "VERBOSE STATUS")) {
		status(s, c, now);
	} else {
		snprintf(text, sizeof(text), "ERROR: Unknown command %.40s\n", line);
		answer(c, text);
	}
}

/* Takes one line, if it is complete: the next one waits until the answer is sent. */
static void take_line(struct ras_server *s, struct ras_client *c, int64_t now)
{
	char line[RAS_LINE], *stop = memchr(c->line, '\n', c->have);
	size_t len;

	if (!stop) {
		if (c->have == sizeof(c->line))
			client_close(c);
		return;
	}
	len = (size_t)(stop - c->line);
	memcpy(line, c->line, len);
	line[len] = 0;
	if (len && line[len - 1] == '\r')
		line[len - 1] = 0;
	c->have -= len + 1;
	memmove(c->line, stop + 1, c->have);
	obey(s, c, line, now);
}

static bool has_failed(ssize_t n)
{
	return n < 0 && errno != EAGAIN && errno != EINTR;
}

static void client_hear(struct ras_server *s, struct ras_client *c, int64_t now)
{
	ssize_t n;

	/* An end with bytes unread would be a reset, which can destroy the report. */
	if (c->ending)
		c->have = 0;
	n = recv(c->fd, c->line + c->have, sizeof(c->line) - c->have, 0);
	if (!n || has_failed(n)) {
		client_close(c);
		return;
	}
	c->have += n > 0 ? (size_t)n : 0;
	if (!c->ending)
		take_line(s, c, now);
}

static void client_send(struct ras_server *s, struct ras_client *c, int64_t now)
{
	ssize_t n = send(c->fd, c->out + c->sent, c->len - c->sent, MSG_NOSIGNAL);

	if (has_failed(n)) {
		client_close(c);
		return;
	}
	c->sent += n > 0 ? (size_t)n : 0;
	if (c->sent < c->len)
		return;
	free(c->out);
	c->out = NULL;
	if (c->ending)
		shutdown(c->fd, SHUT_WR);
	else
		take_line(s, c, now);
}

static void admit(struct ras_server *s, int64_t now)
{
	struct ras_client *c = free_client(s);
	int fd = c ? file_lift(accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) : -1;

	if (now - s->second_ns >= SECOND) {
		s->second_ns = now;
		s->accepted = 0;
	}
	/* Out of descriptors, connections wait until the second is over. */
	s->accepted = fd < 0 && errno != EAGAIN && errno != ECONNABORTED ? RAS_SECOND
									 : s->accepted + 1;
	if (fd >= 0)
		*c = (struct ras_client){ .fd = fd,
					  .until_ns = now + (int64_t)RAS_CLIENT_MS * MS };
}

void ras_server_serve(struct ras_server *s, const struct pollfd *p, int64_t now)
{
	if (!s->port)
		return;
	if (s->accepted >= RAS_SECOND && now - s->second_ns >= SECOND)
		s->accepted = 0;
	for (int i = 0; i < RAS_CLIENTS; i++) {
		struct ras_client *c = &s->client[i];

		if (c->fd < 0)
			continue;
		if (now >= c->until_ns)
			client_close(c);
		else if (p[1 + i].revents && c->out)
			client_send(s, c, now);
		else if (p[1 + i].revents)
			client_hear(s, c, now);
	}
	if (p[0].revents)
		admit(s, now);
}
