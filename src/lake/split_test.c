/* lake/split_test.c - proves of partitioned tables (table.partition.by): with every transform each
 * row lies in a file of its tuple, floored before 1970; the log is served from groups of files,
 * merged by offset; a commit's tuples are capped; merging, retention of log and table, and a change
 * of the setting keep all records; what no transform is, is refused with words. */
#include "formats/iceberg/value.h"
#include "lake/shape.h"
#include "lake/split.h"
#include "lake/test_kit.h"

/* --- each row in its file --------------------------------------------------------------------- */

static struct ls_iceberg_value
source_of(const struct kit *k, int32_t field_id, int32_t partition, const struct ls_record *r)
{
        switch (field_id) {
        case LS_ROWS_FIELD_VALUE:
                return r->value.ptr ? ls_iceberg_bytes(r->value) : LS_ICEBERG_NULL;
        case LS_ROWS_FIELD_KEY: return r->key.ptr ? ls_iceberg_bytes(r->key) : LS_ICEBERG_NULL;
        case LS_ROWS_FIELD_PARTITION: return ls_iceberg_int(partition);
        case LS_ROWS_FIELD_OFFSET: return ls_iceberg_int(r->offset);
        default: return ls_iceberg_int(r->timestamp * 1000);
        }
}

static void
check_row(struct kit *k, const struct ls_iceberg_spec *spec, const struct ls_iceberg_data_file *d,
          int32_t partition, const struct ls_record *r)
{
        for (uint32_t i = 0; i < spec->field_count; i++) {
                const struct ls_iceberg_partition_field *f = &spec->fields[i];
                const struct ls_iceberg_field *column =
                        ls_iceberg_field_by_id(&lake_columns, f->source_id);
                struct ls_iceberg_type type =
                        ls_iceberg_transform_result(&f->transform, &column->type);
                struct ls_iceberg_value v = source_of(k, f->source_id, partition, r);

                v = ls_iceberg_transform_apply(&f->transform, &column->type, &v);
                assert_int_equal(ls_iceberg_value_cmp(&type, &v, &d->partition[i]), 0);
        }
}

static int64_t
check_file(struct kit *k, const struct ls_iceberg_spec *spec, const struct ls_iceberg_data_file *d)
{
        struct ls_lake_spec stream = kit_spec(k);
        LS_AUTO(ls_free) char *key = lake_uri_key(&stream, d->path);
        struct ls_rows_batches how = { .bytes_max = 1 << 20 };
        const struct ls_rows_run *runs;
        struct ls_rows_reader *reader;
        struct ls_batch_iter it;
        int64_t rows = 0;
        size_t count;

        assert_ok(ls_rows_reader_open(k->local, key, (uint64_t)d->file_bytes, &reader));
        assert_ok(ls_rows_runs(reader, &runs, &count));
        ls_batch_iter_init(&it, 0);
        for (size_t i = 0; i < count; i++) {
                struct ls_meta_extent x = { .partition = runs[i].partition,
                                            .kind = LS_META_EXTENT_PARQUET,
                                            .base_offset = runs[i].base_offset,
                                            .end_offset = runs[i].end_offset,
                                            .first_row = runs[i].first_row,
                                            .rows = runs[i].rows,
                                            .hash = runs[i].hash };
                int64_t next = x.base_offset;

                while (next < x.end_offset) {
                        struct ls_batch_header header;
                        struct ls_record r;
                        struct ls_buf out;
                        ls_span bytes, batch;

                        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
                        assert_ok(ls_rows_read(reader, &x, next, &how, &out, &next));
                        bytes = ls_buf_span(&out);
                        while (ls_batch_next(&bytes, &batch, &header) == LS_OK) {
                                assert_ok(ls_batch_iter_open(&it, batch, false));
                                while (ls_batch_iter_next(&it, &r) == LS_OK) {
                                        check_row(k, spec, d, x.partition, &r);
                                        rows++;
                                }
                        }
                        ls_buf_done(&out);
                }
        }
        assert_int_equal(rows, d->record_count);
        ls_batch_iter_done(&it);
        ls_rows_reader_close(reader);
        return rows;
}

