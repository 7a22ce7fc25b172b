/* store/store_int.h - for the back ends of this folder. */
#pragma once
#include "store/store.h"

/* Whether `key` is one that a list asks for. */
static inline bool
store_listed(const char *key, const char *prefix, const char *after)
{
        return strncmp(key, prefix, strlen(prefix)) == 0 &&
               (after == NULL || strcmp(key, after) > 0);
}

/* The range of a get on an object of `size` bytes: len 0 becomes what there is from pos. */
static inline ls_err
store_range(uint64_t size, uint64_t pos, size_t *len)
{
        if (pos > size || *len > size - pos)
                return LS_OUT_OF_RANGE;
        if (*len == 0) {
                if (size - pos > SIZE_MAX / 2)
                        return LS_ELIMIT;
                *len = (size_t)(size - pos);
        }
        return LS_OK;
}
