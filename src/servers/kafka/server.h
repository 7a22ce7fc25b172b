/* servers/kafka/server.h - the Kafka protocol on top of stream/.
 *
 * docs/protocols/kafka.md lists what is served. Threads: start and stop from a thread that is no
 * loop's.
 */
#pragma once
#include "stream/stream.h"

struct ls_kafka_server;

struct ls_kafka_config {
        struct ls_streams *streams; /* borrowed until ls_kafka_stop has returned */
        struct ls_loop **loops;     /* connections live on these; borrowed likewise */
        size_t loop_count;
        const char *host; /* where to listen, as ls_listen has it */
        uint16_t port;    /* 0: a free one */
        /* What clients are told to connect to. Host NULL or "": `host`, or this machine's loopback
         * address when that stands for all. Port 0: the port that is listened on. */
        const char *advertised_host;
        uint16_t advertised_port;
        const char *rack; /* NULL or "": none */
};

/* Listens and serves. Texts are copied. Outcomes of ls_listen. */
LS_MUST_USE ls_err ls_kafka_start(const struct ls_kafka_config *config,
                                  struct ls_kafka_server **ret_server, uint16_t *ret_port,
                                  struct ls_errinfo *reterr);
/* "host:port" as clients are told, "[host]:port" when the host has colons. */
void ls_kafka_advertised(const struct ls_kafka_server *server, char *ret_text, size_t bytes);
/* Stops accepting and reading, answers what was asked (long polls at once), then closes; what is
 * not done after `grace_ms` is closed all the same. Blocks. Frees the server; accepts NULL. Call it
 * before ls_streams_close, with the loops still running. */
void ls_kafka_stop(struct ls_kafka_server *server, int64_t grace_ms);
