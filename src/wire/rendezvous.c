/* rendezvous.c - bring the ranks of a job together: a secret and an exchange. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/rendezvous.h"

#include <endian.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ringup.h"
#include "wire/discover.h"
#include "wire/lobby.h"
#include "wire/meet.h"
#include "wire/mpi_state.h"
#include "wire/offer.h"
#include "wire/store.h"

enum { RETRY_MS = 50, ANSWER_MS = 5000, FAREWELL_MS = 200 };

static int through_meet(void *ctx, const void *mine, size_t len, void *all)
{
	struct rendezvous *r = ctx;

	if (!r->meet) {
		memcpy(all, mine, len);
		return 0;
	}
	return meet_exchange(r->meet, mine, len, all, r->deadline_ns, &r->why);
}

/* A barrier: returns when all ranks are here. */
static int rendezvous_gather(struct rendezvous *r, struct err *e)
{
	return meet_exchange(r->meet, NULL, 0, NULL, r->deadline_ns, e);
}

static int rendezvous_join(struct rendezvous *r, const char *where, int64_t deadline_ns,
			   struct err *e)
{
	return meet_join(where, r->rank, r->size, &r->secret, deadline_ns, &r->meet, e);
}

/* The launcher hosts the meeting point. */
static int join_launcher(struct rendezvous *r, const struct discovery *d, struct err *e)
{
	int rc;

	if (d->secret_fd < 0)
		return fail(e, RINGUP_EINVAL,
			    "RINGUP_MEET=%.64s, but RINGUP_SECRET_FD is not set: only `ringup "
			    "run` sets an address; use a directory instead",
			    d->meet);
	rc = secret_from_fd(&r->secret, d->secret_fd, e);
	if (rc)
		return fail_in(e, "RINGUP_SECRET_FD=%d", d->secret_fd);
	rc = rendezvous_join(r, d->meet, r->deadline_ns, e);
	return rc ? rc : rendezvous_gather(r, e);
}

/* Rank 0 hosts the meeting point.  The offer has to be gone before any rank leaves
 * this meeting, lest the next program takes it for its own. */
static int host(struct rendezvous *r, const char *address, const char *dir, const char *key,
		unsigned round, struct err *e)
{
	int rc = secret_new(&r->secret, e);

	if (!rc)
		rc = meet_serve(address, r->size, &r->secret, &r->server, e);
	if (!rc)
		rc = jobdir_publish(&r->offer, dir, key, round, meet_where(r->server),
				    &r->secret, e);
	if (!rc)
		rc = rendezvous_join(r, meet_where(r->server), r->deadline_ns, e);
	if (!rc)
		rc = rendezvous_gather(r, e);
	jobdir_remove(&r->offer);
	return rc ? rc : rendezvous_gather(r, e);
}

/* An offer may be that of a host that has crashed: no process listens there, or
 * another job's.  Then it looks again until the deadline. */
static int visit(struct rendezvous *r, const char *dir, const char *key, unsigned round,
		 struct err *e)
{
	char where[JOBDIR_WHERE_BYTES];
	int rc;

	do {
		int64_t soon = clock_deadline(ANSWER_MS);

		rc = jobdir_find(dir, key, round, r->deadline_ns, where, &r->secret, e);
		if (rc)
			return rc;
		rc = rendezvous_join(r, where, soon < r->deadline_ns ? soon : r->deadline_ns,
				     e);
		if (rc == RINGUP_EPEER || rc == RINGUP_EAUTH)
			clock_sleep_ms(RETRY_MS);
	} while ((rc == RINGUP_EPEER || rc == RINGUP_EAUTH || rc == RINGUP_ETIMEDOUT) &&
		 clock_left_ms(r->deadline_ns));
	if (!rc)
		rc = rendezvous_gather(r, e);
	return rc ? rc : rendezvous_gather(r, e);
}

