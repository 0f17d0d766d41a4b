/* origin.c - extract the rank, host and time that a log line states. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/origin.h"

#include <stdbool.h>
#include <string.h>

#include "base/num.h"
#include "diagnose/fields.h"
#include "diagnose/wrap.h"

/* RECORD: the first field of a record is within so many bytes. */
enum { LOOK = 160, HOST = 64, MARK_LOOK = 128, RECORD = 32 };

static bool origin_is_name(char c)
{
	return num_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '-' || c == '.' || c == '_';
}

/* Does @p match @shape, in which 0 is any digit?  Appends its digits to *@v. */
static bool fits(const char *p, const char *end, const char *shape, int64_t *v)
{
	int64_t n = *v;

	for (; *shape; shape++, p++) {
		if (p >= end || (*shape == '0' ? !num_is_digit(*p) : *p != *shape))
			return false;
		if (*shape == '0')
			n = 10 * n + (*p - '0');
	}
	*v = n;
	return true;
}

static int64_t with_fraction(int64_t v, const char *p, const char *end)
{
	int i = 0;

	/* Drops the year, since some write none and all have to be comparable. */
	v %= 10000000000;
	if (p < end && (*p == '.' || *p == ','))
		for (p++; p < end && i < 6 && num_is_digit(*p); i++)
			v = 10 * v + (*p++ - '0');
	for (; i < 6; i++)
		v *= 10;
	return v;
}

/* ISO 8601 and Python's logging, glog with and without the year, Java's, torch's. */
static int64_t time_at(const char *p, const char *end)
{
	static const struct {
		const char *date, *time;
	} shapes[] = {
		{ "0000-00-00T", "00:00:00" }, { "0000-00-00 ", "00:00:00" },
		{ "00000000 ", "00:00:00" },   { "0000 ", "00:00:00" },
		{ "00/00/00 ", "00:00:00" },   { "000 ", "00:00:00" },
	};
	int64_t v;

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		v = 0;
		if (fits(p, end, shapes[i].date, &v) &&
		    fits(p + strlen(shapes[i].date), end, shapes[i].time, &v))
			return with_fraction(
				v, p + strlen(shapes[i].date) + strlen(shapes[i].time), end);
	}
	return 0;
}

/* "Aug 22 10:01:11 " of syslog and the journal; 0 if it is none. */
static int64_t syslog_time(const char *p, const char *end)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	const char *at;
	int64_t v;

	if (end - p < 16 || *p < 'A' || *p > 'S' || p[3] != ' ' || p[6] != ' ')
		return 0;
	at = memmem(months, sizeof(months) - 1, p, 3);
	if (!at || (at - months) % 3)
		return 0;
	v = (at - months) / 3 + 1;
	v = 100 * v + 10 * (p[4] == ' ' ? 0 : p[4] - '0') + (p[5] - '0');
	return fits(p + 7, end, "00:00:00", &v) ? with_fraction(v, p + 15, end) : 0;
}

static bool is_source(const char *name, const char *end)
{
	static const char *const tails[] = { ".py", ".cc", ".cpp", ".cu", ".c", ".h", ".go" };
	size_t n;

	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		n = strlen(tails[i]);
		if ((size_t)(end - name) > n && !memcmp(end - n, tails[i], n))
			return true;
	}
	return false;
}

/* "[node-1:mpi_rank_3]" of MVAPICH. */
static bool mvapich_at(struct origin *o, const char *p, const char *end)
{
	static const char mark[] = ":mpi_rank_";
	const char *colon = memchr(p, ':', (size_t)(end - p)), *at;
	int n = 0;

	if (!colon || colon == p + 1 || colon - p > HOST ||
	    (size_t)(end - colon) < sizeof(mark) || memcmp(colon, mark, sizeof(mark) - 1) != 0)
		return false;
	for (at = colon + sizeof(mark) - 1; at < end && num_is_digit(*at) && n < 10000000; at++)
		n = 10 * n + (*at - '0');
	if (at == end || *at != ']')
		return false;
	memcpy(o->host, p + 1, (size_t)(colon - p - 1));
	o->host[colon - p - 1] = 0;
	if (o->rank < 0)
		o->rank = n;
	return true;
}

