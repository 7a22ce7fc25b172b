/* meta/sqlite/sqlite.h - the embedded back end of meta/db.h, on SQLite in WAL mode. */
#pragma once
#include "meta/db.h"

struct ls_sqlite_options {
        const char *path; /* borrowed for the life of the driver */
        bool sync_full;
};
/* A driver whose connections open `options->path` (made by the first one that writes). `options` is
 * borrowed while the driver is in use. Threads: open from any. */
struct ls_db_driver ls_sqlite_driver(const struct ls_sqlite_options *options);

/* Statements that make format level n + 1 from n; ends with NULL. schema.c */
extern const char *const *const ls_sqlite_steps[];
