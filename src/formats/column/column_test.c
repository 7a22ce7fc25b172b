/* formats/column/column_test.c - proves: a schema computes levels and refuses types that do not
 * fit; vectors keep null and empty apart and reuse memory; shredding gives the levels that
 * Dremel's rules give for every mix of null, empty and "list with a null" (B045), and assembly
 * gives the rows back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/buf.h"
#include "formats/column/shred.h"

/* list<struct<a: int>>, all optional. */
static uint32_t
make_list_of_struct(struct ls_schema *s)
{
        uint32_t list, element;

        ls_schema_init(s);
        list = ls_schema_add_list(s, LS_SCHEMA_ROOT, LS_STR("items"), LS_COL_OPTIONAL, 1);
        element = ls_schema_add_group(s, list, LS_STR("element"), LS_COL_OPTIONAL, LS_COL_ANY, 2);
        ls_schema_add_leaf(s, element, LS_STR("a"), LS_COL_OPTIONAL, LS_TYPE_INT, 3);
        assert_int_equal(ls_schema_seal(s, NULL), LS_OK);
        return list;
}

static void
test_schema_levels(void **state)
{
        struct ls_schema s;
        uint32_t list;

        list = make_list_of_struct(&s);
        assert_int_equal(s.node_count, 5);
        assert_int_equal(s.leaf_count, 1);
        assert_int_equal(s.nodes[list].max_def, 2);
        assert_int_equal(s.nodes[list].max_rep, 1);
        assert_int_equal(ls_schema_leaf(&s, 0)->max_def, 4);
        assert_int_equal(ls_schema_leaf(&s, 0)->max_rep, 1);
        assert_int_equal(ls_schema_by_field_id(&s, 2), 3);
        assert_int_equal(ls_schema_by_field_id(&s, 9), LS_NODE_NONE);
        assert_int_equal(ls_schema_child(&s, LS_SCHEMA_ROOT, LS_STR("items")), 1);
        assert_int_equal(ls_schema_child(&s, LS_SCHEMA_ROOT, LS_STR("list")), LS_NODE_NONE);
        ls_schema_done(&s);
        ls_schema_done(&s);
}

static void
test_schema_subtrees(void **state)
{
        struct ls_schema s;
        uint32_t group, map;

        ls_schema_init(&s);
        ls_schema_add_leaf(&s, 0, LS_STR("x"), LS_COL_REQUIRED, LS_TYPE_LONG, 1);
        group = ls_schema_add_group(&s, 0, LS_STR("g"), LS_COL_OPTIONAL, LS_COL_ANY, 2);
        map = ls_schema_add_map(&s, group, LS_STR("m"), LS_COL_REQUIRED, 3);
        ls_schema_add_leaf(&s, map, LS_STR("key"), LS_COL_REQUIRED, LS_TYPE_STRING, 4);
        ls_schema_add_leaf(&s, map, LS_STR("value"), LS_COL_OPTIONAL, LS_TYPE_DOUBLE, 5);
        ls_schema_add_leaf(&s, group, LS_STR("y"), LS_COL_REQUIRED, LS_TYPE_UUID, 6);
        ls_schema_add_leaf(&s, 0, LS_STR("z"), LS_COL_OPTIONAL, LS_TYPE_DATE, 7);
        assert_int_equal(ls_schema_seal(&s, NULL), LS_OK);
        assert_int_equal(s.leaf_count, 5);
        assert_int_equal(s.nodes[group].leaf, 1);
        assert_int_equal(s.nodes[group].leaf_count, 3);
        assert_int_equal(s.nodes[group].child_count, 2);
        assert_int_equal(s.nodes[s.nodes[group].end].field_id, 7);
        assert_int_equal(s.nodes[map].leaf_count, 2);
        assert_int_equal(ls_schema_leaf(&s, 2)->max_def, 3);
        assert_true(ls_schema_equal(&s, &s));
        ls_schema_done(&s);
}

static void
expect_refused(struct ls_col_type type)
{
        struct ls_schema s;
        struct ls_errinfo info;

        ls_schema_init(&s);
        ls_schema_add_leaf(&s, 0, LS_STR("x"), LS_COL_REQUIRED, type, 1);
        assert_int_equal(ls_schema_seal(&s, &info), LS_INVALID);
        assert_non_null(strstr(info.text, "\"x\""));
        ls_schema_done(&s);
}

