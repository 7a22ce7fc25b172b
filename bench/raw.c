/* bench/raw.c - a client that costs next to nothing: it sends batches made beforehand and counts
 * what comes back without looking inside, so that a run measures the server, not the client.
 *
 *   raw produce HOST:PORT TOPIC --size N --seconds N [--bytes N] [--producers N] [--partitions N]
 *                               [--batch N] [--spread N] [--inflight N]
 *   raw fetch   HOST:PORT TOPIC [--partitions N]            from offset 0 to the end as it is now
 *   raw first   HOST:PORT TOPIC                             until a record is acknowledged
 *
 * A Produce request carries `spread` batches of `batch` bytes for as many partitions, and each
 * connection keeps `inflight` of them unanswered. `first` is started before the server is: it
 * tries again until the server takes connections, makes the topic (as Metadata does on both
 * servers) and stores the record. Prints one JSON object.
 *
 * Protocol: Produce 7, Fetch 4, Metadata 4, ListOffsets 1, all with request header 1; record
 * batches of magic 2. https://kafka.apache.org/protocol
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PRODUCE = 0, FETCH = 1, LIST_OFFSETS = 2, METADATA = 3 };
enum {
        THREADS_MAX = 64,
        POOL_BYTES = 16 << 20,
        BATCH_BYTES_MAX = 1000000,
        FETCH_BYTES = 50 << 20, /* defaults of consumers: fetch.max.bytes */
        FETCH_PARTITION_BYTES = 1 << 20,
        ANSWER_BYTES_MAX = 256 << 20,
        TRY_AGAIN_NS = 1000000,
        WAIT_SECONDS_MAX = 120, /* without an answer: the run is broken */
};

static struct options {
        const char *mode, *host, *port, *topic;
        size_t size, batch;
        double seconds;
        int64_t bytes;
        int producers, partitions, spread, inflight;
} opt = { .size = 1024,
          .batch = 65536,
          .seconds = 5,
          .bytes = INT64_MAX,
          .producers = 1,
          .partitions = 1,
          .spread = 1,
          .inflight = 5 };

struct bytes {
        uint8_t *ptr;
        size_t len, cap;
};

struct worker {
        pthread_t thread;
        int index, sock;
        int64_t records, bytes;
        double finished;
        struct bytes in;
};

/* Batches to send, all with the same count of records; made before the clock starts. */
static struct bytes *pool;
static size_t pool_count;
static int pool_records;

static double
now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void
die(const char *what, const char *why)
{
        fprintf(stderr, "raw: %s: %s\n", what, why);
        exit(1);
}

/* ---- bytes ---- */

static void
reserve(struct bytes *b, size_t more)
{
        if (b->len + more <= b->cap)
                return;
        b->cap = (b->len + more) * 2;
        b->ptr = realloc(b->ptr, b->cap);
        if (b->ptr == NULL)
                die("memory", "none");
}

static void
put(struct bytes *b, const void *from, size_t len)
{
        reserve(b, len);
        memcpy(b->ptr + b->len, from, len);
        b->len += len;
}

/* The lowest `width` bytes of v, highest first. */
static void
put_int(struct bytes *b, int64_t v, int width)
{
        for (int i = width - 1; i >= 0; i--)
                put(b, &(uint8_t){ (uint8_t)((uint64_t)v >> (8 * i)) }, 1);
}

static void
set_int(uint8_t *at, int64_t v, int width)
{
        for (int i = 0; i < width; i++)
                at[i] = (uint8_t)((uint64_t)v >> (8 * (width - 1 - i)));
}

static void
put_text(struct bytes *b, const char *text)
{
        put_int(b, (int64_t)strlen(text), 2);
        put(b, text, strlen(text));
}

static void
put_varint(struct bytes *b, int64_t v)
{
        uint64_t z = ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);

        for (; z >= 0x80; z >>= 7)
                put(b, &(uint8_t){ (uint8_t)(z | 0x80) }, 1);
        put(b, &(uint8_t){ (uint8_t)z }, 1);
}

static int64_t
take_int(const struct bytes *b, size_t *pos, int width)
{
        uint64_t v = 0;

        if (*pos + (size_t)width > b->len)
                die("answer", "too short");
        for (int i = 0; i < width; i++)
                v = v << 8 | b->ptr[(*pos)++];
        return width == 8 ? (int64_t)v : (int64_t)(v << (64 - 8 * width)) >> (64 - 8 * width);
}

