/* base/assert.h - assertions that stay on in release builds. For our own bugs, never for bytes
 * from a peer, a disk or an object store. */
#pragma once

/* Prints the place and the condition and aborts. */
__attribute__((noreturn)) void ls_assert_failed(const char *file, int line, const char *cond);

#define LS_ASSERT(cond)                                              \
        do {                                                         \
                if (__builtin_expect(!(cond), 0))                    \
                        ls_assert_failed(__FILE__, __LINE__, #cond); \
        } while (0)

#ifdef LS_SLOW_CHECKS
#define LS_ASSERT_SLOW(cond) LS_ASSERT(cond)
#else
#define LS_ASSERT_SLOW(cond) ((void)sizeof(cond))
#endif
