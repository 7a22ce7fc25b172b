/* lake/shape.h - what a stream's table looks like: its columns, its sort order, its partition spec.
 *
 * Threads: any; the columns are static.
 */
#pragma once
#include "formats/iceberg/metadata.h"

/* The columns of raw mode, schema id 0; field ids are those of rows.h. */
extern const struct ls_iceberg_schema lake_columns;
/* Rows of a file are sorted by partition and offset: order id 1. */
extern const struct ls_iceberg_sort_order lake_sort_order;

#define LAKE_PARTITION_FIELDS_MAX 16

/* Reads the setting table.partition.by: transforms joined by ',', each `column`, `hour(column)`,
 * `bucket(16, column)` or `bucket[16](column)`; empty: unpartitioned. Names and ids as Iceberg's
 * writers give them; the result lies in `arena`. LS_INVALID with words. */
LS_MUST_USE ls_err lake_shape_parse(const char *text, struct ls_arena *arena,
                                    struct ls_iceberg_spec *ret_spec, struct ls_errinfo *reterr);
/* The same spec within a table's history: an equal one keeps its id, a new one gets the next id;
 * fields that were there before keep theirs (of source and transform). */
LS_MUST_USE ls_err lake_shape_place(const struct ls_iceberg_metadata *m, struct ls_arena *arena,
                                    struct ls_iceberg_spec *io_spec);
