/* avro/avro_test.c - proves: schemas of every kind are read with their ids and logical types and
 * wrong ones refused; values encode to the bytes of the specification and come back; cut, huge
 * and hostile input ends in an outcome; container files of each codec round-trip and every damaged
 * byte is noticed or harmless. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "formats/avro/codec.h"
#include "formats/avro/file.h"
#include "formats/avro/limits.h"

static const uint8_t sync_marker[16] = "0123456789abcdef";

/* Schemas are written with ' for ", to be readable in C. */
static ls_err
try_parse(const char *quoted, struct ls_avro_schema **ret_schema)
{
        char *json = ls_strdup(quoted);
        struct ls_errinfo info = { "" };
        ls_err e;

        for (char *at = json; *at != 0; at++)
                if (*at == '\'')
                        *at = '"';
        e = ls_avro_schema_parse(ls_str_of(json), ret_schema, &info);
        if (e != LS_OK)
                assert_true(info.text[0] != 0); /* every refusal has words */
        ls_free(json);
        return e;
}

static struct ls_avro_schema *
parse(const char *quoted)
{
        struct ls_avro_schema *s = NULL;

        assert_int_equal(try_parse(quoted, &s), LS_OK);
        return s;
}

/* ---- schemas -------------------------------------------------------------------------------- */

static const char all_kinds[] =
        "{'type':'record','name':'r','namespace':'a.b','doc':'d','aliases':['old'],'fields':["
        "{'name':'n','type':['null','long'],'default':null,'field-id':7},"
        "{'name':'e','type':{'type':'enum','name':'E','symbols':['X','Y'],'default':'Y'}},"
        "{'name':'f','type':{'type':'fixed','name':'c.F','size':16,'logicalType':'uuid'}},"
        "{'name':'l','type':{'type':'array','items':'int','element-id':9}},"
        "{'name':'m','type':{'type':'map','values':'bytes','key-id':3,'value-id':4}},"
        "{'name':'again','type':'E','aliases':['x','y']},"
        "{'name':'self','type':['null','a.b.r']},"
        "{'name':'t','type':{'type':'long','logicalType':'timestamp-micros','adjust-to-utc':true}},"
        "{'name':'d','type':{'type':'bytes','logicalType':'decimal','precision':9,'scale':2}}]}";

static void
test_schema_kinds(void **state)
{
        LS_AUTO(ls_avro_schema_free) struct ls_avro_schema *s = parse(all_kinds);
        const struct ls_avro_type *r = ls_avro_schema_root(s), *t;
        int null;

        assert_int_equal(r->kind, LS_AVRO_RECORD);
        assert_true(ls_str_is(r->name, "a.b.r"));
        assert_true(ls_str_is(r->aliases[0], "a.b.old"));
        assert_int_equal(r->count, 9);
        assert_int_equal(r->fields[0].field_id, 7);
        assert_true(ls_str_is(r->fields[0].default_json, "null"));
        t = ls_avro_unwrap(r->fields[0].type, &null);
        assert_int_equal(t->kind, LS_AVRO_LONG);
        assert_int_equal(null, 0);
        t = r->fields[1].type;
        assert_true(ls_str_is(t->name, "a.b.E") && ls_str_is(t->default_symbol, "Y"));
        assert_ptr_equal(t, r->fields[5].type); /* one type, used twice */
        assert_int_equal(r->fields[5].alias_count, 2);
        assert_true(ls_str_is(r->fields[2].type->name, "c.F"));
        assert_int_equal(r->fields[2].type->logical, LS_AVRO_UUID);
        assert_int_equal(r->fields[3].type->element_id, 9);
        assert_int_equal(r->fields[4].type->key_id, 3);
        assert_int_equal(r->fields[4].type->value_id, 4);
        assert_ptr_equal(r->fields[6].type->branches[1], r); /* recursion */
        assert_true(r->fields[7].type->adjust_to_utc);
        assert_int_equal(r->fields[7].type->logical, LS_AVRO_TIMESTAMP_MICROS);
        assert_int_equal(r->fields[8].type->precision, 9);
        assert_int_equal(r->fields[8].type->scale, 2);
        /* union 1, enum 1, fixed 16, array 1, map 1, enum 1, union 1, long 1, bytes 1 */
        assert_int_equal(r->bytes_min, 24);
        assert_ptr_equal(ls_avro_field_by_id(r, 7), &r->fields[0]);
        assert_null(ls_avro_field_by_id(r, 8));
        assert_null(ls_avro_field_by_id(r, LS_AVRO_NO_ID));
        assert_ptr_equal(ls_avro_field_by_name(r, LS_STR("d")), &r->fields[8]);
}