/* "node-1:4711:4712 [0]" of NCCL, "[node-1:4711]" of Open MPI. */
static bool host_at(struct origin *o, const char *p, const char *end)
{
	const char *start = p, *colon;
	bool bracket = p < end && *p == '[';

	if (bracket && mvapich_at(o, p, end))
		return true;
	start = p += bracket;
	while (p < end && p - start < HOST && origin_is_name(*p))
		p++;
	if (p == start || p >= end || *p != ':')
		return false;
	colon = p++;
	while (p < end && num_is_digit(*p))
		p++;
	if (p == colon + 1 || p >= end)
		return false;
	/* "[node-1:4711 :0:4711]" of UCX */
	if (bracket && *p == ' ') {
		while (p < end && (*p == ' ' || *p == ':' || num_is_digit(*p)))
			p++;
		if (p == end)
			return false;
	}
	if (bracket ? *p != ']' : *p != ':' || p + 1 >= end || !num_is_digit(p[1]))
		return false;
	if (num_is_digit(*start) && !memchr(start, '.', (size_t)(colon - start)))
		return false;
	/* "[core.py:632]" is a place in a program. */
	if (bracket && is_source(start, colon))
		return false;
	if (colon - start == 9 && !memcmp(start, "libfabric", 9))
		return false;
	memcpy(o->host, start, (size_t)(colon - start));
	o->host[colon - start] = 0;
	return true;
}

/* Parses the mark of a rank where dates, pod names or Java classes may stand before it: only
 * unambiguous marks. */
static const char *mark_at(const char *p, const char *end, int *rank)
{
	const char *close, *at;
	int n = 0;

	if (end - p < 4 || *p != '[')
		return p;
	close = memchr(p, ']', (size_t)(end - p));
	/* "[PG ID 0 PG GUID 0(default_pg) Rank 2]" of torch's watchdog */
	if (close && p[1] == 'P' && (at = memmem(p, (size_t)(close - p), " Rank ", 6))) {
		for (at += 6; at < close && num_is_digit(*at) && n < 10000000; at++)
			n = 10 * n + (*at - '0');
		if (at == close)
			*rank = n;
		return p;
	}
	if (!close || (end - close > 4 && !memcmp(close + 1, "<std", 4)) ||
	    (end - p > 5 && (p[1] | 0x20) == 'r' && !memcmp(p + 2, "ank", 3)) ||
	    (end - p > 8 && !memcmp(p, "[default", 8)))
		return close ? fields_unmark(p, end, rank) : p;
	return p;
}

/* "(Worker pid=41, ip=10.0.0.1)" of Ray, "(Worker rank=1 pid=41)" of programs on it. */
static void actor_at(struct origin *o, const char *p, const char *end)
{
	const char *close = memchr(p, ')', (size_t)(end - p)), *at;
	size_t n = 0;

	if (!close || !memmem(p, (size_t)(close - p), "pid=", 4))
		return;
	at = memmem(p, (size_t)(close - p), "ip=", 3);
	if (at && at > p && (at[-1] == ' ' || at[-1] == '(')) {
		for (at += 3; at + n < close && n < HOST && origin_is_name(at[n]); n++)
			;
		memcpy(o->host, at, n);
		o->host[n] = 0;
	}
	at = memmem(p, (size_t)(close - p), " rank=", 6);
	if (at && o->rank < 0)
		for (n = 0, at += 6; n < 7 && num_is_digit(at[n]); n++)
			o->rank = (n ? 10 * o->rank : 0) + (at[n] - '0');
}

/* ---- marks ---- */

/* "[pod/bert-worker-3/pytorch] " of kubectl. */
static const char *mark_pod(struct origin_mark *m, const char *p, const char *end)
{
	const char *slash, *close;

	if (end - p < 8 || memcmp(p, "[pod/", 5) != 0)
		return p;
	slash = memchr(p + 5, '/', (size_t)(end - p - 5));
	close = slash ? memchr(slash, ']', (size_t)(end - slash)) : NULL;
	if (!close || slash - p - 5 > HOST)
		return p;
	m->host = p + 5;
	m->len = (size_t)(slash - m->host);
	return close + 1 < end && close[1] == ' ' ? close + 2 : close + 1;
}

/* "worker-3  | " of docker compose; the name ends in a number. */
static const char *mark_compose(struct origin_mark *m, const char *p, const char *end)
{
	const char *at = p, *stop;

	while (at < end && at - p < HOST && origin_is_name(*at))
		at++;
	stop = at;
	while (at < end && *at == ' ')
		at++;
	if (stop - p < 3 || end - at < 2 || at[0] != '|' || at[1] != ' ' ||
	    !num_is_digit(stop[-1]) || num_is_digit(*p))
		return p;
	m->host = p;
	m->len = (size_t)(stop - p);
	return at + 2;
}