static void
test_schema_refuses(void **state)
{
        struct ls_schema s;
        uint32_t at = LS_SCHEMA_ROOT;

        expect_refused((struct ls_col_type){ .physical = LS_COL_INT64, .logical = LS_COL_STRING });
        expect_refused((struct ls_col_type){ .physical = LS_COL_INT64, .logical = LS_COL_DATE });
        expect_refused((struct ls_col_type){ .physical = LS_COL_FIXED });
        expect_refused((struct ls_col_type){ .physical = LS_COL_BYTES, .logical = LS_COL_LIST });
        expect_refused((struct ls_col_type){
                .physical = LS_COL_INT32, .logical = LS_COL_DECIMAL, .precision = 10, .scale = 2 });
        expect_refused((struct ls_col_type){
                .physical = LS_COL_FIXED, .logical = LS_COL_UUID, .fixed_bytes = 15 });
        ls_schema_init(&s);
        assert_int_equal(ls_schema_seal(&s, NULL), LS_INVALID); /* no columns */
        ls_schema_done(&s);
        ls_schema_init(&s);
        for (int i = 1; i < LS_SCHEMA_DEPTH_MAX; i++) {
                at = ls_schema_add_group(&s, at, LS_STR("g"), LS_COL_REPEATED, LS_COL_ANY, 1);
                assert_int_not_equal(at, LS_NODE_NONE);
        }
        assert_int_equal(ls_schema_add_group(&s, at, LS_STR("g"), LS_COL_REPEATED, LS_COL_ANY, 1),
                         LS_NODE_NONE);
        ls_schema_done(&s);
}

/* The rows of B045: one struct; empty; null; two null structs; a struct with null a; one struct. */
static void
test_shred_list_of_struct(void **state)
{
        static const uint8_t def[] = { 4, 1, 0, 2, 2, 3, 4 };
        static const uint8_t rep[] = { 0, 0, 0, 0, 1, 0, 0 };
        struct ls_schema schema;
        struct ls_columns c;
        struct ls_shred s;
        uint32_t list = make_list_of_struct(&schema), element = list + 1, a = list + 2;

        ls_columns_init(&c, &schema);
        ls_shred_init(&s, &c);
        for (int row = 0; row < 6; row++) {
                ls_shred_row(&s);
                if (row == 2) {
                        ls_shred_null(&s, 1);
                        continue;
                }
                ls_shred_enter(&s, 1);
                if (row == 1)
                        ls_shred_null(&s, list);
                for (int i = 0; row != 1 && i < (row == 3 ? 2 : 1); i++) {
                        ls_shred_item(&s, list);
                        if (row == 3) {
                                ls_shred_null(&s, element);
                        } else {
                                ls_shred_enter(&s, element);
                                if (row == 4)
                                        ls_shred_null(&s, a);
                                else
                                        ls_vec_value_i32(ls_shred_value(&s, a), row);
                                ls_shred_leave(&s);
                        }
                        ls_shred_leave(&s);
                }
                ls_shred_leave(&s);
        }
        ls_vec_check(&c.vecs[0]);
        assert_int_equal(ls_columns_rows(&c), 6);
        assert_int_equal(c.vecs[0].slots, 7);
        assert_memory_equal(c.vecs[0].def, def, sizeof def);
        assert_memory_equal(c.vecs[0].rep, rep, sizeof rep);
        assert_int_equal(c.vecs[0].count, 2);
        assert_int_equal(c.vecs[0].i32[0], 0);
        assert_int_equal(c.vecs[0].i32[1], 5);
        ls_columns_done(&c);
        ls_schema_done(&schema);
}

/* map<string, list<int>> with nulls and empties at each level, there and back as text. */
struct map_schema {
        struct ls_schema schema;
        uint32_t map, pair, key, list, item, element;
};

