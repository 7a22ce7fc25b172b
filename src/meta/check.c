/* meta/check.c - does the database agree with itself? For `lakestream doctor`.
 *
 * One snapshot, read in order; every finding is a line that names the stream and what is wrong with
 * it. Checked per stream: chunk rows decode and cover all partitions; index rows decode, and their
 * batches are dense from the floor (or below it) to the end; extents are dense from 0 to the floor;
 * the sums of extents and entries are floor_hash and hash; WAL objects are there and count their
 * rows; files count their extents. */
#include <stdio.h>

#include "meta/index_blob.h"
#include "meta/meta_int.h"
#include "meta/producers.h"

/* What was found of a partition. */
struct check_part {
        int64_t next; /* where the next batch of the index must begin; -1: none seen */
        uint64_t sum; /* of the live entries */
        bool split;   /* a batch crosses the floor: the sum cannot be told */
        bool has_extents;
};
struct check {
        struct ls_db *db;
        void (*fn)(void *ctx, const char *finding);
        void *ctx;
        const char *topic;
        uint64_t stream_id;
        int32_t partitions; /* by the stream row */
        struct ls_meta_partition *parts;
        size_t count;
        struct check_part *found; /* per partition */
};

static void check_say(struct check *c, const char *format, ...) LS_PRINTF(2, 3);
static void
check_say(struct check *c, const char *format, ...)
{
        struct ls_buf line;
        va_list args;
        char text[384];

        va_start(args, format);
        (void)vsnprintf(text, sizeof text, format, args);
        va_end(args);
        ls_buf_init(&line, 4096);
        if (c->topic != NULL)
                ls_buf_printf(&line, "topic %s (stream %llu): ", c->topic,
                              (unsigned long long)c->stream_id);
        ls_buf_put_text(&line, text);
        c->fn(c->ctx, ls_buf_cstr(&line));
        ls_buf_done(&line);
}

/* --- index rows --- */

static void
check_entry(struct check *c, uint64_t object_id, const struct ls_meta_entry *e)
{
        const struct ls_meta_partition *p;
        struct check_part *found;
        int64_t end = e->base_offset + e->records;

        if ((size_t)e->partition >= c->count) {
                check_say(c, "WAL object %llu has a batch of partition %d, which is not there",
                          (unsigned long long)object_id, e->partition);
                return;
        }
        p = &c->parts[e->partition];
        found = &c->found[e->partition];
        if (found->next >= 0 && e->base_offset != found->next)
                check_say(
                        c,
                        "partition %d: offsets %lld to %lld are not in the index (WAL object %llu)",
                        e->partition, (long long)found->next, (long long)e->base_offset,
                        (unsigned long long)object_id);
        if (found->next < 0 && e->base_offset > p->floor)
                check_say(c,
                          "partition %d: offsets %lld to %lld are neither in extents nor in the "
                          "index",
                          e->partition, (long long)p->floor, (long long)e->base_offset);
        found->next = end;
        if (e->base_offset >= p->floor)
                found->sum += ls_meta_entry_hash(e);
        else
                found->split |= end > p->floor;
}

static ls_err
check_index(struct check *c)
{
        struct ls_db_stmt *stmt;
        ls_err e;

        LS_TRY(ls_db_query(c->db, INDEX_AFTER, &stmt, ls_db_u64(c->stream_id), ls_db_int(0)));
        while ((e = ls_db_step(c->db, stmt)) == LS_OK) {
                uint64_t object_id = ls_db_col_u64(c->db, stmt, 0);
                struct ls_index_reader reader;
                struct ls_meta_entry entry;
                ls_err row = ls_index_blob_open(&reader, ls_db_col_span(c->db, stmt, 1));

                while (row == LS_OK && (row = ls_index_blob_next(&reader, &entry)) == LS_OK)
                        check_entry(c, object_id, &entry);
                if (row != LS_END)
                        check_say(c, "the index row of WAL object %llu does not decode (%s)",
                                  (unsigned long long)object_id, ls_err_text(row));
        }
        ls_db_end(c->db, stmt);
        return e == LS_END ? LS_OK : e;
}

/* --- extents --- */

