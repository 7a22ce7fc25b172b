/* servers/kafka/offsets.c - ListOffsets, OffsetForLeaderEpoch, DeleteRecords. */
#include "servers/kafka/server_int.h"

/* ---- ListOffsets ---- */

/* Timestamps with a meaning of their own, and the version that knows each. */
enum {
        TIME_LATEST = -1,
        TIME_EARLIEST = -2,
        TIME_MAX_TIMESTAMP = -3,           /* KIP-734 */
        TIME_EARLIEST_LOCAL = -4,          /* KIP-405: nothing is tiered, so the earliest */
        TIME_LATEST_TIERED = -5,           /* KIP-1005: nothing is tiered */
        TIME_EARLIEST_PENDING_UPLOAD = -6, /* KIP-1023: nothing is uploaded */
};

typedef struct ls_kafka_list_offsets_request_partition offsets_in;
typedef struct ls_kafka_list_offsets_response_partition offsets_out;

static int16_t
time_version_min(int64_t timestamp)
{
        switch (timestamp) {
        case TIME_LATEST:
        case TIME_EARLIEST: return 0;
        case TIME_MAX_TIMESTAMP: return 7;
        case TIME_EARLIEST_LOCAL: return 8;
        case TIME_LATEST_TIERED: return 9;
        case TIME_EARLIEST_PENDING_UPLOAD: return 11;
        default: return timestamp >= 0 ? 0 : INT16_MAX;
        }
}

static bool
time_needs_data(int64_t timestamp)
{
        return timestamp >= 0 || timestamp == TIME_MAX_TIMESTAMP;
}

enum kafka_mode
kafka_serve_list_offsets_pick(struct kafka_request *r)
{
        const struct ls_kafka_list_offsets_request *q = r->req.body;

        if (kafka_server_of(r)->shared) {
                for (uint32_t t = 0; t < q->topics.count; t++)
                        ls_stream_unref(kafka_find_topic(r, q->topics.items[t].name));
                return KAFKA_ON_JOB;
        }
        for (uint32_t t = 0; t < q->topics.count; t++)
                for (uint32_t i = 0; i < q->topics.items[t].partitions.count; i++)
                        if (time_needs_data(q->topics.items[t].partitions.items[i].timestamp))
                                return KAFKA_ON_JOB;
        return KAFKA_ON_LOOP;
}

/* By the records' timestamps. None: offset and timestamp -1, no error (B021). */
static ls_err
list_by_data(struct ls_stream *stream, const offsets_in *in, int64_t end, offsets_out *out)
{
        int64_t offset = -1, timestamp = -1;
        ls_err e =
                in->timestamp == TIME_MAX_TIMESTAMP
                        ? ls_stream_find_max_time(stream, in->partition_index, &offset, &timestamp)
                        : ls_stream_find_time(stream, in->partition_index, in->timestamp, &offset,
                                              &timestamp);

        if (e == LS_ABSENT || (e == LS_OK && offset >= end))
                return LS_OK;
        if (e != LS_OK)
                return e;
        out->offset = offset;
        out->timestamp = timestamp;
        return LS_OK;
}

static int16_t
list_one(struct kafka_request *r, struct ls_stream *stream, const offsets_in *in, offsets_out *out)
{
        const struct ls_kafka_list_offsets_request *q = r->req.body;
        const struct ls_stream_info *info = ls_stream_info(stream);
        struct ls_offsets offsets;
        int64_t end;
        int16_t error = kafka_check_leader_epoch(info, in->current_leader_epoch);
        ls_err e = LS_OK;

        if (error != LS_KAFKA_ERR_NONE)
                return error;
        if (ls_stream_offsets(stream, in->partition_index, &offsets) != LS_OK)
                return LS_KAFKA_ERR_UNKNOWN_TOPIC_OR_PARTITION;
        end = q->isolation_level == 1 ? offsets.stable : offsets.end;
        if (time_needs_data(in->timestamp))
                e = list_by_data(stream, in, end, out);
        else if (in->timestamp == TIME_LATEST)
                out->offset = end;
        else if (in->timestamp == TIME_EARLIEST || in->timestamp == TIME_EARLIEST_LOCAL)
                out->offset = offsets.start;
        if (e == LS_OK && out->offset >= 0)
                out->leader_epoch = info->leader_epoch;
        return kafka_error_of(e);
}

