/* cli/produce.c - `lakestream produce`: lines of standard input become records. */
#include <stdio.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/kafka_client.h"
#include "formats/batch/batch.h"
#include "sys/process.h"

#define BATCH_BYTES     ((size_t)512 << 10) /* of one partition, before it is sent */
#define RECORDS_DEFAULT 1000
#define TRIES_MAX       50
#define TIMEOUT_MS      30000
#define BATCH_BYTES_MAX ((size_t)64 << 20)

static const char usage[] = "lakestream produce TOPIC [flags] < FILE\n\n"
                            "Each line of standard input becomes one record. Records with a key go "
                            "to the partition that the\n"
                            "Java client would choose; those without are spread.";

struct produce {
        const char *bootstrap, *topic, *separator, *codec;
        int64_t partition; /* -1: by key, or spread */
        int64_t acks, records_max;
        struct cli_list headers;
        bool null_empty;

        struct kafka_client *client;
        struct ls_arena arena;      /* of the topic's metadata */
        struct ls_arena call_arena; /* of one request */
        struct ls_kafka_metadata_response_topic *meta;
        struct ls_buf header_bytes;
        uint32_t header_count;
        int32_t partitions, spread;
        struct part {
                struct ls_batch_builder builder;
                struct ls_buf batch;
                int64_t next_offset; /* within the batch */
        } * parts;
        int64_t pending, sent;
};

/* --- sending --- */

static ls_err
send_answer(const struct ls_kafka_produce_response *response, bool *ret_again,
            struct ls_errinfo *reterr)
{
        const struct ls_kafka_produce_response_partition *p;

        if (response->responses.count != 1 ||
            response->responses.items[0].partition_responses.count != 1)
                return ls_fail(reterr, LS_CORRUPT, "the answer is for other partitions");
        p = &response->responses.items[0].partition_responses.items[0];
        *ret_again = false;
        if (p->error_code == 0)
                return LS_OK;
        *ret_again = ls_kafka_error_find(p->error_code)->retriable;
        return kafka_refusal(reterr, "writing records", p->error_code, p->error_message);
}

/* Sends the batch of one partition, again while the server says that it was not stored and may be
 * later. */
static ls_err
send_batch(struct produce *p, int32_t partition, struct ls_errinfo *reterr)
{
        struct part *part = &p->parts[partition];
        struct ls_kafka_produce_request_partition data;
        struct ls_kafka_produce_request_topic topic;
        struct ls_kafka_produce_request request;
        bool again = true;
        ls_err e = LS_OK;

        ls_kafka_produce_request_init(&request);
        ls_kafka_produce_request_topic_init(&topic);
        ls_kafka_produce_request_partition_init(&data);
        data.index = partition;
        data.records.ptr = part->batch.ptr;
        data.records.len = part->batch.len;
        topic.name = ls_str_of(p->topic);
        topic.partition_data.items = &data;
        topic.partition_data.count = 1;
        request.topic_data.items = &topic;
        request.topic_data.count = 1;
        request.acks = (int16_t)p->acks;
        request.timeout_ms = TIMEOUT_MS;
        for (int tries = 0; again && tries < TRIES_MAX; tries++) {
                struct ls_kafka_produce_response response;

                if (tries > 0)
                        ls_pause_ms(100);
                ls_arena_reset(&p->call_arena);
                e = kafka_call(p->client, kafka_leader(p->meta, partition), LS_KAFKA_API_PRODUCE,
                               12, &request, &p->call_arena, &response, reterr);
                if (e != LS_OK)
                        return e;
                e = send_answer(&response, &again, reterr);
                if (e != LS_OK && again)
                        LS_TRY(kafka_topic(p->client, ls_str_of(p->topic), false, &p->arena,
                                           &p->meta, reterr));
        }
        return e;
}

static ls_err
flush_part(struct produce *p, int32_t partition, struct ls_errinfo *reterr)
{
        struct part *part = &p->parts[partition];
        int32_t count = ls_batch_builder_count(&part->builder);
        ls_err e;

        if (part->next_offset == 0)
                return LS_OK;
        e = ls_batch_builder_end(&part->builder, -1, NULL);
        if (e != LS_OK)
                return ls_fail(reterr, e, "building a batch: %s", ls_err_text(e));
        LS_TRY(send_batch(p, partition, reterr));
        p->sent += count;
        p->pending -= count;
        ls_buf_clear(&part->batch);
        part->next_offset = 0;
        return LS_OK;
}

