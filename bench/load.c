/* bench/load.c - one load generator for every server: librdkafka, no JVM beside the server.
 *
 *   load produce BROKERS TOPIC --size N --seconds N [--producers N] [--acks all] [--linger MS]
 *   load latency BROKERS TOPIC --size N --seconds N --rate N
 *   load consume BROKERS TOPIC --records N [--consumers N]
 *   load fanout  BROKERS TOPIC --size N --seconds N --consumers N --rate N
 *
 * Prints one JSON object. Topics are made by the caller. Each thread owns its client; the only
 * thing shared is a clock, so nothing is locked.
 */
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
        THREADS_MAX = 64,
        SIZE_MAX_BYTES = 1 << 20,
        QUEUE_MESSAGES = 200000, /* of one producer; full means wait for answers */
        BATCH_MESSAGES = 1000,   /* taken from a consumer's queue at once */
        IDLE_MS_MAX = 20000,     /* without a record: the run is broken */
        RING_BYTES = 32 << 20,
        RING_EVENT_BYTES = 256,
};

static struct options {
        const char *mode, *brokers, *topic, *acks, *linger;
        size_t size;
        double seconds, rate;
        int64_t records;
        int producers, consumers;
} opt = {
        .acks = "all", .linger = "5", .size = 1024, .seconds = 5, .producers = 1, .consumers = 1
};

struct worker {
        pthread_t thread;
        int64_t records, bytes, failed;
        double first, finished; /* first: a consumer's first record */
        uint64_t *latencies;
        int64_t latency_count, latency_max;
        size_t ring_pos, ring_round;
        volatile bool ready;
};

static volatile bool producing = true;
static int64_t produced_total;

static uint64_t
now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double
now(void)
{
        return (double)now_ns() / 1e9;
}

static void
die(const char *what, const char *why)
{
        fprintf(stderr, "load: %s: %s\n", what, why);
        exit(1);
}

static void
set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
        char why[256];

        if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) != RD_KAFKA_CONF_OK)
                die(name, why);
}

static rd_kafka_t *
client(rd_kafka_type_t type, rd_kafka_conf_t *conf)
{
        char why[256];
        rd_kafka_t *rk;

        set(conf, "bootstrap.servers", opt.brokers);
        set(conf, "socket.nagle.disable", "true"); /* as the Java client does */
        rk = rd_kafka_new(type, conf, why, sizeof(why));
        if (rk == NULL)
                die("client", why);
        return rk;
}

static void
on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *ctx)
{
        struct worker *w = ctx;

        (void)rk;
        if (m->err)
                w->failed++;
        else {
                w->records++;
                w->bytes += (int64_t)m->len;
        }
}

/* Text that all records are slices of: events as JSON, which compress like those of a real topic,
 * and so many that compression does not meet the same bytes again. The same in every run. */
static char *ring;

static uint64_t
next_random(void)
{
        static uint64_t x = 88172645463325252u;

        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        return x;
}

static void
make_ring(void)
{
        static const char *const words[] = { "checkout", "view",  "click", "mobile",  "desktop",
                                             "berlin",   "tokyo", "trial", "premium", "error" };
        size_t len = 0;

        ring = malloc(RING_BYTES + RING_EVENT_BYTES);
        if (ring == NULL)
                die("memory", "none");
        while (len < RING_BYTES)
                len += (size_t)snprintf(
                        ring + len, RING_EVENT_BYTES,
                        "{\"id\":%llu,\"user\":\"u-%06llu\",\"event\":\"%s\",\"device\":\"%s\","
                        "\"amount\":%llu.%02llu,\"trace\":\"%016llx\"}",
                        (unsigned long long)(next_random() >> 40),
                        (unsigned long long)next_random() % 1000000, words[next_random() % 10],
                        words[next_random() % 10], (unsigned long long)next_random() % 1000,
                        (unsigned long long)next_random() % 100, (unsigned long long)next_random());
}