static void
test_schema_refusals(void **state)
{
        static const char *const bad[] = {
                "",
                "{",
                "'nosuch'",
                "7",
                "[]",
                "['int',['long']]",
                "['int','int']",
                "[{'type':'array','items':'int'},{'type':'array','items':'long'}]",
                "{'type':'record','name':'r'}",
                "{'type':'record','fields':[]}",
                "{'type':'record','name':'int','fields':[]}",
                "{'type':'record','name':'','fields':[]}",
                "{'type':'record','name':'r','fields':[{'type':'int'}]}",
                "{'type':'record','name':'r','fields':[{'name':'a'}]}",
                ("{'type':'record','name':'r','fields':[{'name':'a','type':'int'},"
                 "{'name':'a','type':'int'}]}"),
                "{'type':'record','name':'r','aliases':3,'fields':[]}",
                "{'type':'enum','name':'e','symbols':[]}",
                "{'type':'enum','name':'e','symbols':['a','a']}",
                "{'type':'enum','name':'e','symbols':['a'],'default':'b'}",
                "{'type':'fixed','name':'f'}",
                "{'type':'fixed','name':'f','size':-1}",
                "{'type':'array'}",
                "{'type':'map'}",
                "[{'type':'fixed','name':'f','size':1},{'type':'fixed','name':'f','size':1}]",
        };

        for (size_t i = 0; i < LS_COUNT(bad); i++) {
                struct ls_avro_schema *s = NULL;

                assert_int_equal(try_parse(bad[i], &s), LS_INVALID);
                assert_null(s);
        }
}

static void
test_schema_too_deep(void **state)
{
        struct ls_avro_schema *s = NULL;
        struct ls_buf b;

        ls_buf_init(&b, 1 << 20);
        for (int i = 0; i < LS_AVRO_DEPTH_MAX + 1; i++)
                ls_buf_put_text(&b, "{'type':'array','items':");
        ls_buf_put_text(&b, "'int'");
        for (int i = 0; i < LS_AVRO_DEPTH_MAX + 1; i++)
                ls_buf_put_text(&b, "}");
        assert_int_equal(try_parse(ls_buf_cstr(&b), &s), LS_TOO_LARGE);
        ls_buf_done(&b);
}

/* A logical type that does not fit its type is ignored, as the specification says. */
static void
test_schema_logical_ignored(void **state)
{
        static const char *const plain[] = {
                "{'type':'string','logicalType':'date'}",
                "{'type':'bytes','logicalType':'decimal','precision':0}",
                "{'type':'bytes','logicalType':'decimal','precision':2,'scale':3}",
                "{'type':'bytes','logicalType':'decimal','precision':39}",
                "{'type':'fixed','name':'f','size':2,'logicalType':'decimal','precision':5}",
                "{'type':'fixed','name':'f','size':11,'logicalType':'duration'}",
                "{'type':'fixed','name':'f','size':15,'logicalType':'uuid'}",
                "{'type':'array','items':'int','logicalType':'map'}",
                "{'type':'int','logicalType':'no-such'}",
        };

        for (size_t i = 0; i < LS_COUNT(plain); i++) {
                LS_AUTO(ls_avro_schema_free) struct ls_avro_schema *s = parse(plain[i]);

                assert_int_equal(ls_avro_schema_root(s)->logical, LS_AVRO_PLAIN);
        }
}