/* "Nov 12 10:00:00 node-3 train[4711]: " of the journal and of syslog. */
static const char *mark_syslog(struct origin_mark *m, const char *p, const char *end)
{
	const char *host = p + 16, *at, *close;
	int64_t v = 0;

	if (end - p < 24 || p[3] != ' ' || p[6] != ' ' || p[15] != ' ' ||
	    !fits(p + 7, end, "00:00:00", &v))
		return p;
	for (at = host; at < end && at - host < HOST && origin_is_name(*at); at++)
		;
	close = memchr(at, ':', (size_t)(end - at < HOST ? end - at : HOST));
	if (at == host || *at != ' ' || !close || (close[-1] != ']' && close - at > 24))
		return p;
	m->host = host;
	m->len = (size_t)(at - host);
	return close + 1 < end && close[1] == ' ' ? close + 2 : close + 1;
}

/* "2026-11-12T10:00:00.123456789Z worker-3 " of collectors of logs, which put the time of a
 * line and the pod before it, and of rsyslog; the name ends in a number, and what follows is
 * another time, a level or a mark. */
static const char *mark_dated(struct origin_mark *m, const char *p, const char *end)
{
	const char *at = p + 19, *name;
	int64_t v = 0;

	if (end - p < 32 || !fits(p, end, "0000-00-00T", &v) ||
	    !fits(p + 11, end, "00:00:00", &v))
		return p;
	while (at < end && *at && *at != ' ' && at - p < 36)
		at++;
	if (at == end || *at != ' ')
		return p;
	for (name = ++at; at < end && at - name < HOST && origin_is_name(*at); at++)
		;
	if (at - name < 3 || num_is_digit(*name) || !num_is_digit(at[-1]) ||
	    !memchr(name, '-', (size_t)(at - name)) || end - at < 3 || *at != ' ' ||
	    (!num_is_digit(at[1]) && at[1] != '[' &&
	     !(at[1] >= 'A' && at[1] <= 'Z' && at[2] >= 'A' && at[2] <= 'Z')))
		return p;
	m->host = name;
	m->len = (size_t)(at - name);
	return at + 1;
}

/* "(RayTrainWorker pid=4711, ip=10.30.0.7) " */
static const char *mark_actor(struct origin_mark *m, const char *p, const char *end)
{
	const char *close = memchr(p, ')', (size_t)(end - p)), *pid, *rank;

	pid = close ? memmem(p, (size_t)(close - p), "pid=", 4) : NULL;
	if (!pid || close - pid > HOST)
		return p;
	rank = memmem(p, (size_t)(close - p), "rank=", 5);
	if (rank && m->rank < 0)
		for (m->rank = 0, rank += 5;
		     rank < close && num_is_digit(*rank) && m->rank < 1000000;)
			m->rank = 10 * m->rank + (*rank++ - '0');
	m->host = pid;
	m->len = (size_t)(close - pid);
	return close + 1 < end && close[1] == ' ' ? close + 2 : close + 1;
}

static const char *mark_named(struct origin_mark *m, const char *p, const char *end)
{
	if (*p == '[')
		return mark_pod(m, p, end);
	if (*p == '(')
		return mark_actor(m, p, end);
	if (num_is_digit(*p))
		return mark_dated(m, p, end);
	if ((*p | 0x20) < 'a' || (*p | 0x20) > 'z')
		return p;
	return end - p > 16 && p[9] == ':' && p[12] == ':' ? mark_syslog(m, p, end)
							   : mark_compose(m, p, end);
}

/* "time=... rank=3 step=7", "10:00:00 | rank 3 | INFO | ...", {"time": ..., "rank": 3}: the
 * line is a record with fields, and the rank one of them. */