/* Meets in directory @dir; "": this user's own. */
static int meet_in(struct rendezvous *r, const struct discovery *d, const char *dir,
		   const char *address, struct err *e)
{
	/* Meetings of this process in directories.  Failed attempts do not count: the
	 * other ranks may have made more of them, or fewer. */
	static unsigned rounds;
	int rc = d->rank == 0 ? host(r, address, dir, d->key, rounds + 1, e)
			      : visit(r, dir, d->key, rounds + 1, e);

	rounds += !rc;
	return rc;
}

/* A secret that can be guessed protects nothing. */
static int check_secret(const char *text, struct err *e)
{
	if (!*text || strlen(text) >= RENDEZVOUS_SECRET_LEAST)
		return 0;
	return fail(e, RINGUP_EINVAL,
		    "RINGUP_SECRET has %zu characters, but needs at least %d: create one with "
		    "`openssl rand -hex 32`",
		    strlen(text), RENDEZVOUS_SECRET_LEAST);
}

/* Rank 0 hosts the meeting point; if it cannot, its offer says why. */
static void prepare_offer(struct rendezvous *r, const char *secret, const char *address,
			  struct offer *o, struct err *e)
{
	int rc = check_secret(secret, e);

	if (!rc)
		rc = offer_make(o, secret, &r->secret, e);
	if (!rc)
		rc = meet_serve(address, r->size, &r->secret, &r->server, e);
	if (rc) {
		*o = (struct offer){ .kind = OFFER_FAILED };
		snprintf(o->text, sizeof(o->text), "%.*s", OFFER_TEXT_BYTES - 1, e->text);
	} else {
		snprintf(o->text, sizeof(o->text), "%s", meet_where(r->server));
	}
}

/* Meets through the launcher's store. An offer there belongs
 * to this meeting: all ranks use the store for it. */
static int meet_by_store(struct rendezvous *r, const struct discovery *d, const char *address,
			 struct err *e)
{
	char mine[OFFER_LINE_BYTES] = "", all[STORE_VALUE_BYTES];
	const char *secret = d->secret ? d->secret : "";
	struct offer o = { 0 };
	struct err own = { 0 };
	int rc;

	if (r->rank == 0) {
		prepare_offer(r, secret, address, &o, &own);
		offer_print(&o, mine);
	}
	rc = store_share(r->rank, r->size, mine, all, r->deadline_ns, e);
	if (own.code)
		rc = fail(e, own.code, "%s", own.text);
	if (!rc)
		rc = offer_parse(all, &o, e);
	if (!rc && r->rank)
		rc = offer_take(&o, secret, &r->secret, e);
	if (!rc)
		rc = rendezvous_join(r, o.text, r->deadline_ns, e);
	if (rc == RINGUP_EAUTH && o.kind == OFFER_NONCE)
		rc = fail_in(e, "RINGUP_SECRET is not the same text on all ranks");
	explicit_bzero(&o, sizeof(o));
	explicit_bzero(mine, sizeof(mine));
	explicit_bzero(all, sizeof(all));
	return rc ? rc : rendezvous_gather(r, e);
}

/* After MPI_Finalize() the store counts as there: meeting by it then fails and says why. */
static bool has_store(const struct discovery *d)
{
	return store_name(d->rank, d->size) || mpi_state() == MPI_STATE_FINALIZED;
}

static int no_way(const struct discovery *d, struct err *e)
{
	static const struct {
		const char *source, *advice;
	} launchers[] = {
		{ "Slurm", "start them with `srun --mpi=pmix` or `srun --mpi=pmi2`" },
		{ "torchrun", "use the Python package, whose ranks meet in torch's store" },
		{ "Horovod", "start them with ringup's own horovodrun" },
		{ NULL, "start them with `ringup run -H HOST:SLOTS,...` or horovodrun" },
	};
	int i = 0;

	while (launchers[i].source && strcmp(launchers[i].source, d->source) != 0)
		i++;
	if (d->spans_hosts)
		return fail(e, RINGUP_EINVAL,
			    "%d ranks on several hosts (%s) cannot meet, since their launcher "
			    "has no PMI or PMIx store: %s, or set RINGUP_MEET to a directory "
			    "of yours that all hosts share",
			    d->size, d->source, launchers[i].advice);
	return fail(e, RINGUP_EINVAL,
		    "%d ranks (%s), but their job has no name: set RINGUP_JOB to the same text "
		    "on all ranks, or start them with `ringup run`",
		    d->size, d->source);
}