/* Every live file by the spec that its manifest names; *ret_specs: how many specs have files. */
static void
check_files(struct kit *k, size_t *ret_specs)
{
        const struct ls_iceberg_manifest_file *lines;
        const struct ls_iceberg_snapshot *s;
        struct ls_slice *bytes;
        struct kit_table t;
        bool seen[16] = { 0 };
        int64_t rows = 0;
        size_t count;

        kit_table_open(k, &t);
        s = ls_iceberg_metadata_snapshot(&t.m, t.m.current_snapshot_id);
        bytes = kit_object(k, s->manifest_list);
        assert_ok(ls_iceberg_list_read(ls_slice_span(bytes), &t.arena, &lines, &count, NULL));
        ls_slice_unref(bytes);
        for (size_t i = 0; i < count; i++) {
                const struct ls_iceberg_spec *spec =
                        ls_iceberg_metadata_spec(&t.m, (int32_t)lines[i].spec_id);
                struct ls_iceberg_manifest m;

                assert_non_null(spec);
                seen[spec->spec_id] = true;
                bytes = kit_object(k, lines[i].path);
                assert_ok(ls_iceberg_manifest_read(ls_slice_span(bytes), &lines[i], &t.arena, &m,
                                                   NULL));
                for (size_t n = 0; n < m.count; n++)
                        if (m.entries[n].status != LS_ICEBERG_DELETED)
                                rows += check_file(k, spec, &m.entries[n].file);
                ls_slice_unref(bytes);
        }
        assert_int_equal(rows, t.rows);
        *ret_specs = 0;
        for (size_t i = 0; i < LS_COUNT(seen); i++)
                *ret_specs += seen[i];
        kit_table_close(&t);
}
static void
check_all(struct kit *k)
{
        size_t specs;

        check_files(k, &specs);
        assert_int_equal(specs, 1);
        kit_check(k);
}
static size_t
file_count(struct kit *k)
{
        struct kit_table t;
        size_t count;

        kit_table_open(k, &t);
        count = t.file_count;
        kit_table_close(&t);
        return count;
}

/* --- transforms ------------------------------------------------------------------------------- */

static const struct {
        const char *setting;
        int64_t time_step;
} transforms[] = {
        { "__partition", 1000 },
        { "__timestamp", 60000 }, /* identity of a time: a tuple a record */
        { "bucket(5, __key)", 1000 },
        { "bucket[7](__offset)", 1000 },
        { "bucket(3, __timestamp)", 1000 },
        { "bucket(4, value)", 1000 },
        { "truncate(4, __key)", 1000 },
        { "truncate(5, __key)", 1000 },
        { "truncate(25, __offset)", 1000 },
        { "truncate(2, __partition)", 1000 },
        { "hour(__timestamp)", 600000 },
        { "day(__timestamp)", INT64_C(3600000) * 7 },
        { "month(__timestamp)", INT64_C(86400000) * 5 },
        { "year(__timestamp)", INT64_C(86400000) * 50 },
        { "hour(__timestamp)", -INT64_C(47) * 86400000 * 9 - 1 }, /* soon before 1970 */
        { "day(__timestamp)", -INT64_C(53) * 86400000 * 8 - 7 },
        { "void(__key)", 1000 },
        { "day(__timestamp), bucket(3, __key)", INT64_C(3600000) * 5 },
        { "void(__key), hour(__timestamp), __partition", 900000 },
        { "__key", 1000 },
};

static void
test_transforms(void **state)
{
        for (size_t i = 0; i < LS_COUNT(transforms); i++) {
                struct kit *k;

                kit_setup(state);
                k = *state;
                k->time_step = transforms[i].time_step;
                kit_set(k, "table.partition.by", transforms[i].setting);
                for (int round = 0; round < 3; round++) {
                        kit_produce(k, 0, 20);
                        kit_produce(k, 1, 7);
                        k->log_append_time = round == 1 && k->time_step > 0;
                        kit_produce(k, 0, 13);
                        kit_produce(k, 2, 1);
                        k->log_append_time = false;
                        assert_ok(kit_compact(k));
                }
                check_all(k);
                assert_true(file_count(k) >= 3);
                kit_reopen(k);
                check_all(k);
                for (int32_t p = 0; p < k->partitions; p++) /* from the middle of a group */
                        kit_check_log(k, p, k->end[p] / 2);
                kit_teardown(state);
        }
}

