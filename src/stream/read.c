/* stream/read.c - reading by offset from the WAL's views and from history; offsets, times, log
 * starts. */
#include "base/assert.h"
#include "stream/stream_int.h"

/* --- read --- */

static void
part_take(struct ls_read_part *part, struct ls_slice **slices, size_t count, size_t bytes)
{
        if (count == 0)
                return;
        part->slices = ls_realloc(part->slices, part->slice_count + count, sizeof *part->slices);
        memcpy(part->slices + part->slice_count, slices, count * sizeof *slices);
        part->slice_count += count;
        part->bytes += bytes;
}

/* From the tail. LS_END: the offset is compacted, and no longer in memory. */
static ls_err
part_read_wal(struct ls_read_part *part, size_t bytes_max, bool min_one, bool may_block)
{
        struct ls_wal_read r = { .offset = part->offset,
                                 .bytes_max = bytes_max,
                                 .min_one = min_one,
                                 .may_block = may_block,
                                 .below_floor = true,
                                 .offset_end = INT64_MAX,
                                 .view = { .start = -1, .end = -1, .stable = -1 } };
        ls_err e = ls_wal_read(part->stream->wal, part->partition, &r);

        part->high_watermark = r.view.end;
        part->stable = r.view.stable;
        part->log_start = r.view.start;
        part_take(part, r.slices, r.slice_count, r.bytes);
        ls_free(r.slices);
        return e;
}

static ls_err
part_read_history(struct ls_read_part *part, size_t bytes_max, bool min_one)
{
        struct ls_lake_read r = { .offset = part->offset,
                                  .bytes_max = bytes_max,
                                  .min_one = min_one };
        ls_err e = ls_lake_read(part->stream->lake, part->partition, &r);

        part_take(part, r.slices, r.slice_count, r.bytes);
        ls_free(r.slices);
        return e;
}

/* A plan can be overtaken: purged from the WAL meanwhile, or compacted between the two looks. Then
 * again; with many brokers by views that were read anew. What a stale view calls out of range is
 * asked of the metadata store first. */
static ls_err
part_read(struct ls_read_part *part, size_t bytes_max, bool min_one, bool may_block)
{
        for (int attempt = 0; attempt < 4; attempt++) {
                bool shared = ls_streams_shared(part->stream->streams);
                ls_err e = part_read_wal(part, bytes_max, min_one, may_block);

                if (e == LS_OUT_OF_RANGE && shared && attempt == 0) {
                        if (!may_block)
                                return LS_BUSY;
                        LS_TRY(ls_stream_refresh(part->stream));
                        continue;
                }
                if (e != LS_END)
                        return e;
                if (!may_block)
                        return LS_BUSY;
                if (attempt > 0)
                        LS_TRY(ls_stream_refresh(part->stream));
                e = part_read_history(part, bytes_max, min_one);
                if (e != LS_END)
                        return e;
        }
        return LS_EBROKEN;
}

void
ls_stream_read(struct ls_streams *s, struct ls_read *read)
{
        read->bytes = 0;
        for (size_t i = 0; i < read->part_count; i++) {
                struct ls_read_part *part = &read->parts[i];
                int64_t left = read->bytes_max - (int64_t)read->bytes;
                size_t bytes_max = left < 0 ? 0 : (size_t)left;

                if (part->bytes_max >= 0 && (size_t)part->bytes_max < bytes_max)
                        bytes_max = (size_t)part->bytes_max;
                part->slices = NULL;
                part->slice_count = 0;
                part->bytes = 0;
                part->outcome = part_read(part, bytes_max, read->bytes == 0, read->may_block);
                read->bytes += part->bytes;
        }
}

bool
ls_stream_is_history(struct ls_stream *stream, int32_t partition, int64_t offset)
{
        struct ls_wal_view view;

        return ls_wal_view(stream->wal, partition, &view) == LS_OK && offset < view.floor;
}

void
ls_read_done(struct ls_read *read)
{
        for (size_t i = 0; i < read->part_count; i++) {
                struct ls_read_part *part = &read->parts[i];

                for (size_t k = 0; k < part->slice_count; k++)
                        ls_slice_unref(part->slices[k]);
                ls_free(part->slices);
                part->slices = NULL;
                part->slice_count = 0;
        }
}

/* --- offsets and times --- */

ls_err
ls_stream_offsets(struct ls_stream *stream, int32_t partition, struct ls_offsets *ret)
{
        struct ls_wal_view view;

        LS_TRY(ls_wal_view(stream->wal, partition, &view));
        *ret = (struct ls_offsets){ view.start, view.end, view.stable };
        return LS_OK;
}

/* Walks the records of the batches that hold [from, …) until fn is satisfied. */
static ls_err
wal_scan(struct ls_stream *stream, int32_t partition, int64_t base, int64_t from, int64_t timestamp,
         int64_t *ret_offset, int64_t *ret_timestamp)
{
        struct ls_wal_read r = { .offset = base,
                                 .bytes_max = 0,
                                 .min_one = true,
                                 .may_block = true,
                                 .below_floor = true,
                                 .offset_end = INT64_MAX };
        struct ls_batch_iter it;
        struct ls_record record;
        ls_err e = ls_wal_read(stream->wal, partition, &r), found = LS_ABSENT;

        if (e != LS_OK)
                return e;
        if (r.slice_count == 0)
                return LS_ABSENT;
        ls_batch_iter_init(&it, 0);
        e = ls_batch_iter_open(&it, ls_slice_span(r.slices[0]), false);
        while (e == LS_OK && (e = ls_batch_iter_next(&it, &record)) == LS_OK) {
                if (record.offset < from || record.timestamp < timestamp)
                        continue;
                *ret_offset = record.offset;
                *ret_timestamp = record.timestamp;
                found = LS_OK;
                break;
        }
        ls_batch_iter_done(&it);
        ls_wal_read_done(&r);
        return e == LS_OK || e == LS_END ? found : LS_EBROKEN;
}