static void
make_map_of_list(struct map_schema *m)
{
        ls_schema_init(&m->schema);
        m->pair = ls_schema_add_map(&m->schema, 0, LS_STR("m"), LS_COL_OPTIONAL, 1);
        m->map = 1;
        m->key = ls_schema_add_leaf(&m->schema, m->pair, LS_STR("key"), LS_COL_REQUIRED,
                                    LS_TYPE_STRING, 2);
        m->item = ls_schema_add_list(&m->schema, m->pair, LS_STR("value"), LS_COL_OPTIONAL, 3);
        m->list = m->item - 1;
        m->element = ls_schema_add_leaf(&m->schema, m->item, LS_STR("element"), LS_COL_OPTIONAL,
                                        LS_TYPE_INT, 4);
        assert_int_equal(ls_schema_seal(&m->schema, NULL), LS_OK);
}

/* Shreds a list given as text: "-" null, "." empty, else items: a digit or "n". */
static void
shred_list(struct ls_shred *s, const struct map_schema *m, const char *text)
{
        if (*text == '-') {
                ls_shred_null(s, m->list);
                return;
        }
        ls_shred_enter(s, m->list);
        if (*text == '.')
                ls_shred_null(s, m->item);
        for (; *text != '.' && *text != '\0'; text++) {
                ls_shred_item(s, m->item);
                if (*text == 'n')
                        ls_shred_null(s, m->element);
                else
                        ls_vec_value_i32(ls_shred_value(s, m->element), *text - '0');
                ls_shred_leave(s);
        }
        ls_shred_leave(s);
}

static void
print_list(struct ls_unshred *u, const struct map_schema *m, struct ls_buf *out)
{
        if (!ls_unshred_has(u, m->list)) {
                ls_buf_put_text(out, "-");
                ls_unshred_skip(u, m->list);
                return;
        }
        if (!ls_unshred_has(u, m->item)) {
                ls_buf_put_text(out, ".");
                ls_unshred_skip(u, m->item);
                return;
        }
        do {
                if (ls_unshred_has(u, m->element)) {
                        size_t at = ls_unshred_value(u, m->element);

                        ls_buf_printf(out, "%d", u->columns->vecs[1].i32[at]);
                } else {
                        ls_buf_put_text(out, "n");
                        ls_unshred_skip(u, m->element);
                }
        } while (ls_unshred_more(u, m->item));
}

static void
print_row(struct ls_unshred *u, const struct map_schema *m, struct ls_buf *out)
{
        if (!ls_unshred_has(u, m->map)) {
                ls_buf_put_text(out, "null;");
                ls_unshred_skip(u, m->map);
                return;
        }
        if (!ls_unshred_has(u, m->pair)) {
                ls_unshred_skip(u, m->pair);
                ls_buf_put_text(out, "empty;");
                return;
        }
        do {
                size_t key = ls_unshred_value(u, m->key);

                assert_true(key < u->columns->vecs[0].count);
                ls_buf_put_span(out, u->columns->vecs[0].span[key]);
                ls_buf_put_text(out, "=");
                print_list(u, m, out);
                ls_buf_put_text(out, ",");
        } while (ls_unshred_more(u, m->pair));
        ls_buf_put_text(out, ";");
}

