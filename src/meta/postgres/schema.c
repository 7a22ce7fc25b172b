/* meta/postgres/schema.c - the tables on PostgreSQL, as steps from one format level to the next.
 *
 * Tables and columns are those of docs/formats/metadata.md, as in sqlite/schema.c; a step is final
 * once released. Text is in the order of its bytes (COLLATE "C"), as in SQLite. Rows that are
 * written again and again leave room in their pages, so that the new version lies beside the old
 * one and no index changes.
 */
#include "meta/postgres/postgres_int.h"

#define TEXT_C "text COLLATE \"C\""
#define ROOMY  " WITH (fillfactor = 50)"

static const char *const level_1[] = {
        "CREATE TABLE install ("
        " id bigint PRIMARY KEY CHECK (id = 1),"
        " format_level bigint NOT NULL,"
        " cluster_id bytea NOT NULL,"
        " created_ms bigint NOT NULL)",
        "CREATE TABLE counter ("
        " id bigint PRIMARY KEY,"
        " value bigint NOT NULL)" ROOMY,
        "INSERT INTO counter (id, value) VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0)",
        "CREATE TABLE broker ("
        " id bigint PRIMARY KEY,"
        " epoch bigint NOT NULL,"
        " open bigint NOT NULL,"
        " rack " TEXT_C ","
        " kafka " TEXT_C ","
        " http " TEXT_C ","
        " opened_ms bigint NOT NULL,"
        " heartbeat_ms bigint NOT NULL)" ROOMY,
        "CREATE TABLE stream ("
        " id bigint PRIMARY KEY,"
        " topic_id bytea NOT NULL UNIQUE,"
        " kafka_name " TEXT_C " NOT NULL UNIQUE,"
        " catalog " TEXT_C " NOT NULL,"
        " ns " TEXT_C " NOT NULL,"
        " name " TEXT_C " NOT NULL,"
        " partitions bigint NOT NULL,"
        " leader_epoch bigint NOT NULL,"
        " version bigint NOT NULL,"
        " created_ms bigint NOT NULL,"
        " UNIQUE (catalog, ns, name))",
        "CREATE TABLE stream_config ("
        " stream_id bigint NOT NULL,"
        " name " TEXT_C " NOT NULL,"
        " value " TEXT_C " NOT NULL,"
        " PRIMARY KEY (stream_id, name))",
        "CREATE TABLE stream_gone ("
        " id bigint PRIMARY KEY,"
        " topic_id bytea NOT NULL,"
        " deleted_ms bigint NOT NULL,"
        " due_ms bigint NOT NULL,"
        " purged bigint NOT NULL)",
        "CREATE TABLE chunk ("
        " id bigint PRIMARY KEY,"
        " version bigint NOT NULL,"
        " state bytea NOT NULL)" ROOMY,
        "CREATE TABLE chunk_producers ("
        " chunk_id bigint PRIMARY KEY,"
        " state bytea NOT NULL)",
        "CREATE TABLE wal_object ("
        " id bigint PRIMARY KEY,"
        " broker bigint NOT NULL,"
        " epoch bigint NOT NULL,"
        " sequence bigint NOT NULL,"
        " segment bigint NOT NULL,"
        " pos bigint NOT NULL,"
        " bytes bigint NOT NULL,"
        " streams bigint NOT NULL)",
        "CREATE TABLE wal_index ("
        " stream_id bigint NOT NULL,"
        " object_id bigint NOT NULL,"
        " entries bytea NOT NULL,"
        " PRIMARY KEY (stream_id, object_id))",
        "CREATE TABLE extent ("
        " stream_id bigint NOT NULL,"
        " partition bigint NOT NULL,"
        " base_offset bigint NOT NULL,"
        " end_offset bigint NOT NULL,"
        " kind bigint NOT NULL,"
        " file_id bigint NOT NULL,"
        " first_row bigint NOT NULL,"
        " row_count bigint NOT NULL,"
        " min_timestamp bigint NOT NULL,"
        " max_timestamp bigint NOT NULL,"
        " hash bigint NOT NULL,"
        " log_bytes bigint NOT NULL,"
        " flags bigint NOT NULL,"
        " inline_bytes bytea,"
        " PRIMARY KEY (stream_id, partition, base_offset, file_id))",
        "CREATE TABLE data_file ("
        " id bigint PRIMARY KEY,"
        " stream_id bigint NOT NULL,"
        " file_key " TEXT_C " NOT NULL UNIQUE,"
        " bytes bigint NOT NULL,"
        " row_count bigint NOT NULL,"
        " extents bigint NOT NULL,"
        " added_commit bigint NOT NULL,"
        " removed_ms bigint NOT NULL,"
        " due_ms bigint NOT NULL)",
        "CREATE INDEX data_file_stream ON data_file (stream_id, removed_ms)",
        "CREATE INDEX data_file_due ON data_file (due_ms) WHERE removed_ms > 0",
        "CREATE TABLE stream_table ("
        " stream_id bigint PRIMARY KEY,"
        " version bigint NOT NULL,"
        " commit_number bigint NOT NULL,"
        " updated_ms bigint NOT NULL,"
        " metadata_key " TEXT_C ","
        " metadata bytea)" ROOMY,
        "CREATE INDEX stream_table_key ON stream_table (metadata_key)"
        " WHERE metadata_key IS NOT NULL",
        "CREATE TABLE garbage ("
        " object_key " TEXT_C " PRIMARY KEY,"
        " due_ms bigint NOT NULL)",
        "CREATE INDEX garbage_due ON garbage (due_ms)",
        "CREATE TABLE lease ("
        " resource " TEXT_C " PRIMARY KEY,"
        " broker bigint NOT NULL,"
        " epoch bigint NOT NULL,"
        " expires_ms bigint NOT NULL)" ROOMY,
        "CREATE TABLE client_group ("
        " group_id " TEXT_C " PRIMARY KEY,"
        " version bigint NOT NULL,"
        " generation bigint NOT NULL,"
        " state bytea NOT NULL)" ROOMY,
        "CREATE TABLE group_offset ("
        " group_id " TEXT_C " NOT NULL,"
        " stream_id bigint NOT NULL,"
        " partition bigint NOT NULL,"
        " committed bigint NOT NULL,"
        " leader_epoch bigint NOT NULL,"
        " metadata " TEXT_C ","
        " commit_ms bigint NOT NULL,"
        " expire_ms bigint NOT NULL,"
        " PRIMARY KEY (group_id, stream_id, partition))" ROOMY,
        "CREATE INDEX group_offset_stream ON group_offset (stream_id)",
        "CREATE TABLE namespace ("
        " catalog " TEXT_C " NOT NULL,"
        " ns " TEXT_C " NOT NULL,"
        " properties " TEXT_C " NOT NULL,"
        " PRIMARY KEY (catalog, ns))",
        NULL,
};

const char *const *const postgres_steps[] = { level_1 };
