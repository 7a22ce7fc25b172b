/* cli/kafka_client.h - a small blocking Kafka client: connections to brokers, one request at a
 * time.
 *
 * Threads: one owner.
 */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "cli/cli.h"
#include "wire/kafka.h"

#define KAFKA_BOOTSTRAP_DEFAULT "127.0.0.1:9092"
#define KAFKA_ANY_NODE          (-1)

struct kafka_client;

/* Connects to the first of the comma-separated "host:port" that answers. With words. */
LS_MUST_USE ls_err kafka_open(const char *bootstrap, struct kafka_client **ret_client,
                              struct ls_errinfo *reterr);
/* Accepts NULL. */
void kafka_close(struct kafka_client *c);

/* One command that asks a server: what it was given, and the connection. */
struct kafka_session {
        const char *bootstrap, *output;
        bool json;
        struct cli_args args;
        struct kafka_client *client;
        struct ls_arena arena;
};
/* Parses --bootstrap, --output and `more`, checks that there are [words_min, words_max] words,
 * connects. false: the command ends with *ret_code, everything was said. In any case followed by
 * kafka_session_end. */
bool kafka_session_begin(struct kafka_session *s, int argc, char **argv, const char *usage,
                         const struct cli_flag *more, size_t more_count, size_t words_min,
                         size_t words_max, int *ret_code);
void kafka_session_end(struct kafka_session *s);

/* Sends `request` (struct of the API) to a node, or to the one that answered first, at the newest
 * version that both sides and `version_max` (-1: any) allow, and decodes the answer into
 * `ret_response`, whose memory is the arena's. LS_UNSUPPORTED: the server lacks the API;
 * LS_TIMEOUT; LS_ENET; LS_CORRUPT; all with words. */
LS_MUST_USE ls_err kafka_call(struct kafka_client *c, int32_t node, enum ls_kafka_api_key key,
                              int16_t version_max, const void *request, struct ls_arena *arena,
                              void *ret_response, struct ls_errinfo *reterr);

/* Metadata of `topics` (count 0: of all), remembering where brokers are. `create`: makes absent
 * topics where the server does that. */
LS_MUST_USE ls_err kafka_metadata(struct kafka_client *c, const ls_str *topics, size_t count,
                                  bool create, struct ls_arena *arena,
                                  struct ls_kafka_metadata_response *ret_metadata,
                                  struct ls_errinfo *reterr);
/* Metadata of one topic that must be there; retries while it has no leaders yet (a topic just
 * made). LS_ABSENT: no such topic. With words. */
LS_MUST_USE ls_err kafka_topic(struct kafka_client *c, ls_str topic, bool create,
                               struct ls_arena *arena,
                               struct ls_kafka_metadata_response_topic **ret_topic,
                               struct ls_errinfo *reterr);
/* The node that leads a partition; KAFKA_ANY_NODE when there is none. */
int32_t kafka_leader(const struct ls_kafka_metadata_response_topic *topic, int32_t partition);
/* The node that coordinates a group. */
LS_MUST_USE ls_err kafka_coordinator(struct kafka_client *c, ls_str group, int32_t *ret_node,
                                     struct ls_errinfo *reterr);

/* Offsets of partitions of one topic for a timestamp (-1: end, -2: start), each asked of its
 * leader: offsets[i] belongs to partitions[i]; -1: none at or after that time. */
LS_MUST_USE ls_err kafka_list_offsets(struct kafka_client *c,
                                      const struct ls_kafka_metadata_response_topic *topic,
                                      const int32_t *partitions, size_t count, int64_t timestamp,
                                      int64_t *ret_offsets, struct ls_errinfo *reterr);

/* "TOPIC_ALREADY_EXISTS: words" as a failure of `what`; words may be null. */
ls_err kafka_refusal(struct ls_errinfo *reterr, const char *what, int16_t code, ls_str words);
/* Kafka's hash of keys (murmur2) into a partition, as the Java client's default partitioner has
 * it. */
int32_t kafka_partition_of_key(ls_span key, int32_t partitions);
