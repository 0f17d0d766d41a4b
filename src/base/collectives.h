/* collectives.h - the table of the collectives: their names, and their traits. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_COLLECTIVES_H
#define BASE_COLLECTIVES_H

#include <stdbool.h>
#include <stdint.h>

enum collective_trait {
	COLLECTIVE_REDUCES = 1,  /* elements of all ranks are reduced              */
	COLLECTIVE_EVEN = 2,     /* each rank has as many elements                 */
	COLLECTIVE_TELLS = 4,    /* each rank publishes a number that others need  */
	COLLECTIVE_GROWS = 8,    /* only the library knows the size of the result  */
	COLLECTIVE_ROWS = 16,    /* data are rows, in a block for or of each rank  */
	COLLECTIVE_MANY = 32,    /* several go together: ringup_WORD_many()        */
	COLLECTIVE_PLACE = 64,   /* the result may lie where the data do           */
	COLLECTIVE_PARTS = 128,  /* each rank's data have a block for each rank    */
	COLLECTIVE_SPLITS = 256, /* each rank chooses the lengths of its blocks   */
	COLLECTIVE_ROOT = 512,   /* only the data of one rank count               */
};

/*
 * X(KIND, word, activity, traits): KIND ends the names in each enum of collectives, word those
 * of functions, as ringup_WORD(), and is what people read; activity is the name in a timeline,
 * as Horovod has it.
 */
#define COLLECTIVES(X)      \
	COLLECTIVES_MOVE(X) \
	X(BARRIER, barrier, "_BARRIER", 0)

/* Those with data. */
#define COLLECTIVES_MOVE(X)                                                          \
	X(ALLREDUCE, allreduce, "_ALLREDUCE",                                        \
	  COLLECTIVE_REDUCES | COLLECTIVE_EVEN | COLLECTIVE_MANY | COLLECTIVE_PLACE) \
	X(BROADCAST, broadcast, "_BCAST",                                            \
	  COLLECTIVE_EVEN | COLLECTIVE_PLACE | COLLECTIVE_ROOT)                      \
	X(ALLGATHER, allgather, "_ALLGATHER",                                        \
	  COLLECTIVE_TELLS | COLLECTIVE_GROWS | COLLECTIVE_ROWS | COLLECTIVE_MANY |  \
		  COLLECTIVE_PLACE)                                                  \
	X(REDUCESCATTER, reducescatter, "_REDUCESCATTER",                            \
	  COLLECTIVE_REDUCES | COLLECTIVE_EVEN | COLLECTIVE_ROWS | COLLECTIVE_MANY | \
		  COLLECTIVE_PLACE | COLLECTIVE_PARTS)                               \
	X(ALLTOALL, alltoall, "_ALLTOALL",                                           \
	  COLLECTIVE_GROWS | COLLECTIVE_ROWS | COLLECTIVE_PARTS | COLLECTIVE_SPLITS)

/* Traits that belong together.  A new line without traits does not compile. */
#define HAS(traits, any) (((traits) & (any)) != 0)
#define X(kind, word, activity, traits)                                                  \
	_Static_assert(HAS(traits, COLLECTIVE_EVEN) + HAS(traits, COLLECTIVE_TELLS) +    \
				       HAS(traits, COLLECTIVE_SPLITS) ==                 \
			       1,                                                        \
		       #word ": how do ranks know the length of the data?");             \
	_Static_assert(HAS(traits, COLLECTIVE_GROWS) != HAS(traits, COLLECTIVE_EVEN),    \
		       #word ": who knows the size of the result?");                     \
	_Static_assert(HAS(traits, COLLECTIVE_ROWS) ==                                   \
			       HAS(traits, COLLECTIVE_GROWS | COLLECTIVE_PARTS),         \
		       #word ": are there blocks?");                                     \
	_Static_assert(HAS(traits, COLLECTIVE_PARTS) || !HAS(traits, COLLECTIVE_SPLITS), \
		       #word ": what is split?");
COLLECTIVES_MOVE(X)
#undef X
#undef HAS

/* Every enum of collectives begins so. */
enum collective_kind {
#define X(kind, word, activity, traits) COLLECTIVE_##kind,
	COLLECTIVES(X) COLLECTIVE_KINDS,
#undef X
	COLLECTIVE_JOIN = COLLECTIVE_KINDS,
};

/* collective_is - has a kind, of any of these enums, the trait?  No other number has one. */
static inline bool collective_is(uint32_t kind, enum collective_trait trait)
{
	switch (kind) {
#define X(kind, word, activity, traits) \
	case COLLECTIVE_##kind:         \
		return (traits)&trait;
		COLLECTIVES(X)
#undef X
	default:
		return false;
	}
}

/* collective_word - the kind in a word; "operation" for any other number. */
static inline const char *collective_word(uint32_t kind)
{
	static const char *const words[] = {
#define X(kind, word, activity, traits) #word,
		COLLECTIVES(X)
#undef X
			"join",
	};

	return kind <= COLLECTIVE_JOIN ? words[kind] : "operation";
}

#endif
