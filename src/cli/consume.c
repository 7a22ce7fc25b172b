/* cli/consume.c - `lakestream consume`: prints records of a topic, from all or one of its
 * partitions. */
#include <stdio.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/kafka_client.h"
#include "formats/batch/batch.h"
#include "sys/process.h"

#define FETCH_WAIT_MS     500
#define FETCH_BYTES       ((int32_t)8 << 20)
#define PARTITION_BYTES   ((int32_t)1 << 20)
#define FAILED_ROUNDS_MAX 100 /* of retriable errors, one after the other */

static const char usage[] = "lakestream consume TOPIC [flags]\n\n"
                            "Prints the values of a topic's records, one a line, from its "
                            "beginning to the end that it has when\n"
                            "the command starts; --follow goes on. --output json prints one object "
                            "a line with everything.";

struct position {
        int32_t partition;
        int64_t next; /* offset to ask for */
        int64_t stop; /* INT64_MAX: never */
};

struct consume {
        const char *bootstrap, *topic, *from;
        int64_t partition; /* -1: all */
        int64_t records_max;
        bool follow, keys, json;

        struct kafka_client *client;
        struct ls_arena arena, call_arena;
        struct ls_kafka_metadata_response_topic *meta;
        struct position *positions;
        size_t count;
        struct ls_batch_iter iter;
        int64_t printed;
};

/* --- printing --- */

static const char base64_digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static json_t *
base64_json(ls_span s)
{
        struct ls_buf out;
        json_t *json;

        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        for (size_t i = 0; i < s.len; i += 3) {
                size_t n = LS_MIN(s.len - i, (size_t)3);
                uint32_t v = (uint32_t)s.ptr[i] << 16 | (n > 1 ? (uint32_t)s.ptr[i + 1] << 8 : 0) |
                             (n > 2 ? s.ptr[i + 2] : 0);

                for (size_t k = 0; k < 4; k++)
                        ls_buf_put_u8(&out, k <= n ? (uint8_t)base64_digits[v >> (18 - 6 * k) & 63]
                                                   : '=');
        }
        json = json_stringn((const char *)out.ptr, out.len);
        ls_buf_done(&out);
        return json;
}

/* As text when it is text, else as NAME_base64. */
static void
bytes_json(json_t *object, const char *name, ls_span s)
{
        json_t *text;

        if (s.ptr == NULL) {
                json_object_set_new(object, name, json_null());
                return;
        }
        text = json_stringn((const char *)s.ptr, s.len);
        if (text != NULL) {
                json_object_set_new(object, name, text);
                return;
        }
        LS_AUTO(ls_free) char *longer = ls_format("%s_base64", name);
        json_object_set_new(object, longer, base64_json(s));
}

