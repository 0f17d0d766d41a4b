/* sock.h - TCP sockets between numeric addresses, non-blocking. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_SOCK_H
#define WIRE_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct err;

/* Room for "[address%interface]:port" with its NUL. */
enum { SOCK_TEXT = 80 };

struct sock_addr {
	struct sockaddr_storage sa;
	socklen_t len;
};

/*
 * sock_parse - "10.0.0.5:41217" or "[fe80::1%eth0]:41217"; no names, so nothing
 * is asked of a resolver.  sock_parse_address - the same without port.
 */
int sock_parse(const char *where, struct sock_addr *a, struct err *e);
int sock_parse_address(const char *address, struct sock_addr *a, struct err *e);

/* sock_set_port - 0 to 65535, of an address that has been parsed. */
void sock_set_port(struct sock_addr *a, int port);

/* sock_text - as sock_parse() takes it, to @out of SOCK_TEXT bytes; returns @out. */
const char *sock_text(const struct sock_addr *a, char *out);

/* sock_same_host - are the addresses equal, whatever the ports? */
bool sock_same_host(const struct sock_addr *a, const struct sock_addr *b);

/*
 * sock_listen - on exactly one numeric address of this host and a port that the
 * kernel picks; writes both to @where of SOCK_TEXT bytes.
 *
 * A wildcard, multicast or broadcast address is RINGUP_EINVAL: a socket that listens
 * everywhere is reached from everywhere.  Returns the descriptor or a negative code.
 */
int sock_listen(const char *address, char *where, struct err *e);

/*
 * sock_connect - begin to connect; poll the descriptor for POLLOUT, then ask
 * sock_connected().
 *
 * Returns the descriptor, RINGUP_EPEER if the port is closed or there is no route,
 * which may change, or RINGUP_ESYSTEM.
 */
int sock_connect(const struct sock_addr *to, struct err *e);

/* sock_connected - 0, or what sock_connect() returns; a socket that is connected
 * to itself, which TCP allows, counts as refused. */
int sock_connected(int fd, struct err *e);

/*
 * sock_accept - the next connection, non-blocking, and its peer's address.  Both ends of
 * a connection send small messages at once, and lost ones again each second where the
 * kernel can (Linux 6.15), for a day.
 *
 * Returns the descriptor, -1 if there is none now, or -2 if this process or
 * machine is out of descriptors or memory: try again in a while.
 */
int sock_accept(int fd, struct sock_addr *from);

/*
 * sock_gather - more of the @want bytes at @into, of which *@have are there.
 *
 * Returns 1 when all are, 0 if not yet, -1 if never: errno is 0 at the end of the stream.
 */
int sock_gather(int fd, void *into, size_t want, size_t *have);

/*
 * sock_watch - have the kernel notice that the other side has been unreachable for
 * @silence_ms, whether data is under way or not; 0: never.  Not for data: a reader that is
 * merely slow would be cut off. Does nothing to sockets that are not TCP.
 */
void sock_watch(int fd, int silence_ms);

/*
 * sock_patience - the other side may be unreachable for @silence_ms before the kernel gives it
 * up; also for data.  0: for as long as the kernel can, some 20 minutes.
 *
 * Returns the longest pause between two tries to reach it, in milliseconds: so much later at
 * most this connection notices that the other side can be reached again.
 */
int sock_patience(int fd, int silence_ms);

/*
 * sock_unheard - is data under way, and the last acknowledgement @ms or longer ago?  The other
 * side's kernel acknowledges, however slow the reader is.  False if TCP_INFO cannot be read.
 */
bool sock_unheard(int fd, uint32_t ms);

#endif