static void
skip(const struct bytes *b, size_t *pos, int64_t len)
{
        if (len > 0)
                *pos += (size_t)len;
        if (*pos > b->len)
                die("answer", "too short");
}

static uint32_t
crc32c(const uint8_t *p, size_t len)
{
        static uint32_t table[256];
        uint32_t crc = 0xffffffff;

        for (uint32_t i = 0; table[255] == 0 && i < 256; i++) {
                table[i] = i;
                for (int k = 0; k < 8; k++)
                        table[i] = table[i] >> 1 ^ (0x82f63b78 & (0 - (table[i] & 1)));
        }
        for (size_t i = 0; i < len; i++)
                crc = crc >> 8 ^ table[(crc ^ p[i]) & 0xff];
        return ~crc;
}

/* ---- messages ---- */

static void
begin(struct bytes *b, int key, int version)
{
        b->len = 0;
        put_int(b, 0, 4);
        put_int(b, key, 2);
        put_int(b, version, 2);
        put_int(b, 0, 4);
        put_text(b, "raw");
}

static void
end(struct bytes *b)
{
        set_int(b->ptr, (int64_t)b->len - 4, 4);
}

static uint64_t
next_random(void)
{
        static uint64_t x = 88172645463325252u;

        x ^= x << 13;
        x ^= x >> 7;
        return x ^= x << 17;
}

/* A value of opt.size bytes: events as JSON, which compress like those of a real topic. */
static void
put_value(struct bytes *out)
{
        static const char *const words[] = { "checkout", "view",  "click", "mobile",  "desktop",
                                             "berlin",   "tokyo", "trial", "premium", "error" };
        size_t left = opt.size;

        while (left > 0) {
                char event[256];
                int n = snprintf(
                        event, sizeof event,
                        "{\"id\":%llu,\"user\":\"u-%06llu\",\"event\":\"%s\","
                        "\"device\":\"%s\",\"amount\":%llu.%02llu,\"trace\":\"%016llx\"}",
                        (unsigned long long)(next_random() >> 40),
                        (unsigned long long)next_random() % 1000000, words[next_random() % 10],
                        words[next_random() % 10], (unsigned long long)next_random() % 1000,
                        (unsigned long long)next_random() % 100, (unsigned long long)next_random());

                put(out, event, (size_t)n < left ? (size_t)n : left);
                left -= (size_t)n < left ? (size_t)n : left;
        }
}

static void
put_record(struct bytes *out, struct bytes *one, int index)
{
        one->len = 0;
        put_int(one, 0, 1);
        put_varint(one, 0);
        put_varint(one, index);
        put_varint(one, -1); /* no key */
        put_varint(one, (int64_t)opt.size);
        put_value(one);
        put_int(one, 0, 1);
        put_varint(out, (int64_t)one->len);
        put(out, one->ptr, one->len);
}

/* A batch of records, as many as fit into opt.batch bytes, at least one; gives their count. */
static int
make_batch(struct bytes *out)
{
        static const char zero[61];
        struct timespec t;
        struct bytes one = { 0 };
        int count = 0;

        clock_gettime(CLOCK_REALTIME, &t);
        out->len = 0;
        put(out, zero, sizeof zero);
        do
                put_record(out, &one, count++);
        while (out->len + one.len + 5 <= opt.batch);
        set_int(out->ptr + 8, (int64_t)out->len - 12, 4);
        set_int(out->ptr + 12, -1, 4);
        out->ptr[16] = 2;
        set_int(out->ptr + 23, count - 1, 4);
        set_int(out->ptr + 27, (int64_t)t.tv_sec * 1000, 8);
        set_int(out->ptr + 35, (int64_t)t.tv_sec * 1000, 8);
        memset(out->ptr + 43, 0xff, 14); /* no producer */
        set_int(out->ptr + 57, count, 4);
        set_int(out->ptr + 17, crc32c(out->ptr + 21, out->len - 21), 4);
        free(one.ptr);
        return count;
}

/* So many that a table's compression does not meet the same bytes again. */
static void
make_pool(size_t bytes)
{
        size_t cap = bytes / (opt.batch + 1) + 1;
        int records;

        pool = calloc(cap, sizeof *pool);
        if (pool == NULL)
                die("memory", "none");
        for (pool_count = 0; pool_count < cap; pool_count++) {
                records = make_batch(&pool[pool_count]);
                if (pool_count > 0 && records != pool_records)
                        die("batches", "of different counts");
                pool_records = records;
        }
}