static ls_err
flush_all(struct produce *p, struct ls_errinfo *reterr)
{
        for (int32_t i = 0; i < p->partitions; i++)
                LS_TRY(flush_part(p, i, reterr));
        p->spread = (p->spread + 1) % p->partitions;
        return LS_OK;
}

/* --- records --- */

static ls_err
add_record(struct produce *p, int32_t partition, struct ls_record *r, struct ls_errinfo *reterr)
{
        struct part *part = &p->parts[partition];
        ls_err e = LS_FULL;

        for (int tries = 0; e == LS_FULL && tries < 2; tries++) {
                if (tries > 0)
                        LS_TRY(flush_part(p, partition, reterr));
                if (part->next_offset == 0)
                        ls_batch_builder_begin(&part->builder, &part->batch, 0);
                r->offset = part->next_offset;
                e = ls_batch_builder_add(&part->builder, r);
        }
        if (e != LS_OK)
                return ls_fail(reterr, e, "a record of %zu bytes: %s", r->value.len,
                               ls_err_text(e));
        part->next_offset++;
        p->pending++;
        return LS_OK;
}

/* One line without its newline. */
static ls_err
add_line(struct produce *p, ls_str line, struct ls_errinfo *reterr)
{
        struct ls_record r = { .timestamp = ls_clock_wall_ms(),
                               .headers = ls_buf_span(&p->header_bytes),
                               .header_count = p->header_count };
        int32_t partition = p->partition >= 0 ? (int32_t)p->partition : p->spread;
        const char *at = NULL;

        r.value = ls_span_of(line.ptr, line.len);
        if (p->separator != NULL) {
                size_t len = strlen(p->separator);

                at = memmem(line.ptr, line.len, p->separator, len);
                if (at != NULL) {
                        r.key = ls_span_of(line.ptr, (size_t)(at - line.ptr));
                        r.value = ls_span_of(at + len, line.len - r.key.len - len);
                        if (p->partition < 0)
                                partition = kafka_partition_of_key(r.key, p->partitions);
                }
        }
        if (p->null_empty && r.value.len == 0)
                r.value = LS_SPAN_NULL;
        LS_TRY(add_record(p, partition, &r, reterr));
        return p->pending >= p->records_max ? flush_all(p, reterr) : LS_OK;
}

/* The next line without its newline into `line`; LS_END: no more. */
static ls_err
read_line(struct ls_buf *line)
{
        int c;

        ls_buf_clear(line);
        while ((c = getc_unlocked(stdin)) != EOF && c != '\n')
                ls_buf_put_u8(line, (uint8_t)c);
        if (ls_buf_failed(line))
                return LS_TOO_LARGE;
        if (c == EOF && ferror(stdin))
                return LS_EIO;
        return c == EOF && line->len == 0 ? LS_END : LS_OK;
}

static ls_err
pump(struct produce *p, struct ls_errinfo *reterr)
{
        struct ls_buf line;
        ls_err e;

        ls_buf_init(&line, BATCH_BYTES_MAX);
        while ((e = read_line(&line)) == LS_OK) {
                e = add_line(p, ls_str_make(line.len ? (const char *)line.ptr : "", line.len),
                             reterr);
                if (e != LS_OK)
                        break;
        }
        if (e == LS_EIO)
                ls_fail(reterr, e, "standard input cannot be read");
        else if (e == LS_TOO_LARGE && reterr->text[0] == '\0')
                ls_fail(reterr, e, "a line of more than %zu bytes", BATCH_BYTES_MAX);
        ls_buf_done(&line);
        return e == LS_END ? flush_all(p, reterr) : e;
}

/* --- start --- */

static ls_err
headers_parse(struct produce *p, struct ls_errinfo *reterr)
{
        for (size_t i = 0; i < p->headers.count; i++) {
                const char *text = p->headers.items[i], *equals = strchr(text, '=');

                if (equals == NULL)
                        return ls_fail(reterr, LS_INVALID, "--header %s: write --header name=value",
                                       text);
                ls_record_header_put(&p->header_bytes, ls_str_make(text, (size_t)(equals - text)),
                                     ls_span_of(equals + 1, strlen(equals + 1)));
                p->header_count++;
        }
        return LS_OK;
}