static void mark_field(struct origin_mark *m, const char *line, const char *end)
{
	static const struct {
		const char *before, after[4];
		char earlier; /* another field has to come before */
	} forms[] = {
		{ " rank=", " \r", '=' },
		{ "| rank ", " |", '|' },
		{ "\"rank\": ", ",}", '{' },
		{ "\"rank\":", ",}", '{' },
	};
	const char *at;
	int n;

	if (end - line > MARK_LOOK)
		end = line + MARK_LOOK;
	if (end - line < RECORD ||
	    (*line != '{' && !memchr(line, '=', RECORD) && !memchr(line, '|', RECORD)))
		return;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		at = memmem(line, (size_t)(end - line), forms[i].before,
			    strlen(forms[i].before));
		if (!at || !memchr(line, forms[i].earlier, (size_t)(at + 1 - line)))
			continue;
		at += strlen(forms[i].before);
		for (n = 0; at < end && num_is_digit(*at) && n < 10000000; at++)
			n = 10 * n + (*at - '0');
		if (num_is_digit(at[-1]) && at < end && *at && strchr(forms[i].after, *at))
			m->rank = n;
		return;
	}
}

void origin_mark(struct origin_mark *m, const char *line, const char *end)
{
	const char *p, *at, *whole = line, *whole_end = end;

	*m = (struct origin_mark){ .rank = -1 };
	if (line < end && *line == '{')
		wrap_open(&line, &end);
	if (end - line > MARK_LOOK)
		end = line + MARK_LOOK;
	/* A terminal's colour */
	if (end - line > 5 && *line == 0x1b && (at = memchr(line, 'm', 8)) && at < end)
		line = at + 1;
	p = line < end ? mark_named(m, line, end) : line;
	at = fields_unmark(p, end, &m->rank);
	/* "[1]:" alone is the head of an entry in torchrun's report. */
	while (at < end && (unsigned char)*at <= ' ')
		at++;
	if (at == end && *p == '[')
		m->rank = -1;
	if (m->rank >= 0 || at == end)
		return;
	/* Dates and log levels may stand before torch's marks and mpirun's. */
	for (at = p; at < end && (at = memchr(at, '[', (size_t)(end - at))); at++) {
		mark_at(at, end, &m->rank);
		if (m->rank >= 0)
			return;
	}
	if (!m->host)
		mark_field(m, whole, whole_end);
}

/* The host of a line that the kernel wrote; others come from collectors, too. */
static void syslog_host(struct origin *o, const char *line, const char *end)
{
	struct origin_mark m = { .rank = -1 };
	const char *after = mark_syslog(&m, line, end);

	if (!m.host || after - m.host < (ptrdiff_t)m.len + 9 || m.len >= sizeof(o->host) ||
	    memcmp(m.host + m.len, " kernel: ", 9) != 0)
		return;
	memcpy(o->host, m.host, m.len);
	o->host[m.len] = 0;
}

void origin_read(struct origin *o, const char *line, size_t len)
{
	const char *end = line + len, *p, *after;

	memset(o, 0, sizeof(*o));
	o->rank = -1;
	wrap_open(&line, &end);
	if (end - line > LOOK)
		end = line + LOOK;
	line = fields_unmark(line, end, &o->rank);
	o->time = syslog_time(line, end);
	if (o->time)
		syslog_host(o, line, end);
	for (p = line; p < end && (!o->time || !*o->host || o->rank < 0); p++) {
		if (!*o->host && *p == '(')
			actor_at(o, p, end);
		if (o->rank < 0 && *p == '[') {
			after = mark_at(p, end, &o->rank);
			if (after > p) {
				line = p = after;
				if (p == end)
					break;
			}
		}
		/* At beginnings of words only, unless it is a mark. */
		if (p - line > 1 && origin_is_name(p[-1]) && p[-2] != ' ' && p[-2] != '[')
			continue;
		if (!o->time && num_is_digit(*p))
			o->time = time_at(p, end);
		if (!*o->host && (*p == '[' || origin_is_name(*p)) &&
		    (p == line || p[-1] == ' ' || p[-1] == '\t'))
			host_at(o, p, end);
	}
}

int origin_above(const char *start, const char *line)
{
	static const char mark[] = "[Rank ";
	const char *end = line - 1, *at, *stop;
	int rank = -1;

	at = line - start < MARK_LOOK ? start : line - MARK_LOOK;
	if (end <= at || end[-1] != ']')
		return -1;
	stop = memrchr(at, '\n', (size_t)(end - at));
	at = stop ? stop + 1 : at;
	stop = memmem(at, (size_t)(end - at), mark, sizeof(mark) - 1);
	if (!stop || (stop > at && (stop - at < 2 || memcmp(stop - 2, ") ", 2) != 0)))
		return -1;
	return fields_unmark(stop, end, &rank) == end ? rank : -1;
}