/* The request for `spread` partitions from `partition` on; `serial` chooses the batches. */
static void
make_produce(struct bytes *b, int partition, size_t serial)
{
        begin(b, PRODUCE, 7);
        put_int(b, -1, 2); /* transactional id */
        put_int(b, -1, 2); /* acks */
        put_int(b, 30000, 4);
        put_int(b, 1, 4);
        put_text(b, opt.topic);
        put_int(b, opt.spread, 4);
        for (int i = 0; i < opt.spread; i++) {
                const struct bytes *batch = &pool[(serial + (size_t)i) % pool_count];

                put_int(b, (partition + i) % opt.partitions, 4);
                put_int(b, (int64_t)batch->len, 4);
                put(b, batch->ptr, batch->len);
        }
        end(b);
}

/* ---- a connection ---- */

/* A connected socket, or -1. */
static int
try_connect(void)
{
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
        struct timeval wait = { .tv_sec = WAIT_SECONDS_MAX };
        int sock, on = 1;

        if (getaddrinfo(opt.host, opt.port, &hints, &found) != 0)
                die("host", "not found");
        sock = socket(found->ai_family, SOCK_STREAM, 0);
        if (sock >= 0 && connect(sock, found->ai_addr, found->ai_addrlen) != 0) {
                close(sock);
                sock = -1;
        }
        freeaddrinfo(found);
        if (sock >= 0) {
                setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
        }
        return sock;
}

static bool
send_all(int sock, const struct bytes *b)
{
        for (size_t pos = 0; pos < b->len;) {
                ssize_t n = send(sock, b->ptr + pos, b->len - pos, MSG_NOSIGNAL);

                if (n <= 0)
                        return false;
                pos += (size_t)n;
        }
        return true;
}

static bool
receive_all(int sock, uint8_t *ptr, size_t len)
{
        while (len > 0) {
                ssize_t n = recv(sock, ptr, len, 0);

                if (n <= 0)
                        return false;
                ptr += n;
                len -= (size_t)n;
        }
        return true;
}

/* The next answer, after its correlation id. */
static bool
receive(struct worker *w)
{
        uint8_t head[8];
        uint32_t len;

        if (!receive_all(w->sock, head, sizeof head))
                return false;
        len = (uint32_t)head[0] << 24 | (uint32_t)head[1] << 16 | (uint32_t)head[2] << 8 | head[3];
        if (len < 4 || len > ANSWER_BYTES_MAX)
                die("answer", "of an impossible size");
        w->in.len = 0;
        reserve(&w->in, len - 4);
        w->in.len = len - 4;
        return receive_all(w->sock, w->in.ptr, w->in.len);
}

static void
call(struct worker *w, const struct bytes *request)
{
        if (!send_all(w->sock, request) || !receive(w))
                die("connection", "lost, or no answer in time");
}

/* The first error code of a Produce answer; 0: all stored. */
static int
produce_error(const struct bytes *in)
{
        size_t pos = 0;

        for (int64_t topics = take_int(in, &pos, 4); topics > 0; topics--) {
                skip(in, &pos, take_int(in, &pos, 2));
                for (int64_t parts = take_int(in, &pos, 4); parts > 0; parts--) {
                        int error;

                        take_int(in, &pos, 4);
                        error = (int)take_int(in, &pos, 2);
                        if (error != 0)
                                return error;
                        skip(in, &pos, 24);
                }
        }
        return 0;
}

/* ---- produce ---- */

static void *
produce(void *arg)
{
        struct worker *w = arg;
        struct bytes request = { 0 };
        int64_t count = pool_records, sent = 0;
        size_t serial = (size_t)w->index * pool_count / (size_t)opt.producers;
        int flying = 0;
        int partition = (int)((int64_t)w->index * opt.partitions / opt.producers);
        double until;
        bool more = true;

        w->sock = try_connect();
        if (w->sock < 0)
                die("connect", "refused");
        until = now() + opt.seconds;
        while (more || flying > 0) {
                more = more && sent < opt.bytes / opt.producers && now() < until;
                if (more && flying < opt.inflight) {
                        make_produce(&request, partition, serial);
                        serial += (size_t)opt.spread;
                        if (!send_all(w->sock, &request))
                                die("produce", "connection lost");
                        partition = (partition + opt.spread) % opt.partitions;
                        sent += count * opt.spread * (int64_t)opt.size;
                        flying++;
                        continue;
                }
                if (flying == 0)
                        break;
                if (!receive(w) || produce_error(&w->in) != 0)
                        die("produce", "refused, or no answer in time");
                flying--;
                w->records += count * opt.spread;
                w->bytes += count * opt.spread * (int64_t)opt.size;
        }
        w->finished = now();
        close(w->sock);
        return NULL;
}

