/* tests/model/lake.pml - compaction, its leases, publishing, purging, deletion, and those who read.
 *
 *   worker:  lease -> plan -> read the WAL -> PUT a file -> Publish (PostgreSQL) -> again
 *   purge:   index rows below the floor go, their objects join the garbage list
 *   collect: what is on the list, and no open query may still read, is deleted
 *   sweep:   what nothing names and whose writer's epoch is closed, is deleted
 *   readers: a consumer by offset, from the WAL and from files; an engine by snapshot
 *
 * One partition; record `off` stands in WAL object `off`. How it came there is commit.pml.
 *
 * What is abstracted, and why that is sound:
 * - Time. A lease may run out at any moment, also while its holder works or sleeps. The grace of
 *   garbage is "longer than any query that may still read it": a query counts from its plan. A
 *   consumer counts on no grace: it plans again.
 * - A publish is one step: its first statement takes the table's row on its version (TABLE_STEP),
 *   its second the chunk on its version, both held to COMMIT, so two of them never interleave. The
 *   chunk's version is left out: a miss is done again in the same transaction, and what must not
 *   have changed is the floor. garbage.pml looks inside the transaction.
 * - Its client may be gone: then it may run late, or never.
 * - One purge, collection or deletion at a time: each is one statement or one idempotent call.
 */

/* --- sizes ------------------------------------------------------------------------------------ */

#ifndef N
#define N 2             /* records */
#endif
#ifndef FILES
#define FILES 3         /* names of files, so runs of workers */
#endif
#ifndef WORKERS
#define WORKERS 2       /* each on a broker of its own */
#endif
#ifndef EXPIRES
#define EXPIRES 1       /* leases that run out */
#endif
#ifndef DEATHS
#define DEATHS 0        /* of workers, at any instruction; the broker starts again */
#endif
#ifndef FENCES
#define FENCES 0        /* epochs raised while the worker lives */
#endif
#ifndef LOSSES
#define LOSSES 0        /* connections lost while a publish is at the database */
#endif
#ifndef MERGE
#define MERGE 1
#endif
#ifndef CONSUMERS
#define CONSUMERS 1
#endif
#ifndef QUERIES
#define QUERIES 1
#endif
#ifndef SWEEPS
#define SWEEPS 0
#endif
#ifndef REACH
#define REACH 0
#endif

#define NONE 255
#if REACH > 0
#define REACHED(n) assert(n != REACH)
#else
#define REACHED(n) skip
#endif

/* --- the database ----------------------------------------------------------------------------- */

byte epoch[WORKERS];
byte end, floor;        /* the partition */
byte version;           /* of the table */
byte lease = NONE, lease_epoch;
byte extent[N];         /* file that has the offset; below the floor */
bit  indexed[N];        /* the index has a row of the WAL object */
byte snapshot;          /* set of files: a bit each */
bit  garbage[FILES], wal_garbage[N];

#define in_snapshot(f) ((snapshot >> (f)) & 1)

/* --- the store -------------------------------------------------------------------------------- */

#define UNSENT  0
#define SENT    1
#define LANDED  2
#define DELETED 3
byte file[FILES], wal[N];
byte file_from[FILES], file_to[FILES], file_worker[FILES], file_epoch[FILES];
byte files;             /* names given out */

bit  reads[FILES];      /* an open query has it in its plan */
byte link[WORKERS];     /* counts connections */
bit  kill[WORKERS];
bit  answer[WORKERS], answer_ok[WORKERS];
byte deaths = DEATHS, fences = FENCES, losses = LOSSES;

#if N > 2
#define EACH_RECORD(f) f(0) f(1) f(2)
#else
#define EACH_RECORD(f) f(0) f(1)
#endif
#if FILES > 3
#define EACH_FILE(f) f(0) f(1) f(2) f(3)
#elif FILES > 2
#define EACH_FILE(f) f(0) f(1) f(2)
#else
#define EACH_FILE(f) f(0) f(1)
#endif

/* 1, 3, 8: each offset is covered once; the snapshot's files hold what the extents say; what is
 * named is in the store. After every change of the database or the store. */