static void
print_json(const struct consume *c, int32_t partition, const struct ls_record *r)
{
        json_t *object = json_pack("{s:s,s:i,s:I,s:I}", "topic", c->topic, "partition",
                                   (int)partition, "offset", (json_int_t)r->offset, "timestamp_ms",
                                   (json_int_t)r->timestamp);
        json_t *headers = json_array();
        struct ls_rd cursor = ls_rd_of(r->headers);
        ls_span value;
        ls_str key;

        bytes_json(object, "key", r->key);
        bytes_json(object, "value", r->value);
        while (ls_record_header_next(&cursor, &key, &value)) {
                json_t *header = json_object();

                bytes_json(header, "key", ls_span_of(key.ptr, key.len));
                bytes_json(header, "value", value);
                json_array_append_new(headers, header);
        }
        json_object_set_new(object, "headers", headers);
        json_dumpf(object, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(object);
}

static void
print_text(const struct consume *c, const struct ls_record *r)
{
        if (c->keys) {
                fwrite(r->key.ptr ? r->key.ptr : (const uint8_t *)"", 1, r->key.len, stdout);
                putchar('\t');
        }
        fwrite(r->value.ptr ? r->value.ptr : (const uint8_t *)"", 1, r->value.len, stdout);
        putchar('\n');
}

/* --- fetching --- */

static bool
is_done(const struct consume *c)
{
        if (c->records_max > 0 && c->printed >= c->records_max)
                return true;
        for (size_t i = 0; i < c->count; i++)
                if (c->positions[i].next < c->positions[i].stop)
                        return false;
        return true;
}

static ls_err
print_batch(struct consume *c, struct position *at, ls_span batch, struct ls_errinfo *reterr)
{
        struct ls_record r;
        ls_err e = ls_batch_iter_open(&c->iter, batch, true);

        if (e == LS_OK && (c->iter.header.attributes & LS_BATCH_CONTROL) == 0) {
                while ((e = ls_batch_iter_next(&c->iter, &r)) == LS_OK) {
                        if (r.offset < at->next || r.offset >= at->stop)
                                continue;
                        if (c->records_max > 0 && c->printed >= c->records_max)
                                return LS_OK;
                        if (c->json)
                                print_json(c, at->partition, &r);
                        else
                                print_text(c, &r);
                        c->printed++;
                }
        }
        if (e != LS_OK && e != LS_END)
                return ls_fail(reterr, e, "a batch at offset %lld of partition %d: %s",
                               (long long)at->next, (int)at->partition, ls_err_text(e));
        at->next = LS_MAX(at->next, ls_batch_last_offset(&c->iter.header) + 1);
        return LS_OK;
}

static ls_err
print_partition(struct consume *c, const struct ls_kafka_fetch_response_partition *p,
                struct ls_errinfo *reterr)
{
        ls_span rest = ls_span_of(p->records.ptr, p->records.len), batch;
        struct position *at = NULL;
        bool first = true;

        for (size_t i = 0; i < c->count; i++)
                if (c->positions[i].partition == p->partition_index)
                        at = &c->positions[i];
        if (at == NULL)
                return ls_fail(reterr, LS_CORRUPT, "an answer for another partition");
        for (;;) {
                struct ls_batch_header header;
                ls_err e = ls_batch_next(&rest, &batch, &header);

                if (e == LS_END || (e == LS_CORRUPT && !first))
                        return LS_OK; /* a part of a batch may end it, not begin it */
                first = false;
                if (e != LS_OK)
                        return ls_fail(reterr, e, "partition %d: %s", (int)at->partition,
                                       ls_err_text(e));
                LS_TRY(print_batch(c, at, batch, reterr));
                if (is_done(c))
                        return LS_OK;
        }
}

/* *ret_again: some partition asked to try again, with fresh metadata. */
static ls_err
print_answer(struct consume *c, const struct ls_kafka_fetch_response *response, bool *ret_again,
             struct ls_errinfo *reterr)
{
        if (response->error_code != 0)
                return kafka_refusal(reterr, "reading records", response->error_code, LS_STR_NULL);
        for (uint32_t t = 0; t < response->responses.count; t++) {
                for (uint32_t i = 0; i < response->responses.items[t].partitions.count; i++) {
                        const struct ls_kafka_fetch_response_partition *p =
                                &response->responses.items[t].partitions.items[i];

                        if (p->error_code == 0)
                                LS_TRY(print_partition(c, p, reterr));
                        else if (ls_kafka_error_find(p->error_code)->retriable)
                                *ret_again = true;
                        else
                                return kafka_refusal(reterr, "reading records", p->error_code,
                                                     LS_STR_NULL);
                }
        }
        return LS_OK;
}

/* One Fetch to one broker for the partitions that it leads. */
static ls_err
fetch_node(struct consume *c, int32_t node, bool *ret_again, struct ls_errinfo *reterr)
{
        struct ls_kafka_fetch_request request;
        struct ls_kafka_fetch_request_topic topic;
        struct ls_kafka_fetch_response response;

        ls_arena_reset(&c->call_arena);
        ls_kafka_fetch_request_init(&request);
        ls_kafka_fetch_request_topic_init(&topic);
        request.max_wait_ms = FETCH_WAIT_MS;
        request.min_bytes = 1;
        request.max_bytes = FETCH_BYTES;
        topic.topic = ls_str_of(c->topic);
        topic.partitions.items = ls_kafka_fetch_request_partition_array(&c->call_arena, c->count);
        for (size_t i = 0; i < c->count; i++) {
                struct ls_kafka_fetch_request_partition *p;

                if (kafka_leader(c->meta, c->positions[i].partition) != node ||
                    c->positions[i].next >= c->positions[i].stop)
                        continue;
                p = &topic.partitions.items[topic.partitions.count++];
                p->partition = c->positions[i].partition;
                p->fetch_offset = c->positions[i].next;
                p->partition_max_bytes = PARTITION_BYTES;
        }
        if (topic.partitions.count == 0)
                return LS_OK;
        request.topics.items = &topic;
        request.topics.count = 1;
        LS_TRY(kafka_call(c->client, node, LS_KAFKA_API_FETCH, 12, &request, &c->call_arena,
                          &response, reterr));
        return print_answer(c, &response, ret_again, reterr);
}

/* Every broker that leads a partition, once. */
static ls_err
fetch_round(struct consume *c, bool *ret_again, struct ls_errinfo *reterr)
{
        for (size_t i = 0; i < c->count && !is_done(c); i++) {
                int32_t node = kafka_leader(c->meta, c->positions[i].partition);
                bool seen = false;

                for (size_t k = 0; k < i; k++)
                        seen |= kafka_leader(c->meta, c->positions[k].partition) == node;
                if (!seen)
                        LS_TRY(fetch_node(c, node, ret_again, reterr));
        }
        return LS_OK;
}

static ls_err
fetch_all(struct consume *c, struct ls_errinfo *reterr)
{
        int failed = 0;

        while (!is_done(c)) {
                int64_t printed = c->printed;
                bool again = false;

                LS_TRY(fetch_round(c, &again, reterr));
                if (c->printed != printed)
                        fflush(stdout);
                if (ferror(stdout))
                        return ls_fail(reterr, LS_EIO, "standard output cannot be written");
                if (!again) {
                        failed = 0;
                        continue;
                }
                if (++failed == FAILED_ROUNDS_MAX)
                        return ls_fail(reterr, LS_ENET, "the server keeps asking to try again");
                ls_pause_ms(100);
                LS_TRY(kafka_topic(c->client, ls_str_of(c->topic), false, &c->arena, &c->meta,
                                   reterr));
        }
        return LS_OK;
}

/* --- start --- */

static ls_err
list_offsets(struct consume *c, int64_t timestamp, int64_t *ret, struct ls_errinfo *reterr)
{
        int32_t *partitions = ls_calloc(c->count, sizeof *partitions);
        ls_err e;

        for (size_t i = 0; i < c->count; i++)
                partitions[i] = c->positions[i].partition;
        e = kafka_list_offsets(c->client, c->meta, partitions, c->count, timestamp, ret, reterr);
        ls_free(partitions);
        return e;
}

/* --from: beginning, end, an offset, -N (N before the end), or @MS (a time). */
static ls_err
positions_set(struct consume *c, struct ls_errinfo *reterr)
{
        int64_t *starts = ls_calloc(c->count, sizeof *starts),
                *ends = ls_calloc(c->count, sizeof *ends);
        int64_t *times = ls_calloc(c->count, sizeof *times), number = 0;
        bool is_time = c->from[0] == '@', is_word = true;
        ls_err e = LS_OK;

        if (strcmp(c->from, "beginning") != 0 && strcmp(c->from, "end") != 0) {
                is_word = false;
                if (!ls_str_to_i64(ls_str_of(c->from + is_time), INT64_MIN + 1, INT64_MAX, &number))
                        e = ls_fail(reterr, LS_INVALID,
                                    "--from takes beginning, end, an offset, -N, or @MILLISECONDS, "
                                    "not '%s'",
                                    c->from);
        }
        if (e == LS_OK)
                e = list_offsets(c, -2, starts, reterr);
        if (e == LS_OK)
                e = list_offsets(c, -1, ends, reterr);
        if (e == LS_OK && is_time)
                e = list_offsets(c, number, times, reterr);
        for (size_t i = 0; e == LS_OK && i < c->count; i++) {
                struct position *at = &c->positions[i];

                at->stop = c->follow ? INT64_MAX : ends[i];
                if (is_word)
                        at->next = c->from[0] == 'b' ? starts[i] : ends[i];
                else if (is_time)
                        at->next = times[i] < 0 ? ends[i] : times[i];
                else
                        at->next = number < 0 ? LS_MAX(starts[i], ends[i] + number)
                                              : LS_MAX(starts[i], number);
        }
        ls_free(starts);
        ls_free(ends);
        ls_free(times);
        return e;
}

static ls_err
consume_open(struct consume *c, struct ls_errinfo *reterr)
{
        LS_TRY(kafka_open(c->bootstrap, &c->client, reterr));
        LS_TRY(kafka_topic(c->client, ls_str_of(c->topic), false, &c->arena, &c->meta, reterr));
        if (c->partition >= (int64_t)c->meta->partitions.count)
                return ls_fail(reterr, LS_INVALID, "the topic has the partitions 0 to %u",
                               c->meta->partitions.count - 1);
        c->count = c->partition >= 0 ? 1 : c->meta->partitions.count;
        c->positions = ls_calloc(c->count, sizeof *c->positions);
        for (size_t i = 0; i < c->count; i++)
                c->positions[i].partition = c->partition >= 0 ? (int32_t)c->partition : (int32_t)i;
        return positions_set(c, reterr);
}

static int
consume_run(struct consume *c)
{
        struct ls_errinfo info = { "" };
        ls_err e = consume_open(c, &info);

        if (e == LS_OK)
                e = fetch_all(c, &info);
        return e == LS_OK ? CLI_OK : cli_fail("%s", info.text);
}

int
cli_consume(int argc, char **argv)
{
        struct consume c = { .bootstrap = KAFKA_BOOTSTRAP_DEFAULT,
                             .from = "beginning",
                             .partition = -1 };
        const char *output = NULL;
        const struct cli_flag flags[] = {
                { "bootstrap", CLI_TEXT, &c.bootstrap, "HOST:PORT",
                  "a server's Kafka address (127.0.0.1:9092)", 0, 0 },
                { "partition", CLI_INT, &c.partition, "N", "only this partition", 0, INT32_MAX },
                { "from", CLI_TEXT, &c.from, "WHERE",
                  "beginning (default), end, an offset, -N before the end, @MS a time", 0, 0 },
                { "max", CLI_INT, &c.records_max, "N", "stop after so many records", 1, INT64_MAX },
                { "follow", CLI_BOOL, &c.follow, NULL, "go on at the end", 0, 0 },
                { "keys", CLI_BOOL, &c.keys, NULL, "print key, tab, value", 0, 0 },
                CLI_OUTPUT_FLAG(output),
        };
        struct cli_args args;
        int code = CLI_USAGE;

        ls_arena_init(&c.arena, LS_ARENA_MAX_DEFAULT);
        ls_arena_init(&c.call_arena, LS_ARENA_MAX_DEFAULT);
        ls_batch_iter_init(&c.iter, 0);
        if (cli_args_parse(argc, argv, flags, LS_COUNT(flags), usage, &args)) {
                if (args.help)
                        code = CLI_OK;
                else if (args.words.count != 1)
                        code = cli_misuse("say one topic: lakestream consume TOPIC");
                else if (cli_output_parse(output, &c.json)) {
                        c.topic = args.words.items[0];
                        code = consume_run(&c);
                }
        }
        ls_batch_iter_done(&c.iter);
        ls_free(c.positions);
        kafka_close(c.client);
        ls_arena_done(&c.arena);
        ls_arena_done(&c.call_arena);
        cli_args_done(&args);
        return code;
}
