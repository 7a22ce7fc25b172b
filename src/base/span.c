/* base/span.c - see span.h. */
#include "base/span.h"

#include "base/mem.h"

char *
ls_str_dup(ls_str s)
{
        char *copy;

        if (s.ptr == NULL)
                return NULL;
        copy = ls_malloc(s.len + 1);
        if (s.len > 0)
                memcpy(copy, s.ptr, s.len);
        copy[s.len] = '\0';
        return copy;
}

bool
ls_str_to_i64(ls_str s, int64_t min, int64_t max, int64_t *ret_value)
{
        int64_t value = 0;
        bool negative;
        size_t i = 0;

        if (s.ptr == NULL || s.len == 0)
                return false;
        negative = s.ptr[0] == '-';
        i = (negative || s.ptr[0] == '+') ? 1 : 0;
        if (i == s.len)
                return false;
        for (; i < s.len; i++) {
                int digit = s.ptr[i] - '0';

                if (digit < 0 || digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, negative ? -digit : digit, &value))
                        return false;
        }
        if (value < min || value > max)
                return false;
        *ret_value = value;
        return true;
}
