/* tests/model/commit.pml - the WAL commit: from a producer's batch to its answer, by many brokers.
 *
 *   producer -> queue -> seal -> PUT (Store) -> Session (PostgreSQL) -> answer
 *                                                  one pipeline: epoch, chunk, counter, COMMIT
 *
 * One partition in one chunk. Every commit appends one batch, so the version of the chunk is its
 * end, the log never changes below it, and a broker's cached chunk is a number: the length of the
 * prefix that it knows. What a broker decides from its cache (offset, duplicate, gap) is a function
 * of that prefix.
 *
 * What is abstracted, and why that is sound:
 * - Time. Every wait may end at any moment (a timeout is a choice), every message may be late or
 *   lost; so whatever clocks do is among the runs. Budgets (CRASHES, LOSSES, ...) bound how often.
 * - A write of a transaction is seen at COMMIT, whole; its row locks are held from the statement to
 *   COMMIT. That is READ COMMITTED with conditional updates: a waiter looks at the row anew.
 * - The counter row is checked at COMMIT, not before: only transactions of the same broker and
 *   epoch touch it, and a lock on it that is taken later allows more runs, not fewer.
 * - An answer is checked when it is given, whether or not the producer gets it; a producer sends
 *   again whenever it likes. So lost answers are among the runs.
 * - One batch an object. Batches of one object live and die together.
 */

/* --- sizes ------------------------------------------------------------------------------------ */

#ifndef NB
#define NB 2            /* brokers */
#endif
#ifndef PRODUCERS
#define PRODUCERS 2     /* with PERIOD batches each: 0.., PERIOD.., ... */
#endif
#ifndef PERIOD
#define PERIOD 1
#endif
#ifndef WINDOW
#define WINDOW 1        /* batches that a producer has in flight */
#endif
#ifndef SENDS
#define SENDS 1         /* times that a producer connects anew and sends again, of each producer */
#endif
#ifndef CRASHES
#define CRASHES 0       /* of any broker; each starts again with a new epoch */
#endif
#ifndef FENCES
#define FENCES 0        /* epochs raised on purpose by another */
#endif
#ifndef LOSSES
#define LOSSES 0        /* connections to the database lost */
#endif
#ifndef PUTFAILS
#define PUTFAILS 0      /* PUTs given up, landed or not */
#endif
#ifndef DUPS
#define DUPS 0          /* objects that land once more after they were deleted */
#endif
#ifndef SWEEPS
#define SWEEPS 0        /* objects that the sweep looks at */
#endif
#ifndef IDEMPOTENT
#define IDEMPOTENT 1
#endif
#ifndef REACH
#define REACH 0
#endif

#define BATCHES (PRODUCERS * PERIOD)
#define NAMES   (1 + SENDS + PUTFAILS) /* times that one batch is put */
#define OBJECTS (BATCHES * NAMES)
#define LOGS    (BATCHES + 2) /* room for what a fault appends twice */
#define FLY     2             /* sealed, not committed: one is written while one commits */
#define NONE    255

#if REACH > 0
#define REACHED(n) assert(n != REACH)
#else
#define REACHED(n) skip
#endif

/* --- the database ----------------------------------------------------------------------------- */

byte epoch[NB];         /* broker.epoch; there is a row of each, open */
byte share[NB];         /* transactions that hold it FOR SHARE */
byte counter[NB];       /* 1 + sequence of the last object committed in this epoch */
bit  chunk_locked;
byte end;               /* = version of the chunk */
byte log_batch[LOGS];
bit  named[OBJECTS];    /* the index has a row of it */

/* --- the object store ------------------------------------------------------------------------- */

#define UNSENT  0
#define SENT    1       /* on its way: may land at any moment, also after its writer died */
#define LANDED  2
#define DELETED 3

byte put[OBJECTS];
byte obj_broker[OBJECTS], obj_epoch[OBJECTS], obj_seq[OBJECTS], obj_batch[OBJECTS];

/* --- brokers ---------------------------------------------------------------------------------- */

#define IDLE 0
#define RUNS 1          /* a transaction is at the database */
#define LOST 2          /* its outcome is unknown */