/* ---- fetch ---- */

static void
list_ends(struct worker *w, int64_t *ends)
{
        struct bytes b = { 0 };
        size_t pos = 0;

        begin(&b, LIST_OFFSETS, 1);
        put_int(&b, -1, 4);
        put_int(&b, 1, 4);
        put_text(&b, opt.topic);
        put_int(&b, opt.partitions, 4);
        for (int i = 0; i < opt.partitions; i++) {
                put_int(&b, i, 4);
                put_int(&b, -1, 8);
        }
        end(&b);
        call(w, &b);
        take_int(&w->in, &pos, 4);
        skip(&w->in, &pos, take_int(&w->in, &pos, 2));
        for (int64_t parts = take_int(&w->in, &pos, 4); parts > 0; parts--) {
                int64_t i = take_int(&w->in, &pos, 4);

                if (take_int(&w->in, &pos, 2) != 0 || i < 0 || i >= opt.partitions)
                        die("list offsets", "refused");
                take_int(&w->in, &pos, 8);
                ends[i] = take_int(&w->in, &pos, 8);
        }
        free(b.ptr);
}

/* Counts whole batches and gives the offset behind the last one. */
static void
count_batches(struct worker *w, size_t pos, size_t end_pos, int64_t *offset)
{
        while (end_pos - pos >= 61) {
                size_t at = pos;
                int64_t base = take_int(&w->in, &at, 8), len = take_int(&w->in, &at, 4);

                if ((int64_t)(end_pos - at) < len)
                        return;
                at = pos + 23;
                *offset = base + take_int(&w->in, &at, 4) + 1;
                at = pos + 57;
                w->records += take_int(&w->in, &at, 4);
                w->bytes += len + 12;
                pos += (size_t)len + 12;
        }
}

static void
take_fetched(struct worker *w, int64_t *offsets)
{
        size_t pos = 4;

        for (int64_t topics = take_int(&w->in, &pos, 4); topics > 0; topics--) {
                skip(&w->in, &pos, take_int(&w->in, &pos, 2));
                for (int64_t parts = take_int(&w->in, &pos, 4); parts > 0; parts--) {
                        int64_t i = take_int(&w->in, &pos, 4), len;

                        if (take_int(&w->in, &pos, 2) != 0 || i < 0 || i >= opt.partitions)
                                die("fetch", "refused");
                        skip(&w->in, &pos, 16);
                        for (int64_t k = take_int(&w->in, &pos, 4); k > 0; k--)
                                skip(&w->in, &pos, 16);
                        len = take_int(&w->in, &pos, 4);
                        if (len > 0) {
                                size_t start = pos;

                                skip(&w->in, &pos, len);
                                count_batches(w, start, pos, &offsets[i]);
                        }
                }
        }
}

static bool
make_fetch(struct bytes *b, const int64_t *offsets, const int64_t *ends)
{
        int count = 0;
        size_t count_pos;

        begin(b, FETCH, 4);
        put_int(b, -1, 4);
        put_int(b, 500, 4); /* ms */
        put_int(b, 1, 4);
        put_int(b, FETCH_BYTES, 4);
        put_int(b, 0, 1);
        put_int(b, 1, 4);
        put_text(b, opt.topic);
        count_pos = b->len;
        put_int(b, 0, 4);
        for (int i = 0; i < opt.partitions; i++) {
                if (offsets[i] >= ends[i])
                        continue;
                put_int(b, i, 4);
                put_int(b, offsets[i], 8);
                put_int(b, FETCH_PARTITION_BYTES, 4);
                count++;
        }
        set_int(b->ptr + count_pos, count, 4);
        end(b);
        return count > 0;
}

static void *
fetch(void *arg)
{
        struct worker *w = arg;
        int64_t *offsets = calloc((size_t)opt.partitions, sizeof *offsets);
        int64_t *ends = calloc((size_t)opt.partitions, sizeof *ends);
        struct bytes request = { 0 };
        double quiet = now();

        w->sock = try_connect();
        if (w->sock < 0)
                die("connect", "refused");
        list_ends(w, ends);
        while (make_fetch(&request, offsets, ends)) {
                int64_t before = w->records;

                call(w, &request);
                take_fetched(w, offsets);
                if (w->records > before)
                        quiet = now();
                else if (now() - quiet > 30)
                        die("fetch", "no record for 30 s");
        }
        w->finished = now();
        close(w->sock);
        return NULL;
}

