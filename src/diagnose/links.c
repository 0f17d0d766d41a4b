/* links.c - keep which rank of a job is which process on which host. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/links.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"
#include "diagnose/fields.h"

enum { LOOK = 240, DIGITS = 9, PIECES = 12, SEEN = 1 << 16 };

void links_reset(struct links *l)
{
	l->n = 0;
	l->rank = -1;
	l->pid = 0;
	l->seen = 0;
}

static bool links_is_letter(char c)
{
	return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

/* The number at @p, or -1. */
static long links_number(const char *p)
{
	size_t n = strspn(p, "0123456789");

	return n && n <= DIGITS ? strtol(p, NULL, 10) : -1;
}

/* Copies the name of a host at @p, which has a letter first and a digit; false without one. */
static bool links_host(char out[LINKS_HOST], const char *p)
{
	size_t n = 0;
	bool has_digit = false;

	while (links_is_letter(p[n]) || num_is_digit(p[n]) ||
	       (n && p[n] && strchr("-._", p[n])))
		has_digit |= num_is_digit(p[n++]);
	while (n && strchr("-._", p[n - 1]))
		n--;
	if (!n || n >= LINKS_HOST || !links_is_letter(*p) || !has_digit)
		return false;
	memcpy(out, p, n);
	out[n] = 0;
	return true;
}

static void links_add(struct links *l, const struct link *add)
{
	struct link *x;

	l->seen++;
	for (int i = 0; i < l->n; i++) {
		x = &l->list[i];
		if (x->file != add->file || x->pid != add->pid ||
		    strcmp(x->host, add->host) != 0 || (!add->pid && x->rank != add->rank))
			continue;
		if (add->rank >= 0 && (x->rank < 0 || add->world > x->world))
			*x = *add;
		return;
	}
	if (l->n < LINKS)
		l->list[l->n++] = *add;
}

/* "process rank 11 with PID 4711 on node cn0147" of mpirun, "PID 4711 RUNNING AT cn0147" of
 * MPICH's launcher. */
static bool read_launcher(struct link *x, const char *low, const char *text)
{
	const char *pid = strstr(low, "pid "), *at;

	if (!pid)
		return false;
	x->pid = links_number(pid + 4);
	at = strstr(pid, " running at ");
	if (at)
		return x->pid > 0 && links_host(x->host, text + (at - low) + 12);
	at = strstr(pid, " on node ");
	if (!at || x->pid < 1 || !links_host(x->host, text + (at - low) + 9))
		return false;
	at = strstr(low, "rank ");
	x->rank = at && at < pid ? (int)links_number(at + 5) : -1;
	return true;
}

/* "cn0147:4711:4800 [0] NCCL INFO comm 0x1 rank 4 nRanks 16". */
static bool read_nccl(struct link *x, const char *low, const char *text)
{
	const char *nccl = strstr(low, " nccl info "), *rank, *world, *p;
	size_t host;

	if (!nccl || !(rank = strstr(nccl, " rank ")) || !(world = strstr(rank, " nranks ")))
		return false;
	for (p = nccl; p > low && p[-1] != ' '; p--)
		;
	/* The number of the GPU comes between. */
	for (p -= p > low; p > low && !strchr(" ]", p[-1]); p--)
		;
	host = strcspn(p, ":");
	x->pid = p[host] == ':' ? links_number(p + host + 1) : -1;
	x->rank = (int)links_number(rank + 6);
	x->world = links_number(world + 8);
	return x->pid > 0 && x->rank >= 0 && x->world > 0 &&
	       links_host(x->host, text + (p - low));
}

/* May the word be between a rank and its host? */
static bool is_between(const char *word, size_t n)
{
	static const char *const words[] = { "local",  "rank", "world", "size",    "of",
					     "pid",    "on",   "runs",  "running", "gpu",
					     "device", "cuda", "is",    NULL };

	for (int i = 0; words[i]; i++)
		if (strlen(words[i]) == n && !memcmp(words[i], word, n))
			return true;
	return false;
}

static bool is_host_word(const char *word, size_t n)
{
	return (n == 4 && (!memcmp(word, "host", 4) || !memcmp(word, "node", 4))) ||
	       (n == 8 && !memcmp(word, "hostname", 8));
}

/* "rank 13 host acn0417", "Rank: 13, local rank: 1, hostname: acn0417". */
static bool read_row(struct link *x, const char *low, const char *text)
{
	const char *p = strstr(low, "rank"), *word;
	size_t n;

	if (!p || (p > low && (p[-1] == '_' || links_is_letter(p[-1])) &&
		   strncmp(low, "global_rank", 11) != 0))
		return false;
	p += 4;
	p += strspn(p, " =:[");
	x->rank = (int)links_number(p);
	if (x->rank < 0)
		return false;
	for (int i = 0; i < PIECES; i++) {
		while (*p && !links_is_letter(*p))
			p++;
		for (word = p, n = 0; links_is_letter(*p); p++)
			n++;
		if (!n)
			return false;
		if (is_host_word(word, n)) {
			p += strspn(p, " =:\"'");
			return links_host(x->host, text + (p - low));
		}
		if (!is_between(word, n))
			return false;
	}
	return false;
}