static ls_err
find_time_in_wal(struct ls_stream *stream, int32_t partition, int64_t from, int64_t timestamp_ms,
                 int64_t *ret_offset, int64_t *ret_timestamp_ms)
{
        struct ls_wal_entry_info entry;
        ls_err e = ls_wal_find_time(stream->wal, partition, timestamp_ms, &entry);

        if (e != LS_OK)
                return e;
        return wal_scan(stream, partition, entry.base_offset, from, timestamp_ms, ret_offset,
                        ret_timestamp_ms);
}

ls_err
ls_stream_find_time(struct ls_stream *stream, int32_t partition, int64_t timestamp_ms,
                    int64_t *ret_offset, int64_t *ret_timestamp_ms)
{
        for (int attempt = 0; attempt < 4; attempt++) {
                struct ls_wal_view view, after;
                ls_err e;

                if (attempt > 0)
                        LS_TRY(ls_stream_refresh(stream));
                LS_TRY(ls_wal_view(stream->wal, partition, &view));
                if (view.start < view.floor) {
                        e = ls_lake_find_time(stream->lake, partition, view.start, timestamp_ms,
                                              ret_offset, ret_timestamp_ms);
                        if (e != LS_ABSENT)
                                return e;
                }
                e = find_time_in_wal(stream, partition, LS_MAX(view.start, view.floor),
                                     timestamp_ms, ret_offset, ret_timestamp_ms);
                /* compacted while we looked: what the WAL lost went to history */
                LS_TRY(ls_wal_view(stream->wal, partition, &after));
                if (e == LS_OK || (e == LS_ABSENT && after.floor == view.floor))
                        return e;
                if (e != LS_ABSENT && e != LS_END && e != LS_OUT_OF_RANGE)
                        return e;
        }
        return LS_ABSENT;
}

ls_err
ls_stream_find_max_time(struct ls_stream *stream, int32_t partition, int64_t *ret_offset,
                        int64_t *ret_timestamp_ms)
{
        int64_t offset = -1, timestamp = -1;
        struct ls_wal_entry_info entry;
        struct ls_wal_view view;
        bool found = false;
        ls_err e;

        LS_TRY(ls_wal_view(stream->wal, partition, &view));
        e = ls_wal_find_max_time(stream->wal, partition, &entry);
        if (e == LS_OK) {
                e = wal_scan(stream, partition, entry.base_offset, view.start, entry.max_timestamp,
                             &offset, &timestamp);
                found = e == LS_OK;
        }
        if (view.start < view.floor) {
                int64_t old_offset, old_timestamp;

                e = ls_lake_find_max_time(stream->lake, partition, view.start, &old_offset,
                                          &old_timestamp);
                if (e != LS_OK && e != LS_ABSENT)
                        return e;
                if (e == LS_OK && (!found || old_timestamp >= timestamp)) {
                        offset = old_offset;
                        timestamp = old_timestamp;
                        found = true;
                }
        }
        *ret_offset = offset;
        *ret_timestamp_ms = timestamp;
        return found ? LS_OK : LS_ABSENT;
}

ls_err
ls_stream_delete_records(struct ls_stream *stream, int32_t partition, int64_t offset,
                         int64_t *ret_start)
{
        struct ls_wal_view view;

        LS_TRY(ls_stream_refresh(stream));
        LS_TRY(ls_wal_view(stream->wal, partition, &view));
        if (offset == -1)
                offset = view.end;
        if (offset < 0 || offset > view.end)
                return LS_OUT_OF_RANGE;
        LS_TRY(ls_meta_log_start(stream->streams->meta, ls_stream_info(stream)->id, partition,
                                 offset, ret_start));
        ls_wal_set_start(stream->wal, partition, *ret_start);
        return LS_OK;
}

ls_err
ls_stream_log_bytes(struct ls_stream *stream, int32_t partition, int64_t *ret_bytes)
{
        struct ls_wal_view view;
        int64_t history = 0;

        LS_TRY(ls_wal_view(stream->wal, partition, &view));
        if (view.start < view.floor)
                LS_TRY(ls_lake_log_bytes(stream->lake, partition, view.start, &history));
        *ret_bytes = history + (int64_t)view.wal_bytes;
        return LS_OK;
}

/* --- producers --- */

ls_err
ls_producer_new(struct ls_streams *s, int64_t *ret_id, int16_t *ret_epoch)
{
        *ret_epoch = 0;
        return ls_meta_producer_new(s->meta, ret_id);
}

struct producer_list {
        struct ls_producer_state *states;
        size_t count, cap;
};

static ls_err
producer_push(void *ctx, const struct ls_meta_producer *p)
{
        struct producer_list *list = ctx;
        struct ls_producer_state state = { p->id, p->epoch, p->last_sequence, p->last_timestamp };

        LS_PUSH(list->states, list->count, list->cap, state);
        return LS_OK;
}

ls_err
ls_stream_producers(struct ls_stream *stream, int32_t partition,
                    struct ls_producer_state **ret_states, size_t *ret_count)
{
        struct producer_list list = { 0 };
        ls_err e = ls_meta_producers(stream->streams->meta, ls_stream_info(stream)->id, partition,
                                     producer_push, &list);

        if (e != LS_OK) {
                ls_free(list.states);
                return e;
        }
        *ret_states = list.states;
        *ret_count = list.count;
        return LS_OK;
}
