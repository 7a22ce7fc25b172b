/* servers/kafka/groups.h - handlers of consumer groups: between Kafka's messages and
 * stream/group.h. */
#pragma once
#include "servers/kafka/server_int.h"

/* Looking at groups: of many brokers they may have to be read first. */
enum kafka_mode kafka_serve_groups_pick(struct kafka_request *r);

void kafka_serve_join_group(struct kafka_request *r);
void kafka_serve_sync_group(struct kafka_request *r);
void kafka_serve_heartbeat(struct kafka_request *r);
void kafka_serve_leave_group(struct kafka_request *r);
void kafka_serve_offset_commit(struct kafka_request *r);
void kafka_serve_offset_fetch(struct kafka_request *r);
void kafka_serve_offset_delete(struct kafka_request *r);
void kafka_serve_describe_groups(struct kafka_request *r);
void kafka_serve_list_groups(struct kafka_request *r);
void kafka_serve_delete_groups(struct kafka_request *r);
