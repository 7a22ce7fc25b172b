/* base/span.h - borrowed bytes and text: pointer and length, no NUL assumed.
 *
 * ptr NULL means null, which is not the same as empty (ptr set, len 0). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
        const uint8_t *ptr;
        size_t len;
} ls_span;

typedef struct {
        const char *ptr;
        size_t len;
} ls_str;

#define LS_SPAN_NULL    ((ls_span){ NULL, 0 })
#define LS_STR_NULL     ((ls_str){ NULL, 0 })
#define LS_STR(literal) ((ls_str){ ("" literal), sizeof(literal) - 1 })
/* For printf: "%.*s". */
#define LS_STR_ARG(s) (int)(s).len, ((s).ptr ? (s).ptr : "")

static inline ls_span
ls_span_of(const void *ptr, size_t len)
{
        return (ls_span){ ptr, len };
}
static inline ls_str
ls_str_of(const char *s)
{
        return (ls_str){ s, s ? strlen(s) : 0 };
}
static inline ls_str
ls_str_make(const char *ptr, size_t len)
{
        return (ls_str){ ptr, len };
}
static inline bool
ls_str_is(ls_str a, const char *b)
{
        return a.ptr != NULL && strlen(b) == a.len && memcmp(a.ptr, b, a.len) == 0;
}
/* Null equals only null. */
static inline bool
ls_str_eq(ls_str a, ls_str b)
{
        return (a.ptr == NULL) == (b.ptr == NULL) && a.len == b.len &&
               (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}
static inline bool
ls_span_eq(ls_span a, ls_span b)
{
        return (a.ptr == NULL) == (b.ptr == NULL) && a.len == b.len &&
               (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}
/* Byte order, shorter first when one is a prefix of the other. */
static inline int
ls_span_cmp(ls_span a, ls_span b)
{
        size_t n = a.len < b.len ? a.len : b.len;
        int c = n ? memcmp(a.ptr, b.ptr, n) : 0;

        return c ? c : (a.len > b.len) - (a.len < b.len);
}
/* A copy with a NUL behind it; the caller frees it with ls_free. Null gives NULL. */
char *ls_str_dup(ls_str s);
/* Strict decimal integer, the whole text, within [min, max]; false else. */
bool ls_str_to_i64(ls_str s, int64_t min, int64_t max, int64_t *ret_value);
