/* tests/model/group.pml - group offsets and generations, when two brokers coordinate one group.
 *
 *   Rebalance:  GROUP_SET on its version: generation + 1, stored before any member is told
 *   Offsets:    generation looked at under lock | OFFSET_PUT | COMMIT
 *
 * Two brokers may both think that they coordinate a group; the row decides. A commit from outside
 * (generation -1: a client that assigns partitions by itself) is for a group without members, and
 * that, too, is looked at under lock. What a broker knows of the group is what it read last. */

#ifndef REACH
#define REACH 0
#endif
#if REACH > 0
#define REACHED(n) assert(n != REACH)
#else
#define REACHED(n) skip
#endif

#define GENERATIONS 2
byte generation;        /* of the row; 0: no member */
byte shares;            /* who holds the row FOR SHARE */

active [2] proctype Coordinator()
{
        byte seen;

end_coordinator:
        do
        :: atomic { seen = generation } -> /* loads the group */
           atomic {
                if
                :: seen < GENERATIONS && generation == seen && shares == 0 -> /* GROUP_SET */
                        generation++;
                        REACHED(1)
                :: generation != seen || seen == GENERATIONS
                fi
           }
           if
           :: seen == GENERATIONS -> break
           :: else
           fi
        od
}

/* A member with the generation that it was told. */
active [2] proctype Member()
{
        byte mine, stored;

        generation > 0;
        mine = generation;
        /* GROUP_GENERATION */
        atomic {
                stored = generation;
#ifndef FAULT_GENERATION_PLAIN
                if
                :: stored == mine -> shares++
                :: else
                fi
#endif
        }
        atomic {
                if
                :: stored == mine ->
                        assert(generation == mine); /* 9 */
#ifndef FAULT_GENERATION_PLAIN
                        shares--;
#endif
                        REACHED(2)
                :: else /* stale: refused */
                fi
        }
}

active proctype Outside()
{
        bit alone;

        alone = generation == 0; /* the coordinator's look, in memory */
        if
        :: !alone -> goto refused
        :: else
        fi;
#ifndef FAULT_OUTSIDE_UNCHECKED
        atomic {
                alone = generation == 0;
                if
                :: alone -> shares++
                :: else
                fi
        }
#endif
        atomic {
                if
                :: alone ->
                        assert(generation == 0); /* 9 */
#ifndef FAULT_OUTSIDE_UNCHECKED
                        shares--;
#endif
                        REACHED(3)
                :: else
                fi
        }
refused:
        skip
}
