/* iceberg/civil_int.h - the calendar, and what value.c and transform.c share. */
#pragma once
#include "formats/iceberg/value.h"

struct civil {
        int64_t year;
        int month, day; /* from 1 */
};

static inline int64_t
floor_div(int64_t a, int64_t b)
{
        return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Proleptic Gregorian date of a day since 1970-01-01. Days are counted from 0000-03-01, so that the
 * leap day ends a year, in eras of 400 years. */
static inline struct civil
civil_of(int64_t days)
{
        int64_t shifted = days + 719468;
        int64_t era = floor_div(shifted, 146097);
        int64_t in_era = shifted - era * 146097;
        int64_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
        int64_t in_year = in_era - (365 * year + year / 4 - year / 100);
        int march_month = (int)((5 * in_year + 2) / 153);
        struct civil c;

        c.day = (int)(in_year - (153 * march_month + 2) / 5 + 1);
        c.month = march_month < 10 ? march_month + 3 : march_month - 9;
        c.year = year + era * 400 + (c.month <= 2);
        return c;
}

/* "1969-12-31" */
void ls_iceberg_date_print(int64_t days, struct ls_buf *out);
/* Length of the strict UTF-8 sequence at `p`, or 0. */
size_t ls_iceberg_utf8_next(const uint8_t *p, size_t left, uint32_t *ret_code);
/* Big-endian two's complement of 1 to 16 bytes. */
bool ls_iceberg_decimal_get(ls_span s, __int128 *ret);