static void
test_what_is_refused(void **state)
{
        static const char *const bad[] = {
                "hours(__timestamp)",
                "bucket(0, __key)",
                "nowhere",
                "hour(__key)",
                "bucket(16)",
                "truncate(-1, __key)",
                "hour(__timestamp",
                "__headers",
                "year(__offset)",
                "truncate(3, __timestamp)",
                "bucket(257, __key)",
                "bucket(20, __key), bucket(20, value)",
                "day(__timestamp), day(__timestamp)",
                ",",
                "__key,",
        };
        struct ls_settings settings;
        struct ls_options options;
        struct ls_errinfo info;

        ls_options_init(&options);
        for (size_t i = 0; i < LS_COUNT(bad); i++) {
                info.text[0] = '\0';
                ls_settings_init(&settings, &options);
                assert_ok(ls_settings_set(&settings, LS_STR("table.partition.by"),
                                          ls_str_of(bad[i]), &info));
                if (ls_lake_settings_check(&settings, &info) != LS_INVALID)
                        fail_msg("taken: %s", bad[i]);
                assert_true(info.text[0] != '\0');
                ls_settings_done(&settings);
        }
        ls_options_done(&options);
}

/* --- the cap ---------------------------------------------------------------------------------- */

static void
test_tuples_are_capped(void **state)
{
        struct kit *k = *state;
        struct kit_table t;

        kit_set(k, "table.partition.by", "__offset");
        for (int i = 0; i < 10; i++) { /* one batch of many tuples is cut inside */
                kit_produce(k, 0, 100);
                kit_produce(k, 2, 3);
        }
        assert_ok(kit_compact(k));
        kit_table_open(k, &t);
        assert_int_equal(t.rows, 1030);
        /* offsets of partition 2 were there in partition 0's commit, but that one was full */
        assert_in_range(t.m.snapshot_count, 4, 5);
        for (size_t i = 0; i < t.m.snapshot_count; i++)
                assert_true(kit_summary(&t.m.snapshots[i], "added-data-files") <= LAKE_TUPLES_MAX);
        kit_table_close(&t);
        check_all(k);
        kit_reopen(k);
        check_all(k);
}

/* A range in 200 files: more than history looks up at once. */
static void
test_wide_groups(void **state)
{
        struct kit *k = *state;

        kit_set(k, "table.partition.by", "bucket(200, __offset)");
        for (int i = 0; i < 3; i++) {
                for (int n = 0; n < 10; n++)
                        kit_produce(k, 0, 100);
                kit_produce(k, 1, 50);
                assert_ok(kit_compact(k));
        }
        check_all(k);
        kit_reopen(k);
        check_all(k);
        kit_check_log(k, 0, 1999);
}

/* --- upkeep ----------------------------------------------------------------------------------- */

static void
test_merges_by_tuple(void **state)
{
        static const char *const settings[] = { "hour(__timestamp)", "bucket(4, __key)",
                                                "__partition" };

        for (size_t i = 0; i < LS_COUNT(settings); i++) {
                struct kit *k;
                size_t before;

                kit_setup(state);
                k = *state;
                kit_set(k, "table.partition.by", settings[i]);
                for (int round = 0; round < 20; round++) {
                        kit_fill(k, 1);
                        assert_ok(kit_compact(k));
                }
                before = file_count(k);
                check_all(k);
                assert_ok(lake_maintain(k->s));
                assert_true(file_count(k) < before / 2);
                check_all(k);
                kit_fill(k, 1);
                kit_reopen(k);
                check_all(k);
                kit_teardown(state);
        }
}

static void
move_start(struct kit *k, int32_t partition, int64_t start)
{
        int64_t now = 0;

        assert_ok(ls_meta_log_start(k->meta, k->row->id, partition, start, &now));
        ls_wal_set_start(k->wal_stream, partition, now);
}

/* Groups lose members to table.retention.ms, then all of them; holes meet. */
static void
test_table_retention_in_groups(void **state)
{
        struct kit *k = *state;
        int64_t rows;

        k->time_step = 1000000; /* the seconds that the test takes do not matter */
        kit_set(k, "table.partition.by", "truncate(30, __offset), bucket(2, __key)");
        for (int i = 0; i < 10; i++) {
                for (int n = 0; n < 10; n++)
                        kit_produce(k, 0, 10);
                assert_ok(kit_compact(k));
        }
        check_all(k);
        kit_clock_set(k, KIT_TIME + 1000 * k->time_step);
        kit_set(k, "table.retention.ms", "470000000");
        move_start(k, 0, 800);
        for (int i = 0; i < 40; i++) {
                assert_ok(lake_maintain(k->s));
                if (i % 8 == 0)
                        check_all(k);
        }
        rows = kit_rows(k);
        assert_in_range(rows, 470, 560);
        assert_ok(lake_maintain(k->s));
        assert_int_equal(kit_rows(k), rows); /* nothing more */
        kit_reopen(k);
        check_all(k);
}

