/* turns.pml - the order of plans of several groups on GPUs (src/engine/turns.h), for spin(1). */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Three ranks with a GPU each and three groups of two ranks, which form a circle; with WORLD the
 * group of all ranks, too.  A rank begins PLANS plans in each group, in any order.  A plan that has begun holds
 * its GPU until all ranks of its group have begun it.  Spin visits every order of steps; a state
 * without a next step that is not the end is a deadlock.  UNORDERED leaves the order out;
 * NO_CLOCK does not take a greater number over, which Skeen's multicast needs.
 */
#ifndef PLANS
#define PLANS 1
#endif
#define RANKS  3
#define GROUPS 4

#ifdef WORLD
#define is_in(g, r) ((g) == 3 || (g) != (r))
#define MINE        3
#else
#define is_in(g, r) ((g) != 3 && (g) != (r))
#define MINE        2
#endif
#define AT(g, r)    ((g) * RANKS + (r))

mtype = { none, proposed, numbered, begun };

byte clock[RANKS];
bool busy[RANKS];                /* the GPU has a plan */
mtype state[GROUPS * RANKS];
byte number[GROUPS * RANKS];     /* proposed, then agreed */
byte offer[GROUPS * RANKS];      /* as the others hear it */
byte told[GROUPS * RANKS];       /* plans proposed so far */
byte started[GROUPS * RANKS];    /* plans begun so far    */
byte done;

#define has_told(g, r, k)  (!is_in(g, r) || told[AT(g, r)] >= k)
#define has_begun(g, r, k) (!is_in(g, r) || started[AT(g, r)] >= k)
#define all_told(g, k)     (has_told(g, 0, k) && has_told(g, 1, k) && has_told(g, 2, k))
#define all_begun(g, k)    (has_begun(g, 0, k) && has_begun(g, 1, k) && has_begun(g, 2, k))

/* Has group h of rank r a plan that comes before that of g, or may? */
#define before(h, g, r)                                                            \
	((h) != (g) && is_in(h, r) && state[AT(h, r)] != none &&                   \
	 (number[AT(h, r)] < number[AT(g, r)] ||                                   \
	  (number[AT(h, r)] == number[AT(g, r)] && (h) < (g))))
#ifdef UNORDERED
#define is_behind(g, r) false
#else
#define is_behind(g, r) (before(0, g, r) || before(1, g, r) || before(2, g, r) || before(3, g, r))
#endif

inline raise(g, r, other)
{
	if
	:: is_in(g, other) && offer[AT(g, other)] > number[AT(g, r)] ->
		number[AT(g, r)] = offer[AT(g, other)]
	:: else
	fi
}

/* The steps of one group on one rank; the engine's thread takes any that can be taken. */
#define STEPS(g)                                                                         \
	:: atomic { is_in(g, r) && state[AT(g, r)] == none && told[AT(g, r)] < PLANS ->  \
		clock[r]++;                                                              \
		number[AT(g, r)] = clock[r];                                             \
		offer[AT(g, r)] = clock[r];                                              \
		told[AT(g, r)]++;                                                        \
		state[AT(g, r)] = proposed }                                             \
	:: atomic { state[AT(g, r)] == proposed && all_told(g, told[AT(g, r)]) ->        \
		raise(g, r, 0);                                                          \
		raise(g, r, 1);                                                          \
		raise(g, r, 2);                                                          \
		TAKE_OVER(g);                                                            \
		state[AT(g, r)] = numbered }                                             \
	:: atomic { state[AT(g, r)] == numbered && !busy[r] && !is_behind(g, r) ->       \
		busy[r] = true;                                                          \
		started[AT(g, r)]++;                                                     \
		state[AT(g, r)] = begun }                                                \
	:: atomic { state[AT(g, r)] == begun && all_begun(g, started[AT(g, r)]) ->       \
		busy[r] = false;                                                         \
		state[AT(g, r)] = none;                                                  \
		left--;                                                                  \
		number[AT(g, r)] = 0 }

#ifdef NO_CLOCK
#define TAKE_OVER(g) skip
#else
#define TAKE_OVER(g)                                                         \
	if                                                                   \
	:: number[AT(g, r)] > clock[r] -> clock[r] = number[AT(g, r)]        \
	:: else                                                              \
	fi
#endif

proctype rank(byte r)
{
	byte left = MINE * PLANS;

	do
	STEPS(0)
	STEPS(1)
	STEPS(2)
	STEPS(3)
	:: left == 0 -> break
	od;
	done++
}

init {
	byte i = 0;

	atomic {
		do
		:: i < GROUPS * RANKS -> state[i] = none; i++
		:: else -> break
		od;
		run rank(0);
		run rank(1);
		run rank(2)
	}
	done == RANKS
}