inline check()
{
        for (c_off : 0 .. N - 1) {
                c_n = 0;
                for (c_f : 0 .. FILES - 1) {
                        c_n = c_n + (in_snapshot(c_f) && file_from[c_f] <= c_off &&
                                     c_off < file_to[c_f])
                }
                if
                :: c_off < floor ->
                        assert(extent[c_off] != NONE);
                        assert(c_n == 1);
                        assert(in_snapshot(extent[c_off]));
                        assert(file_from[extent[c_off]] <= c_off && c_off < file_to[extent[c_off]])
                :: c_off >= floor && c_off < end ->
                        assert(extent[c_off] == NONE && c_n == 0 && indexed[c_off]);
                :: else
                fi;
                assert(!indexed[c_off] || wal[c_off] == LANDED)
        }
        for (c_f : 0 .. FILES - 1) {
                assert(!in_snapshot(c_f) || file[c_f] == LANDED)
        }
        c_off = 0; c_n = 0; c_f = 0
}

/* --- the publishing transaction --------------------------------------------------------------- */

#ifdef FAULT_PUBLISH_EPOCH_UNCHECKED
#define epoch_ok true
#else
#define epoch_ok (epoch[w] == e)
#endif
#if defined(FAULT_LEASE_ONLY)
#define plan_ok true
#elif defined(FAULT_LEASE_FOR_VERSION)
#define plan_ok (lease == w) /* it may have had it, lost it and got it back */
#elif defined(FAULT_FLOOR_FOR_VERSION)
#define plan_ok (floor == pf || pf == NONE)
#else
#define plan_ok (version == pv && (floor == pf || pf == NONE))
#endif

/* Extents of [from, to) are in file `f` now. The new snapshot is what the worker has built: the one
 * that it planned by, without the files that `f` replaces, with `f`. */
inline apply()
{
        snapshot = ps;
        for (c_f : 0 .. FILES - 1) {
                if
                :: in_snapshot(c_f) && file_from[c_f] < file_to[f] && file_from[f] < file_to[c_f] ->
                        snapshot = snapshot & ~(1 << c_f);
                        garbage[c_f] = 1
                :: else
                fi
        }
        for (c_off : 0 .. N - 1) {
                if
                :: file_from[f] <= c_off && c_off < file_to[f] -> extent[c_off] = f
                :: else
                fi
        }
        snapshot = snapshot | (1 << f);
        version++
}

proctype Publish(byte w; byte e; byte f; byte pv; byte pf; byte ps; byte n)
{
        byte c_off, c_n, c_f;
        bit ok;

        if
        :: n != link[w] /* its client is gone, and so is this */
        :: atomic {
                ok = epoch_ok && plan_ok;
                if
                :: ok ->
                        assert(epoch[w] == e); /* 5 */
                        apply();
#ifndef FAULT_FLOOR_SEPARATE
                        if
                        :: pf != NONE -> floor = file_to[f]
                        :: else
                        fi;
#endif
                        check();
                        REACHED(1)
                :: else
                fi;
                if
                :: n == link[w] -> answer[w] = 1; answer_ok[w] = ok
                :: else
                fi
           }
#ifdef FAULT_FLOOR_SEPARATE
           atomic {
                if
                :: ok && pf != NONE -> floor = file_to[f]; check()
                :: else
                fi
           }
#endif
        fi;
        atomic { w = 0; e = 0; f = 0; pv = 0; pf = 0; ps = 0; n = 0; ok = 0 }
}

/* --- workers ---------------------------------------------------------------------------------- */

/* The run is over; LEASE_RELEASE. */
inline forget()
{
        if
        :: lease == w && lease_epoch == e -> lease = NONE; lease_epoch = 0
        :: else
        fi;
        f = NONE; pf = 0; pt = 0; pv = 0; ps = 0; answer[w] = 0; answer_ok[w] = 0
}

/* The lease of an epoch that is closed counts for nothing. */
#define lease_free (lease == NONE || lease == w || lease_epoch != epoch[lease])
/* All files of the snapshot into one. The rewrite lease is left out: the version decides. */
#define can_merge (MERGE && floor > 1 && extent[0] != extent[floor - 1])
#define source_gone (pf == NONE -> file[extent[0]] == DELETED || file[extent[pt - 1]] == DELETED : \
                     wal[pf] == DELETED || wal[pt - 1] == DELETED)