/* Results of a transaction. */
#define COMMITTED 1
#define DUPLICATE 2
#define GAP       3
#define MISS      4     /* the chunk has another version */
#define FENCED    5
#define EXISTS    6     /* the counter has this sequence: committed before */

bit  alive[NB];
byte my[NB];            /* epoch */
byte cache[NB];         /* version of the cached chunk */
byte seq[NB];           /* of the next object */
byte fly0[NB], fly1[NB];
byte state[NB], result[NB], result_at[NB];
byte link[NB];          /* counts connections: whose answer is awaited */
/* 1 + the batch that failed on a producer's connection: later ones fail until it comes again. */
byte failed[NB * PRODUCERS];
chan queue[NB] = [2] of { byte };

#ifdef FAULT_OWN_MEMORY
byte log_by[LOGS];      /* 1 + broker */
byte by = NONE;
#endif
byte acked[BATCHES];    /* ghost: 1 + offset answered */
byte crashes = CRASHES, fences = FENCES, losses = LOSSES, putfails = PUTFAILS;

/* Choices with a guard, since one that finds nothing to do would hide a deadlock of the others. */
#if OBJECTS > 9
#error more objects than EACH_OBJECT knows
#elif OBJECTS > 8
#define EACH_OBJECT(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8)
#elif OBJECTS > 7
#define EACH_OBJECT(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
#elif OBJECTS > 6
#define EACH_OBJECT(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6)
#elif OBJECTS > 5
#define EACH_OBJECT(f) f(0) f(1) f(2) f(3) f(4) f(5)
#elif OBJECTS > 4
#define EACH_OBJECT(f) f(0) f(1) f(2) f(3) f(4)
#elif OBJECTS > 3
#define EACH_OBJECT(f) f(0) f(1) f(2) f(3)
#elif OBJECTS > 2
#define EACH_OBJECT(f) f(0) f(1) f(2)
#elif OBJECTS > 1
#define EACH_OBJECT(f) f(0) f(1)
#else
#define EACH_OBJECT(f) f(0)
#endif
#if NB > 2
#define EACH_BROKER(f) f(0) f(1) f(2)
#elif NB > 1
#define EACH_BROKER(f) f(0) f(1)
#else
#define EACH_BROKER(f) f(0)
#endif

/* A rule that Kafka has not: a producer whose state cannot have been forgotten yet (its id is young)
 * begins with its first batch. With it, gaps are answers, and two of the faults are none. */
#ifdef YOUNG_BEGINS_AT_0
#define must_be_first true
#else
#define must_be_first false
#endif
#ifdef FAULT_OWN_MEMORY
#define remembers(i) (by == NONE || log_by[i] == by + 1)
#else
#define remembers(i) true
#endif
#define producer_of(batch) ((batch) / PERIOD)
#define first_of(batch)    ((batch) - (batch) % PERIOD)

/* 1 + offset of a batch in the first `v` of the log; 0: not there. */
inline find(batch, v, ret)
{
        ret = 0;
        for (i : 0 .. LOGS - 1) {
                if
                :: i < v && i < end && log_batch[i] == batch && ret == 0 && remembers(i) ->
                        ret = i + 1
                :: else
                fi
        }
}

/* The rule of meta/producers.c by the prefix `v`: a producer without state may begin anywhere. */
inline decide(batch, v, ret, ret_at)
{
        ret = COMMITTED;
        ret_at = v;
        if
        :: IDEMPOTENT ->
#ifdef FAULT_OWN_MEMORY
                by = b; /* only what it has committed itself */
#endif
                find(batch, v, at);
                if
                :: at > 0 -> ret = DUPLICATE; ret_at = at - 1
                :: else ->
                        seen = 0;
                        last = 0;
                        for (i : 0 .. LOGS - 1) {
                                if
                                :: i < v && i < end && remembers(i) &&
                                   producer_of(log_batch[i]) == producer_of(batch) ->
                                        seen = 1;
                                        last = log_batch[i]
                                :: else
                                fi
                        }
                        if
                        :: seen && batch != last + 1 -> ret = GAP
                        :: !seen && must_be_first && batch != first_of(batch) -> ret = GAP
                        :: else
                        fi
                fi;
#ifdef FAULT_OWN_MEMORY
                by = NONE
#endif
        :: else
        fi
}

/* --- a transaction at the database ------------------------------------------------------------ */