/* `stale`: the error with which the stream could not be read anew. */
static void
list_partition(struct kafka_request *r, struct ls_stream *stream, int16_t stale, bool again,
               const offsets_in *in, offsets_out *out)
{
        out->partition_index = in->partition_index;
        if (again)
                out->error_code = LS_KAFKA_ERR_INVALID_REQUEST;
        else if (r->req.version < time_version_min(in->timestamp))
                out->error_code = LS_KAFKA_ERR_UNSUPPORTED_VERSION;
        else if (stream == NULL || !kafka_has_partition(r, stream, in->partition_index))
                out->error_code = kafka_unknown(r, false);
        else if (stale != LS_KAFKA_ERR_NONE)
                out->error_code = stale;
        else
                out->error_code = list_one(r, stream, in, out);
}

/* Marks what is asked for twice in one request: each of these is refused. */
static bool
list_again(const struct ls_kafka_list_offsets_request_topic *topic, uint32_t at)
{
        for (uint32_t i = 0; i < topic->partitions.count; i++)
                if (i != at && topic->partitions.items[i].partition_index ==
                                       topic->partitions.items[at].partition_index)
                        return true;
        return false;
}

void
kafka_serve_list_offsets(struct kafka_request *r)
{
        enum { COMPARED_MAX = 1000 }; /* partitions of a topic that are compared pair by pair */
        const struct ls_kafka_list_offsets_request *q = r->req.body;
        struct ls_kafka_list_offsets_response *answer = r->answer;
        struct ls_kafka_list_offsets_response_topic *topics =
                ls_kafka_list_offsets_response_topic_array(&r->arena, q->topics.count);
        struct kafka_seen fresh;

        kafka_seen_init(&fresh);
        r->close_after |= topics == NULL;
        for (uint32_t t = 0; !r->close_after && t < q->topics.count; t++) {
                const struct ls_kafka_list_offsets_request_topic *in = &q->topics.items[t];
                struct ls_stream *stream = kafka_find_topic(r, in->name);
                offsets_out *out = ls_kafka_list_offsets_response_partition_array(
                        &r->arena, in->partitions.count);
                int16_t stale = kafka_freshen(r, &fresh, stream);

                topics[t].name = in->name;
                topics[t].partitions.items = out;
                topics[t].partitions.count = out != NULL ? in->partitions.count : 0;
                r->close_after |= out == NULL;
                for (uint32_t i = 0; i < topics[t].partitions.count; i++)
                        list_partition(r, stream, stale,
                                       in->partitions.count <= COMPARED_MAX && list_again(in, i),
                                       &in->partitions.items[i], &out[i]);
                ls_stream_unref(stream);
        }
        kafka_seen_done(&fresh);
        answer->topics.items = topics;
        answer->topics.count = q->topics.count;
}

/* ---- OffsetForLeaderEpoch ---- */

typedef struct ls_kafka_offset_for_leader_epoch_request_partition epoch_in;
typedef struct ls_kafka_offset_for_leader_epoch_response_partition epoch_out;

enum kafka_mode
kafka_serve_offset_for_leader_epoch_pick(struct kafka_request *r)
{
        const struct ls_kafka_offset_for_leader_epoch_request *q = r->req.body;

        if (!kafka_server_of(r)->shared)
                return KAFKA_ON_LOOP;
        for (uint32_t t = 0; t < q->topics.count; t++)
                ls_stream_unref(kafka_find_topic(r, q->topics.items[t].topic));
        return KAFKA_ON_JOB;
}

static void
epoch_partition(struct kafka_request *r, struct ls_stream *stream, int16_t stale,
                const epoch_in *in, epoch_out *out)
{
        struct ls_offsets offsets;

        out->partition = in->partition;
        if (stream != NULL && stale != LS_KAFKA_ERR_NONE) {
                out->error_code = stale;
                return;
        }
        if (stream == NULL || !kafka_has_partition(r, stream, in->partition) ||
            ls_stream_offsets(stream, in->partition, &offsets) != LS_OK) {
                out->error_code = kafka_unknown(r, false);
                return;
        }
        out->error_code =
                kafka_check_leader_epoch(ls_stream_info(stream), in->current_leader_epoch);
        if (out->error_code == LS_KAFKA_ERR_NONE)
                kafka_epoch_end(ls_stream_info(stream), &offsets, in->leader_epoch,
                                &out->leader_epoch, &out->end_offset);
}

