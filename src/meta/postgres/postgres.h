/* meta/postgres/postgres.h - the back end of meta/db.h on PostgreSQL 14 and later, over libpq.
 *
 * What a server must be set to, and what is refused: docs/postgresql.md. */
#pragma once
#include "meta/db.h"

/* A driver whose connections open the database of `url`: "postgres://…", or libpq's "host=… …". The
 * tables are in the schema that the URL names as its search_path, else in `lakestream`. `url` is
 * borrowed while the driver is in use. Threads: open from any. */
struct ls_db_driver ls_postgres_driver(const char *url);