#ifdef FAULT_PUBLISH_BEFORE_PUT
#define put_done true
#else
#define put_done (file[f] >= LANDED) /* it may be swept already, when its epoch is closed */
#endif

inline new_file()
{
        f = files;
        files++;
        file_from[f] = (pf == NONE -> 0 : pf);
        file_to[f] = pt;
        file_worker[f] = w;
        file_epoch[f] = e;
        file[f] = SENT
}

/* GARBAGE_PUT of the file that was not published: a transaction like any other. */
inline abandon()
{
        if
        :: epoch[w] == e -> garbage[f] = 1
        :: else /* fenced: the sweep finds it */
        fi
}

/* The outcome of a publish is unknown. */
inline settle()
{
#if defined(FAULT_ABANDON_UNSEEN)
        abandon()
#elif defined(FAULT_ABANDON_AT_ONCE)
        if
        :: epoch[w] == e && !in_snapshot(f) && !garbage[f] -> abandon()
        :: else
        fi
#else
        /* Looked at with the table's row locked; the version that is raised with it refuses the
         * publish, should it come later. */
        if
        :: epoch[w] == e && !in_snapshot(f) && !garbage[f] -> version++; abandon(); REACHED(3)
        :: else
        fi
#endif
}

inline work()
{
end_work:
        do
        :: atomic { epoch[w] == e && files < FILES && lease_free -> lease = w; lease_epoch = e }
end_plan:
           if
           :: atomic { floor < end -> pf = floor; pt = end; pv = version; ps = snapshot }
           :: atomic { can_merge -> pf = NONE; pt = floor; pv = version; ps = snapshot }
           fi;
           /* What it reads from. What is gone was compacted or merged by another: it ends. */
           if
           :: atomic { !source_gone && files < FILES -> new_file() }
              put_done;
              atomic {
                if
                :: lease_free -> lease = w; lease_epoch = e /* renewed; or had again meanwhile */
                :: else
                fi;
                run Publish(w, e, f, pv, pf, ps, link[w])
              }
              if
              :: atomic { answer[w] && answer_ok[w] -> forget() }
              :: atomic { answer[w] && !answer_ok[w] -> abandon(); forget(); REACHED(2) }
              :: atomic { !answer[w] && losses > 0 -> losses--; link[w]++ }
                 atomic { settle(); forget() }
              fi
           :: atomic { source_gone || files == FILES -> forget() }
           fi
        :: atomic { epoch[w] != e -> forget(); e = epoch[w] } /* fenced: it starts again */
        od
}

proctype Worker(byte w)
{
        byte e = 1, f = NONE, pf, pt, pv, ps;

end_worker:
        {
                work()
        } unless {
                /* It dies, at any instruction: what it knew is gone, what it sent is on its way. */
                atomic {
                        kill[w] ->
                        kill[w] = 0;
                        link[w]++;
                        f = NONE; pf = 0; pt = 0; pv = 0; ps = 0; answer[w] = 0; answer_ok[w] = 0;
                        epoch[w]++;
                        e = epoch[w];
                        REACHED(4)
                }
        };
        goto end_worker
}

active proctype Clock()
{
        byte expires = EXPIRES;

end_clock:
        do
        :: atomic { expires > 0 && lease != NONE -> expires--; lease = NONE; lease_epoch = 0 }
        :: atomic { deaths > 0 -> deaths--; kill[0] = 1 } /* brokers are alike */
        :: atomic { fences > 0 -> fences--; epoch[0]++ }
        od
}

/* --- the store, the log ----------------------------------------------------------------------- */

#define LAND(x) :: atomic { file[x] == SENT -> file[x] = LANDED }

active proctype Store()
{
end_store:
        do
        EACH_FILE(LAND)
        od
}

active proctype Log()
{
        do
        :: atomic {
                end < N ->
                wal[end] = LANDED;
                indexed[end] = 1;
                end++
           }
        :: end == N -> break
        od
}

/* --- garbage ---------------------------------------------------------------------------------- */

#ifdef FAULT_NO_GRACE
#define grace_over(x) true
#else
#define grace_over(x) (!reads[x])
#endif
#define PURGE(x) :: atomic { x < floor && indexed[x] -> indexed[x] = 0; wal_garbage[x] = 1 }
#define COLLECT(x) \
        :: atomic { garbage[x] && file[x] == LANDED && grace_over(x) -> \
                file[x] = DELETED; check(); REACHED(5) }
