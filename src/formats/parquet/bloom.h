/* formats/parquet/bloom.h - split-block bloom filters (BloomFilter.md of parquet-format): 256-bit
 * blocks, eight bits a value, one in each 32-bit word; XXH64 with seed 0 of the PLAIN value. */
#pragma once
#include "formats/column/vec.h"

#define LS_BLOOM_BLOCK_BYTES 32u

/* Bytes (a power of two of blocks) for `distinct` values at a false-positive rate of 1 in 100,
 * within [32, bytes_max]. */
uint32_t ls_bloom_bytes(uint64_t distinct, uint32_t bytes_max);
/* Hash of value number `index`. */
uint64_t ls_bloom_hash_value(const struct ls_vec *v, size_t index);
uint64_t ls_bloom_hash(ls_span value);
/* `bits` is `bytes` long, a multiple of 32, not 0. */
void ls_bloom_add(uint8_t *bits, uint32_t bytes, uint64_t hash);
bool ls_bloom_maybe(const uint8_t *bits, uint32_t bytes, uint64_t hash);
