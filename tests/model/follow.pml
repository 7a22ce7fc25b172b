/* tests/model/follow.pml - commit numbers, and who follows the commits of others by them.
 *
 *   Commit:  chunk's row | number from the sequence | COMMIT
 *   Follow:  reads what is new in the index, in a loop
 *
 * A number is taken before COMMIT, so numbers become visible in another order than they ascend in.
 * Not so along one chunk: its row is held from before the number to COMMIT. So a broker follows
 * chunk by chunk, or (FOLLOW_SETTLED) up to settled numbers: it reads the sequence, then waits for
 * all who are running, and only then takes what is up to there.
 *
 * Commits 0 and 1 are of chunk 0, 2 is of chunk 1. A sequence takes no lock. */

#define COMMITS 3
#define chunk_of(c) ((c) / 2)
#define NONE 255

#ifndef REACH
#define REACH 0
#endif
#if REACH > 0
#define REACHED(n) assert(n != REACH)
#else
#define REACHED(n) skip
#endif

bit locked[2];
byte sequence;          /* the last number given out */
byte number[COMMITS];   /* 0: not committed */
byte last_of[2];        /* of the last commit of a chunk */
bit running[COMMITS];   /* began, and has not ended */
byte began;

proctype Commit(byte c)
{
        byte n;

        running[c] = 1;
#ifdef FAULT_NUMBER_FIRST
        atomic { sequence++; n = sequence }
#endif
        atomic { !locked[chunk_of(c)] -> locked[chunk_of(c)] = 1 }
#ifndef FAULT_NUMBER_FIRST
        atomic { sequence++; n = sequence }
#endif
        atomic {
                assert(n > last_of[chunk_of(c)]); /* 1: numbers ascend along each partition */
                last_of[chunk_of(c)] = n;
                number[c] = n;
                locked[chunk_of(c)] = 0;
                running[c] = 0;
                n = 0
        }
}

/* Everything with a number in (from, to] of the chunks wanted has been seen. */
inline all_seen(chunk, to)
{
        for (i : 0 .. COMMITS - 1) {
                assert(number[i] == 0 || number[i] > to ||
                       (chunk != NONE && chunk_of(i) != chunk) || seen[i])
        }
}

active proctype Follow()
{
        byte from[2], to, i, c, rounds = 3;
        bit seen[COMMITS], wait[COMMITS];

        do
        :: rounds > 0 ->
                rounds--;
#if defined(FOLLOW_SETTLED) || defined(FAULT_UNSETTLED) || defined(FAULT_RUNNING_FIRST)
#ifdef FAULT_UNSETTLED
                to = sequence;
#elif defined(FAULT_RUNNING_FIRST)
                atomic { for (i : 0 .. COMMITS - 1) { wait[i] = running[i] } }
                to = sequence;
#else
                to = sequence;
                atomic { for (i : 0 .. COMMITS - 1) { wait[i] = running[i] } }
#endif
#ifndef FAULT_UNSETTLED
                for (c : 0 .. COMMITS - 1) {
                        !wait[c] || !running[c]
                }
#endif
                atomic {
                        for (i : 0 .. COMMITS - 1) {
                                if
                                :: number[i] > from[0] && number[i] <= to -> seen[i] = 1
                                :: else
                                fi;
                                wait[i] = 0
                        }
                        from[0] = (to > from[0] -> to : from[0])
                }
#else
                /* chunk by chunk: one snapshot, what is behind the last number of that chunk */
                for (c : 0 .. 1) {
                        atomic {
                                for (i : 0 .. COMMITS - 1) {
                                        if
                                        :: chunk_of(i) == c && number[i] > from[c] -> seen[i] = 1
                                        :: else
                                        fi
                                }
                                from[c] = last_of[c]
                        }
                }
#endif
        :: rounds == 0 -> break
        od;
        /* Passed is passed: what became visible below it later is never seen. */
        (number[0] && number[1] && number[2]);
        atomic {
#if defined(FOLLOW_SETTLED) || defined(FAULT_UNSETTLED) || defined(FAULT_RUNNING_FIRST)
                all_seen(NONE, from[0]);
                if
                :: from[0] == COMMITS -> REACHED(1)
                :: else
                fi
#else
                all_seen(0, from[0]);
                all_seen(1, from[1]);
                if
                :: seen[0] && seen[1] && seen[2] -> REACHED(1)
                :: else
                fi
#endif
        }
}

init {
        atomic { run Commit(0); run Commit(1); run Commit(2) }
}
