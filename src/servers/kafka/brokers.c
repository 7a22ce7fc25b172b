/* servers/kafka/brokers.c - which brokers clients are told of, and which of them leads what.
 *
 * Any broker takes any partition, so a leader is only the one that a client is sent to: of those in
 * its zone, when there are any. A request takes the list of brokers once. Embedded, this broker is
 * alone in it. */
#include "servers/kafka/server_int.h"

/* ---- the client's zone ---- */

static bool
zone_key_at(ls_str s, size_t at, size_t *ret_value)
{
        static const char *const keys[] = { "zone_id=", "diskless_az=", "zone=", "ws_az=" };
        char before = at > 0 ? s.ptr[at - 1] : ' ';

        if ((before >= 'a' && before <= 'z') || (before >= 'A' && before <= 'Z') ||
            (before >= '0' && before <= '9') || before == '_')
                return false; /* the end of a longer word */
        for (size_t i = 0; i < LS_COUNT(keys); i++) {
                size_t len = strlen(keys[i]);

                if (s.len - at >= len && memcmp(s.ptr + at, keys[i], len) == 0) {
                        *ret_value = at + len;
                        return true;
                }
        }
        return false;
}

ls_str
kafka_zone_of(ls_str client_id)
{
        for (size_t at = 0; at < client_id.len; at++) {
                size_t value = 0, end;

                if (!zone_key_at(client_id, at, &value))
                        continue;
                for (end = value; end < client_id.len; end++)
                        if (client_id.ptr[end] == ',' || client_id.ptr[end] == ' ' ||
                            client_id.ptr[end] == ';')
                                break;
                if (end > value)
                        return ls_str_make(client_id.ptr + value, end - value);
        }
        return LS_STR_NULL;
}

/* ---- the list ---- */

const struct ls_brokers *
kafka_brokers(struct kafka_request *r)
{
        struct ls_kafka_server *s = kafka_server_of(r);

        if (r->brokers == NULL) {
                r->brokers = s->cluster.brokers(s->streams);
                r->zone = kafka_zone_of(r->req.client_id);
        }
        LS_ASSERT(r->brokers->count > 0);
        return r->brokers;
}

bool
kafka_broker_listed(const struct kafka_request *r, const struct ls_broker *b)
{
        return b->host[0] != 0 || b->id == kafka_server_of(r)->broker_id;
}

struct kafka_node
kafka_node_of(const struct kafka_request *r, const struct ls_broker *b)
{
        const struct ls_kafka_server *s = kafka_server_of(r);

        if (b->id == s->broker_id)
                return (struct kafka_node){ b->id, ls_str_of(s->host), s->port,
                                            ls_str_of(s->rack) };
        return (struct kafka_node){ b->id, ls_str_of(b->host), b->port,
                                    ls_str_of(b->rack[0] != 0 ? b->rack : NULL) };
}

int32_t
kafka_controller_of(struct kafka_request *r)
{
        const struct ls_brokers *brokers = kafka_brokers(r);

        for (size_t i = 0; i < brokers->count; i++)
                if (kafka_broker_listed(r, &brokers->items[i]))
                        return brokers->items[i].id;
        return kafka_server_of(r)->broker_id;
}

int32_t *
kafka_leader_of(struct kafka_request *r, ls_uuid topic_id, int32_t partition)
{
        const struct ls_brokers *brokers = kafka_brokers(r);
        struct ls_broker *b = &brokers->items[0];

        if (brokers->count > 1)
                b = &brokers->items[ls_brokers_leader(brokers, topic_id, partition, r->zone)];
        /* One that has no address yet can't be told: this one does as well. */
        return kafka_broker_listed(r, b) ? &b->id : &kafka_server_of(r)->broker_id;
}

bool
kafka_coordinator_of(struct kafka_request *r, ls_str group_id, struct kafka_node *ret)
{
        const struct ls_brokers *brokers = kafka_brokers(r);
        const struct ls_broker *b = &brokers->items[ls_brokers_coordinator(brokers, group_id)];

        *ret = kafka_node_of(r, b);
        return kafka_broker_listed(r, b);
}
