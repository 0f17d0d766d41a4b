/* engine.pml - the engine's threads on one host: who drives, who sleeps, who wakes whom. */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A model for spin(1) of src/engine and src/wire/waitset.c; tests/model/spin.bats
 * checks it.  Each rank has APPS threads that submit and wait, and its engine
 * thread.  Every access to shared memory is a step of its own.
 *
 *	submit    count the arrival, and whether it has the baton and awaits the
 *	          operation; the last arriver puts the name on the comm's list and
 *	          notifies all ranks; unless all await it, it notifies the progress threads,
 *	          and if all do, it marks the name as a batch of its own
 *	baton     its holder cuts batches off the lists (all ranks at the same
 *	          place: the first to come decides, by compare-and-swap) and moves
 *	          all comms along, in turn; it sleeps only when none can move
 *	chunk     put into the own slot; read the others'; a slot is written
 *	          again when all are through with what was in it
 *	sleep     say so, look once more, then sleep unless the word has changed
 *
 * What must hold, whatever the order: nobody waits for ever (no invalid end
 * state), every operation completes once on each rank, all ranks carry out the
 * same batches, a slot holds what its reader expects, and one thread at a time
 * has the baton.
 *
 * A word that somebody sleeps on is modelled by whether it has changed since
 * the sleeper read it, for that is all a futex asks.  Memory is sequentially
 * consistent here; test_explore_*.c look at the rest, in the real code.
 *
 * Each TRAP puts a bug in that an earlier engine had, or might have had:
 *	1  a thread publishes only when the operation before is complete
 *	2  slots are written again without asking
 *	3  no look between saying "I sleep" and sleeping: 3 on the waiter, 31 in the
 *	   progress thread, 32 when waiting for the baton
 *	4  the baton is given back without a word: 4; taken without a lock: 41
 *	5  one comm at a time: the holder sleeps until its first comm can move
 *	6  each rank cuts its batches where it likes
 *	7  no progress thread is notified if some await the operation, but not all
 */
#ifndef RANKS
#define RANKS 2
#endif
#ifndef APPS
#define APPS 1 /* threads of each rank; with 2, each submits one name and waits */
#endif
#ifndef NAMES
#define NAMES 2
#endif
#ifndef COMMS
#define COMMS 1 /* with 2, each name is in a comm of its own */
#endif
#ifndef WAITERS
#define WAITERS 255 /* bit r: rank r waits; else it leaves all to its progress thread */
#endif
#ifndef WAITED
#define WAITED NAMES /* and of the names, it waits for so many */
#endif
#define WAITS(n) (((WAITERS >> me) & 1) && (n) < WAITED)
#ifndef BLOCKING
#define BLOCKING 0 /* bit n: whoever waits for name n submits it with the baton */
#endif
#define BLOCKS(n) (WAITS(n) && ((BLOCKING >> (n)) & 1))
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef TRAP
#define TRAP 0
#endif

#define SLOTS 1
#define PLACES (NAMES * ROUNDS)
#define COMM(n) ((n) % COMMS)
#define ALONE 64
#define NAME_AT(l, i) (comm[l].list[i] % ALONE - 1)
#define IS_ALONE(l, i) (comm[l].list[i] > ALONE)

mtype = { idle, flying, complete };

typedef comm_t {
	byte tail;
	byte list[PLACES];  /* 1 + a name, and perhaps ALONE; 0: not there yet */
	byte batch[PLACES]; /* where the n-th batch ends; 0: open  */
	byte ran[PLACES]   /* the same as it was carried out       */
};

typedef comm_of_rank {
	byte head, end, at, batches;
	bool running, has_put;
	byte in, out;
	byte slot[SLOTS] /* 1 + the chunk it holds */
};

typedef rank_t {
	bool baton, driving;
	byte holders; /* for an assertion */
	byte waiting;
	/* The waiter, where the holder of the baton sleeps. */
	bool asleep, bell_changed, in_bell;
	/* The progress thread. */
	bool progress_changed, in_progress;
	/* Threads that wait for the baton. */
	bool done_changed[APPS];
	bool in_done[APPS];
	comm_of_rank comm[COMMS];
	mtype op[NAMES];
	byte publishing /* TRAP 1: 1 + the name */
};

comm_t comm[COMMS];
rank_t rank[RANKS];
byte arrived[NAMES], awaiting[NAMES];