struct check_extent {
        int32_t partition;
        int64_t base, next; /* of the last extent, or group */
        uint64_t sum;
};

/* The extents of a partition have been read: do they reach the floor, with its sum? */
static void
check_extents_end(struct check *c, const struct check_extent *x)
{
        const struct ls_meta_partition *p;

        if (x->partition < 0)
                return;
        if ((size_t)x->partition >= c->count) {
                check_say(c, "extents of partition %d, which is not there", x->partition);
                return;
        }
        p = &c->parts[x->partition];
        if (x->next != p->floor)
                check_say(c, "partition %d: extents end at offset %lld, the floor is %lld",
                          x->partition, (long long)x->next, (long long)p->floor);
        else if (x->sum != p->floor_hash)
                check_say(c, "partition %d: the sum of its extents is %016llx, not %016llx",
                          x->partition, (unsigned long long)x->sum,
                          (unsigned long long)p->floor_hash);
}

static ls_err
check_extents(struct check *c)
{
        struct check_extent x = { .partition = -1 };
        struct ls_db_stmt *stmt;
        ls_err e;

        LS_TRY(ls_db_query(c->db, EXTENT_LIST, &stmt, ls_db_u64(c->stream_id)));
        while ((e = ls_db_step(c->db, stmt)) == LS_OK) {
                int32_t partition = ls_db_col_i32(c->db, stmt, 1);
                int64_t base = ls_db_col_i64(c->db, stmt, 2), end;

                if (partition != x.partition) {
                        check_extents_end(c, &x);
                        x = (struct check_extent){ .partition = partition };
                        if (partition >= 0 && (size_t)partition < c->count)
                                c->found[partition].has_extents = true;
                }
                end = ls_db_col_i64(c->db, stmt, 3);
                if (base != x.next && (base != x.base || end != x.next))
                        check_say(c, "partition %d: extents are not dense at offset %lld",
                                  partition, (long long)x.next);
                x.base = base;
                x.next = end;
                x.sum += ls_db_col_u64(c->db, stmt, 7);
        }
        ls_db_end(c->db, stmt);
        check_extents_end(c, &x);
        return e == LS_END ? LS_OK : e;
}

/* --- a stream --- */

static void
check_partition(struct check *c, size_t i)
{
        const struct ls_meta_partition *p = &c->parts[i];
        const struct check_part *found = &c->found[i];

        if (!found->has_extents && p->floor > 0)
                check_say(c, "partition %zu: no extents below the floor %lld", i,
                          (long long)p->floor);
        if (p->end == p->floor) {
                if (p->hash != p->floor_hash)
                        check_say(c,
                                  "partition %zu: the table's sum %016llx is not the log's %016llx",
                                  i, (unsigned long long)p->floor_hash,
                                  (unsigned long long)p->hash);
        } else if (found->next != p->end) {
                check_say(c, "partition %zu: the index ends at offset %lld, the log at %lld", i,
                          (long long)found->next, (long long)p->end);
        } else if (!found->split && found->sum != p->hash - p->floor_hash) {
                check_say(c, "partition %zu: the sum of its WAL entries is %016llx, not %016llx", i,
                          (unsigned long long)found->sum,
                          (unsigned long long)(p->hash - p->floor_hash));
        }
}

static ls_err
check_producers(struct check *c)
{
        for (uint64_t id = meta_chunk_id(c->stream_id, 0);
             id <= meta_chunk_id(c->stream_id, (int32_t)c->count - 1); id++) {
                struct meta_producers *p = meta_producers_new();
                struct ls_db_stmt *stmt;
                ls_err e = ls_db_query(c->db, CHUNK_PRODUCERS_GET, &stmt, ls_db_u64(id)), decoded;

                if (e == LS_OK) {
                        e = ls_db_step(c->db, stmt);
                        decoded = e == LS_OK
                                          ? meta_producers_decode(ls_db_col_span(c->db, stmt, 0), p)
                                          : LS_OK;
                        if (decoded != LS_OK)
                                check_say(c,
                                          "the producer checkpoint of partitions %u… does not "
                                          "decode (%s)",
                                          (unsigned)(id % LS_META_CHUNKS_PER_STREAM) *
                                                  LS_META_CHUNK_PARTITIONS,
                                          ls_err_text(decoded));
                        ls_db_end(c->db, stmt);
                }
                meta_producers_free(p);
                if (e < 0)
                        return e;
        }
        return LS_OK;
}

