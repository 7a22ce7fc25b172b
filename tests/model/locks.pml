/* tests/model/locks.pml - the order in which transactions take rows: no deadlock.
 *
 * A transaction of a broker merges ops in the order in which they came. Rows are held to COMMIT, so
 * the order of rows over the whole transaction counts, not that within an op. PostgreSQL ends one
 * of two that wait for each other after a second; here they wait for ever, an invalid end state.
 *
 * By default each transaction takes its rows in one order for all (tables, then chunks, ascending),
 * and numbers from a sequence, which is not a row. */

#define T  0            /* row of stream_table */
#define X  1            /* chunk */
#define Y  2            /* chunk */
#define C  3            /* row of the counter of commit numbers */
#define ROWS 4

bit held[ROWS];
byte shared[ROWS];

#ifndef REACH
#define REACH 0
#endif
#if REACH > 0
#define REACHED(n) assert(n != REACH)
#else
#define REACHED(n) skip
#endif
#define SHARE(r) atomic { !held[r] -> shared[r]++ }
#define UPDATE(r) atomic { !held[r] && shared[r] == 1 -> shared[r]--; held[r] = 1; my[r] = 1 }
#define TAKE(r) atomic { !held[r] || my[r] -> held[r] = 1; my[r] = 1 }

proctype Broker(byte b)
{
        bit my[ROWS];
        byte i;

        if
#if defined(FAULT_ORDER_OF_ARRIVAL)
        /* two WAL commits in one transaction, chunks as they come */
        :: TAKE(X); TAKE(Y)
        :: TAKE(Y); TAKE(X)
#elif defined(FAULT_COUNTER_ROW)
        /* chunks in order, and yet: one op holds the counter, the next one wants a chunk */
        :: TAKE(X); TAKE(C); TAKE(Y); TAKE(C)
        :: TAKE(Y); TAKE(C)
#elif defined(FAULT_SHARE_THEN_UPDATE)
        /* a locked read FOR SHARE, then an update of the same row: stream_grow_try */
        :: SHARE(T); UPDATE(T)
#elif defined(FAULT_DELETE_OTHER_ORDER)
        /* publish.c and stream_delete_apply */
        :: TAKE(T); TAKE(X)
        :: TAKE(X); TAKE(T)
#else
        :: TAKE(X); TAKE(Y)
        :: TAKE(Y)
        :: TAKE(T); TAKE(X)
        :: TAKE(T); TAKE(X); TAKE(Y)
#endif
        fi;
        atomic {
                for (i : 0 .. ROWS - 1) {
                        if
                        :: my[i] -> held[i] = 0; my[i] = 0
                        :: else
                        fi
                }
                REACHED(1);
                i = 0
        }
}

init {
        atomic { run Broker(0); run Broker(1); run Broker(2) }
}
