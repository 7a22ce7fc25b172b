/* base/err.h - the one error type.
 *
 * LS_OK is 0. Above 0 is an outcome: the header lists it, the direct caller handles it, it is never
 * passed on. Below 0 is a failure: passed up unchanged, never matched on. A caller that wants words
 * gives a `struct ls_errinfo`. Threads: any.
 */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int32_t ls_err;

enum ls_err_code {
#define LS_ERR(name, value, text, retriable) name = value,
#include "base/err.def"
#undef LS_ERR
};

#define LS_MUST_USE     __attribute__((warn_unused_result))
#define LS_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Words for a person: what failed and what to do. Fixed size, never allocated. */
struct ls_errinfo {
        char text[512];
};

/* The name ("LS_ABSENT") and the text ("does not exist") of a code; never NULL. */
const char *ls_err_name(ls_err e);
const char *ls_err_text(ls_err e);
/* True when a later try of the same may succeed. */
bool ls_err_retriable(ls_err e);
/* A failure for an errno value of a system call (ENOSPC -> LS_ENOSPC, …, else LS_EIO). */
ls_err ls_err_from_errno(int errnum);

/* Writes words into `info` (may be NULL) and returns `e`, so that `return ls_fail(info, LS_X, …)`.
 */
ls_err ls_fail(struct ls_errinfo *info, ls_err e, const char *format, ...) LS_PRINTF(3, 4);

/* Passes anything but LS_OK up to the caller of the current function. */
#define LS_TRY(expr)                                       \
        do {                                               \
                ls_err ls_try_ = (expr);                   \
                if (__builtin_expect(ls_try_ != LS_OK, 0)) \
                        return ls_try_;                    \
        } while (0)