#if RANKS == 2
#define ALL_IN(l, g) (rank[0].comm[l].in > (g) && rank[1].comm[l].in > (g))
#define ALL_OUT(l, g) (rank[0].comm[l].out + SLOTS > (g) && rank[1].comm[l].out + SLOTS > (g))
#else
#define ALL_IN(l, g) \
	(rank[0].comm[l].in > (g) && rank[1].comm[l].in > (g) && rank[2].comm[l].in > (g))
#define ALL_OUT(l, g) \
	(rank[0].comm[l].out + SLOTS > (g) && rank[1].comm[l].out + SLOTS > (g) && \
	 rank[2].comm[l].out + SLOTS > (g))
#endif
#if TRAP == 2
#define MAY_PUT(l, g) true
#else
#define MAY_PUT(l, g) ALL_OUT(l, g)
#endif

#define MINE(l) rank[me].comm[l]
#define LISTED(l) (MINE(l).head < PLACES && comm[l].list[MINE(l).head] != 0)
#define CAN_PUT(l) (MINE(l).running && !MINE(l).has_put && MAY_PUT(l, MINE(l).at))
#define CAN_READ(l) (MINE(l).running && MINE(l).has_put && ALL_IN(l, MINE(l).at))
#define CAN_CUT(l) (!MINE(l).running && LISTED(l))
#define CAN_MOVE(l) (CAN_PUT(l) || CAN_READ(l) || CAN_CUT(l))
#define HAS_WORK(l) (MINE(l).running || LISTED(l))
#if COMMS == 1
#define ANY_CAN_MOVE CAN_MOVE(0)
#define WORK_LEFT HAS_WORK(0)
#elif TRAP == 5
/* The bug: while one comm is busy, only it counts. */
#define ANY_CAN_MOVE ((CAN_MOVE(0) && !MINE(1).running) || (CAN_MOVE(1) && !MINE(0).running))
#define WORK_LEFT (HAS_WORK(0) || HAS_WORK(1))
#else
#define ANY_CAN_MOVE (CAN_MOVE(0) || CAN_MOVE(1))
#define WORK_LEFT (HAS_WORK(0) || HAS_WORK(1))
#endif

/* ---- waking ---- */

/* waitset_notify(): a rank that sleeps looks again.  One step here, for what
 * happens within is looked at by test_explore_waitset.c. */
inline ring_one(r)
{
	if
	:: rank[r].asleep ->
		rank[r].bell_changed = true;
		rank[r].in_bell = false
	:: else
	fi
}

inline notify()
{
	d_step {
		ring_one(0);
		ring_one(1);
		ring_one(RANKS - 1);
		skip
	}
}

/* waitset_notify_progress() */
inline notify_progress(r)
{
	d_step {
		if
		:: rank[r].driving
		:: else ->
			rank[r].progress_changed = true;
			rank[r].in_progress = false
		fi
	}
}

/* Whoever waits for an operation, or for the baton. */
inline wake_waiting()
{
	d_step {
		if
		:: rank[me].waiting ->
			rank[me].done_changed[0] = true;
			rank[me].done_changed[APPS - 1] = true;
			rank[me].in_done[0] = false;
			rank[me].in_done[APPS - 1] = false
		:: else
		fi
	}
}

/* ---- the baton ---- */

inline hold()
{
	rank[me].holders++;
	assert(rank[me].holders == 1);
	rank[me].driving = true
}

inline try_baton(got)
{
#if TRAP == 41
	got = !rank[me].baton;
	atomic {
		if
		:: got -> rank[me].baton = true; hold()
		:: else
		fi
	}
#else
	atomic {
		got = !rank[me].baton;
		rank[me].baton = true;
		if
		:: got -> hold()
		:: else
		fi
	}
#endif
}

inline give_baton()
{
	rank[me].driving = false;
	d_step {
		rank[me].holders--;
		rank[me].baton = false
	};
#if TRAP != 4
	d_step {
		if
		:: rank[me].waiting ->
			rank[me].done_changed[0] = true;
			rank[me].done_changed[APPS - 1] = true;
			rank[me].in_done[0] = false;
			rank[me].in_done[APPS - 1] = false
		:: !rank[me].waiting && WORK_LEFT && !rank[me].driving ->
			rank[me].progress_changed = true;
			rank[me].in_progress = false
		:: else
		fi
	}
#else
	skip
#endif
}

/* ---- submitting ---- */

