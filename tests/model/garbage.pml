/* tests/model/garbage.pml - inside the transactions that name an object or call it garbage.
 *
 *   Publish:  table's row on its version | GARBAGE_HAS | names the object | COMMIT
 *   Add:      table's row                | NOT EXISTS  | GARBAGE_PUT      | COMMIT
 *   Collect:  reads the list | deletes the object | forgets the line
 *
 * Each of the two first reads that the other's row is not there. Under READ COMMITTED nothing holds
 * what is not there: FOR SHARE locks no absent row, NOT EXISTS sees no row that is not committed.
 * What keeps them apart is a row that both lock. SQLite hides this: one writer at a time.
 *
 * Add is whoever says that an object is not needed: a worker whose publish seemed to fail, or a
 * sweep. Here it says so while the publish may still be under way (its client has lost it).
 * A statement is a step; what is written is seen at COMMIT; row locks are held to it. */

#ifndef REACH
#define REACH 0
#endif
#if REACH > 0
#define REACHED(n) assert(n != REACH)
#else
#define REACHED(n) skip
#endif

bit table_locked;
byte version;
bit file_row;           /* data_file: names the object by a row */
bit manifest_named;     /* in the metadata of the table: names its manifest, but by no row */
bit file_garbage, manifest_garbage;
bit file_deleted, manifest_deleted;

/* 3: nothing refers to an object that is not durable */
inline check()
{
        assert(!(file_row && file_deleted));
        assert(!(manifest_named && manifest_deleted))
}

active proctype Publish()
{
        bit has;

        if
        :: atomic { !table_locked && version == 0 -> table_locked = 1 } /* TABLE_STEP */
        :: atomic { !table_locked && version != 0 -> goto done }
        fi;
        has = file_garbage;
        if
        :: has -> table_locked = 0; goto done
        :: else
        fi;
        atomic {
                file_row = 1;
                manifest_named = 1;
                version++;
                table_locked = 0;
                check();
                REACHED(1)
        }
done:
        skip
}

active proctype Add()
{
        bit row, named;

#ifndef FAULT_ADD_UNLOCKED
        atomic { !table_locked -> table_locked = 1 }
#endif
        row = file_row;
#ifdef FAULT_MANIFEST_BY_ROW
        named = 0; /* no row names a manifest, so the statement finds none */
#else
        named = manifest_named; /* settled by the table's version, not by a row of the manifest */
#endif
        atomic {
                if
                :: !row -> file_garbage = 1
                :: else
                fi;
                if
                :: !named -> manifest_garbage = 1
                :: else
                fi;
#ifndef FAULT_ADD_UNLOCKED
#ifndef FAULT_VERSION_KEPT
                /* A publish that comes later is refused, also when the list has forgotten. */
                if
                :: !row -> version++
                :: else
                fi;
#endif
                table_locked = 0;
#endif
                REACHED(2)
        }
}

active proctype Collect()
{
end_collect:
        do
        :: file_garbage && !file_deleted ->
                atomic { file_deleted = 1; check() }
                file_garbage = 0;
                REACHED(3)
        :: manifest_garbage && !manifest_deleted ->
                atomic { manifest_deleted = 1; check() }
                manifest_garbage = 0
        od
}
