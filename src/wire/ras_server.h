/* ras_server.h - the server side of NCCL RAS: a loopback port that reports a job's counts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_RAS_SERVER_H
#define WIRE_RAS_SERVER_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/*
 * Any user of the host may connect, send anything and be slow; a client can read the report and
 * change nothing.  There are at most RAS_CLIENTS, each with a limit of time; others wait in the
 * kernel's queue.  A report is made at most once in RAS_REPORT_MS, and RAS_SECOND connections
 * are accepted in a second, so that clients cost the caller's thread little.
 *
 * As with NCCL, all processes of a user listen at one port, and the kernel gives a connection
 * to any of them.
 *
 * One thread, which polls.
 */
enum {
	RAS_PORT = 28028,
	RAS_CLIENTS = 4,
	RAS_POLLS = RAS_CLIENTS + 1,
	RAS_LINE = 1024,
	RAS_CLIENT_MS = 10000,
	RAS_REPORT_MS = 250,
	RAS_SECOND = 64,
};

enum ras_format { RAS_AS_TEXT, RAS_AS_JSON, RAS_FORMATS };

struct ras_client {
	int fd;      /* -1: none */
	bool ending; /* nothing but the end is read, once all is sent */
	enum ras_format format;
	int64_t until_ns;
	char line[RAS_LINE];
	size_t have;
	char *out;
	size_t len, sent;
};

/* Caller's storage; closed if port is 0. */
struct ras_server {
	int port, fd;
	/* The report in this format, of *@len bytes; NULL without memory.  The server frees it.
	 */
	char *(*report)(void *arg, enum ras_format format, size_t *len);
	void *arg;
	struct ras_client client[RAS_CLIENTS];
	int64_t second_ns;       /* when the present second began */
	int accepted;            /* in it                         */
	char *kept[RAS_FORMATS]; /* the last reports */
	size_t kept_len[RAS_FORMATS];
	int64_t kept_ns[RAS_FORMATS];
};

/* ras_server_open - listen at @port of 127.0.0.1.  ras_server_close - safe on a zeroed struct.
 */
int ras_server_open(struct ras_server *s, int port,
		    char *(*report)(void *arg, enum ras_format format, size_t *len), void *arg,
		    struct err *e);
void ras_server_close(struct ras_server *s);

/* ras_server_list - fill RAS_POLLS of @p.  ras_server_serve - after poll(2).
 * ras_server_until - when to call that at the latest; INT64_MAX: never. */
void ras_server_list(const struct ras_server *s, struct pollfd *p, int64_t now_ns);
void ras_server_serve(struct ras_server *s, const struct pollfd *p, int64_t now_ns);
int64_t ras_server_until(const struct ras_server *s);

#endif