static void
test_schema_names(void **state)
{
        /* The inner record is of the outer one's namespace; ".x" and "" are of none. */
        LS_AUTO(ls_avro_schema_free)
        struct ls_avro_schema *s =
                parse("{'type':'record','name':'n.r','fields':["
                      "{'name':'a','type':{'type':'record','name':'i','fields':[]}},"
                      "{'name':'b','type':'n.i'},{'name':'c','type':'i'},"
                      "{'name':'d','type':{'type':'fixed','name':'z','namespace':'','size':1}},"
                      "{'name':'e','type':{'type':'int','logicalType':'date'}}]}");
        const struct ls_avro_type *r = ls_avro_schema_root(s);

        assert_ptr_equal(r->fields[0].type, r->fields[1].type);
        assert_ptr_equal(r->fields[0].type, r->fields[2].type);
        assert_true(ls_str_is(r->fields[3].type->name, "z"));
        assert_int_equal(r->fields[4].type->logical, LS_AVRO_DATE);
}

/* ---- values --------------------------------------------------------------------------------- */

static ls_err
decode_hex(const char *schema, const void *bytes, size_t len, struct ls_arena *arena,
           struct ls_avro_value *v, size_t *ret_left)
{
        struct ls_avro_schema *s = parse(schema);
        uint8_t *copy = ls_malloc(len + 1); /* exact end for the address sanitizer */
        struct ls_rd r, skip;
        ls_err e, e_skip;

        memcpy(copy, bytes, len);
        r = skip = ls_rd_of(ls_span_of(copy, len));
        e = ls_avro_decode(ls_avro_schema_root(s), &r, arena, v);
        e_skip = ls_avro_skip(ls_avro_schema_root(s), &skip);
        if (e == LS_OK) {
                assert_int_equal(e_skip, LS_OK);
                assert_ptr_equal(r.pos, skip.pos);
        }
        *ret_left = ls_rd_left(&r);
        ls_free(copy);
        ls_avro_schema_free(s);
        return e;
}

static void
test_value_spec_examples(void **state)
{
        struct ls_arena a;
        struct ls_avro_value v;
        size_t left;

        ls_arena_init(&a, 1 << 20);
        assert_int_equal(decode_hex("{'type':'record','name':'test','fields':["
                                    "{'name':'a','type':'long'},{'name':'b','type':'string'}]}",
                                    "\x36\x06\x66\x6f\x6f", 5, &a, &v, &left),
                         LS_OK);
        assert_int_equal(left, 0);
        assert_int_equal(v.items[0].i, 27);
        assert_int_equal(v.items[1].n, 3);
        assert_int_equal(
                decode_hex("{'type':'array','items':'long'}", "\x04\x06\x36\x00", 4, &a, &v, &left),
                LS_OK);
        assert_int_equal(v.n, 2);
        assert_int_equal(v.items[1].i, 27);
        /* The same in two blocks, the first with its size in bytes. */
        assert_int_equal(decode_hex("{'type':'array','items':'long'}", "\x01\x02\x06\x02\x36\x00",
                                    6, &a, &v, &left),
                         LS_OK);
        assert_int_equal(v.n, 2);
        assert_int_equal(v.items[0].i, 3);
        assert_int_equal(v.items[1].i, 27);
        assert_int_equal(decode_hex("['null','string']", "\x02\x02\x61", 3, &a, &v, &left), LS_OK);
        assert_int_equal(v.branch, 1);
        assert_int_equal(v.items[0].n, 1);
        assert_int_equal(decode_hex("['null','string']", "\x00", 1, &a, &v, &left), LS_OK);
        assert_int_equal(v.branch, 0);
        ls_arena_done(&a);
}

