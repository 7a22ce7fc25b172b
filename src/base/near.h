/* base/near.h - which name did they mean? For messages about names that do not exist.
 *
 *   struct ls_near near = ls_near_of(wanted);
 *   for (each name)
 *           ls_near_try(&near, name);
 *   … near.name …   NULL: nothing is close
 *
 * Threads: any. Nothing is allocated. */
#pragma once
#include "base/span.h"

struct ls_near {
        ls_str wanted;    /* borrowed */
        const char *name; /* the closest one so far, borrowed; NULL: none is close */
        size_t distance;  /* of `name` */
};

struct ls_near ls_near_of(ls_str wanted);
/* A name that begins with what was wanted, or differs from it in few characters, is close. The
 * first of equals stays. */
void ls_near_try(struct ls_near *n, const char *name);
/* Characters to insert, delete, change or swap with their neighbour to make `b` of `a`; names above
 * LS_NEAR_BYTES_MAX differ in SIZE_MAX. */
size_t ls_near_distance(ls_str a, ls_str b);

#define LS_NEAR_BYTES_MAX 80 /* longer than any name of ours */
