/* stream/doctor.h - checks a data folder that no server uses, and explains what it finds. All calls
 * block. */
#pragma once
#include "base/options.h"

struct ls_doctor_report {
        uint64_t streams, partitions;
        uint64_t batches, batches_damaged; /* in the WAL */
        uint64_t files, files_damaged;     /* of tables */
        uint64_t segments, segments_unnamed;
        uint64_t problems; /* all findings that need a person */
};
enum ls_doctor_level { LS_DOCTOR_INFO, LS_DOCTOR_PROBLEM };

/* Looks at everything under the options' data dir: the metadata's own consistency, each batch in
 * the WAL (checksum), each data file (presence, size, footer; with `deep` every row against the
 * sums of its commit), segments that nothing names. `fn` gets a line a finding: what is damaged,
 * which topic, partition and offsets it held, what to do. Changes nothing but the broker's epoch.
 * LS_BUSY: a server uses the folder; LS_ABSENT: there is none; failures with words. */
LS_MUST_USE ls_err ls_doctor_check(const struct ls_options *options, bool deep,
                                   void (*fn)(void *ctx, enum ls_doctor_level level,
                                              const char *line),
                                   void *ctx, struct ls_doctor_report *ret_report,
                                   struct ls_errinfo *reterr);

/* Whether WAL segments or tables lie in a data folder: then its metadata must not be begun anew. */
bool ls_doctor_has_data(const char *dir);

/* Adds to the words of a failed ls_meta_open what can be done about a damaged database. */
void ls_doctor_hint(const char *dir, ls_err e, struct ls_errinfo *io_info);

struct ls_doctor_rebuilt {
        uint64_t objects, objects_committed; /* of the WAL: whole; lacking in the backup */
        uint64_t records, batches_refused;   /* in those */
        uint64_t streams;                    /* that the backup did not have */
        uint64_t tables;                     /* newer in the store than in the backup */
        uint64_t problems;
};
/* Makes the metadata database again, from the newest backup in the store, the WAL and the tables'
 * files: docs/rebuild.md. The old one, if there is any, is kept under another name beside it. `fn`
 * as above. LS_BUSY: a server uses the folder; LS_EXISTS: the database is whole (unless `force`);
 * failures; all with words, then nothing was changed. */
LS_MUST_USE ls_err ls_doctor_rebuild(const struct ls_options *options, bool force,
                                     void (*fn)(void *ctx, enum ls_doctor_level level,
                                                const char *line),
                                     void *ctx, struct ls_doctor_rebuilt *ret_report,
                                     struct ls_errinfo *reterr);