/* It goes there in one flush, COMMIT included: once sent it runs by itself. When its client is gone
 * it may end at each statement, or go on: it may even begin late. */

#define client_gone (n != link[b])

inline answer(r, at)
{
        if
        :: !client_gone -> result[b] = r; result_at[b] = at
        :: else
        fi
}

inline unshare()
{
#if !defined(FAULT_EPOCH_UNCHECKED) && !defined(FAULT_EPOCH_PLAIN)
        share[b]--
#else
        skip
#endif
}

inline apply(o, v)
{
        /* 3: what is named is durable, and no name is given twice */
        assert(put[o] == LANDED);
        /* 5: a fenced broker does not commit */
        assert(epoch[b] == e);
        /* 1: offsets are dense, in commit order, each covered once; an object is named once */
        assert(v == end && !named[o]);
        /* 6: a batch of an idempotent producer stands once, behind the one before it */
        if
        :: IDEMPOTENT ->
                find(obj_batch[o], end, at);
                assert(at == 0);
                if
                :: obj_batch[o] != first_of(obj_batch[o]) ->
                        find(obj_batch[o] - 1, end, at);
                        assert(at > 0)
                :: else
                fi
        :: else
        fi;
        named[o] = 1;
        log_batch[v] = obj_batch[o];
#ifdef FAULT_OWN_MEMORY
        log_by[v] = b + 1;
#endif
        end++;
        counter[b] = obj_seq[o] + 1
}

proctype Session(byte b; byte e; byte o; byte v; byte n)
{
        byte r, r_at, at, last, i;
        bit seen;

        /* BROKER_CHECK, FOR SHARE: held to the end, so that nobody raises the epoch meanwhile. */
        if
        :: client_gone -> goto gone
#ifndef FAULT_EPOCH_UNCHECKED
        :: d_step {
                epoch[b] == e ->
#ifndef FAULT_EPOCH_PLAIN
                share[b]++
#else
                skip
#endif
           }
        :: atomic { epoch[b] != e -> answer(FENCED, 0) }; goto gone
#else
        :: true
#endif
        fi;

        /* CHUNK_SET or CHUNK_CHECK: the row is locked, its version looked at. */
        if
        :: client_gone -> d_step { unshare() }; goto gone
#ifdef FAULT_PLAIN_READ
        :: end == v /* a plain SELECT: the row stays as it is only for now */
#else
        :: d_step { !chunk_locked && end == v -> chunk_locked = 1 }
#endif
        :: atomic { !chunk_locked && end != v -> answer(MISS, 0); unshare() }; goto gone
        fi;

        /* COUNTER_RAISE, index row, COMMIT. */
        atomic {
                if
                :: client_gone /* not asked for: it may also go on, below */
                :: true ->
                        decide(obj_batch[o], v, r, r_at);
                        if
#ifndef FAULT_UNKNOWN_FAILURE
                        :: r == COMMITTED && counter[b] > obj_seq[o] -> answer(EXISTS, 0)
                        :: r == COMMITTED && counter[b] <= obj_seq[o] ->
                                apply(o, v); answer(r, r_at)
#else
                        :: r == COMMITTED -> apply(o, v); answer(r, r_at)
#endif
                        :: r == DUPLICATE || r == GAP -> answer(r, r_at)
                        fi
                fi;
#ifndef FAULT_PLAIN_READ
                chunk_locked = 0;
#endif
                unshare()
        }
gone:
        /* A process that has ended stays until the younger ones have: without its past. */
        atomic {
                b = 0; e = 0; o = 0; v = 0; n = 0;
                r = 0; r_at = 0; at = 0; last = 0; seen = 0; i = 0
        }
}

#ifdef FAULT_COMMIT_BEFORE_PUT
#define put_done(o) true
#else
#define put_done(o) (put[o] == LANDED)
#endif
#ifdef FAULT_WATERMARK_SHARED
#define marked (mark != NONE)
#else
#define marked true
#endif
#ifdef FAULT_LOOK_OTHER_EPOCH
#define mine true
#else
#define mine (epoch[b] == my[b])
#endif

/* --- a broker --------------------------------------------------------------------------------- */