/* A member of a group that is too young keeps the log's start back. */
static void
test_log_retention_in_groups(void **state)
{
        struct kit *k = *state;
        struct ls_wal_view view;

        k->time_step = 1000000;
        kit_set(k, "table.partition.by", "bucket(3, __offset)");
        for (int i = 0; i < 10; i++) {
                for (int n = 0; n < 10; n++)
                        kit_produce(k, 0, 10);
                assert_ok(kit_compact(k));
        }
        kit_clock_set(k, KIT_TIME + 1000 * k->time_step);
        kit_set(k, "retention.ms", "650500000");
        assert_ok(lake_retention(k->s));
        assert_ok(ls_wal_view(k->wal_stream, 0, &view));
        assert_int_equal(view.start, 300); /* 300 to 399 has records of both sides */
        check_all(k);
        assert_int_equal(kit_rows(k), 1000);
}

static void
test_setting_changes(void **state)
{
        static const char *const settings[] = {
                "", "hour(__timestamp)", "hour(__timestamp), bucket(3, __key)", "bucket(3, __key)",
                "", "hour(__timestamp)"
        };
        static const int ids[] = { 0, 1, 2, 3, 0, 1 };
        struct kit *k = *state;
        struct kit_table t;
        size_t specs;

        k->time_step = 300000;
        for (size_t i = 0; i < LS_COUNT(settings); i++) {
                kit_set(k, "table.partition.by", settings[i]);
                for (int n = 0; n < 10; n++) {
                        kit_fill(k, 1);
                        assert_ok(kit_compact(k));
                }
                kit_table_open(k, &t);
                assert_int_equal(t.m.default_spec_id, ids[i]);
                kit_table_close(&t);
                if (i % 2 == 1)
                        assert_ok(lake_maintain(k->s)); /* merges never mix specs */
                check_files(k, &specs);
                assert_int_equal(specs, LS_MIN(i + 1, 4u));
                kit_check(k);
        }
        kit_table_open(k, &t);
        assert_int_equal(t.m.spec_count, 4);
        /* the same source and transform keeps its field id over specs */
        assert_int_equal(ls_iceberg_metadata_spec(&t.m, 2)->fields[0].field_id,
                         ls_iceberg_metadata_spec(&t.m, 1)->fields[0].field_id);
        assert_int_equal(ls_iceberg_metadata_spec(&t.m, 3)->fields[0].field_id,
                         ls_iceberg_metadata_spec(&t.m, 2)->fields[1].field_id);
        kit_table_close(&t);
        kit_reopen(k);
        kit_check(k);
}

/* Times in groups are found as in one file. */
static void
test_find_time_in_groups(void **state)
{
        struct kit *k = *state;

        kit_set(k, "table.partition.by", "bucket(5, __offset)");
        for (int i = 0; i < 20; i++)
                kit_produce(k, 0, 10);
        assert_ok(kit_compact(k));
        for (int64_t i = 0; i < 200; i += 7) {
                int64_t offset = -1, timestamp = -1;

                assert_ok(ls_lake_find_time(k->s, 0, 0, KIT_TIME + i * k->time_step - 1, &offset,
                                            &timestamp));
                assert_int_equal(offset, i);
                assert_int_equal(timestamp, KIT_TIME + i * k->time_step);
        }
}

#define SPLIT_TEST(f) cmocka_unit_test_setup_teardown(f, kit_setup, kit_teardown)

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_transforms),
                cmocka_unit_test(test_what_is_refused),
                SPLIT_TEST(test_tuples_are_capped),
                SPLIT_TEST(test_wide_groups),
                cmocka_unit_test(test_merges_by_tuple),
                SPLIT_TEST(test_table_retention_in_groups),
                SPLIT_TEST(test_log_retention_in_groups),
                SPLIT_TEST(test_setting_changes),
                SPLIT_TEST(test_find_time_in_groups),
        };

        cmocka_set_test_filter(getenv("LS_TEST"));
        return cmocka_run_group_tests(tests, NULL, NULL);
}