static void
test_value_refusals(void **state)
{
        static const struct {
                const char *schema;
                const char *bytes;
                size_t len;
                ls_err want;
        } bad[] = {
                { "'int'", "", 0, LS_CORRUPT },
                { "'int'", "\x80\x80\x80\x80\x10", 5, LS_CORRUPT }, /* 2^31 */
                { "'long'", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10, LS_CORRUPT },
                { "'boolean'", "\x02", 1, LS_CORRUPT },
                { "'float'", "\0\0\0", 3, LS_CORRUPT },
                { "'double'", "\0\0\0\0\0\0\0", 7, LS_CORRUPT },
                { "'string'", "\x01", 1, LS_CORRUPT },       /* length -1 */
                { "'string'", "\x04\x61", 2, LS_CORRUPT },   /* one byte short */
                { "['null','int']", "\x04", 1, LS_CORRUPT }, /* no such branch */
                { "['null','int']", "\x01", 1, LS_CORRUPT },
                { "{'type':'enum','name':'e','symbols':['a']}", "\x02", 1, LS_CORRUPT },
                { "{'type':'fixed','name':'f','size':4}", "\0\0\0", 3, LS_CORRUPT },
                { "{'type':'array','items':'int'}", "\x02\x02", 2, LS_CORRUPT }, /* no end */
                { "{'type':'array','items':'int'}", "\xfe\xff\xff\xff\x0f", 5, LS_CORRUPT },
                { "{'type':'array','items':'int'}", "\x01\xfe\x01", 3, LS_CORRUPT },
                { "{'type':'map','values':'int'}", "\x02\x02\x61", 3, LS_CORRUPT },
                { "{'type':'array','items':'null'}", "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10,
                  LS_CORRUPT },
                /* INT64_MIN items */
                { "{'type':'array','items':'int'}", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00",
                  11, LS_CORRUPT },
                /* a record that holds itself has no end */
                { "{'type':'record','name':'r','fields':[{'name':'r','type':'r'}]}", "", 0,
                  LS_TOO_LARGE },
        };
        struct ls_arena a;

        ls_arena_init(&a, 64 << 20);
        for (size_t i = 0; i < LS_COUNT(bad); i++) {
                struct ls_avro_value v;
                size_t left;

                assert_int_equal(decode_hex(bad[i].schema, bad[i].bytes, bad[i].len, &a, &v, &left),
                                 bad[i].want);
        }
        ls_arena_done(&a);
}

/* Records of empty records: 100^6 values in no bytes must end soon, decoding and skipping. */
static void
test_value_empty_bomb(void **state)
{
        struct ls_avro_schema *s;
        struct ls_avro_value v;
        struct ls_arena a;
        struct ls_buf b;
        struct ls_rd r;

        ls_buf_init(&b, 1 << 20);
        ls_buf_put_text(&b, "[{'type':'record','name':'r0','fields':[]}");
        for (int i = 1; i <= 6; i++) {
                ls_buf_printf(&b, ",{'type':'record','name':'r%d','fields':[", i);
                for (int f = 0; f < 100; f++)
                        ls_buf_printf(&b, "%s{'name':'f%d','type':'r%d'}", f ? "," : "", f, i - 1);
                ls_buf_put_text(&b, "]}");
        }
        ls_buf_put_text(&b, "]");
        s = parse(ls_buf_cstr(&b));
        ls_arena_init(&a, 16 << 20);
        r = ls_rd_of(ls_span_of("\x0c", 1));
        assert_int_equal(ls_avro_decode(ls_avro_schema_root(s), &r, &a, &v), LS_TOO_LARGE);
        r = ls_rd_of(ls_span_of("\x0c", 1));
        assert_int_equal(ls_avro_skip(ls_avro_schema_root(s), &r), LS_TOO_LARGE);
        ls_arena_done(&a);
        ls_avro_schema_free(s);
        ls_buf_done(&b);
}

