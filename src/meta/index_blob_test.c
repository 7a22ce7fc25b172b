/* meta/index_blob_test.c - proves: batches come back from the packed row as they went in, whatever
 * their numbers; refused ones are left out; every truncation and every flipped bit is noticed; a
 * newer version is told apart; the size stays what the design counts on. With SEED_DIR set, writes
 * the fuzz corpus. */
#include "base/crc32c.h"
#include "meta/producers.h"
#include "meta/test_kit.h"

static uint64_t rng_state = 0x1234567;
static uint64_t
rng(void)
{
        rng_state ^= rng_state << 13;
        rng_state ^= rng_state >> 7;
        rng_state ^= rng_state << 17;
        return rng_state;
}

static const struct ls_index_header header = { .segment = 77,
                                               .pos = 4096,
                                               .committed_ms = 1700000000000 };

static void
same_entry(const struct ls_meta_entry *a, const struct ls_meta_entry *b)
{
        assert_int_equal(a->partition, b->partition);
        assert_int_equal(a->records, b->records);
        assert_true(a->base_offset == b->base_offset);
        assert_true(a->segment == b->segment);
        assert_true(a->pos == b->pos);
        assert_int_equal(a->bytes, b->bytes);
        assert_int_equal(a->flags, b->flags);
        assert_true(a->base_timestamp == b->base_timestamp);
        assert_true(a->max_timestamp == b->max_timestamp);
        assert_true(a->producer_id == b->producer_id);
        assert_int_equal(a->producer_epoch, b->producer_epoch);
        assert_int_equal(a->base_sequence, b->base_sequence);
        assert_true(a->s0 == b->s0 && a->s1 == b->s1);
}

static void
round_trip(const struct ls_meta_wal_batch *b, size_t count, size_t accepted)
{
        struct ls_index_reader reader;
        struct ls_meta_entry e;
        struct ls_buf buf;

        ls_buf_init(&buf, 1 << 20);
        assert_int_equal(ls_index_blob_write(&buf, &header, b, count), accepted);
        if (accepted == 0) {
                assert_int_equal(buf.len, 0);
                ls_buf_done(&buf);
                return;
        }
        assert_ok(ls_index_blob_open(&reader, ls_buf_span(&buf)));
        assert_int_equal(reader.header.segment, 77);
        assert_int_equal(reader.header.pos, 4096);
        assert_true(reader.header.committed_ms == header.committed_ms);
        for (size_t i = 0; i < count; i++) {
                if (b[i].outcome != LS_OK)
                        continue;
                assert_ok(ls_index_blob_next(&reader, &e));
                same_entry(&b[i].entry, &e);
        }
        assert_int_equal(ls_index_blob_next(&reader, &e), LS_END);
        ls_buf_done(&buf);
}

static void
test_random_round_trip(void **state)
{
        for (int round = 0; round < 3000; round++) {
                struct ls_meta_wal_batch b[20];
                size_t count = 1 + rng() % 20, accepted = 0;
                int64_t offset = 0;
                int32_t partition = (int32_t)(rng() % 100);
                uint64_t pos = 4096 + rng() % 100;

                memset(b, 0, sizeof b);
                for (size_t i = 0; i < count; i++) {
                        struct ls_meta_entry *e = &b[i].entry;

                        if (i == 0 || rng() % 3 == 0) {
                                partition += 1 + (int32_t)(rng() % (round % 2 ? 2 : 4000));
                                offset = (int64_t)(rng() >> (1 + rng() % 60));
                        }
                        e->partition = partition;
                        e->segment = 77;
                        e->records = 1 + (int32_t)(rng() % (round % 3 ? 1000 : INT32_MAX));
                        if (offset > INT64_MAX - e->records)
                                offset = 0, e->partition = ++partition;
                        e->bytes = (uint32_t)(rng() >> (32 + rng() % 32));
                        e->pos = rng() % 4 ? pos : 4096 + (rng() >> (3 + rng() % 60));
                        pos = e->pos + e->bytes;
                        e->flags = rng() % 2 ? 0 : (uint8_t)rng();
                        e->base_timestamp = (int64_t)(rng() >> rng() % 64);
                        e->max_timestamp = (int64_t)(rng() >> rng() % 64);
                        e->producer_id = rng() % 2 ? -1 : (int64_t)(rng() % 5);
                        e->producer_epoch = -1;
                        e->base_sequence = -1;
                        if (e->producer_id >= 0) {
                                e->producer_epoch = (int16_t)(rng() % 3);
                                e->base_sequence = (int32_t)(rng() % 3000);
                                if (i > 0 && b[i - 1].entry.producer_id >= 0 && rng() % 2) {
                                        e->producer_id = b[i - 1].entry.producer_id;
                                        e->producer_epoch = b[i - 1].entry.producer_epoch;
                                        e->base_sequence =
                                                (int32_t)(((int64_t)b[i - 1].entry.base_sequence +
                                                           b[i - 1].entry.records) &
                                                          INT32_MAX);
                                }
                        }
                        e->s0 = rng();
                        e->s1 = e->records > 1 ? rng() : 0;
                        b[i].outcome = rng() % 5 ? LS_OK : LS_DUPLICATE;
                        if (b[i].outcome != LS_OK)
                                continue;
                        accepted++;
                        e->base_offset = offset;
                        offset += e->records;
                }
                round_trip(b, count, accepted);
        }
}