#define COLLECT_WAL(x) \
        :: atomic { wal_garbage[x] && wal[x] == LANDED -> wal[x] = DELETED; check(); REACHED(6) }

active proctype Collect()
{
        byte c_off, c_n, c_f;

end_collect:
        do
        EACH_RECORD(PURGE)
        EACH_FILE(COLLECT)
        EACH_RECORD(COLLECT_WAL)
        od
}

#if SWEEPS > 0
#if defined(FAULT_SWEEP_OPEN)
#define closed(f) true
#elif defined(FAULT_SWEEP_OWN_EPOCH) /* names carry an epoch, and not whose */
#define closed(f) (file_epoch[f] < epoch[0])
#else
#define closed(f) (epoch[file_worker[f]] != file_epoch[f])
#endif
#define LISTED(x) :: sweeps > 0 && file[x] == LANDED -> f = x

active proctype Sweep()
{
        byte f = NONE, sweeps = SWEEPS, c_off, c_n, c_f;
        bit dead;

end_sweep:
        do
        :: atomic {
                if
                EACH_FILE(LISTED)
                fi;
                sweeps--
           }
           dead = closed(f); /* before the names, as in commit.pml */
           dead = dead && !in_snapshot(f) && !garbage[f];
           atomic {
                if
                :: dead -> file[f] = DELETED; check(); REACHED(7)
                :: else
                fi;
                f = NONE; dead = 0
           }
        od
}
#endif

/* --- readers ---------------------------------------------------------------------------------- */

#if CONSUMERS > 0
/* By offset, from any broker: the plan is read in one snapshot of the database. */
active [CONSUMERS] proctype Consumer()
{
        byte off, seen_floor, from = NONE, before = NONE;
        bit in_wal, before_wal;

        do
        :: off == N -> break
        :: off < N ->
#if defined(FAULT_TORN_PLAN)
                atomic { off < end -> seen_floor = floor }
#elif defined(FAULT_VIEW_KEPT)
                if
                :: off < end && before == NONE -> seen_floor = floor
                :: off < end && before != NONE /* what it knows, and nobody told it better */
                fi;
#else
                off < end;
                seen_floor = floor;
#endif
                atomic {
#if !defined(FAULT_TORN_PLAN) && !defined(FAULT_VIEW_KEPT)
                        seen_floor = floor;
#endif
                        if
                        :: off < seen_floor -> in_wal = 0; from = extent[off]
                        :: off >= seen_floor -> in_wal = 1; from = off
#ifdef FAULT_TORN_PLAN
                                ; assert(indexed[off]) /* 1: an offset that nothing covers */
#endif
                        fi;
                        /* 3: who plans again finds another place */
                        assert(from != before || in_wal != before_wal)
                }
                atomic {
                        if
                        :: (in_wal -> wal[from] : file[from]) == DELETED ->
                                before = from;
                                before_wal = in_wal;
                                REACHED(8)
                        :: else ->
                                /* 2: the record itself */
                                assert(in_wal || (file_from[from] <= off && off < file_to[from]));
                                before = NONE;
                                off++
                        fi;
                        from = NONE; in_wal = 0
                }
        od;
        REACHED(9)
}
#endif

#if QUERIES > 0
/* An engine plans by a snapshot and cannot plan again: it counts on the grace. */
active proctype Engine()
{
        byte queries = QUERIES, i;

end_engine:
        do
        :: atomic {
                queries > 0 && version > 0 ->
                queries--;
                for (i : 0 .. FILES - 1) {
                        reads[i] = in_snapshot(i)
                }
           }
           atomic {
                for (i : 0 .. FILES - 1) {
                        assert(!reads[i] || file[i] == LANDED); /* 3 */
                        reads[i] = 0
                }
                i = 0
           }
        od
}
#endif

init {
        byte i;

        atomic {
                for (i : 0 .. N - 1) {
                        extent[i] = NONE
                }
                for (i : 0 .. WORKERS - 1) {
                        epoch[i] = 1;
                        run Worker(i)
                }
                i = 0
        }
}
