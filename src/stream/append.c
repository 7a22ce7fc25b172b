/* stream/append.c - validating batches and handing them to the WAL. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/metric.h"
#include "stream/stream_int.h"

static LS_METRIC(metric_records, COUNTER, "lakestream_append_records_total", "Records appended.");
static LS_METRIC(metric_bytes, COUNTER, "lakestream_append_bytes_total",
                 "Bytes of record batches appended.");
static LS_METRIC(metric_refused, COUNTER, "lakestream_append_refused_total",
                 "Record batches refused.");
static LS_METRIC_SECONDS(metric_time, "lakestream_append_seconds",
                         "Time from append to acknowledgement.");

/* What an append becomes: the parts that passed, as items of one WAL append. */
struct append_run {
        struct ls_wal_append wal;
        struct ls_append *append;
        struct ls_streams *streams;
        int64_t started_ns;
        uint32_t *part_of; /* item -> part */
        struct ls_wal_item items[];
};

/* A thread's scratch for walking compressed batches; freed with the thread. */
static pthread_key_t walker_key;
static pthread_once_t walker_once = PTHREAD_ONCE_INIT;

static void
walker_drop(void *walker)
{
        ls_batch_walker_free(walker);
}

static void
walker_key_make(void)
{
        int failed = pthread_key_create(&walker_key, walker_drop);

        LS_ASSERT(!failed);
}

static struct ls_batch_walker *
walker_get(void)
{
        struct ls_batch_walker *walker;

        pthread_once(&walker_once, walker_key_make);
        walker = pthread_getspecific(walker_key);
        if (walker == NULL) {
                walker = ls_batch_walker_new();
                pthread_setspecific(walker_key, walker);
        }
        return walker;
}

static void
part_refuse(struct ls_append_part *part, ls_err why)
{
        part->outcome = why;
        part->base_offset = -1;
        ls_metric_add(&metric_refused, 1);
}

static bool
part_validate(struct ls_append_part *part, int64_t now_ms, struct ls_batch_info *ret_info)
{
        const struct ls_stream_info *info = ls_stream_info(part->stream);
        const struct ls_settings *set = &info->settings;
        struct ls_batch_check check = {
                .depth = LS_BATCH_FULL,
                .log_append_time =
                        strcmp(set->texts[LS_SET_MESSAGE_TIMESTAMP_TYPE], "LogAppendTime") == 0,
                .now_ms = now_ms,
                .before_ms_max = set->ints[LS_SET_MESSAGE_TIMESTAMP_BEFORE],
                .after_ms_max = set->ints[LS_SET_MESSAGE_TIMESTAMP_AFTER],
                .batch_bytes_max = (uint64_t)set->ints[LS_SET_MAX_MESSAGE_BYTES],
        };
        struct ls_batch_fault fault;
        ls_err e;

        part->error.text[0] = '\0';
        part->append_ms = check.log_append_time ? now_ms : -1;
        if (part->partition < 0 || part->partition >= info->partitions) {
                part_refuse(part, LS_ABSENT);
                return false;
        }
        fault.info.text[0] = '\0';
        e = ls_batch_validate(walker_get(), ls_slice_span(part->records), &check, ret_info, &fault);
        if (e != LS_OK) {
                part->error = fault.info;
                part_refuse(part, e);
                return false;
        }
        if (ret_info->fix_timestamps)
                ls_batch_set_timestamps(part->records->ptr, part->records->len,
                                        check.log_append_time, ret_info->max_timestamp);
        return true;
}

static void
item_fill(struct ls_wal_item *item, const struct ls_append_part *part,
          const struct ls_batch_info *info)
{
        uint8_t flags = (uint8_t)ls_batch_codec(&info->header);

        if (part->append_ms >= 0)
                flags |= LS_META_BATCH_LOG_APPEND_TIME;
        if (info->transactional)
                flags |= LS_META_BATCH_TRANSACTIONAL;
        *item = (struct ls_wal_item){ .stream = part->stream->wal,
                                      .partition = part->partition,
                                      .batch = ls_slice_ref(part->records),
                                      .records = info->header.last_offset_delta + 1,
                                      .flags = flags,
                                      .base_timestamp = info->header.base_timestamp,
                                      .max_timestamp = info->max_timestamp,
                                      .producer_id = info->header.producer_id,
                                      .producer_epoch = info->header.producer_epoch,
                                      .base_sequence = info->header.base_sequence,
                                      .s0 = info->sum0,
                                      .s1 = info->sum1 };
}

static void
append_answer(struct ls_loop_msg *msg)
{
        struct ls_append *append = LS_CONTAINER(msg, struct ls_append, msg);

        append->done(append);
}

/* On the meta or flush thread. */
static void
append_done(struct ls_wal_append *wal)
{
        struct append_run *run = LS_CONTAINER(wal, struct append_run, wal);
        struct ls_append *append = run->append;
        struct ls_streams *s = run->streams;

        for (size_t i = 0; i < wal->count; i++) {
                struct ls_wal_item *item = &run->items[i];
                struct ls_append_part *part = &append->parts[run->part_of[i]];

                part->outcome = item->outcome;
                part->base_offset = item->base_offset;
                part->log_start = item->log_start;
                if (item->outcome == LS_OK) {
                        ls_metric_add(&metric_records, item->records);
                        ls_metric_add(&metric_bytes, (int64_t)item->batch->len);
                }
                ls_slice_unref(item->batch);
        }
        ls_metric_observe(&metric_time, ls_clock_monotonic_ns() - run->started_ns);
        ls_free(run->part_of);
        ls_free(run);
        ls_loop_post(append->loop, &append->msg);
        atomic_fetch_sub(&s->appends, 1);
}

void
ls_stream_append(struct ls_streams *s, struct ls_append *append)
{
        struct append_run *run =
                ls_malloc(sizeof *run + append->part_count * sizeof(struct ls_wal_item));
        int64_t now_ms = ls_clock_wall_ms();
        bool closing = atomic_load(&s->closing);
        size_t count = 0;

        append->msg.fn = append_answer;
        run->append = append;
        run->streams = s;
        run->started_ns = ls_clock_monotonic_ns();
        run->part_of = ls_malloc(append->part_count * sizeof *run->part_of);
        for (size_t i = 0; i < append->part_count; i++) {
                struct ls_append_part *part = &append->parts[i];
                struct ls_batch_info info;

                part->log_start = -1;
                if (closing) {
                        part_refuse(part, LS_ESHUTDOWN);
                        continue;
                }
                if (!part_validate(part, now_ms, &info))
                        continue;
                item_fill(&run->items[count], part, &info);
                run->part_of[count++] = (uint32_t)i;
        }
        if (count == 0) {
                ls_free(run->part_of);
                ls_free(run);
                ls_loop_post(append->loop, &append->msg);
                return;
        }
        run->wal =
                (struct ls_wal_append){ .items = run->items, .count = count, .done = append_done };
        atomic_fetch_add(&s->appends, 1);
        ls_wal_append(s->wal, &run->wal);
}