void
kafka_serve_offset_for_leader_epoch(struct kafka_request *r)
{
        const struct ls_kafka_offset_for_leader_epoch_request *q = r->req.body;
        struct ls_kafka_offset_for_leader_epoch_response *answer = r->answer;
        struct ls_kafka_offset_for_leader_epoch_response_topic *topics =
                ls_kafka_offset_for_leader_epoch_response_topic_array(&r->arena, q->topics.count);
        struct kafka_seen fresh;

        kafka_seen_init(&fresh);
        r->close_after |= topics == NULL;
        for (uint32_t t = 0; !r->close_after && t < q->topics.count; t++) {
                const struct ls_kafka_offset_for_leader_epoch_request_topic *in =
                        &q->topics.items[t];
                struct ls_stream *stream = kafka_find_topic(r, in->topic);
                epoch_out *out = ls_kafka_offset_for_leader_epoch_response_partition_array(
                        &r->arena, in->partitions.count);
                int16_t stale = kafka_freshen(r, &fresh, stream);

                topics[t].topic = in->topic;
                topics[t].partitions.items = out;
                topics[t].partitions.count = out != NULL ? in->partitions.count : 0;
                r->close_after |= out == NULL;
                for (uint32_t i = 0; i < topics[t].partitions.count; i++)
                        epoch_partition(r, stream, stale, &in->partitions.items[i], &out[i]);
                ls_stream_unref(stream);
        }
        kafka_seen_done(&fresh);
        answer->topics.items = topics;
        answer->topics.count = q->topics.count;
}

/* ---- DeleteRecords ---- */

typedef struct ls_kafka_delete_records_request_partition delete_in;
typedef struct ls_kafka_delete_records_response_partition delete_out;

enum { DELETE_TO_END = -1 };

static void
delete_partition(struct kafka_request *r, struct ls_stream *stream, int16_t stale,
                 const delete_in *in, delete_out *out)
{
        int64_t start = -1;
        ls_err e;

        out->partition_index = in->partition_index;
        out->low_watermark = -1;
        if (stream == NULL || !kafka_has_partition(r, stream, in->partition_index)) {
                out->error_code = kafka_unknown(r, false);
                return;
        }
        if (stale != LS_KAFKA_ERR_NONE) {
                out->error_code = stale;
                return;
        }
        if (in->offset < DELETE_TO_END) {
                out->error_code = LS_KAFKA_ERR_OFFSET_OUT_OF_RANGE;
                return;
        }
        e = ls_stream_delete_records(stream, in->partition_index, in->offset, &start);
        out->error_code = kafka_error_of(e);
        if (e == LS_OK)
                out->low_watermark = start;
}

void
kafka_serve_delete_records(struct kafka_request *r)
{
        const struct ls_kafka_delete_records_request *q = r->req.body;
        struct ls_kafka_delete_records_response *answer = r->answer;
        struct ls_kafka_delete_records_response_topic *topics =
                ls_kafka_delete_records_response_topic_array(&r->arena, q->topics.count);
        struct kafka_seen fresh;

        kafka_seen_init(&fresh);
        r->close_after |= topics == NULL;
        for (uint32_t t = 0; !r->close_after && t < q->topics.count; t++) {
                const struct ls_kafka_delete_records_request_topic *in = &q->topics.items[t];
                struct ls_stream *stream = kafka_find_topic(r, in->name);
                delete_out *out = ls_kafka_delete_records_response_partition_array(
                        &r->arena, in->partitions.count);
                int16_t stale = kafka_freshen(r, &fresh, stream);

                topics[t].name = in->name;
                topics[t].partitions.items = out;
                topics[t].partitions.count = out != NULL ? in->partitions.count : 0;
                r->close_after |= out == NULL;
                for (uint32_t i = 0; i < topics[t].partitions.count; i++)
                        delete_partition(r, stream, stale, &in->partitions.items[i], &out[i]);
                ls_stream_unref(stream);
        }
        kafka_seen_done(&fresh);
        answer->topics.items = topics;
        answer->topics.count = q->topics.count;
}