inline seal(batch)
{
        o = (batch) * NAMES; /* a name that was not used before */
        do
        :: put[o] != UNSENT -> o++
        :: else -> break
        od;
        assert(o < (batch + 1) * NAMES);
        obj_broker[o] = b;
        obj_epoch[o] = my[b];
        obj_batch[o] = batch;
        put[o] = SENT;
}

inline begin()
{
        state[b] = RUNS;
        result[b] = 0;
        result_at[b] = 0;
        run Session(b, my[b], fly0[b], cache[b], link[b])
}

/* What is answered must stand there now; that it stays so is asserted where things are changed. */
inline ack(batch, offset)
{
        assert(offset < end && log_batch[offset] == batch);             /* 2 */
        assert(!IDEMPOTENT || acked[batch] == 0 || acked[batch] == offset + 1); /* 6 */
        acked[batch] = offset + 1;
        REACHED(1)
}

inline next_object()
{
        fly0[b] = fly1[b];
        fly1[b] = NONE;
        state[b] = IDLE;
        result[b] = 0
}

/* The process ends; what it had sent is on its way all the same. */
inline die()
{
        alive[b] = 0;
        fly0[b] = NONE;
        fly1[b] = NONE;
        state[b] = IDLE;
        result[b] = 0;
        link[b]++;
        do
        :: nempty(queue[b]) -> queue[b]?k
        :: empty(queue[b]) -> break
        od;
        for (i : 0 .. PRODUCERS - 1) {
                failed[b * PRODUCERS + i] = 0
        }
        i = 0; k = 0; o = 0
}

/* A flush failed: what is behind it fails too, also what comes later on the same connection, until
 * the producer sends the failed batch again. Else a later batch could be a producer's first. */
inline fail_behind()
{
        k = obj_batch[fly0[b]];
#ifndef FAULT_FAIL_QUEUE_ONLY
        failed[b * PRODUCERS + producer_of(k)] = k + 1;
#endif
#ifdef FAULT_OVERTAKE
        next_object();
#else
        if
        :: fly1[b] != NONE && producer_of(obj_batch[fly1[b]]) != producer_of(k) ->
#ifndef FAULT_FAIL_QUEUE_ONLY
                failed[b * PRODUCERS + producer_of(obj_batch[fly1[b]])] = obj_batch[fly1[b]] + 1
#else
                skip
#endif
        :: else
        fi;
        fly0[b] = NONE;
        fly1[b] = NONE;
        state[b] = IDLE;
        result[b] = 0;
        do
        :: nempty(queue[b]) ->
                queue[b]?k;
#ifndef FAULT_FAIL_QUEUE_ONLY
                if
                :: failed[b * PRODUCERS + producer_of(k)] == 0 ||
                   failed[b * PRODUCERS + producer_of(k)] > k + 1 ->
                        failed[b * PRODUCERS + producer_of(k)] = k + 1
                :: else
                fi
#endif
        :: empty(queue[b]) -> break
        od;
#endif
        k = 0; o = 0
}

/* The outcome of COMMIT is unknown. The look is a locked read of the counter together with the
 * epoch, whose opening sets the counter to 0: a counter of another epoch says nothing. */
inline settle()
{
        o = fly0[b];
#if defined(FAULT_UNKNOWN_SUCCESS)
        ack(obj_batch[o], cache[b]);
        next_object();
#elif defined(FAULT_LOWEST_TOLD)
        /* Looks without a lock, and gives the object up: below the lowest in flight from now on. */
        if
        :: named[o] -> find(obj_batch[o], end, at); ack(obj_batch[o], at - 1); next_object()
        :: !named[o] -> fail_behind()
        fi;
#elif defined(FAULT_UNKNOWN_FAILURE)
        cache[b] = end;
        begin();
#else
        if
        :: !mine -> die() /* fenced: it answers nothing and ends */
        :: mine && counter[b] <= obj_seq[o] ->
                cache[b] = end;
                begin() /* again: the counter refuses the first one if it comes after all */
        :: mine && counter[b] > obj_seq[o] ->
                cache[b] = end;
                find(obj_batch[o], end, at);
                assert(at > 0); /* what is taken for committed is there */
                ack(obj_batch[o], at - 1);
                next_object();
                REACHED(2)
        fi;
#endif
        o = 0; at = 0; i = 0
}