/* Count the arrival, and if it is the last, tell everybody. */
inline submit(n)
{
	d_step {
		assert(rank[me].op[n] != flying);
		rank[me].op[n] = flying;
		arrived[n]++;
		awaiting[n] = awaiting[n] + holding;
		last = (arrived[n] % RANKS == 0);
		/* A place on the list is reserved first and filled then. */
		if
		:: last ->
#if TRAP == 7
			awaited = awaiting[n] > 0;
#else
			awaited = awaiting[n] == RANKS;
#endif
			awaiting[n] = 0;
			place = comm[COMM(n)].tail;
			comm[COMM(n)].tail++
		:: else
		fi
	};
	if
	:: last ->
		atomic {
			comm[COMM(n)].list[place] = n + 1 + (awaited -> ALONE : 0);
			notify()
		};
		if
		:: !awaited ->
			notify_progress(0);
			notify_progress(1);
#if RANKS > 2
			notify_progress(2);
#endif
			skip
		:: awaited -> awaited = false
		fi;
		place = 0;
		last = false
	:: else
	fi
}

/* ---- driving ---- */

inline finish_batch(l)
{
	/* The same batches everywhere. */
	assert(comm[l].ran[MINE(l).batches] == 0 ||
	       comm[l].ran[MINE(l).batches] == MINE(l).end);
	comm[l].ran[MINE(l).batches] = MINE(l).end;
	MINE(l).batches++;
	MINE(l).running = false;
	do
	:: MINE(l).head < MINE(l).end ->
		/* Once, and no more. */
		assert(rank[me].op[NAME_AT(l, MINE(l).head)] == flying);
		rank[me].op[NAME_AT(l, MINE(l).head)] = complete;
		MINE(l).head++
	:: else -> break
	od
}

/* All slots hold this chunk, and then they may be written again. */
inline read_slots(l)
{
	assert(rank[0].comm[l].slot[MINE(l).at % SLOTS] == MINE(l).at + 1);
	assert(rank[1].comm[l].slot[MINE(l).at % SLOTS] == MINE(l).at + 1);
	assert(rank[RANKS - 1].comm[l].slot[MINE(l).at % SLOTS] == MINE(l).at + 1);
	MINE(l).has_put = false;
	MINE(l).at++;
	MINE(l).out = MINE(l).at
}

/* One step of a comm that can move. */
inline step(l)
{
	if
	:: atomic {
		CAN_PUT(l) ->
		MINE(l).slot[MINE(l).at % SLOTS] = MINE(l).at + 1;
		MINE(l).has_put = true;
		MINE(l).in = MINE(l).at + 1;
		notify()
	   }
	:: atomic {
		CAN_READ(l) ->
		read_slots(l);
		if
		:: MINE(l).at == MINE(l).end -> finish_batch(l)
		:: else
		fi;
		notify()
	   };
	   wake_waiting()
	:: atomic {
		CAN_CUT(l) ->
		/* What is alone; or all that is there, but another may have decided
		 * meanwhile. */
		place = MINE(l).head;
		do
		:: place < PLACES && comm[l].list[place] != 0 && !IS_ALONE(l, place) -> place++
		:: else -> break
		od
	   };
	   atomic {
#if TRAP != 6
		if
		:: place == MINE(l).head -> place++
		:: place > MINE(l).head && comm[l].batch[MINE(l).batches] == 0 ->
			comm[l].batch[MINE(l).batches] = place
		:: place > MINE(l).head && comm[l].batch[MINE(l).batches] != 0 ->
			place = comm[l].batch[MINE(l).batches]
		fi;
#endif
		MINE(l).end = place;
		MINE(l).running = true;
		place = 0
	   };
	   /* That one may have seen more of the list. */
	   comm[l].list[MINE(l).end - 1] != 0
	fi
}

/* waitset_wait() of the holder: until a comm can move, or for no reason. */
inline sleep_on_bell()
{
	d_step {
		rank[me].bell_changed = false;
		rank[me].asleep = true
	};
#if TRAP == 3
	d_step { rank[me].in_bell = !rank[me].bell_changed };
#else
	d_step {
		rank[me].in_bell = !rank[me].bell_changed && !ANY_CAN_MOVE
	};
#endif
	atomic {
		!rank[me].in_bell;
		rank[me].asleep = false;
		rank[me].bell_changed = false
	}
}