/* The next record's bytes. Another start in each round, so that records differ, too. */
static char *
next_payload(struct worker *w)
{
        if (w->ring_pos + opt.size > RING_BYTES)
                w->ring_pos = ++w->ring_round % RING_EVENT_BYTES;
        w->ring_pos += opt.size;
        return ring + w->ring_pos - opt.size;
}

static void
send_one(rd_kafka_t *rk, rd_kafka_topic_t *topic, char *payload, bool copy)
{
        while (rd_kafka_produce(topic, RD_KAFKA_PARTITION_UA, copy ? RD_KAFKA_MSG_F_COPY : 0,
                                payload, opt.size, NULL, 0, NULL) == -1) {
                if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                        die("produce", rd_kafka_err2str(rd_kafka_last_error()));
                rd_kafka_poll(rk, 10);
        }
}

static void *
produce(void *arg)
{
        struct worker *w = arg;
        bool stamped = opt.rate > 0; /* the payload holds its own time of sending */
        rd_kafka_conf_t *conf = rd_kafka_conf_new();
        static _Thread_local char stamped_payload[SIZE_MAX_BYTES];
        rd_kafka_t *rk;
        rd_kafka_topic_t *topic;
        char queue[32];
        double start, end;
        int64_t sent = 0;

        snprintf(queue, sizeof(queue), "%d", QUEUE_MESSAGES);
        set(conf, "queue.buffering.max.messages", queue);
        set(conf, "queue.buffering.max.kbytes", "262144");
        set(conf, "linger.ms", stamped ? "0" : opt.linger);
        set(conf, "acks", opt.acks);
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
        rd_kafka_conf_set_opaque(conf, w);
        rk = client(RD_KAFKA_PRODUCER, conf);
        topic = rd_kafka_topic_new(rk, opt.topic, NULL);
        start = now();
        end = start + opt.seconds;
        for (double t = start; t < end; t = now()) {
                int64_t due = stamped ? (int64_t)((t - start) * opt.rate) : sent + 64;

                for (; sent < due; sent++) {
                        char *payload = next_payload(w);

                        if (stamped) {
                                uint64_t stamp = now_ns();

                                payload = memcpy(stamped_payload, payload, opt.size);
                                memcpy(payload, &stamp, sizeof(stamp));
                        }
                        send_one(rk, topic, payload, stamped);
                }
                rd_kafka_poll(rk, 0);
                if (stamped) {
                        struct timespec nap = { .tv_nsec = 200000 };

                        nanosleep(&nap, NULL);
                }
        }
        if (rd_kafka_flush(rk, 60000) != RD_KAFKA_RESP_ERR_NO_ERROR)
                die("flush", "records were not acknowledged in 60 s");
        w->finished = now();
        rd_kafka_topic_destroy(topic);
        rd_kafka_destroy(rk);
        return NULL;
}

/* Assigns all partitions, from the beginning or from the end as it is now. */
static void
assign_all(rd_kafka_t *rk, bool from_end)
{
        const rd_kafka_metadata_t *meta;
        rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, opt.topic, NULL);
        rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);
        rd_kafka_resp_err_t e = rd_kafka_metadata(rk, 0, topic, &meta, 30000);

        if (e || meta->topics[0].partition_cnt == 0)
                die("metadata", rd_kafka_err2str(e));
        for (int p = 0; p < meta->topics[0].partition_cnt; p++) {
                rd_kafka_topic_partition_t *tp =
                        rd_kafka_topic_partition_list_add(list, opt.topic, p);
                int64_t low, high;

                tp->offset = RD_KAFKA_OFFSET_BEGINNING;
                if (from_end) {
                        e = rd_kafka_query_watermark_offsets(rk, opt.topic, p, &low, &high, 30000);
                        if (e)
                                die("offsets", rd_kafka_err2str(e));
                        tp->offset = high;
                }
        }
        rd_kafka_assign(rk, list);
        rd_kafka_topic_partition_list_destroy(list);
        rd_kafka_metadata_destroy(meta);
        rd_kafka_topic_destroy(topic);
}

