/* formats/parquet/bloom.c - see bloom.h. */
#include "formats/parquet/bloom.h"

#include <xxhash.h>

#include "base/assert.h"
#include "base/buf.h"

static const uint32_t bloom_salt[8] = { 0x47b6137bU, 0x44974d91U, 0x8824ad5bU, 0xa2b7289dU,
                                        0x705495c7U, 0x2df1424bU, 0x9efc4947U, 0x5c6bfb31U };

uint32_t
ls_bloom_bytes(uint64_t distinct, uint32_t bytes_max)
{
        /* 1 in 100 takes 9.7 bits a value in split blocks; doubled powers give 9.7 to 19.4 */
        uint64_t want = distinct < ((uint64_t)1 << 40) ? distinct * 97 / 80 : UINT64_MAX;
        uint32_t bytes = LS_BLOOM_BLOCK_BYTES;

        while (bytes < want && bytes <= bytes_max / 2)
                bytes *= 2;
        return bytes;
}

uint64_t
ls_bloom_hash(ls_span value)
{
        return XXH64(value.ptr, value.len, 0);
}

uint64_t
ls_bloom_hash_value(const struct ls_vec *v, size_t index)
{
        if (v->type.physical == LS_COL_BYTES)
                return ls_bloom_hash(v->span[index]);
        return ls_bloom_hash(ls_span_of(v->u8 + index * v->value_bytes, v->value_bytes));
}

static size_t
bloom_block(uint32_t bytes, uint64_t hash)
{
        return (size_t)((hash >> 32) * (bytes / LS_BLOOM_BLOCK_BYTES) >> 32) * LS_BLOOM_BLOCK_BYTES;
}

void
ls_bloom_add(uint8_t *bits, uint32_t bytes, uint64_t hash)
{
        uint8_t *block = bits + bloom_block(bytes, hash);

        LS_ASSERT(bytes >= LS_BLOOM_BLOCK_BYTES);
        for (int i = 0; i < 8; i++) {
                uint32_t bit = (uint32_t)hash * bloom_salt[i] >> 27;

                ls_set_le32(block + i * 4, ls_get_le32(block + i * 4) | (uint32_t)1 << bit);
        }
}

bool
ls_bloom_maybe(const uint8_t *bits, uint32_t bytes, uint64_t hash)
{
        const uint8_t *block = bits + bloom_block(bytes, hash);

        LS_ASSERT(bytes >= LS_BLOOM_BLOCK_BYTES);
        for (int i = 0; i < 8; i++) {
                uint32_t bit = (uint32_t)hash * bloom_salt[i] >> 27;

                if ((ls_get_le32(block + i * 4) >> bit & 1) == 0)
                        return false;
        }
        return true;
}
