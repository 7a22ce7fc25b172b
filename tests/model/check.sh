#!/usr/bin/env bash
# tests/model/check.sh [--all] [--only WORD] - searches the models, and sees that they find faults.
#
# Three kinds of runs:
#   holds   the protocol as designed: the search must end, be exhaustive and find nothing
#   found   a seeded fault (-DFAULT_...): the search must find it, in the way that is stated
#   good    a run that must exist (-DREACH=n is an assertion that it does not), so that a model
#           that does nothing is not taken for one in which nothing goes wrong
#
# The short set is done in two minutes on one core, in less than 3 GB; --all adds larger sizes.
# --only takes the lines that contain WORD. A counterexample of a surprise is printed with the
# commands that show it. spin and gcc are needed.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")"

ALL= ONLY= KEEP=
while [ $# -gt 0 ]; do
        case $1 in
        --all) ALL=1 ;;
        --only) shift; ONLY=${1:?--only needs a word} ;;
        *) echo "check.sh: unknown option $1" >&2; exit 2 ;;
        esac
        shift
done
for tool in spin gcc; do
        command -v $tool >/dev/null || { echo "check.sh: $tool is not installed" >&2; exit 2; }
done

DIR=$(mktemp -d)
trap '[ -n "$KEEP" ] || rm -rf "$DIR"' EXIT
ulimit -v 4000000
passed=0 failed=0