static void
note(struct worker *w, const rd_kafka_message_t *m)
{
        uint64_t stamp;

        if (m->err) {
                w->failed++;
                return;
        }
        if (w->records == 0)
                w->first = now();
        w->records++;
        w->bytes += (int64_t)m->len;
        if (w->latencies != NULL && m->len >= sizeof(stamp) && w->latency_count < w->latency_max) {
                memcpy(&stamp, m->payload, sizeof(stamp));
                w->latencies[w->latency_count++] = now_ns() - stamp;
        }
}

/* Whether a consumer has all that it waits for. */
static bool
consumed_all(const struct worker *w)
{
        if (opt.records > 0)
                return w->records >= opt.records;
        return !producing && w->records >= produced_total;
}

/* Waits for one record and takes what is there beside it: a batch with a time to wait would be
 * kept back until it is full. */
static ssize_t
take(rd_kafka_queue_t *queue, rd_kafka_message_t **batch)
{
        ssize_t more;

        batch[0] = rd_kafka_consume_queue(queue, 10);
        if (batch[0] == NULL)
                return 0;
        more = rd_kafka_consume_batch_queue(queue, 0, batch + 1, BATCH_MESSAGES - 1);
        return 1 + (more > 0 ? more : 0);
}

static void *
consume(void *arg)
{
        struct worker *w = arg;
        rd_kafka_conf_t *conf = rd_kafka_conf_new();
        rd_kafka_message_t *batch[BATCH_MESSAGES];
        rd_kafka_queue_t *queue;
        rd_kafka_t *rk;
        double last;

        set(conf, "group.id", "load");
        set(conf, "enable.auto.commit", "false");
        set(conf, "enable.partition.eof", "false");
        set(conf, "fetch.wait.max.ms", "100");
        set(conf, "queued.max.messages.kbytes", "131072");
        rk = client(RD_KAFKA_CONSUMER, conf);
        rd_kafka_poll_set_consumer(rk);
        assign_all(rk, opt.records == 0);
        queue = rd_kafka_queue_get_consumer(rk);
        w->ready = true;
        last = now();
        while (!consumed_all(w)) {
                ssize_t n = take(queue, batch);

                for (ssize_t i = 0; i < n; i++) {
                        note(w, batch[i]);
                        rd_kafka_message_destroy(batch[i]);
                }
                if (n > 0)
                        last = now();
                else if (now() - last > IDLE_MS_MAX / 1e3)
                        die("consume", "no record for 20 s");
        }
        w->finished = now();
        rd_kafka_queue_destroy(queue);
        rd_kafka_consumer_close(rk);
        rd_kafka_destroy(rk);
        return NULL;
}

static int
compare(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return (x > y) - (x < y);
}

static double
percentile_ms(const struct worker *w, double p)
{
        int64_t i = (int64_t)((double)w->latency_count * p);

        if (w->latency_count == 0)
                return -1;
        return (double)w->latencies[i < w->latency_count ? i : w->latency_count - 1] / 1e6;
}

static void
start(struct worker *workers, int count, void *(*run)(void *))
{
        for (int i = 0; i < count; i++)
                if (pthread_create(&workers[i].thread, NULL, run, &workers[i]) != 0)
                        die("thread", "can't be made");
}

/* Joins and -> when the last one finished. */
static double
join(struct worker *workers, int count, struct worker *ret_sum)
{
        double last = 0;

        for (int i = 0; i < count; i++) {
                pthread_join(workers[i].thread, NULL);
                ret_sum->records += workers[i].records;
                ret_sum->bytes += workers[i].bytes;
                ret_sum->failed += workers[i].failed;
                if (workers[i].finished > last)
                        last = workers[i].finished;
        }
        return last;
}

static void
print_rate(const struct worker *sum, double seconds)
{
        printf("{\"records\": %lld, \"bytes\": %lld, \"failed\": %lld, \"seconds\": %.4f, "
               "\"mb_per_s\": %.3f, \"records_per_s\": %.1f",
               (long long)sum->records, (long long)sum->bytes, (long long)sum->failed, seconds,
               (double)sum->bytes / seconds / 1e6, (double)sum->records / seconds);
}

