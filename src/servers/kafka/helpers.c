/* servers/kafka/helpers.c - what several handlers need: errors, names, epochs. */
#include "servers/kafka/server_int.h"

/* Outcomes and failures of stream/ as Kafka errors. A handler that needs another code for an
 * outcome (LS_INVALID of a batch is not LS_INVALID of a setting) decides before it asks here. */
static const struct {
        ls_err from;
        int16_t to;
} errors[] = {
        { LS_OK, LS_KAFKA_ERR_NONE },
        { LS_ABSENT, LS_KAFKA_ERR_UNKNOWN_TOPIC_OR_PARTITION },
        { LS_EXISTS, LS_KAFKA_ERR_TOPIC_ALREADY_EXISTS },
        { LS_CONFLICT, LS_KAFKA_ERR_CONCURRENT_TRANSACTIONS },
        { LS_THROTTLED, LS_KAFKA_ERR_THROTTLING_QUOTA_EXCEEDED },
        { LS_UNKNOWN_OUTCOME, LS_KAFKA_ERR_REQUEST_TIMED_OUT },
        { LS_DENIED, LS_KAFKA_ERR_TOPIC_AUTHORIZATION_FAILED },
        { LS_FULL, LS_KAFKA_ERR_KAFKA_STORAGE_ERROR },
        { LS_BUSY, LS_KAFKA_ERR_REQUEST_TIMED_OUT },
        { LS_TOO_LARGE, LS_KAFKA_ERR_MESSAGE_TOO_LARGE },
        { LS_CORRUPT, LS_KAFKA_ERR_CORRUPT_MESSAGE },
        { LS_CANCELED, LS_KAFKA_ERR_REQUEST_TIMED_OUT },
        { LS_TIMEOUT, LS_KAFKA_ERR_REQUEST_TIMED_OUT },
        { LS_INVALID, LS_KAFKA_ERR_INVALID_REQUEST },
        { LS_UNSUPPORTED, LS_KAFKA_ERR_UNSUPPORTED_VERSION },
        { LS_FENCED, LS_KAFKA_ERR_INVALID_PRODUCER_EPOCH },
        { LS_OUT_OF_RANGE, LS_KAFKA_ERR_OFFSET_OUT_OF_RANGE },
        { LS_SEQUENCE_GAP, LS_KAFKA_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER },
        { LS_STALE_EPOCH, LS_KAFKA_ERR_INVALID_PRODUCER_EPOCH },
        { LS_UNKNOWN_PRODUCER, LS_KAFKA_ERR_UNKNOWN_PRODUCER_ID },
        { LS_UNKNOWN_MEMBER, LS_KAFKA_ERR_UNKNOWN_MEMBER_ID },
        { LS_REBALANCE, LS_KAFKA_ERR_REBALANCE_IN_PROGRESS },
        { LS_NOT_EMPTY, LS_KAFKA_ERR_NON_EMPTY_GROUP },
        { LS_UNKNOWN_EPOCH, LS_KAFKA_ERR_UNKNOWN_LEADER_EPOCH },
        { LS_TIMESTAMP, LS_KAFKA_ERR_INVALID_TIMESTAMP },
        { LS_NO_KEY, LS_KAFKA_ERR_INVALID_RECORD },
        { LS_EIO, LS_KAFKA_ERR_KAFKA_STORAGE_ERROR },
        { LS_ENOSPC, LS_KAFKA_ERR_KAFKA_STORAGE_ERROR },
        { LS_EREADONLY, LS_KAFKA_ERR_KAFKA_STORAGE_ERROR },
        { LS_EACCESS, LS_KAFKA_ERR_KAFKA_STORAGE_ERROR },
        { LS_EBROKEN, LS_KAFKA_ERR_KAFKA_STORAGE_ERROR },
        { LS_EDB, LS_KAFKA_ERR_KAFKA_STORAGE_ERROR },
        { LS_ENET, LS_KAFKA_ERR_KAFKA_STORAGE_ERROR },
        { LS_ESHUTDOWN, LS_KAFKA_ERR_NOT_LEADER_OR_FOLLOWER },
        { LS_EFENCED, LS_KAFKA_ERR_NOT_LEADER_OR_FOLLOWER },
        { LS_ELIMIT, LS_KAFKA_ERR_REQUEST_TIMED_OUT },
};

int16_t
kafka_error_of(ls_err e)
{
        for (size_t i = 0; i < LS_COUNT(errors); i++)
                if (errors[i].from == e)
                        return errors[i].to;
        return LS_KAFKA_ERR_UNKNOWN_SERVER_ERROR;
}

ls_str
kafka_words(struct kafka_request *r, int16_t error, const struct ls_errinfo *info)
{
        if (error == LS_KAFKA_ERR_NONE)
                return LS_STR_NULL;
        if (info != NULL && info->text[0] != 0)
                return ls_arena_str(&r->arena, ls_str_of(info->text));
        return ls_str_of(ls_kafka_error_find(error)->text);
}

bool
kafka_topic_name_ok(ls_str name, struct ls_errinfo *reterr)
{
        if (name.len == 0 || name.len > KAFKA_TOPIC_NAME_BYTES_MAX) {
                ls_fail(reterr, LS_INVALID,
                        "A topic name has 1 to %d characters, this one has %zu.",
                        KAFKA_TOPIC_NAME_BYTES_MAX, name.len);
                return false;
        }
        if (ls_str_is(name, ".") || ls_str_is(name, "..")) {
                ls_fail(reterr, LS_INVALID, "A topic name can't be '.' or '..'.");
                return false;
        }
        for (size_t i = 0; i < name.len; i++) {
                char c = name.ptr[i];

                if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '_' || c == '-')) {
                        ls_fail(reterr, LS_INVALID,
                                "A topic name consists of letters, digits, '.', '_' and '-'; "
                                "byte %zu of '%.*s' is none of these.",
                                i, LS_STR_ARG(name));
                        return false;
                }
        }
        return true;
}

int16_t
kafka_check_leader_epoch(const struct ls_stream_info *info, int32_t epoch)
{
        if (epoch < 0 || epoch == info->leader_epoch)
                return LS_KAFKA_ERR_NONE;
        return epoch < info->leader_epoch ? LS_KAFKA_ERR_FENCED_LEADER_EPOCH
                                          : LS_KAFKA_ERR_UNKNOWN_LEADER_EPOCH;
}

void
kafka_epoch_end(const struct ls_stream_info *info, const struct ls_offsets *offsets, int32_t epoch,
                int32_t *ret_epoch, int64_t *ret_end)
{
        *ret_epoch = -1;
        *ret_end = -1;
        if (epoch == info->leader_epoch) {
                *ret_epoch = epoch;
                *ret_end = offsets->end;
        } else if (epoch >= 0 && epoch < info->leader_epoch) {
                /* Everything that is there is of our epoch: an older one ended where it begins. */
                *ret_epoch = epoch;
                *ret_end = offsets->start;
        }
}

void
kafka_seen_init(struct kafka_seen *s)
{
        ls_map_init(&s->map);
}

void
kafka_seen_done(struct kafka_seen *s)
{
        ls_map_done(&s->map);
}

bool
kafka_seen_add(struct kafka_seen *s, ls_span key)
{
        return ls_map_set(&s->map, key, s) == NULL;
}