/* "srun: error: acn0417: tasks 12,14-15: Terminated": all tasks. */
static void read_srun(struct links *l, struct link *x, const char *low, const char *text)
{
	const char *at = strstr(low, "srun: error: "), *p;
	long first, last;

	if (!at || !links_host(x->host, text + (at - low) + 13))
		return;
	p = strstr(at, ": task");
	for (p = p ? p + 6 + (p[6] == 's') : "";
	     (*p == ' ' || *p == ',') && (first = links_number(p + 1)) >= 0;) {
		last = first;
		p += 1 + strspn(p + 1, "0123456789");
		if (*p == '-' && (last = links_number(p + 1)) >= 0)
			p += 1 + strspn(p + 1, "0123456789");
		for (; first <= last && l->n < LINKS && l->seen < SEEN; first++) {
			x->rank = (int)first;
			links_add(l, x);
		}
	}
}

/* The lines "host : H", "rank : 27 (local_rank: 3)" and "exitcode : -9 (pid: 4711)" of
 * torchrun's report, the last first. */
static void read_report(struct links *l, struct link *x, const char *low, const char *text)
{
	const char *p = low + strspn(low, " "), *at;

	if (!strncmp(p, "exitcode", 8) && (at = strstr(p, "(pid: ")))
		l->pid = links_number(at + 6);
	if (strncmp(p, "rank ", 5) != 0 && strncmp(p, "host ", 5) != 0)
		return;
	at = p + 5 + strspn(p + 5, " :");
	if (*p == 'r' && strstr(p, "(local_rank: "))
		l->rank = (int)links_number(at);
	if (*p == 'r' || l->rank < 0)
		return;
	x->rank = l->rank;
	x->pid = l->pid > 0 ? l->pid : 0;
	x->of_report = true;
	if (links_host(x->host, text + (at - low)))
		links_add(l, x);
	l->rank = -1;
	l->pid = 0;
}

/* Has the line one of the words that all links have? */
static bool links_may_say(const char *line, const char *end)
{
	static const char *const words[] = { "ank", "PID", "pid: ", "task", "host " };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (memmem(line, (size_t)(end - line), words[i], strlen(words[i])))
			return true;
	return false;
}

void links_read(struct links *l, int file, const char *line, const char *end)
{
	char text[LOOK + 1], low[LOOK + 1];
	struct link x = { .file = file, .rank = -1 };
	size_t n;
	int rank;

	if (l->n == LINKS || l->seen >= SEEN || !links_may_say(line, end))
		return;
	n = (size_t)(end - line) < LOOK ? (size_t)(end - line) : LOOK;
	for (size_t i = 0; i < n; i++) {
		text[i] = line[i] ? line[i] : ' ';
		low[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] | 0x20) : text[i];
	}
	text[n] = low[n] = 0;
	rank = (int)(fields_unmark(text, text + n, &rank) - text);
	if (read_launcher(&x, low, text) || read_nccl(&x, low, text)) {
		links_add(l, &x);
		return;
	}
	x = (struct link){ .file = file, .rank = -1 };
	if (read_row(&x, low, text) || (rank && read_row(&x, low + rank, text + rank))) {
		links_add(l, &x);
		return;
	}
	x = (struct link){ .file = file, .rank = -1 };
	read_srun(l, &x, low, text);
	read_report(l, &x, low + rank, text + rank);
}

const struct link *links_of_pid(const struct links *l, int file, const char *host, long pid)
{
	for (int i = 0; i < l->n; i++)
		if (l->list[i].file == file && l->list[i].pid == pid && pid > 0 &&
		    (!*host || !strcmp(host, l->list[i].host)))
			return &l->list[i];
	return NULL;
}

const struct link *links_of_rank(const struct links *l, int file, int rank)
{
	const struct link *best = NULL;
	long most = 0;

	for (int i = 0; i < l->n; i++)
		most = l->list[i].file == file && l->list[i].world > most ? l->list[i].world
									  : most;
	for (int i = 0; i < l->n && !best; i++)
		if (l->list[i].file == file && l->list[i].rank == rank &&
		    (!l->list[i].world || l->list[i].world == most))
			best = &l->list[i];
	return best;
}

const struct link *links_reported(const struct links *l, int file, const char *host)
{
	for (int i = 0; i < l->n; i++)
		if (l->list[i].file == file && l->list[i].of_report &&
		    (!host || !strcmp(host, l->list[i].host)))
			return &l->list[i];
	return NULL;
}

long links_pid(const char *text, char *host)
{
	static const char *const words[] = { "Killed process ", "PID ",
					     "pid: ", "pid=", "pid " };
	const char *p = text + (*text == '[');
	long pid = -1;
	size_t n = strcspn(p, ":");

	*host = 0;
	if (p[n] == ':' && links_host(host, p) && strlen(host) == n)
		pid = links_number(p + n + 1);
	if (pid > 0)
		return pid;
	*host = 0;
	for (size_t i = 0; pid < 1 && i < sizeof(words) / sizeof(words[0]); i++) {
		p = strstr(text, words[i]);
		pid = p ? links_number(p + strlen(words[i])) : -1;
	}
	return pid > 0 ? pid : 0;
}