/* ---- first ---- */

/* True: the record is stored. */
static bool
try_first(struct worker *w, const struct bytes *metadata, const struct bytes *produce)
{
        bool stored;

        w->sock = try_connect();
        if (w->sock < 0)
                return false;
        stored = send_all(w->sock, metadata) && receive(w) && send_all(w->sock, produce) &&
                 receive(w) && produce_error(&w->in) == 0;
        close(w->sock);
        return stored;
}

static void
first(struct worker *w)
{
        struct bytes produce = { 0 }, metadata = { 0 };
        double until = now() + WAIT_SECONDS_MAX;

        opt.batch = 0;
        make_pool(1);
        make_produce(&produce, 0, 0);
        begin(&metadata, METADATA, 4);
        put_int(&metadata, 1, 4);
        put_text(&metadata, opt.topic);
        put_int(&metadata, 1, 1);
        end(&metadata);
        while (!try_first(w, &metadata, &produce)) {
                if (now() > until)
                        die("first", "nothing stored in time");
                nanosleep(&(struct timespec){ .tv_nsec = TRY_AGAIN_NS }, NULL);
        }
        printf("{\"monotonic\": %.6f}\n", now());
}

/* ---- the program ---- */

static void
parse(int argc, char **argv)
{
        char *colon;

        if (argc < 4 || (colon = strrchr(argv[2], ':')) == NULL)
                die("usage", "raw produce|fetch|first HOST:PORT TOPIC [--option value]");
        *colon = '\0';
        opt.mode = argv[1];
        opt.host = argv[2];
        opt.port = colon + 1;
        opt.topic = argv[3];
        for (int i = 4; i + 1 < argc; i += 2) {
                const char *name = argv[i], *value = argv[i + 1];

                if (strcmp(name, "--size") == 0)
                        opt.size = (size_t)strtoul(value, NULL, 10);
                else if (strcmp(name, "--batch") == 0)
                        opt.batch = (size_t)strtoul(value, NULL, 10);
                else if (strcmp(name, "--seconds") == 0)
                        opt.seconds = strtod(value, NULL);
                else if (strcmp(name, "--bytes") == 0)
                        opt.bytes = strtoll(value, NULL, 10);
                else if (strcmp(name, "--producers") == 0)
                        opt.producers = (int)strtol(value, NULL, 10);
                else if (strcmp(name, "--partitions") == 0)
                        opt.partitions = (int)strtol(value, NULL, 10);
                else if (strcmp(name, "--spread") == 0)
                        opt.spread = (int)strtol(value, NULL, 10);
                else if (strcmp(name, "--inflight") == 0)
                        opt.inflight = (int)strtol(value, NULL, 10);
                else
                        die("no such option", name);
        }
        if (opt.size < 1 || opt.batch > BATCH_BYTES_MAX || opt.producers < 1 ||
            opt.producers > THREADS_MAX || opt.partitions < 1 || opt.spread < 1 ||
            opt.spread > opt.partitions || opt.inflight < 1)
                die("option", "out of range");
}

int
main(int argc, char **argv)
{
        static struct worker workers[THREADS_MAX];
        struct worker sum = { 0 };
        void *(*run)(void *);
        int count;
        double began;

        parse(argc, argv);
        if (strcmp(opt.mode, "first") == 0) {
                first(&workers[0]);
                return 0;
        }
        run = strcmp(opt.mode, "fetch") == 0 ? fetch : produce;
        count = run == fetch ? 1 : opt.producers;
        if (run == produce)
                make_pool(POOL_BYTES);
        began = now();
        for (int i = 0; i < count; i++) {
                workers[i].index = i;
                if (pthread_create(&workers[i].thread, NULL, run, &workers[i]) != 0)
                        die("thread", "can't be made");
        }
        for (int i = 0; i < count; i++) {
                pthread_join(workers[i].thread, NULL);
                sum.records += workers[i].records;
                sum.bytes += workers[i].bytes;
                if (workers[i].finished > sum.finished)
                        sum.finished = workers[i].finished;
        }
        printf("{\"records\": %lld, \"bytes\": %lld, \"seconds\": %.4f, \"mb_per_s\": %.3f, "
               "\"records_per_s\": %.1f}\n",
               (long long)sum.records, (long long)sum.bytes, sum.finished - began,
               (double)sum.bytes / (sum.finished - began) / 1e6,
               (double)sum.records / (sum.finished - began));
        return 0;
}