# search FILE TABLE CFLAGS DEFINES...: the output of pan is $DIR/out. TABLE: log2 of the size of its
# hash table, which only makes it faster. Optimising takes longer than a short search.
search() {
        local file=$1 table=$2 cflags=$3 limit=300
        shift 3
        [ -z "$ALL" ] || limit=7200
        rm -f "$DIR"/pan* "$DIR"/*.trail "$DIR/out"
        (cd "$DIR" && spin -a "$@" "$OLDPWD/$file" &&
         gcc -w -DSAFETY -DCOLLAPSE -DVECTORSZ=2048 -DMEMLIM=3000 $cflags -o pan pan.c) \
                >"$DIR/out" 2>&1 || { echo "spin or gcc failed" >>"$DIR/out"; return 1; }
        (cd "$DIR" && timeout $limit nice -n 10 ./pan -m100000 -w$table) >"$DIR/out" 2>&1 ||
                echo "pan did not end well, or not within $limit s" >>"$DIR/out"
}

# What makes a search other than exhaustive, as pan says it.
not_whole() {
        grep -E -e 'Search not completed|max search depth too small|out of memory|memory limit' \
                -e 'did not end well|or gcc failed|Bit-state' "$DIR/out" | head -n 1
}

report() { # VERDICT KIND FILE WORDS WHY
        local states seconds mb
        states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$DIR/out")
        seconds=$(sed -n 's/^pan: elapsed time \([0-9.e+-]*\) seconds.*/\1/p' "$DIR/out")
        mb=$(sed -n 's/^ *\([0-9.]*\).*total actual memory usage.*/\1/p' "$DIR/out")
        printf '%-4s %s %-11s %9s states %6s s %5.0f MB  %s\n' "$1" "$2" "$3" "${states:-?}" \
                "${seconds:-?}" "${mb:-0}" "$4"
        if [ "$1" = ok ]; then
                passed=$((passed + 1))
                return
        fi
        failed=$((failed + 1))
        KEEP=1
        echo "     $5"
        grep -E '^pan:|[Ee]rror' "$DIR/out" | head -n 5 | sed 's/^/     /'
        local trail
        trail=$(cd "$DIR" && ls ./*.trail 2>/dev/null | head -n 1)
        [ -z "$trail" ] || {
                mkdir -p "$DIR/surprise-$failed"
                cp "$DIR/$trail" "$3" "$DIR/surprise-$failed/"
                echo "     to read it: cd $DIR/surprise-$failed && spin -t -p -g $4 $3"
        }
}

skip() { [ -n "$ONLY" ] && [[ "$*" != *"$ONLY"* ]]; }

# holds FILE DEFINES...
holds() {
        local file=$1 why
        shift
        skip holds "$file" "$@" && return
        search "$file" 24 "${OPTIMISE:--O0}" "$@"
        why=$(not_whole)
        if [ -n "$why" ]; then
                report FAIL holds "$file" "$*" "the search was not exhaustive: $why"
        elif ! grep -q 'errors: 0$' "$DIR/out"; then
                report FAIL holds "$file" "$*" "it must hold, and does not"
        else
                report ok holds "$file" "$*"
        fi
}

# found HOW FILE DEFINES...: HOW is what pan must say, a part of the assertion for instance.
found() {
        local how=$1 file=$2
        shift 2
        skip found "$file" "$@" && return
        search "$file" 20 -O0 "$@"
        if grep -q '^pan:1:.*invalid array index' "$DIR/out"; then
                report FAIL found "$file" "$*" "the model itself is wrong"
        elif grep -E '^pan:1: ' "$DIR/out" | grep -qF -- "$how"; then
                report ok found "$file" "$*"
        else
                report FAIL found "$file" "$*" "not found as it must be: $how"
        fi
}

# good FILE N DEFINES...
good() {
        local file=$1 n=$2
        shift 2
        skip good "$file" "$@" "-DREACH=$n" && return
        search "$file" 20 -O0 "$@" "-DREACH=$n"
        if grep -qF "assertion violated ($n!=$n)" "$DIR/out"; then
                report ok good "$file" "$* -DREACH=$n"
        else
                report FAIL good "$file" "$* -DREACH=$n" "no run comes there"
        fi
}

ONE="-DPRODUCERS=1 -DSENDS=0"
PIPE="-DPRODUCERS=1 -DPERIOD=2 -DWINDOW=2"
AGAIN="-DPRODUCERS=1 -DSENDS=1"

# --- commit.pml: the write path ------------------------------------------------------------------

holds commit.pml -DPRODUCERS=2 -DSENDS=1                                # retries elsewhere
holds commit.pml $AGAIN -DCRASHES=1 -DFENCES=1 -DLOSSES=1               # one that ends in any way
holds commit.pml $PIPE -DSENDS=1 -DPUTFAILS=1                           # in flight, a flush fails
holds commit.pml -DPRODUCERS=2 -DSENDS=0 -DLOSSES=1 -DCRASHES=1 -DIDEMPOTENT=0
holds commit.pml $ONE -DPUTFAILS=1 -DLOSSES=1 -DFENCES=1 -DCRASHES=1 -DSWEEPS=2 -DDUPS=1
holds commit.pml -DPRODUCERS=1 -DPERIOD=3 -DSENDS=1                     # a gap must not be seen
# What would make the order of a producer safe, whatever its connections do.
holds commit.pml $PIPE -DSENDS=1 -DYOUNG_BEGINS_AT_0 -DFAULT_TWO_CONNECTIONS
holds commit.pml $PIPE -DSENDS=1 -DYOUNG_BEGINS_AT_0 -DPUTFAILS=1 -DFAULT_FAIL_QUEUE_ONLY
for n in 1 2 3 4 5 6 7; do
        good commit.pml $n $AGAIN -DLOSSES=1 -DFENCES=1 -DSWEEPS=1 -DDUPS=1 -DPUTFAILS=1
done
found 'log_batch[cache[b]]==obj_batch' commit.pml $ONE -DFAULT_EARLY_ACK
found 'put[o]==2' commit.pml $ONE -DFAULT_COMMIT_BEFORE_PUT
found 'v==end' commit.pml -DPRODUCERS=2 -DSENDS=0 -DFAULT_PLAIN_READ
found 'epoch[b]==e' commit.pml $ONE -DFENCES=1 -DFAULT_EPOCH_UNCHECKED
found 'epoch[b]==e' commit.pml $ONE -DFENCES=1 -DFAULT_EPOCH_PLAIN
found '(at>0)' commit.pml -DSENDS=0 -DCRASHES=1 -DFAULT_EPOCH_KEPT
found 'obj_seq[i]<mark' commit.pml $ONE -DCRASHES=1 -DFAULT_WATERMARK_SHARED
found 'named[o]' commit.pml $ONE -DLOSSES=1 -DIDEMPOTENT=0 -DFAULT_UNKNOWN_FAILURE
found 'log_batch[cache[b]]==obj_batch' commit.pml $ONE -DLOSSES=1 -DFAULT_UNKNOWN_SUCCESS
found '(at>0)' commit.pml $ONE -DLOSSES=1 -DFENCES=1 -DFAULT_LOOK_OTHER_EPOCH
found '(at==0)' commit.pml $AGAIN -DFAULT_OWN_MEMORY
found '(at>0)' commit.pml -DSENDS=0 -DFAULT_OUT_OF_ORDER
found '(at>0)' commit.pml $PIPE -DSENDS=1 -DPUTFAILS=1 -DFAULT_OVERTAKE
found '(at>0)' commit.pml $PIPE -DSENDS=1 -DPUTFAILS=1 -DFAULT_FAIL_QUEUE_ONLY
found '(at>0)' commit.pml $PIPE -DSENDS=0 -DFAULT_TWO_CONNECTIONS
found 'named[o]' commit.pml $ONE -DSWEEPS=1 -DFAULT_SWEEP_OPEN
found 'named[o]' commit.pml $ONE -DSWEEPS=1 -DFENCES=1 -DFAULT_SWEEP_NAMES_FIRST
found 'named[o]' commit.pml $ONE -DSWEEPS=1 -DLOSSES=1 -DFAULT_LOWEST_TOLD

# --- lake.pml: tables, garbage, readers ----------------------------------------------------------

WORK="-DCONSUMERS=0 -DQUERIES=0"
READ="-DWORKERS=1 -DEXPIRES=0"

holds lake.pml $WORK
holds lake.pml $READ                                                    # both kinds of readers
holds lake.pml $WORK -DLOSSES=1 -DFILES=2
OPTIMISE=-O1
holds lake.pml $WORK -DDEATHS=1 -DSWEEPS=1 -DFILES=2
holds lake.pml $WORK -DFENCES=1 -DSWEEPS=1 -DFILES=2
OPTIMISE=
for n in 1 2 3 4 5 6; do good lake.pml $n -DLOSSES=1 -DDEATHS=1 -DSWEEPS=1; done
good lake.pml 7 $WORK -DDEATHS=1 -DSWEEPS=1 -DFILES=2
for n in 8 9; do good lake.pml $n $READ -DQUERIES=0; done
found 'indexed[c_off]' lake.pml $WORK -DFAULT_FLOOR_SEPARATE
found 'indexed[c_off]' lake.pml $WORK -DFAULT_LEASE_ONLY
found 'indexed[c_off]' lake.pml $WORK -DFAULT_LEASE_FOR_VERSION
found '(c_n==1)' lake.pml $WORK -DN=3 -DFILES=4 -DFAULT_FLOOR_FOR_VERSION
found 'file[c_f]==2' lake.pml $WORK -DFAULT_PUBLISH_BEFORE_PUT
found 'epoch[w]==e' lake.pml $WORK -DFENCES=1 -DFAULT_PUBLISH_EPOCH_UNCHECKED
found 'file[c_f]==2' lake.pml $WORK -DLOSSES=1 -DFAULT_ABANDON_UNSEEN
found 'file[c_f]==2' lake.pml $WORK -DLOSSES=1 -DFAULT_ABANDON_AT_ONCE
found 'file[c_f]==2' lake.pml $WORK -DSWEEPS=1 -DFAULT_SWEEP_OPEN
found 'file[c_f]==2' lake.pml $WORK -DSWEEPS=1 -DFENCES=1 -DFAULT_SWEEP_OWN_EPOCH
found 'file[i]==2' lake.pml $READ -DCONSUMERS=0 -DFAULT_NO_GRACE
found 'indexed[off]' lake.pml $READ -DQUERIES=0 -DFAULT_TORN_PLAN
found 'from!=before' lake.pml $READ -DQUERIES=0 -DFAULT_VIEW_KEPT

# --- the small ones ------------------------------------------------------------------------------

holds garbage.pml
for n in 1 2 3; do good garbage.pml $n; done
found 'file_row&&file_deleted' garbage.pml -DFAULT_ADD_UNLOCKED
found 'file_row&&file_deleted' garbage.pml -DFAULT_VERSION_KEPT
found 'manifest_named&&manifest_deleted' garbage.pml -DFAULT_MANIFEST_BY_ROW

holds memory.pml
for n in 1 2; do good memory.pml $n; done
found 'assertion violated known' memory.pml -DFAULT_CHECKPOINT_LATER
found 'assertion violated known' memory.pml -DFAULT_CHECKPOINT_UNREAD
found 'assertion violated known' memory.pml -DFAULT_VERSION_KEPT

holds follow.pml
holds follow.pml -DFOLLOW_SETTLED
good follow.pml 1
good follow.pml 1 -DFOLLOW_SETTLED
found 'seen[i]' follow.pml -DFAULT_UNSETTLED
found 'seen[i]' follow.pml -DFAULT_RUNNING_FIRST
found 'n>last_of' follow.pml -DFAULT_NUMBER_FIRST

holds group.pml
for n in 1 2 3; do good group.pml $n; done
found 'generation==mine' group.pml -DFAULT_GENERATION_PLAIN
found 'generation==0' group.pml -DFAULT_OUTSIDE_UNCHECKED

holds locks.pml
good locks.pml 1
found 'invalid end state' locks.pml -DFAULT_ORDER_OF_ARRIVAL
found 'invalid end state' locks.pml -DFAULT_COUNTER_ROW
found 'invalid end state' locks.pml -DFAULT_SHARE_THEN_UPDATE
found 'invalid end state' locks.pml -DFAULT_DELETE_OTHER_ORDER

# --- larger sizes --------------------------------------------------------------------------------

if [ -n "$ALL" ]; then
        OPTIMISE=-O2
        holds commit.pml -DPRODUCERS=2 -DSENDS=1 -DLOSSES=1
        holds commit.pml $PIPE -DSENDS=1 -DPUTFAILS=1 -DLOSSES=1
        holds commit.pml -DPRODUCERS=2 -DSENDS=1 -DCRASHES=1
        holds commit.pml -DNB=3 -DPRODUCERS=3 -DSENDS=0 -DLOSSES=1
        holds commit.pml -DPRODUCERS=2 -DSENDS=0 -DLOSSES=1 -DFENCES=1 -DSWEEPS=1
        holds commit.pml -DPRODUCERS=2 -DSENDS=0 -DLOSSES=2 -DCRASHES=1 -DIDEMPOTENT=0
        holds commit.pml $AGAIN -DCRASHES=1 -DFENCES=1 -DLOSSES=1 -DSWEEPS=1 -DDUPS=1
        holds lake.pml $WORK -DLOSSES=1 -DDEATHS=1
        holds lake.pml $WORK -DFENCES=1 -DSWEEPS=1
        holds lake.pml $WORK -DDEATHS=1 -DSWEEPS=1
        holds lake.pml $WORK -DN=3 -DFILES=4
        holds lake.pml $READ -DN=3 -DFILES=4
        holds lake.pml # workers and readers together
        holds lake.pml -DFILES=2 -DLOSSES=1
        # The reduction of the search and `unless` agree: the same without it.
        OPTIMISE="-O2 -DNOREDUCE"
        holds lake.pml $WORK -DDEATHS=1
fi

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
