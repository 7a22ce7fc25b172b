/* formats/parquet/dict.h - finds the distinct values of a vector: the dictionary and an index a
 * value. Memory is kept between chunks. Threads: one owner. */
#pragma once
#include "formats/column/vec.h"

struct ls_pq_dict {
        struct ls_vec values; /* distinct, in order of first sight; spans borrow from the source */
        uint32_t *indexes;    /* a value each */
        size_t index_count, index_cap;
        uint32_t *table; /* open addressing: index into values + 1, 0 is free */
        size_t table_cap;
        uint64_t plain_bytes; /* of values */
};
void ls_pq_dict_done(struct ls_pq_dict *d);
/* Builds over all values of `v`. False: given up, since the dictionary would pass bytes_max or most
 * values are distinct. The source must outlive the use of `values`. */
bool ls_pq_dict_build(struct ls_pq_dict *d, const struct ls_vec *v, uint64_t bytes_max);