static void
test_damage_is_noticed(void **state)
{
        struct ls_meta_wal_batch b[3] = { kit_batch_of(1, 0, 5, 9, 1, 2), kit_batch(1, 0, 1),
                                          kit_batch(1, 7, 3) };
        struct ls_index_reader reader;
        struct ls_buf buf;

        b[0].entry.pos = b[1].entry.pos = b[2].entry.pos = 5000;
        b[1].entry.base_offset = 5;
        ls_buf_init(&buf, 1 << 20);
        assert_int_equal(ls_index_blob_write(&buf, &header, b, 3), 3);
        for (size_t len = 0; len < buf.len; len++)
                assert_int_equal(ls_index_blob_open(&reader, ls_span_of(buf.ptr, len)), LS_CORRUPT);
        for (size_t bit = 0; bit < buf.len * 8; bit++) {
                ls_err e;

                buf.ptr[bit / 8] ^= (uint8_t)(1 << bit % 8);
                e = ls_index_blob_open(&reader, ls_buf_span(&buf));
                assert_int_equal(e, bit / 8 == 1 && buf.ptr[1] > 1 ? LS_NEWER_FORMAT : LS_CORRUPT);
                buf.ptr[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        assert_ok(ls_index_blob_open(&reader, ls_buf_span(&buf)));
        ls_buf_done(&buf);
}

/* Some 30 bytes a batch, of which 16 are sums. */
static void
test_size(void **state)
{
        struct ls_meta_wal_batch b[64];
        uint64_t pos = 4200;
        struct ls_buf buf;

        for (int32_t i = 0; i < 64; i++) {
                b[i] = kit_batch_of(1, i, 100, 4000 + i, 0, 100000);
                b[i].entry.pos = pos;
                b[i].entry.bytes = 10000;
                pos += 10000;
                b[i].entry.base_offset = 1000000;
                b[i].entry.base_timestamp = header.committed_ms - 5;
                b[i].entry.max_timestamp = header.committed_ms;
        }
        ls_buf_init(&buf, 1 << 20);
        assert_int_equal(ls_index_blob_write(&buf, &header, b, 64), 64);
        assert_in_range(buf.len, 64 * 16, 64 * 36);
        ls_buf_done(&buf);
}

static void
test_chunk_damage(void **state)
{
        struct ls_meta_partition parts[3] = {
                { .end = 9, .start = 1, .stable = 9, .floor = 3, .max_timestamp = -1 }
        };
        struct ls_meta_partition out[LS_META_CHUNK_PARTITIONS];
        struct ls_buf buf;
        uint32_t count;

        ls_buf_init(&buf, 1 << 20);
        meta_chunk_encode(&buf, parts, 3);
        assert_int_equal(buf.len, 4 + 3 * 64 + 4);
        assert_ok(meta_chunk_decode(ls_buf_span(&buf), out, &count));
        assert_int_equal(count, 3);
        assert_memory_equal(&out[0], &parts[0], sizeof parts[0]);
        for (size_t len = 0; len < buf.len; len++)
                assert_int_equal(meta_chunk_decode(ls_span_of(buf.ptr, len), out, &count),
                                 LS_CORRUPT);
        for (size_t i = 0; i < buf.len; i++) {
                buf.ptr[i] ^= 0x10;
                assert_int_equal(meta_chunk_decode(ls_buf_span(&buf), out, &count),
                                 i == 1 ? LS_NEWER_FORMAT : LS_CORRUPT);
                buf.ptr[i] ^= 0x10;
        }
        /* a right checksum over numbers that cannot be */
        ls_set_le64(buf.ptr + 4, 100); /* start above end */
        ls_set_le32(buf.ptr + buf.len - 4, ls_crc32c(0, ls_span_of(buf.ptr, buf.len - 4)));
        assert_int_equal(meta_chunk_decode(ls_buf_span(&buf), out, &count), LS_CORRUPT);
        ls_buf_done(&buf);
}

static void
test_checkpoint_damage(void **state)
{
        struct meta_producers *p = meta_producers_new(), *out = meta_producers_new();
        struct ls_buf buf;

        for (int64_t i = 0; i < 300; i++) {
                struct ls_meta_wal_batch b =
                        kit_batch_of(1, 0, 5, i % 60, (int16_t)(i % 2), (int32_t)i * 5);

                b.entry.base_offset = i * 5;
                meta_producer_note(p, (uint32_t)(i % 3), &b.entry, 1000 + i, 0);
        }
        ls_buf_init(&buf, 1 << 20);
        p->through = 99;
        meta_producers_encode(&buf, p);
        assert_ok(meta_producers_decode(ls_buf_span(&buf), out));
        assert_int_equal(out->by_key.count, p->by_key.count);
        assert_int_equal(out->through, 99);
        for (size_t i = 0; i < buf.len; i++) {
                buf.ptr[i] ^= 0x40;
                assert_int_not_equal(meta_producers_decode(ls_buf_span(&buf), out), LS_OK);
                buf.ptr[i] ^= 0x40;
                assert_int_not_equal(meta_producers_decode(ls_span_of(buf.ptr, i), out), LS_OK);
        }
        /* sweeping forgets what is old */
        meta_producers_sweep(p, 1300 + 50, 100);
        assert_in_range(p->by_key.count, 1, 60);
        meta_producers_sweep(p, 10000, 100);
        assert_int_equal(p->by_key.count, 0);
        ls_buf_done(&buf);
        meta_producers_free(p);
        meta_producers_free(out);
}

/* --- the fuzz corpus --- */

static void
seed(const char *dir, const char *name, uint8_t which, ls_span blob)
{
        char path[256];
        FILE *f;

        snprintf(path, sizeof path, "%s/%s", dir, name);
        f = fopen(path, "wb");
        assert_non_null(f);
        fwrite(&which, 1, 1, f);
        fwrite(blob.ptr, 1, blob.len, f);
        fclose(f);
}

static void
test_write_seeds(void **state)
{
        struct ls_meta_wal_batch b[3] = { kit_batch_of(1, 0, 5, 9, 1, 2),
                                          kit_batch_of(1, 0, 1, 9, 1, 7), kit_batch(1, 7, 3) };
        struct ls_meta_partition parts[3] = { { .end = 9, .start = 1, .stable = 9, .floor = 3 } };
        struct meta_producers *p = meta_producers_new();
        const char *dir = getenv("SEED_DIR");
        struct ls_buf buf;

        if (dir == NULL) {
                meta_producers_free(p);
                return;
        }
        ls_buf_init(&buf, 1 << 20);
        b[0].entry.pos = b[1].entry.pos = b[2].entry.pos = 5000;
        b[1].entry.base_offset = 5;
        assert_int_equal(ls_index_blob_write(&buf, &header, b, 3), 3);
        seed(dir, "index-three", 0, ls_buf_span(&buf));
        seed(dir, "index-cut", 0, ls_span_of(buf.ptr, buf.len - 9));
        ls_buf_clear(&buf);
        meta_chunk_encode(&buf, parts, 3);
        seed(dir, "chunk-three", 1, ls_buf_span(&buf));
        seed(dir, "chunk-short", 1, ls_span_of(buf.ptr, 70));
        ls_buf_clear(&buf);
        meta_producer_note(p, 0, &b[0].entry, 1000, 0);
        meta_producer_note(p, 0, &b[1].entry, 1000, 0);
        meta_producers_encode(&buf, p);
        seed(dir, "producers-one", 2, ls_buf_span(&buf));
        seed(dir, "producers-count", 2,
             ls_span_of("\xad\x01\x05\xff\xff\xff\xff\x0f\x00\x00\x00\x00\x00\x00\x00\x00\x00",
                        17));
        seed(dir, "index-huge-count", 0,
             ls_span_of("\xb1\x01\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00\x00"
                        "\x00\x00\x00",
                        21));
        seed(dir, "empty", 0, ls_span_of("", 0));
        ls_buf_done(&buf);
        meta_producers_free(p);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_random_round_trip),
                cmocka_unit_test(test_damage_is_noticed),
                cmocka_unit_test(test_size),
                cmocka_unit_test(test_chunk_damage),
                cmocka_unit_test(test_checkpoint_damage),
                cmocka_unit_test(test_write_seeds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