/* One value of the schema above; the same bytes come out again, and every cut is noticed. */
static void
test_value_round_trip(void **state)
{
        LS_AUTO(ls_avro_schema_free) struct ls_avro_schema *s = parse(all_kinds);
        const struct ls_avro_type *t = ls_avro_schema_root(s);
        struct ls_avro_value n = { .i = -5 }, null = { .i = 0 };
        struct ls_avro_value list[2] = { { .i = INT32_MIN }, { .i = INT32_MAX } };
        struct ls_avro_pair pair = { LS_STR("k"), { .bytes = (const uint8_t *)"v", .n = 1 } };
        struct ls_avro_value fields[9] = {
                { .items = &n, .branch = 1 },
                { .i = 1 },
                { .bytes = sync_marker, .n = 16 },
                { .items = list, .n = 2 },
                { .pairs = &pair, .n = 1 },
                { .i = 0 },
                { .items = &null, .branch = 0 },
                { .i = INT64_MIN },
                { .bytes = (const uint8_t *)"\xff", .n = 1 },
        };
        struct ls_avro_value v = { .items = fields, .n = 9 }, back;
        struct ls_buf b, again;
        struct ls_arena a;

        ls_arena_init(&a, 1 << 20);
        ls_buf_init(&b, 1 << 20);
        ls_buf_init(&again, 1 << 20);
        assert_int_equal(ls_avro_encode(t, &v, &b), LS_OK);
        for (size_t cut = 0; cut <= b.len; cut++) {
                struct ls_rd r = ls_rd_of(ls_span_of(b.ptr, cut));
                struct ls_rd r2 = r;

                assert_int_equal(ls_avro_decode(t, &r, &a, &back),
                                 cut < b.len ? LS_CORRUPT : LS_OK);
                assert_int_equal(ls_avro_skip(t, &r2), cut < b.len ? LS_CORRUPT : LS_OK);
        }
        assert_int_equal(ls_avro_encode(t, &back, &again), LS_OK);
        assert_true(ls_span_eq(ls_buf_span(&b), ls_buf_span(&again)));
        fields[2].n = 15;
        assert_int_equal(ls_avro_encode(t, &v, &again), LS_INVALID);
        fields[2].n = 16;
        fields[1].i = 2;
        assert_int_equal(ls_avro_encode(t, &v, &again), LS_INVALID);
        fields[1].i = 1;
        fields[0].branch = 2;
        assert_int_equal(ls_avro_encode(t, &v, &again), LS_INVALID);
        fields[0].branch = 1;
        list[0].i = (int64_t)INT32_MAX + 1;
        assert_int_equal(ls_avro_encode(t, &v, &again), LS_INVALID);
        v.n = 8;
        assert_int_equal(ls_avro_encode(t, &v, &again), LS_INVALID);
        ls_buf_done(&b);
        ls_buf_done(&again);
        ls_arena_done(&a);
}