inline finish()
{
        o = fly0[b];
        if
        :: result[b] == COMMITTED ->
                cache[b] = result_at[b] + 1;
                ack(obj_batch[o], result_at[b]);
                next_object()
        :: result[b] == DUPLICATE ->
                ack(obj_batch[o], result_at[b]);
                REACHED(3);
                next_object()
        :: result[b] == GAP ->
                /* A producer that sends in order on one connection meets none. */
                assert(must_be_first);
                next_object()
        :: result[b] == MISS -> cache[b] = end; begin(); REACHED(4)
        :: result[b] == EXISTS -> state[b] = LOST
        :: result[b] == FENCED -> REACHED(5); die()
        fi;
        o = 0
}

proctype Broker(byte b)
{
        byte o, k, at, i, mark = NONE;

end_broker:
        do
        /* seal; the sequence ascends, the PUT starts */
        :: atomic {
                alive[b] && fly1[b] == NONE && nempty(queue[b]) ->
                queue[b]?k;
                if
                :: failed[b * PRODUCERS + producer_of(k)] != 0 &&
                   failed[b * PRODUCERS + producer_of(k)] <= k /* later than what failed */
                :: else ->
                        failed[b * PRODUCERS + producer_of(k)] = 0;
                        seal(k);
                        obj_seq[o] = seq[b];
                        seq[b]++;
                        if
                        :: fly0[b] == NONE -> fly0[b] = o
                        :: else -> fly1[b] = o
                        fi
                fi;
                o = 0; k = 0
           }
        /* the PUT of the oldest is done: its transaction, in the order of sealing */
        :: atomic {
                alive[b] && state[b] == IDLE && fly0[b] != NONE && put_done(fly0[b]) ->
#ifdef FAULT_EARLY_ACK
                ack(obj_batch[fly0[b]], cache[b]);
#endif
                begin()
           }
#ifdef FAULT_OUT_OF_ORDER
        /* commits come as PUTs end */
        :: atomic {
                alive[b] && state[b] == IDLE && fly1[b] != NONE && put[fly1[b]] == LANDED &&
                put[fly0[b]] != LANDED ->
                o = fly0[b];
                fly0[b] = fly1[b];
                fly1[b] = o;
                o = 0
           }
#endif
        /* no answer of the PUT, whether it landed or not: another attempt has a name of its own */
        :: atomic {
                alive[b] && state[b] == IDLE && fly0[b] != NONE && putfails > 0 ->
                putfails--;
                if
                :: true ->
                        k = obj_seq[fly0[b]];
                        i = fly0[b];
                        seal(obj_batch[i]);
                        obj_seq[o] = k;
                        fly0[b] = o
                :: true -> fail_behind()
                fi;
                o = 0; k = 0; i = 0
           }
        :: atomic { alive[b] && state[b] == RUNS && result[b] != 0 -> finish() }
        :: atomic {
                alive[b] && state[b] == RUNS && losses > 0 ->
                losses--;
                link[b]++;
                state[b] = LOST
           }
        :: atomic { alive[b] && state[b] == LOST -> settle() }
        :: atomic { alive[b] && crashes > 0 -> crashes--; die() }
#ifdef FAULT_WATERMARK_SHARED
        /* The row FOR SHARE only, beside a transaction of the epoch before that is under way. */
        :: atomic { !alive[b] && mark == NONE -> mark = counter[b] }
#endif
        /* BROKER_OPEN: waits for those who hold the row. How far the epoch before came is read with
         * the row locked FOR UPDATE, so that it stays true. */
        :: atomic {
                !alive[b] && share[b] == 0 && marked ->
#ifndef FAULT_WATERMARK_SHARED
                mark = counter[b];
#endif
                for (i : 0 .. OBJECTS - 1) {
                        assert(!named[i] || obj_broker[i] != b || obj_epoch[i] != epoch[b] ||
                               obj_seq[i] < mark)
                }
                i = 0;
                mark = NONE;
#ifndef FAULT_EPOCH_KEPT
                epoch[b]++;
#endif
                counter[b] = 0;
                my[b] = epoch[b];
                seq[b] = 0;
                cache[b] = 0;
                alive[b] = 1
           }
        /* Another one needs what this broker holds, or runs under its id and may have committed
         * an object by now. */
        :: atomic {
                fences > 0 && share[b] == 0 ->
                fences--;
                epoch[b]++;
                if
                :: counter[b] = 0
                :: counter[b] = 1
                fi
           }
        od
}