int rendezvous_open(struct rendezvous *r, const struct discovery *d, const char *address,
		    int64_t deadline_ns, struct err *e)
{
	bool is_shared = strchr(d->meet, '/') != NULL;
	int rc;

	*r = (struct rendezvous){ .rank = d->rank, .size = d->size, .ctx = r };
	r->exchange = through_meet;
	r->deadline_ns = deadline_ns;
	if (d->size == 1)
		return 0;
	if (*d->meet && !is_shared)
		rc = join_launcher(r, d, e);
	else if ((!*d->key || d->spans_hosts) && !is_shared)
		rc = has_store(d) ? meet_by_store(r, d, address, e) : no_way(d, e);
	else
		rc = meet_in(r, d, is_shared ? d->meet : "",
			     is_shared && address ? address : "127.0.0.1", e);
	/* rendezvous_close() must not wait for other ranks. */
	if (rc)
		r->why.code = rc;
	return rc;
}

int rendezvous_await(struct rendezvous *r, const struct discovery *d, enum lobby_state state,
		     int64_t patience_ms, struct lobby_place *place, struct err *e)
{
	struct secret job = { 0 };
	int rc;

	*r = (struct rendezvous){ .ctx = r, .exchange = through_meet };
	if (!*d->meet || d->secret_fd < 0)
		return fail(e, RINGUP_EINVAL,
			    "RINGUP_WORKER=%d, but %s is not set: only `ringup run` starts the "
			    "ranks of an elastic job",
			    d->worker, *d->meet ? "RINGUP_SECRET_FD" : "RINGUP_MEET");
	rc = secret_from_fd(&job, d->secret_fd, e);
	if (rc)
		return fail_in(e, "RINGUP_SECRET_FD=%d", d->secret_fd);
	rc = lobby_join(d->meet, (uint32_t)d->worker, state, &job, clock_deadline(patience_ms),
			place, e);
	if (!rc) {
		r->rank = (int)place->rank;
		r->size = (int)place->size;
		r->deadline_ns = clock_deadline(patience_ms);
		lobby_secret(&r->secret, &job, place->generation);
		if (r->size > 1)
			rc = rendezvous_join(r, place->where, r->deadline_ns, e);
		if (!rc && r->size > 1)
			rc = rendezvous_gather(r, e);
	}
	secret_wipe(&job);
	if (rc)
		r->why.code = rc;
	return rc;
}

/* The first bytes that each rank sends, in the clear. */
struct greeting {
	unsigned char has_secret;          /* it was given one                      */
	unsigned char bytes[SECRET_BYTES]; /* its nonce, or without: rank 0's new key */
};

/* All ranks have a secret, or none: a forged greeting cannot turn the secret off. */
static int check_greetings(const struct greeting *all, int rank, int size, struct err *e)
{
	for (int r = 0; r < size; r++)
		if (all[r].has_secret != all[rank].has_secret)
			return fail(e, RINGUP_EAUTH,
				    "rank %d has %s RINGUP_SECRET and rank %d %s: set it to "
				    "the same "
				    "text on all ranks, or on none",
				    rank, all[rank].has_secret ? "a" : "no", r,
				    all[r].has_secret ? "has one" : "has none");
	return 0;
}

static void prove(unsigned char out[SECRET_BYTES], const struct secret *s, int rank)
{
	uint32_t number = htole32((uint32_t)rank);

	secret_mac(out, s->key,
		   (struct secret_part[]){
			   { "rank", 4 }, { &number, sizeof(number) }, { NULL, 0 } });
}

