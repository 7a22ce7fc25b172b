/* meta/sqlite/schema.c - the tables, as steps from one format level to the next.
 *
 * Every table and column is described in docs/formats/metadata.md. A step is final once released: a
 * change of the schema is a new step and a new LS_META_FORMAT_LEVEL.
 *
 * Tables keyed by something else than one integer are WITHOUT ROWID where their rows are small: one
 * tree instead of a tree and an index. The chunk row's key packs stream and chunk number into one
 * integer, because its 4 KB of state would sit badly in an index tree.
 */
#include "meta/sqlite/sqlite.h"

static const char *const level_1[] = {
        "CREATE TABLE install ("
        " id INTEGER PRIMARY KEY CHECK (id = 1),"
        " format_level INTEGER NOT NULL,"
        " cluster_id BLOB NOT NULL,"
        " created_ms INTEGER NOT NULL)",
        "CREATE TABLE counter ("
        " id INTEGER PRIMARY KEY,"
        " value INTEGER NOT NULL)",
        "INSERT INTO counter (id, value) VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0)",
        "CREATE TABLE broker ("
        " id INTEGER PRIMARY KEY,"
        " epoch INTEGER NOT NULL,"
        " open INTEGER NOT NULL,"
        " rack TEXT,"
        " kafka TEXT,"
        " http TEXT,"
        " opened_ms INTEGER NOT NULL,"
        " heartbeat_ms INTEGER NOT NULL)",
        "CREATE TABLE stream ("
        " id INTEGER PRIMARY KEY,"
        " topic_id BLOB NOT NULL UNIQUE,"
        " kafka_name TEXT NOT NULL UNIQUE,"
        " catalog TEXT NOT NULL,"
        " ns TEXT NOT NULL,"
        " name TEXT NOT NULL,"
        " partitions INTEGER NOT NULL,"
        " leader_epoch INTEGER NOT NULL,"
        " version INTEGER NOT NULL,"
        " created_ms INTEGER NOT NULL,"
        " UNIQUE (catalog, ns, name))",
        "CREATE TABLE stream_config ("
        " stream_id INTEGER NOT NULL,"
        " name TEXT NOT NULL,"
        " value TEXT NOT NULL,"
        " PRIMARY KEY (stream_id, name)) WITHOUT ROWID",
        "CREATE TABLE stream_gone ("
        " id INTEGER PRIMARY KEY,"
        " topic_id BLOB NOT NULL,"
        " deleted_ms INTEGER NOT NULL,"
        " due_ms INTEGER NOT NULL,"
        " purged INTEGER NOT NULL)",
        "CREATE TABLE chunk ("
        " id INTEGER PRIMARY KEY,"
        " version INTEGER NOT NULL,"
        " state BLOB NOT NULL)",
        "CREATE TABLE chunk_producers ("
        " chunk_id INTEGER PRIMARY KEY,"
        " state BLOB NOT NULL)",
        "CREATE TABLE wal_object ("
        " id INTEGER PRIMARY KEY,"
        " broker INTEGER NOT NULL,"
        " epoch INTEGER NOT NULL,"
        " sequence INTEGER NOT NULL,"
        " segment INTEGER NOT NULL,"
        " pos INTEGER NOT NULL,"
        " bytes INTEGER NOT NULL,"
        " streams INTEGER NOT NULL)",
        "CREATE TABLE wal_index ("
        " stream_id INTEGER NOT NULL,"
        " object_id INTEGER NOT NULL,"
        " entries BLOB NOT NULL,"
        " PRIMARY KEY (stream_id, object_id)) WITHOUT ROWID",
        "CREATE TABLE extent ("
        " stream_id INTEGER NOT NULL,"
        " partition INTEGER NOT NULL,"
        " base_offset INTEGER NOT NULL,"
        " end_offset INTEGER NOT NULL,"
        " kind INTEGER NOT NULL,"
        " file_id INTEGER NOT NULL,"
        " first_row INTEGER NOT NULL,"
        " row_count INTEGER NOT NULL,"
        " min_timestamp INTEGER NOT NULL,"
        " max_timestamp INTEGER NOT NULL,"
        " hash INTEGER NOT NULL,"
        " log_bytes INTEGER NOT NULL,"
        " flags INTEGER NOT NULL,"
        " inline_bytes BLOB,"
        " PRIMARY KEY (stream_id, partition, base_offset, file_id)) WITHOUT ROWID",
        "CREATE TABLE data_file ("
        " id INTEGER PRIMARY KEY,"
        " stream_id INTEGER NOT NULL,"
        " file_key TEXT NOT NULL UNIQUE,"
        " bytes INTEGER NOT NULL,"
        " row_count INTEGER NOT NULL,"
        " extents INTEGER NOT NULL,"
        " added_commit INTEGER NOT NULL,"
        " removed_ms INTEGER NOT NULL,"
        " due_ms INTEGER NOT NULL)",
        "CREATE INDEX data_file_stream ON data_file (stream_id, removed_ms)",
        "CREATE INDEX data_file_due ON data_file (due_ms) WHERE removed_ms > 0",
        "CREATE TABLE stream_table ("
        " stream_id INTEGER PRIMARY KEY,"
        " version INTEGER NOT NULL,"
        " commit_number INTEGER NOT NULL,"
        " updated_ms INTEGER NOT NULL,"
        " metadata_key TEXT,"
        " metadata BLOB)",
        "CREATE INDEX stream_table_key ON stream_table (metadata_key)"
        " WHERE metadata_key IS NOT NULL",
        "CREATE TABLE garbage ("
        " object_key TEXT PRIMARY KEY,"
        " due_ms INTEGER NOT NULL) WITHOUT ROWID",
        "CREATE INDEX garbage_due ON garbage (due_ms)",
        "CREATE TABLE lease ("
        " resource TEXT PRIMARY KEY,"
        " broker INTEGER NOT NULL,"
        " epoch INTEGER NOT NULL,"
        " expires_ms INTEGER NOT NULL) WITHOUT ROWID",
        "CREATE TABLE client_group ("
        " group_id TEXT PRIMARY KEY,"
        " version INTEGER NOT NULL,"
        " generation INTEGER NOT NULL,"
        " state BLOB NOT NULL)",
        "CREATE TABLE group_offset ("
        " group_id TEXT NOT NULL,"
        " stream_id INTEGER NOT NULL,"
        " partition INTEGER NOT NULL,"
        " committed INTEGER NOT NULL,"
        " leader_epoch INTEGER NOT NULL,"
        " metadata TEXT,"
        " commit_ms INTEGER NOT NULL,"
        " expire_ms INTEGER NOT NULL,"
        " PRIMARY KEY (group_id, stream_id, partition)) WITHOUT ROWID",
        "CREATE INDEX group_offset_stream ON group_offset (stream_id)",
        "CREATE TABLE namespace ("
        " catalog TEXT NOT NULL,"
        " ns TEXT NOT NULL,"
        " properties TEXT NOT NULL,"
        " PRIMARY KEY (catalog, ns)) WITHOUT ROWID",
        NULL,
};

const char *const *const ls_sqlite_steps[] = { level_1 };