static ls_err
produce_open(struct produce *p, struct ls_errinfo *reterr)
{
        struct ls_batch_build build = { .level = LS_LEVEL_DEFAULT,
                                        .records_bytes_max = BATCH_BYTES,
                                        .leader_epoch = -1 };

        if (ls_codec_parse(ls_str_of(p->codec), &build.codec) != LS_OK)
                return ls_fail(reterr, LS_INVALID,
                               "--codec takes none, gzip, snappy, lz4 or zstd, not '%s'", p->codec);
        LS_TRY(headers_parse(p, reterr));
        LS_TRY(kafka_open(p->bootstrap, &p->client, reterr));
        LS_TRY(kafka_topic(p->client, ls_str_of(p->topic), true, &p->arena, &p->meta, reterr));
        p->partitions = (int32_t)p->meta->partitions.count;
        if (p->partition >= p->partitions)
                return ls_fail(reterr, LS_INVALID, "the topic has the partitions 0 to %d",
                               (int)p->partitions - 1);
        p->parts = ls_calloc((size_t)p->partitions, sizeof *p->parts);
        for (int32_t i = 0; i < p->partitions; i++) {
                ls_batch_builder_init(&p->parts[i].builder, &build);
                ls_buf_init(&p->parts[i].batch, BATCH_BYTES_MAX);
        }
        return LS_OK;
}

static void
produce_close(struct produce *p)
{
        for (int32_t i = 0; p->parts != NULL && i < p->partitions; i++) {
                ls_batch_builder_done(&p->parts[i].builder);
                ls_buf_done(&p->parts[i].batch);
        }
        ls_free(p->parts);
        kafka_close(p->client);
        ls_buf_done(&p->header_bytes);
        ls_arena_done(&p->arena);
        ls_arena_done(&p->call_arena);
        cli_list_done(&p->headers);
}

static int
produce_run(struct produce *p, bool json)
{
        struct ls_errinfo info = { "" };
        ls_err e = produce_open(p, &info);

        if (e == LS_OK)
                e = pump(p, &info);
        if (json)
                cli_print_json(
                        json_pack("{s:s,s:I}", "topic", p->topic, "records", (json_int_t)p->sent));
        else if (e == LS_OK)
                fprintf(stderr, "%lld records written to %s\n", (long long)p->sent, p->topic);
        if (e != LS_OK)
                return cli_fail("%s (%lld records were acknowledged)", info.text,
                                (long long)p->sent);
        return CLI_OK;
}

int
cli_produce(int argc, char **argv)
{
        struct produce p = { .bootstrap = KAFKA_BOOTSTRAP_DEFAULT,
                             .codec = "none",
                             .partition = -1,
                             .acks = -1,
                             .records_max = ls_process_is_terminal(0) ? 1 : RECORDS_DEFAULT };
        const char *output = NULL;
        const struct cli_flag flags[] = {
                { "bootstrap", CLI_TEXT, &p.bootstrap, "HOST:PORT",
                  "a server's Kafka address (127.0.0.1:9092)", 0, 0 },
                { "partition", CLI_INT, &p.partition, "N", "all to this partition", 0, INT32_MAX },
                { "key-separator", CLI_TEXT, &p.separator, "TEXT",
                  "what stands between key and value of a line", 0, 0 },
                { "header", CLI_LIST, &p.headers, "NAME=VALUE", "a header of every record", 0, 0 },
                { "null-empty", CLI_BOOL, &p.null_empty, NULL, "an empty value is a null value", 0,
                  0 },
                { "codec", CLI_TEXT, &p.codec, "NAME", "none, gzip, snappy, lz4, zstd", 0, 0 },
                { "acks", CLI_INT, &p.acks, "N", "-1 or 1: wait for the acknowledgement (-1)", -1,
                  1 },
                { "batch", CLI_INT, &p.records_max, "N",
                  "records sent at once (1000; 1 from a terminal)", 1, 1000000 },
                CLI_OUTPUT_FLAG(output),
        };
        struct cli_args args;
        bool json = false;
        int code = CLI_USAGE;

        ls_arena_init(&p.arena, LS_ARENA_MAX_DEFAULT);
        ls_arena_init(&p.call_arena, LS_ARENA_MAX_DEFAULT);
        ls_buf_init(&p.header_bytes, 1 << 20);
        if (cli_args_parse(argc, argv, flags, LS_COUNT(flags), usage, &args)) {
                if (args.help)
                        code = CLI_OK;
                else if (args.words.count != 1)
                        code = cli_misuse("say one topic: lakestream produce TOPIC");
                else if (p.acks == 0)
                        code = cli_misuse(
                                "--acks 0 would not tell whether records arrived; use -1 or 1");
                else if (cli_output_parse(output, &json)) {
                        p.topic = args.words.items[0];
                        code = produce_run(&p, json);
                }
        }
        cli_args_done(&args);
        produce_close(&p);
        return code;
}