/* --- the store -------------------------------------------------------------------------------- */

/* A PUT lands when it lands. One that was sent twice can land again after a sweep. */
#define LAND(x) \
        :: atomic { put[x] == SENT -> put[x] = LANDED } \
        :: atomic { put[x] == DELETED && dups > 0 -> dups--; put[x] = LANDED; REACHED(7) }

active proctype Store()
{
        byte dups = DUPS;

end_store:
        do
        EACH_OBJECT(LAND)
        od
}

/* 4: garbage is what nothing names and nobody will name any more. Closed is looked at before the
 * names are, since an object is named last while its epoch is open. */
#if SWEEPS > 0
inline look_closed()
{
#if defined(FAULT_SWEEP_OPEN)
        dead = 1
#elif defined(FAULT_LOWEST_TOLD)
        dead = epoch[obj_broker[o]] != obj_epoch[o] ||
               (fly0[obj_broker[o]] == NONE -> obj_seq[o] < seq[obj_broker[o]] :
                obj_seq[o] < obj_seq[fly0[obj_broker[o]]])
#else
        dead = epoch[obj_broker[o]] != obj_epoch[o] || obj_seq[o] < counter[obj_broker[o]]
#endif
}

#define LISTED(x) :: sweeps > 0 && put[x] == LANDED -> o = x

active proctype Sweep()
{
        byte o, sweeps = SWEEPS;
        bit dead, used;

end_sweep:
        do
        :: atomic {
                if
                EACH_OBJECT(LISTED)
                fi;
                sweeps--
           }
#ifdef FAULT_SWEEP_NAMES_FIRST
           used = named[o];
           look_closed();
#else
           look_closed();
           used = named[o];
#endif
           atomic {
                if
                :: dead && !used ->
                        assert(!named[o]); /* 4, 3, and 2: it holds what may be acknowledged */
                        put[o] = DELETED;
                        REACHED(6)
                :: else
                fi;
                o = 0; dead = 0; used = 0
           }
        od
}
#endif

/* --- producers -------------------------------------------------------------------------------- */

#define open_to(c) (alive[c] && my[c] == connected)
#if WINDOW > 1
#define in_window (next == first || acked[first] != 0 || next - first < WINDOW)
#else
#define in_window (next == first || acked[next - 1] != 0)
#endif

/* Brokers are alike: the first connection of the first producer is to broker 0. */
#define CONNECT(x) \
        :: sends > 0 && alive[x] && (x == 0 || first > 0 || sends <= SENDS) -> to = x
#define ELSEWHERE(x) \
        :: to < NB && to != x && alive[x] && next > first && next < first + PERIOD && \
           nfull(queue[x]) -> queue[x]!next; next++

proctype Producer(byte first)
{
        byte to = NB, connected, next, sends = SENDS + 1;

        next = first;
end_producer:
        do
        /* one connection at a time, requests in order on it */
        :: atomic {
                to < NB && open_to(to) && next < first + PERIOD && in_window &&
                nfull(queue[to]) ->
                queue[to]!next;
                next++
           }
#ifdef FAULT_TWO_CONNECTIONS
        /* the next batch to another broker, while the one before is still in flight */
        EACH_BROKER(ELSEWHERE)
#endif
        /* connects, at first or after an error, a timeout, another leader: from the first batch
         * whose answer it has not seen; what it has not seen may have been answered */
        :: atomic {
                if
                EACH_BROKER(CONNECT)
                fi;
                sends--;
                connected = my[to];
                next = first;
                do
                :: next < first + PERIOD - 1 && acked[next] != 0 -> next++
                :: true -> break
                od
           }
        od
}

init {
        byte i;

        atomic {
                for (i : 0 .. NB - 1) {
                        fly0[i] = NONE;
                        fly1[i] = NONE;
                        epoch[i] = 1;
                        my[i] = 1;
                        alive[i] = 1;
                        run Broker(i)
                }
                for (i : 0 .. PRODUCERS - 1) {
                        run Producer(i * PERIOD)
                }
                i = 0
        }
}
