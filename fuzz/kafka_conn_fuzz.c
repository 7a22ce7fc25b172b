/* fuzz/kafka_conn_fuzz.c - any bytes to a connection of the Kafka server, over real streams in a
 * folder, cut into reads of changing size. Then the peer goes away; nothing may be left behind.
 *
 * The first byte seeds the cuts. Requests that make topics or partitions are left out, since a
 * fuzzer would fill the disk with them. */
#include <stdlib.h>

#include "servers/kafka/test_kit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct kit kit;

static void
close_kit(void)
{
        kit_close(&kit);
}

static void
open_kit(void)
{
        struct ls_stream *stream = NULL;
        ls_err e;

        ls_log_setup(LS_LOG_ERROR, NULL, NULL);
        kit_open(&kit);
        e = ls_options_set(&kit.options, LS_STR("auto.create.topics.enable"), LS_STR("false"),
                           LS_OPTION_FLAG, NULL);
        LS_ASSERT(e == LS_OK);
        e = ls_stream_create(kit.streams, LS_STR("topic"), 3, NULL, 0, false, &stream, NULL);
        LS_ASSERT(e == LS_OK);
        ls_stream_unref(stream);
        atexit(close_kit);
}

static bool
makes_topics(int16_t key)
{
        return key == LS_KAFKA_API_CREATE_TOPICS || key == LS_KAFKA_API_CREATE_PARTITIONS ||
               key == LS_KAFKA_API_DELETE_TOPICS;
}

/* True when a frame of the input would change which topics there are. */
static bool
input_makes_topics(ls_span input)
{
        while (input.len >= 6) {
                size_t bytes = ls_get_be32(input.ptr);

                if (makes_topics((int16_t)ls_get_be16(input.ptr + 4)))
                        return true;
                if (bytes > input.len - 4)
                        return false;
                input.ptr += 4 + bytes;
                input.len -= 4 + bytes;
        }
        return false;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static bool opened;
        struct kit_peer peer;
        uint32_t seed;

        if (size < 1 || input_makes_topics(ls_span_of(data + 1, size - 1)))
                return 0;
        if (!opened)
                open_kit();
        opened = true;
        kit_connect(&kit, &peer);
        seed = data[0];
        for (size_t at = 1; at < size;) {
                size_t n = 1 + (seed = seed * 1103515245 + 12345) / 65536 % 200;

                n = LS_MIN(n, size - at);
                kit_send(&peer, ls_span_of(data + at, n));
                at += n;
        }
        kit_disconnect(&peer);
        LS_ASSERT(ls_budget_used(&kit.server->produce_frames) == 0);
        LS_ASSERT(ls_budget_used(&kit.server->other_frames) == 0);
        LS_ASSERT(ls_budget_used(&kit.server->answers) == 0);
        return 0;
}
