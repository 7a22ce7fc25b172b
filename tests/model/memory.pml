/* tests/model/memory.pml - a broker new to a chunk rebuilds what it must remember of producers.
 *
 *   Load:     version of the chunk | checkpoint | index rows behind it | decide | on that version
 *   Publish:  floor, checkpoint and the chunk's version, in one transaction
 *   Purge:    index rows below the floor go
 *
 * Batch k of one producer has offset k. The retry is of batch 0, which was answered. The statements
 * of Load see the database at three moments; that the version still stands at the commit makes them
 * one moment: whatever raises the floor raises the version, and purging needs a raised floor. */

#ifndef REACH
#define REACH 0
#endif
#if REACH > 0
#define REACHED(n) assert(n != REACH)
#else
#define REACHED(n) skip
#endif

#define N 2
byte end, floor, version;
byte through;           /* the checkpoint knows the batches below */
bit row[N];

active proctype Append()
{
        do
        :: end < N -> atomic { row[end] = 1; end++; version++ }
        :: end == N -> break
        od
}

active proctype Publish()
{
        do
        :: floor < N ->
                floor < end;
                atomic {
                        floor = end;
#ifndef FAULT_CHECKPOINT_LATER
                        through = floor;
#endif
#ifndef FAULT_VERSION_KEPT
                        version++
#endif
                }
#ifdef FAULT_CHECKPOINT_LATER
                through = floor
#endif
        :: floor == N -> break
        od
}

#define PURGE(x) :: atomic { x < floor && row[x] -> row[x] = 0 }

active proctype Purge()
{
end_purge:
        do
        PURGE(0)
        PURGE(1)
        od
}

active proctype Load()
{
        byte v, from;
        bit known;

        end > 0;
again:
        v = version;
        from = through;
#ifdef FAULT_CHECKPOINT_UNREAD
        from = 0;
#endif
        known = from > 0 || row[0];
        /* CHUNK_SET or CHUNK_CHECK: from this look on the row is locked */
        if
        :: version != v -> REACHED(2); goto again
        :: atomic { version == v -> assert(known) } /* 6: else the batch would stand twice */
                if
                :: floor > 0 && !row[0] -> REACHED(1)
                :: else
                fi
        fi
}