/* Each rank proves that it knows the key; the sentence names the first that does not. */
static int prove_all(const struct rendezvous *r, struct err *e)
{
	unsigned char want[SECRET_BYTES], *all = calloc((size_t)r->size, sizeof(want));
	int rc = 0;

	if (!all)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks", r->size);
	prove(want, &r->secret, r->rank);
	if (r->exchange(r->ctx, want, sizeof(want), all))
		rc = fail(e, RINGUP_ESYSTEM, "the exchange given to ringup_init() failed");
	for (int i = 0; !rc && i < r->size; i++) {
		prove(want, &r->secret, i);
		if (sodium_memcmp(want, all + (size_t)i * sizeof(want), sizeof(want)))
			rc = fail(e, RINGUP_EAUTH,
				  "rank %d does not know the RINGUP_SECRET of rank %d: set it "
				  "to the "
				  "same text on all ranks",
				  i, r->rank);
	}
	free(all);
	return rc;
}

/* Derives this meeting's key from the secret @text and all ranks' nonces. */
static int derive(struct rendezvous *r, const char *text, const struct greeting *all,
		  struct err *e)
{
	secret_hkdf(r->secret.key, sizeof(r->secret.key),
		    (struct secret_part){ text, strlen(text) },
		    (struct secret_part){ all, (size_t)r->size * sizeof(*all) },
		    (struct secret_part[]){ { "ringup exchange", 15 }, { NULL, 0 } });
	return prove_all(r, e);
}

static int greet(struct rendezvous *r, const char *text, struct greeting *all, struct err *e)
{
	struct greeting mine = { .has_secret = *text != 0 };
	struct secret fresh = { 0 };
	int rc = *text || r->rank == 0 ? secret_new(&fresh, e) : 0;

	memcpy(mine.bytes, fresh.key, sizeof(mine.bytes));
	if (!rc && r->exchange(r->ctx, &mine, sizeof(mine), all))
		rc = fail(e, RINGUP_ESYSTEM, "the exchange given to ringup_init() failed");
	if (!rc)
		rc = check_greetings(all, r->rank, r->size, e);
	secret_wipe(&fresh);
	explicit_bzero(&mine, sizeof(mine));
	return rc;
}

int rendezvous_adopt(struct rendezvous *r, const struct rendezvous_caller *c, struct err *e)
{
	const char *text = c->secret ? c->secret : "";
	struct greeting *all;
	int rc;

	*r = (struct rendezvous){ .rank = c->rank, .size = c->size, .ctx = c->ctx };
	r->exchange = c->exchange;
	r->deadline_ns = INT64_MAX;
	if (c->size == 1)
		return 0;
	rc = check_secret(text, e);
	if (rc)
		return rc;
	all = calloc((size_t)c->size, sizeof(*all));
	if (!all)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks", c->size);
	rc = greet(r, text, all, e);
	if (!rc && *text)
		rc = derive(r, text, all, e);
	else if (!rc)
		memcpy(r->secret.key, all[0].bytes, sizeof(r->secret.key));
	explicit_bzero(all, (size_t)c->size * sizeof(*all));
	free(all);
	return rc;
}

void rendezvous_close(struct rendezvous *r)
{
	int64_t enough = clock_deadline(FAREWELL_MS);
	int rc = 0;

	/* Rank 0's server must not end before its last answers have arrived: a rank that
	 * sends again has got them.  Only RINGUP_EPEER matters here. */
	if (r->meet && !r->why.code)
		rc = meet_exchange(r->meet, NULL, 0, NULL, enough, NULL);
	/* Another rank has left at once; slower ranks may still read. */
	if (rc == RINGUP_EPEER && r->server)
		clock_sleep_ms(clock_left_ms(enough));
	meet_leave(r->meet);
	jobdir_remove(&r->offer);
	meet_stop(r->server);
	secret_wipe(&r->secret);
	*r = (struct rendezvous){ 0 };
}