static ls_err
check_stream_parts(struct check *c)
{
        ls_err e;

        if ((int32_t)c->count != c->partitions)
                check_say(c, "state of %zu partitions, the stream has %d", c->count, c->partitions);
        e = check_index(c);
        if (e == LS_OK)
                e = check_extents(c);
        for (size_t i = 0; i < c->count && e == LS_OK; i++)
                check_partition(c, i);
        return e == LS_OK ? check_producers(c) : e;
}

static ls_err
check_stream(struct check *c)
{
        ls_err e = meta_partitions_read(c->db, c->stream_id, &c->parts, &c->count);

        if (e == LS_ABSENT || e == LS_CORRUPT || e == LS_NEWER_FORMAT) {
                check_say(c, "its partition state is %s",
                          e == LS_ABSENT ? "missing" : "damaged, or of a newer format");
                return LS_OK;
        }
        LS_TRY(e);
        c->found = ls_calloc(c->count, sizeof *c->found);
        for (size_t i = 0; i < c->count; i++)
                c->found[i].next = -1;
        e = check_stream_parts(c);
        ls_free(c->parts);
        ls_free(c->found);
        return e;
}

static ls_err
check_streams(struct check *c)
{
        struct ls_db_stmt *stmt;
        ls_err e;

        LS_TRY(ls_db_query0(c->db, STREAM_LIST, &stmt));
        while ((e = ls_db_step(c->db, stmt)) == LS_OK) {
                char *topic = ls_db_col_dup(c->db, stmt, 2);

                c->stream_id = ls_db_col_u64(c->db, stmt, 0);
                c->topic = topic;
                c->partitions = ls_db_col_i32(c->db, stmt, 6);
                e = check_stream(c);
                c->topic = NULL;
                ls_free(topic);
                if (e != LS_OK)
                        break;
        }
        ls_db_end(c->db, stmt);
        return e == LS_END ? LS_OK : e;
}

/* --- across streams --- */

/* Runs a statement whose rows are all findings: a number each. */
static ls_err
check_rows(struct check *c, enum ls_sql id, const char *what)
{
        struct ls_db_stmt *stmt;
        ls_err e;

        LS_TRY(c->db->ops->query(c->db, id, NULL, 0, &stmt));
        while ((e = ls_db_step(c->db, stmt)) == LS_OK)
                check_say(c, "%s %llu", what, (unsigned long long)ls_db_col_u64(c->db, stmt, 0));
        ls_db_end(c->db, stmt);
        return e == LS_END ? LS_OK : e;
}

static void
check_database_finding(void *ctx, const char *finding)
{
        check_say(ctx, "database: %s", finding);
}

static ls_err
check_all(struct check *c)
{
        LS_TRY(c->db->ops->verify(c->db, false, check_database_finding, c));
        LS_TRY(check_streams(c));
        LS_TRY(check_rows(c, LS_SQL_CHECK_OBJECT_COUNT,
                          "index rows are missing or too many for WAL object"));
        LS_TRY(check_rows(c, LS_SQL_CHECK_OBJECT_MISSING,
                          "an index row names WAL object that is not there:"));
        LS_TRY(check_rows(c, LS_SQL_CHECK_FILE_COUNT,
                          "extents are missing or too many for data file"));
        LS_TRY(check_rows(c, LS_SQL_CHECK_FILE_MISSING,
                          "an extent names data file that is not in the table:"));
        return check_rows(c, LS_SQL_CHECK_COMMIT, "a number above the last commit was given out:");
}

ls_err
ls_meta_check(struct ls_meta *m, void (*fn)(void *ctx, const char *finding), void *ctx)
{
        struct check c = { .fn = fn, .ctx = ctx };
        ls_err e;

        LS_TRY(meta_read_begin(m, &c.db));
        e = check_all(&c);
        meta_read_end(m, c.db);
        return e;
}