/* B049: any length, superfluous sign bytes, negative numbers. */
static void
test_decimal(void **state)
{
        static const struct {
                const char *bytes;
                size_t len;
                int64_t want;
        } good[] = {
                { "\x00", 1, 0 },
                { "\x01", 1, 1 },
                { "\xff", 1, -1 },
                { "\x7f", 1, 127 },
                { "\x00\x80", 2, 128 },
                { "\x80", 1, -128 },
                { "\xff\x7f", 2, -129 },
                { "\xff\xff", 2, -1 },
                { "\0\0\0\0\x05", 5, 5 },
                { "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe", 18,
                  -2 },
        };
        __int128 v;

        for (size_t i = 0; i < LS_COUNT(good); i++) {
                assert_true(ls_avro_decimal(ls_span_of(good[i].bytes, good[i].len), &v));
                assert_true(v == good[i].want);
        }
        assert_false(ls_avro_decimal(ls_span_of("", 0), &v));
        /* 129 bits */
        assert_false(ls_avro_decimal(ls_span_of("\x00\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 17), &v));
        assert_false(ls_avro_decimal(ls_span_of("\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 17), &v));
        assert_true(ls_avro_decimal(ls_span_of("\x00\x7f\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 17), &v));
        assert_true(v == (__int128)0x7f << 120);
}

/* ---- files ---------------------------------------------------------------------------------- */

static const char pair_schema[] = "{\"type\":\"record\",\"name\":\"p\",\"fields\":["
                                  "{\"name\":\"i\",\"type\":\"long\"},"
                                  "{\"name\":\"s\",\"type\":\"string\"}]}";

static void
write_file(struct ls_buf *out, enum ls_avro_codec codec, int64_t count)
{
        struct ls_avro_meta meta = { LS_STR("format-version"), ls_span_of("2", 1) };
        struct ls_avro_writer *w =
                ls_avro_writer_new(out, ls_str_of(pair_schema), codec, sync_marker, &meta, 1);

        for (int64_t i = 0; i < count; i++) {
                struct ls_buf *b = ls_avro_writer_record(w);

                ls_buf_put_varint(b, i);
                ls_avro_put_str(b, LS_STR("some text that is worth compressing"));
                assert_int_equal(ls_avro_writer_record_end(w), LS_OK);
        }
        assert_true(ls_avro_writer_bytes(w) >= out->len);
        assert_int_equal(ls_avro_writer_finish(w), LS_OK);
        ls_avro_writer_free(w);
}

/* Reads all; the number of records that came, or the outcome that ended it. */
static ls_err
read_file(ls_span file, int64_t *ret_count)
{
        LS_AUTO(ls_avro_reader_close) struct ls_avro_reader *r = NULL;
        struct ls_avro_value v;
        struct ls_arena a;
        ls_err e = ls_avro_reader_open(file, &r, NULL);

        *ret_count = 0;
        if (e != LS_OK)
                return e;
        ls_arena_init(&a, 1 << 20);
        while ((e = ls_avro_reader_next(r, &a, &v)) == LS_OK) {
                (*ret_count)++;
                ls_arena_reset(&a);
        }
        assert_int_equal(ls_avro_reader_next(r, &a, &v), e); /* it stays ended */
        ls_arena_done(&a);
        return e;
}

static void
test_file_round_trip(void **state)
{
        static const enum ls_avro_codec codecs[] = { LS_AVRO_CODEC_NULL, LS_AVRO_CODEC_DEFLATE,
                                                     LS_AVRO_CODEC_ZSTANDARD };
        static const int64_t counts[] = { 0, 1, 20000 }; /* 20000: several blocks */
        size_t plain = 0;

        for (size_t c = 0; c < LS_COUNT(codecs); c++) {
                for (size_t n = 0; n < LS_COUNT(counts); n++) {
                        struct ls_avro_reader *r;
                        uint64_t claimed;
                        struct ls_buf b;
                        int64_t count;

                        ls_buf_init(&b, 16 << 20);
                        write_file(&b, codecs[c], counts[n]);
                        assert_int_equal(read_file(ls_buf_span(&b), &count), LS_END);
                        assert_int_equal(count, counts[n]);
                        assert_int_equal(ls_avro_reader_open(ls_buf_span(&b), &r, NULL), LS_OK);
                        assert_int_equal(ls_avro_reader_count(r, &claimed), LS_OK);
                        assert_int_equal(claimed, counts[n]);
                        assert_true(ls_span_eq(ls_avro_reader_meta(r, "format-version"),
                                               ls_span_of("2", 1)));
                        assert_null(ls_avro_reader_meta(r, "nosuch").ptr);
                        ls_avro_reader_close(r);
                        if (codecs[c] == LS_AVRO_CODEC_NULL)
                                plain = b.len;
                        else if (counts[n] > 1)
                                assert_true(b.len < plain / 2);
                        ls_buf_done(&b);
                }
        }
}

/* Each byte wrong in turn, each cut: an outcome, never a crash, and never more records than there
 * are. A cut between blocks is a shorter valid file: Avro cannot tell. */
static void
test_file_damage(void **state)
{
        static const enum ls_avro_codec codecs[] = { LS_AVRO_CODEC_NULL, LS_AVRO_CODEC_DEFLATE,
                                                     LS_AVRO_CODEC_ZSTANDARD };

        for (size_t c = 0; c < LS_COUNT(codecs); c++) {
                struct ls_buf b;
                size_t head;
                int64_t count;

                ls_buf_init(&b, 1 << 20);
                write_file(&b, codecs[c], 0);
                head = b.len;
                ls_buf_clear(&b);
                write_file(&b, codecs[c], 5);
                for (size_t i = 0; i < b.len; i++) {
                        uint8_t *cut = ls_malloc(i + 1);
                        ls_err e;

                        memcpy(cut, b.ptr, i);
                        e = read_file(ls_span_of(cut, i), &count);
                        assert_true(e == (i == head ? LS_END : LS_CORRUPT));
                        ls_free(cut);
                        b.ptr[i] ^= 0x55;
                        e = read_file(ls_buf_span(&b), &count);
                        assert_true(e != LS_OK && count <= 5);
                        b.ptr[i] ^= 0x55;
                }
                ls_buf_done(&b);
        }
}

static void
test_file_refusals(void **state)
{
        struct ls_avro_reader *r = NULL;
        struct ls_errinfo info;
        struct ls_buf b;
        int64_t count;

        assert_int_equal(ls_avro_reader_open(LS_SPAN_NULL, &r, &info), LS_CORRUPT);
        assert_int_equal(ls_avro_reader_open(ls_span_of("PAR1", 4), &r, &info), LS_CORRUPT);
        /* a codec of another world */
        ls_buf_init(&b, 1 << 20);
        ls_buf_put(&b, "Obj\x01", 4);
        ls_buf_put_varint(&b, 2);
        ls_avro_put_str(&b, LS_STR("avro.codec"));
        ls_avro_put_str(&b, LS_STR("bzip9"));
        ls_avro_put_str(&b, LS_STR("avro.schema"));
        ls_avro_put_str(&b, LS_STR("\"null\""));
        ls_buf_put_varint(&b, 0);
        ls_buf_put(&b, sync_marker, 16);
        assert_int_equal(ls_avro_reader_open(ls_buf_span(&b), &r, &info), LS_UNSUPPORTED);
        ls_buf_done(&b);
        /* 2^40 records of no bytes */
        ls_buf_init(&b, 1 << 20);
        ls_buf_put(&b, "Obj\x01", 4);
        ls_buf_put_varint(&b, 1);
        ls_avro_put_str(&b, LS_STR("avro.schema"));
        ls_avro_put_str(&b, LS_STR("\"null\""));
        ls_buf_put_varint(&b, 0);
        ls_buf_put(&b, sync_marker, 16);
        ls_buf_put_varint(&b, (int64_t)1 << 40);
        ls_buf_put_varint(&b, 0);
        ls_buf_put(&b, sync_marker, 16);
        assert_int_equal(read_file(ls_buf_span(&b), &count), LS_CORRUPT);
        assert_int_equal(count, 0);
        ls_buf_done(&b);
}

static void
test_file_bomb(void **state)
{
        struct ls_buf plain, packed, out;

        ls_buf_init(&plain, 128 << 20);
        ls_buf_init(&packed, 128 << 20);
        ls_buf_init(&out, 128 << 20);
        memset(ls_buf_add(&plain, 8 << 20), 0, 8 << 20);
        assert_int_equal(ls_avro_compress(LS_AVRO_CODEC_DEFLATE, ls_buf_span(&plain), &packed),
                         LS_OK);
        assert_int_equal(
                ls_avro_decompress(LS_AVRO_CODEC_DEFLATE, ls_buf_span(&packed), &out, 1 << 20),
                LS_TOO_LARGE);
        ls_buf_clear(&out);
        assert_int_equal(
                ls_avro_decompress(LS_AVRO_CODEC_DEFLATE, ls_buf_span(&packed), &out, 8 << 20),
                LS_OK);
        assert_int_equal(out.len, 8 << 20);
        /* bytes behind the end of the stream */
        ls_buf_put_u8(&packed, 0);
        ls_buf_clear(&out);
        assert_int_equal(
                ls_avro_decompress(LS_AVRO_CODEC_DEFLATE, ls_buf_span(&packed), &out, 8 << 20),
                LS_CORRUPT);
        ls_buf_done(&plain);
        ls_buf_done(&packed);
        ls_buf_done(&out);
}

/* What does not fit in the output is a failure, not a short file. */
static void
test_file_full(void **state)
{
        struct ls_avro_writer *w;
        struct ls_buf out;

        ls_buf_init(&out, 200);
        w = ls_avro_writer_new(&out, ls_str_of(pair_schema), LS_AVRO_CODEC_NULL, sync_marker, NULL,
                               0);
        for (int i = 0; i < 10; i++) {
                ls_buf_put_varint(ls_avro_writer_record(w), i);
                ls_avro_put_str(ls_avro_writer_record(w), LS_STR("0123456789"));
                (void)!ls_avro_writer_record_end(w);
        }
        assert_int_equal(ls_avro_writer_finish(w), LS_ELIMIT);
        ls_avro_writer_free(w);
        ls_buf_done(&out);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_schema_kinds),
                cmocka_unit_test(test_schema_refusals),
                cmocka_unit_test(test_schema_too_deep),
                cmocka_unit_test(test_schema_logical_ignored),
                cmocka_unit_test(test_schema_names),
                cmocka_unit_test(test_value_spec_examples),
                cmocka_unit_test(test_value_refusals),
                cmocka_unit_test(test_value_empty_bomb),
                cmocka_unit_test(test_value_round_trip),
                cmocka_unit_test(test_decimal),
                cmocka_unit_test(test_file_round_trip),
                cmocka_unit_test(test_file_damage),
                cmocka_unit_test(test_file_refusals),
                cmocka_unit_test(test_file_bomb),
                cmocka_unit_test(test_file_full),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
