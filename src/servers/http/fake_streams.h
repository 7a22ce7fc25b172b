/* servers/http/fake_streams.h - a stream layer in memory, for the tests of this folder.
 *
 * It has what handlers can see: streams, namespaces, tables that become new versions when loaded
 * with new records.
 */
#pragma once
#include "stream/table.h"

struct ls_streams *fake_streams_new(void);
void fake_streams_free(struct ls_streams *s);
/* kafka_name is ns.name, or name alone for `default`. */
void fake_stream_add(struct ls_streams *s, const char *kafka_name, const char *ns, const char *name,
                     int32_t partitions);
/* Adds records to partition 0. */
void fake_append(struct ls_streams *s, const char *kafka_name, int64_t records);
void fake_set_table_enabled(struct ls_streams *s, const char *kafka_name, bool enabled);

/* What the next calls do and what was done. */
struct fake_knobs {
        int64_t behind;    /* loads say that so many records are missing */
        ls_err fail_loads; /* loads answer this */
        ls_err fail_ready;
        ls_err fail_namespaces;
        int64_t loads, commits;
};
struct fake_knobs *fake_knobs(struct ls_streams *s);
