/* base/near.c - see near.h. */
#include "base/near.h"

#include "base/mem.h"

size_t
ls_near_distance(ls_str a, ls_str b)
{
        size_t rows[3][LS_NEAR_BYTES_MAX + 1]; /* two rows back, the row before, this one */
        size_t *before2 = rows[0], *before = rows[1], *row = rows[2];

        if (a.len > LS_NEAR_BYTES_MAX || b.len > LS_NEAR_BYTES_MAX)
                return SIZE_MAX;
        for (size_t j = 0; j <= b.len; j++)
                before[j] = before2[j] = j;
        for (size_t i = 1; i <= a.len; i++) {
                size_t *spare = before2;

                row[0] = i;
                for (size_t j = 1; j <= b.len; j++) {
                        size_t change = before[j - 1] + (a.ptr[i - 1] != b.ptr[j - 1]);

                        row[j] = LS_MIN(change, 1 + LS_MIN(before[j], row[j - 1]));
                        if (i > 1 && j > 1 && a.ptr[i - 1] == b.ptr[j - 2] &&
                            a.ptr[i - 2] == b.ptr[j - 1])
                                row[j] = LS_MIN(row[j], before2[j - 2] + 1);
                }
                before2 = before;
                before = row;
                row = spare;
        }
        return before[b.len];
}

struct ls_near
ls_near_of(ls_str wanted)
{
        return (struct ls_near){ .wanted = wanted, .distance = SIZE_MAX };
}

void
ls_near_try(struct ls_near *n, const char *name)
{
        size_t len = strlen(name), distance = ls_near_distance(n->wanted, ls_str_of(name));

        if (n->wanted.len >= 3 && len > n->wanted.len &&
            memcmp(name, n->wanted.ptr, n->wanted.len) == 0)
                distance = LS_MIN(distance, 1 + (len - n->wanted.len) / 16);
        if (distance >= n->distance || distance > LS_MAX(n->wanted.len / 4, 1))
                return;
        n->name = name;
        n->distance = distance;
}
