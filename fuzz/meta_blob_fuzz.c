/* fuzz/meta_blob_fuzz.c - the packed blobs of the metadata store. The first byte chooses which; the
 * checksum is set right first, since no fuzzer finds it. What decodes must come back the same from
 * the writer. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/crc32c.h"
#include "meta/index_blob.h"
#include "meta/meta_int.h"
#include "meta/producers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BATCHES_MAX 4096

static bool
entry_eq(const struct ls_meta_entry *a, const struct ls_meta_entry *b)
{
        return a->partition == b->partition && a->records == b->records &&
               a->base_offset == b->base_offset && a->segment == b->segment && a->pos == b->pos &&
               a->bytes == b->bytes && a->flags == b->flags &&
               a->base_timestamp == b->base_timestamp && a->max_timestamp == b->max_timestamp &&
               a->producer_id == b->producer_id && a->producer_epoch == b->producer_epoch &&
               a->base_sequence == b->base_sequence && a->s0 == b->s0 && a->s1 == b->s1;
}

static size_t
index_read(ls_span blob, struct ls_meta_wal_batch *batches, struct ls_index_header *ret_header)
{
        struct ls_index_reader reader;
        struct ls_meta_entry e;
        size_t count = 0;
        ls_err result;

        if (ls_index_blob_open(&reader, blob) != LS_OK)
                return 0;
        while ((result = ls_index_blob_next(&reader, &e)) == LS_OK && count < BATCHES_MAX)
                batches[count++] = (struct ls_meta_wal_batch){ .entry = e };
        *ret_header = reader.header;
        return result == LS_END ? count : 0;
}

static void
try_index(ls_span blob)
{
        static struct ls_meta_wal_batch first[BATCHES_MAX], second[BATCHES_MAX];
        struct ls_index_header header;
        struct ls_buf buf;
        size_t count = index_read(blob, first, &header);

        if (count == 0)
                return;
        ls_buf_init(&buf, 1 << 20);
        LS_ASSERT(ls_index_blob_write(&buf, &header, first, count) == count);
        LS_ASSERT(!ls_buf_failed(&buf));
        LS_ASSERT(index_read(ls_buf_span(&buf), second, &header) == count);
        for (size_t i = 0; i < count; i++)
                LS_ASSERT(entry_eq(&first[i].entry, &second[i].entry));
        ls_buf_done(&buf);
}

static void
try_chunk(ls_span blob)
{
        struct ls_meta_partition parts[LS_META_CHUNK_PARTITIONS];
        struct ls_buf buf;
        uint32_t count;

        if (meta_chunk_decode(blob, parts, &count) != LS_OK)
                return;
        ls_buf_init(&buf, 1 << 20);
        meta_chunk_encode(&buf, parts, count);
        LS_ASSERT(ls_span_eq(ls_buf_span(&buf), blob));
        ls_buf_done(&buf);
}

static void
try_producers(ls_span blob)
{
        struct meta_producers *p = meta_producers_new(), *again = meta_producers_new();
        struct ls_buf one, two;

        ls_buf_init(&one, 1 << 20);
        ls_buf_init(&two, 1 << 20);
        if (meta_producers_decode(blob, p) == LS_OK) {
                meta_producers_encode(&one, p);
                LS_ASSERT(meta_producers_decode(ls_buf_span(&one), again) == LS_OK);
                meta_producers_encode(&two, again);
                LS_ASSERT(ls_span_eq(ls_buf_span(&one), ls_buf_span(&two)));
        }
        ls_buf_done(&one);
        ls_buf_done(&two);
        meta_producers_free(p);
        meta_producers_free(again);
}

static void
try_one(uint8_t which, ls_span blob)
{
        switch (which % 3) {
        case 0: try_index(blob); break;
        case 1: try_chunk(blob); break;
        case 2: try_producers(blob); break;
        }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint8_t *copy;
        size_t len;

        if (size < 1)
                return 0;
        len = size - 1;
        copy = malloc(len + 1);
        if (copy == NULL)
                return 0;
        memcpy(copy, data + 1, len);
        try_one(data[0], ls_span_of(copy, len));
        if (len >= 4) {
                ls_set_le32(copy + len - 4, ls_crc32c(0, ls_span_of(copy, len - 4)));
                try_one(data[0], ls_span_of(copy, len));
        }
        free(copy);
        return 0;
}