static void
test_shred_map_of_list(void **state)
{
        /* rows of key, list, key, list ... */
        static const char *const rows[][7] = {
                { "k", "12", "l", "-", NULL },
                { "null", NULL },
                { "empty", NULL },
                { "", ".", NULL },
                { "a", "n", "b", "n3n", "c", ".", NULL },
                { "z", "9", NULL },
        };
        struct map_schema m;
        struct ls_columns c;
        struct ls_shred s;
        struct ls_unshred u;
        struct ls_buf out;

        make_map_of_list(&m);
        ls_columns_init(&c, &m.schema);
        ls_shred_init(&s, &c);
        for (size_t i = 0; i < LS_COUNT(rows); i++) {
                ls_shred_row(&s);
                if (rows[i][1] == NULL && strcmp(rows[i][0], "null") == 0) {
                        ls_shred_null(&s, m.map);
                        continue;
                }
                ls_shred_enter(&s, m.map);
                if (rows[i][1] == NULL)
                        ls_shred_null(&s, m.pair);
                for (size_t j = 0; rows[i][1] != NULL && rows[i][j] != NULL; j += 2) {
                        ls_shred_item(&s, m.pair);
                        ls_vec_value_copy(ls_shred_value(&s, m.key),
                                          ls_span_of(rows[i][j], strlen(rows[i][j])));
                        shred_list(&s, &m, rows[i][j + 1]);
                        ls_shred_leave(&s);
                }
                ls_shred_leave(&s);
        }
        assert_int_equal(ls_columns_rows(&c), 6);
        ls_vec_check(&c.vecs[0]);
        ls_vec_check(&c.vecs[1]);
        ls_buf_init(&out, 1000);
        ls_unshred_init(&u, &c);
        while (ls_unshred_row(&u))
                print_row(&u, &m, &out);
        assert_false(u.failed);
        assert_string_equal(ls_buf_cstr(&out), "k=12,l=-,;null;empty;=.,;a=n,b=n3n,c=.,;z=9,;");
        ls_unshred_done(&u);
        ls_buf_done(&out);
        ls_columns_done(&c);
        ls_schema_done(&m.schema);
}

static void
test_unshred_lying_levels(void **state)
{
        struct ls_schema schema;
        struct ls_columns c;
        struct ls_unshred u;
        uint32_t list = make_list_of_struct(&schema);

        ls_columns_init(&c, &schema);
        ls_vec_slot(&c.vecs[0], 0, 4); /* says a value is there, but none was pushed */
        ls_unshred_init(&u, &c);
        assert_true(ls_unshred_has(&u, list + 2));
        assert_int_equal(ls_unshred_value(&u, list + 2), SIZE_MAX);
        assert_true(u.failed);
        assert_false(ls_unshred_row(&u));
        ls_unshred_done(&u);
        ls_columns_done(&c);
        ls_schema_done(&schema);
}

static void
test_vec_null_empty_and_reuse(void **state)
{
        struct ls_schema schema;
        struct ls_columns c;
        struct ls_slice *held = ls_slice_copy(ls_span_of("held", 4));
        char big[300000];

        memset(big, 'x', sizeof big);
        ls_schema_init(&schema);
        ls_schema_add_leaf(&schema, 0, LS_STR("v"), LS_COL_OPTIONAL, LS_TYPE_BINARY, 1);
        assert_int_equal(ls_schema_seal(&schema, NULL), LS_OK);
        ls_columns_init(&c, &schema);
        for (int round = 0; round < 3; round++) {
                struct ls_vec *v = &c.vecs[0];

                ls_vec_row_copy(v, LS_SPAN_NULL);
                ls_vec_row_copy(v, ls_span_of("", 0));
                ls_vec_row_copy(v, ls_span_of(big, sizeof big));
                ls_vec_row_ref(v, ls_slice_span(held));
                ls_vec_hold(v, held);
                for (int i = 0; i < 5000; i++)
                        ls_vec_row_copy(v, ls_span_of(big, 100));
                ls_vec_check(v);
                assert_int_equal(v->rows, 5004);
                assert_int_equal(v->count, 5003);
                assert_int_equal(v->def[0], 0);
                assert_int_equal(v->def[1], 1);
                assert_int_equal(v->span[0].len, 0);
                assert_non_null(v->span[0].ptr);
                assert_memory_equal(v->span[1].ptr, big, sizeof big);
                assert_memory_equal(v->span[2].ptr, "held", 4);
                assert_int_equal(ls_columns_plain_bytes(&c), 300000 + 4 + 500000 + 5003 * 4);
                assert_int_equal(atomic_load(&held->refs), 2);
                ls_columns_clear(&c);
                assert_int_equal(atomic_load(&held->refs), 1);
        }
        ls_slice_unref(held);
        ls_columns_done(&c);
        ls_schema_done(&schema);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_schema_levels),
                cmocka_unit_test(test_schema_subtrees),
                cmocka_unit_test(test_schema_refuses),
                cmocka_unit_test(test_shred_list_of_struct),
                cmocka_unit_test(test_shred_map_of_list),
                cmocka_unit_test(test_unshred_lying_levels),
                cmocka_unit_test(test_vec_null_empty_and_reuse),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
