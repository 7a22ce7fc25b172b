/* servers/kafka/test_kit.h - for tests and fuzzers: a server over real streams in a folder of its
 * own, and peers that feed connections by hand, without sockets.
 *
 * Calls are made from the test's thread; the kit runs them on the loop.
 */
#pragma once
#include "servers/kafka/server_int.h"

struct kit {
        char dir[64];
        struct ls_options options;
        struct ls_streams *streams;
        struct ls_loop *loop;
        struct ls_kafka_server *server;
};

/* Aborts when the world can't be made: a test of it would prove nothing. */
void kit_open(struct kit *k);
void kit_close(struct kit *k);

/* What a connection wrote to its peer, and what it asked of the transport. */
struct kit_peer {
        struct kit *kit;
        struct kafka_conn *conn; /* NULL once it is closed */
        pthread_mutex_t lock;
        struct ls_cond changed;
        struct ls_buf written;
        size_t read_pos;     /* of kit_recv */
        struct ls_buf frame; /* what kit_recv gave last */
        bool paused, closed, closed_flush;
        size_t queued; /* what the transport reports as not taken */
};

void kit_connect(struct kit *k, struct kit_peer *p);
/* Closes from the peer's side unless the server has; waits until the connection is freed. */
void kit_disconnect(struct kit_peer *p);
void kit_send(struct kit_peer *p, ls_span bytes);
/* Encodes and sends a request. */
void kit_request(struct kit_peer *p, int16_t key, int16_t version, int32_t correlation_id,
                 const void *body);
/* The next whole frame, without its size; null when it does not come within ten seconds or the
 * server has closed. Valid until the next call. */
ls_span kit_recv(struct kit_peer *p);
/* Receives the answer to a request; false when it does not come or does not decode. */
bool kit_answer(struct kit_peer *p, int16_t key, int16_t version, struct ls_arena *arena,
                int32_t *ret_correlation_id, void *ret_body);
/* True once the server has closed (within ten seconds). */
bool kit_wait_closed(struct kit_peer *p);
bool kit_wait_paused(struct kit_peer *p, bool paused);
/* Runs fn(ctx) on the loop and waits for its end. */
void kit_on_loop(struct kit *k, void (*fn)(void *ctx), void *ctx);