/* With the baton: move any comm that can, and sleep if none can. */
inline turn()
{
	if
#if COMMS == 1
	:: CAN_MOVE(0) -> step(0)
#elif TRAP == 5
	/* Whichever comm has begun is moved alone; ranks may begin differently. */
	:: CAN_MOVE(me) && !MINE(1 - me).running -> step(me)
	:: CAN_MOVE(1 - me) && !MINE(me).running -> step(1 - me)
#else
	:: CAN_MOVE(0) -> step(0)
	:: CAN_MOVE(1) -> step(1)
#endif
	:: !ANY_CAN_MOVE -> sleep_on_bell()
	fi
}

/* ---- threads ---- */

inline sleep_for_baton(n)
{
	d_step {
		rank[me].waiting++;
		rank[me].done_changed[a] = false
	};
#if TRAP == 32
	d_step { rank[me].in_done[a] = !rank[me].done_changed[a] };
#else
	if
	:: rank[me].op[n] != complete && rank[me].baton ->
		d_step { rank[me].in_done[a] = !rank[me].done_changed[a] };
	:: else
	fi;
#endif
	atomic {
		!rank[me].in_done[a];
		rank[me].waiting--;
		rank[me].done_changed[a] = false
	}
}

/* wait_for(); @holding says whether this thread has the baton already. */
inline wait_for(n)
{
	do
	:: holding ->
		do
		:: rank[me].op[n] == complete -> break
		:: rank[me].op[n] != complete -> turn()
		od;
		give_baton();
		holding = false
	:: !holding && rank[me].op[n] == complete -> break
	:: !holding && rank[me].op[n] != complete ->
		try_baton(holding);
		if
		:: !holding -> sleep_for_baton(n)
		:: holding
		fi
	od
}

proctype app(byte me; byte a)
{
	byte place, n, i;
	bool last, holding, awaited;

#if APPS == 1
	i = 0;
	do
	:: i < NAMES * ROUNDS ->
		/* Each rank in an order of its own. */
		n = (me % 2 -> NAMES - 1 - i % NAMES : i % NAMES);
#if TRAP == 1
		rank[me].op[n] != flying;
		/* The bug: this one waits until that before it is complete. */
		rank[me].publishing == 0 || rank[me].op[rank[me].publishing - 1] == complete;
		submit(n);
		rank[me].publishing = n + 1;
#else
		/* The same name again only when it is complete. */
		if
		:: i >= NAMES && WAITS(n) -> wait_for(n)
		:: i >= NAMES && !(WAITS(n)) -> rank[me].op[n] == complete
		:: else
		fi;
		if
		:: BLOCKS(n) ->
			try_baton(holding);
			submit(n);
			wait_for(n)
		:: !(BLOCKS(n)) -> submit(n)
		fi;
#endif
		i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < NAMES ->
		n = i;
		if
		:: WAITS(n) -> wait_for(n)
		:: else -> rank[me].op[n] == complete
		fi;
		i++
	:: else -> break
	od
#else
	/* A blocking call: it takes the baton first, if it can, so that nobody is
	 * notified for it. */
	n = a;
	do
	:: i < ROUNDS ->
		try_baton(holding);
		submit(n);
		wait_for(n);
		i++
	:: else -> break
	od
#endif
}

proctype engine(byte me)
{
	byte place;
	bool got;

	do
	:: atomic {
		rank[me].progress_changed = false;
		if
		:: WORK_LEFT && !rank[me].baton ->
			got = true;
			rank[me].baton = true;
			hold()
		:: else
		fi
	   };
	   if
	   :: got ->
		do
		:: WORK_LEFT -> turn()
		:: !(WORK_LEFT) -> break
		od;
		got = false;
		give_baton()
	   :: else ->
		d_step {
#if TRAP == 31
			/* The bug: what came since it looked for work is forgotten. */
			rank[me].progress_changed = false;
#endif
			rank[me].in_progress = !rank[me].progress_changed
		};
end_asleep:	!rank[me].in_progress
	   fi
	od
}

init {
	byte r, a2;

	atomic {
		do
		:: r < RANKS ->
			a2 = 0;
			do
			:: a2 < NAMES -> rank[r].op[a2] = idle; a2++
			:: else -> break
			od;
			a2 = 0;
			do
			:: a2 < APPS -> run app(r, a2); a2++
			:: else -> break
			od;
			run engine(r);
			r++
		:: else -> break
		od
	}
}