/* Consumers wait at the end of the topic, then one producer sends; all must get everything. */
static void
run_live(struct worker *consumers, struct worker *producer)
{
        struct worker sum = { 0 }, sent = { 0 };
        double began, finished;

        for (int i = 0; i < opt.consumers; i++) {
                consumers[i].latency_max = (int64_t)(opt.rate * opt.seconds * 2) + 1024;
                consumers[i].latencies = calloc((size_t)consumers[i].latency_max, sizeof(uint64_t));
        }
        start(consumers, opt.consumers, consume);
        for (int i = 0; i < opt.consumers; i++)
                while (!consumers[i].ready)
                        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
        began = now();
        start(producer, 1, produce);
        join(producer, 1, &sent);
        produced_total = sent.records;
        producing = false;
        finished = join(consumers, opt.consumers, &sum);
        qsort(consumers[0].latencies, (size_t)consumers[0].latency_count, sizeof(uint64_t),
              compare);
        print_rate(&sum, finished - began);
        printf(", \"sent\": %lld, \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f, "
               "\"max_ms\": %.4f}\n",
               (long long)sent.records, percentile_ms(consumers, 0.5),
               percentile_ms(consumers, 0.99), percentile_ms(consumers, 0.999),
               percentile_ms(consumers, 1.0));
}

static void
parse(int argc, char **argv)
{
        if (argc < 4)
                die("usage", "load produce|latency|consume|fanout BROKERS TOPIC [--option value]");
        opt.mode = argv[1];
        opt.brokers = argv[2];
        opt.topic = argv[3];
        for (int i = 4; i + 1 < argc; i += 2) {
                const char *name = argv[i], *value = argv[i + 1];

                if (strcmp(name, "--size") == 0)
                        opt.size = (size_t)strtoul(value, NULL, 10);
                else if (strcmp(name, "--seconds") == 0)
                        opt.seconds = strtod(value, NULL);
                else if (strcmp(name, "--rate") == 0)
                        opt.rate = strtod(value, NULL);
                else if (strcmp(name, "--records") == 0)
                        opt.records = strtoll(value, NULL, 10);
                else if (strcmp(name, "--producers") == 0)
                        opt.producers = (int)strtol(value, NULL, 10);
                else if (strcmp(name, "--consumers") == 0)
                        opt.consumers = (int)strtol(value, NULL, 10);
                else if (strcmp(name, "--acks") == 0)
                        opt.acks = value;
                else if (strcmp(name, "--linger") == 0)
                        opt.linger = value;
                else
                        die("no such option", name);
        }
        if (opt.size < 8 || opt.size > SIZE_MAX_BYTES || opt.producers < 1 || opt.consumers < 1 ||
            opt.producers > THREADS_MAX || opt.consumers > THREADS_MAX)
                die("option", "out of range");
}

int
main(int argc, char **argv)
{
        static struct worker producers[THREADS_MAX], consumers[THREADS_MAX];
        struct worker sum = { 0 };
        double began;

        parse(argc, argv);
        if (strcmp(opt.mode, "consume") != 0)
                make_ring();
        for (int i = 0; i < opt.producers; i++)
                producers[i].ring_pos = (size_t)i * (RING_BYTES / (size_t)opt.producers);
        began = now();
        if (strcmp(opt.mode, "produce") == 0) {
                double finished;

                start(producers, opt.producers, produce);
                finished = join(producers, opt.producers, &sum);
                print_rate(&sum, finished - began);
        } else if (strcmp(opt.mode, "consume") == 0) {
                double finished;

                /* From the first record on: before it librdkafka may rest for half a second. */
                start(consumers, opt.consumers, consume);
                finished = join(consumers, opt.consumers, &sum);
                began = consumers[0].first;
                for (int i = 1; i < opt.consumers; i++)
                        if (consumers[i].first < began)
                                began = consumers[i].first;
                print_rate(&sum, finished - began);
        } else {
                run_live(consumers, producers);
                return 0;
        }
        printf("}\n");
        return sum.failed > 0;
}
