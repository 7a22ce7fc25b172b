/* stream/rebuild_int.h - what rebuild.c (the whole, the WAL) and rebuild_table.c share. */
#pragma once
#include "meta/rebuild.h"
#include "store/store.h"
#include "stream/doctor.h"

/* A whole WAL object. */
struct rebuild_object {
        uint64_t segment, pos, bytes;
        uint64_t epoch, sequence, last_commit;
        int32_t broker;
};

/* A stream that stands in the new database. */
struct rebuild_stream {
        uint64_t id;
        ls_uuid topic_id;
        int32_t partitions;
        bool renamed; /* its name is lost, this one was made up */
};

struct rebuild {
        const struct ls_options *options;
        bool force;
        char *dir, *path; /* the data folder, the new database */
        void (*fn)(void *ctx, enum ls_doctor_level level, const char *line);
        void *ctx;
        struct ls_doctor_rebuilt report;
        struct ls_store *store;
        struct ls_meta *meta;
        int32_t broker;     /* whose WAL it is */
        ls_uuid cluster;    /* as the WAL has it */
        bool cluster_known; /* some segment told it */
        struct ls_meta_witness witness;
        struct rebuild_object *objects;
        size_t object_count, object_cap;
        struct rebuild_stream *streams;
        size_t stream_count, stream_cap;
        uint64_t *gone; /* ids of streams that were deleted before the backup */
        size_t gone_count, gone_cap;
};

/* A finding: the line goes to fn; a problem is counted. */
void rebuild_say(struct rebuild *r, enum ls_doctor_level level, const char *format, ...)
        LS_PRINTF(3, 4);
/* NULL: it is not in the new database. */
struct rebuild_stream *rebuild_stream_by_id(struct rebuild *r, uint64_t id);
struct rebuild_stream *rebuild_stream_by_topic(struct rebuild *r, ls_uuid topic_id);
/* Makes a stream of the given id; `kafka_name` NULL: "recovered-<id>". */
LS_MUST_USE ls_err rebuild_stream_make(struct rebuild *r, uint64_t id, const ls_uuid *topic_id,
                                       const char *kafka_name, int32_t partitions);
/* More partitions, when it has fewer. */
LS_MUST_USE ls_err rebuild_stream_grow(struct rebuild *r, struct rebuild_stream *s,
                                       int32_t partitions);

/* rebuild_table.c. First: streams that only their table's folder knows. Then, when the WAL is
 * committed again: the newest metadata file of each table whose files are all there becomes the
 * table, with the extents that its data files tell. */
LS_MUST_USE ls_err rebuild_tables_find(struct rebuild *r);
LS_MUST_USE ls_err rebuild_tables_adopt(struct rebuild *r);
