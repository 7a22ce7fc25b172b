/* base/budget.h - a bound on bytes (or other units) that peers can make us hold.
 *
 * Charge before allocating; over the bound is an outcome met with backpressure. Budgets nest: a
 * charge counts in the parent too. Threads: any.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ls_budget {
        struct ls_budget *parent; /* borrowed, may be NULL */
        _Atomic int64_t used;
        int64_t max;
};

static inline void
ls_budget_init(struct ls_budget *b, int64_t max, struct ls_budget *parent)
{
        b->parent = parent;
        atomic_init(&b->used, 0);
        b->max = max;
}
static inline void
ls_budget_uncharge(struct ls_budget *b, int64_t units)
{
        for (; b != 0; b = b->parent)
                atomic_fetch_sub(&b->used, units);
}
/* False: nothing was charged. One charge above the whole bound passes when nothing else is held,
 * so that a single large thing can always make progress. */
static inline bool
ls_budget_charge(struct ls_budget *b, int64_t units)
{
        for (struct ls_budget *at = b; at != 0; at = at->parent) {
                int64_t before = atomic_fetch_add(&at->used, units);

                if (before > 0 && before + units > at->max) {
                        atomic_fetch_sub(&at->used, units);
                        for (struct ls_budget *undo = b; undo != at; undo = undo->parent)
                                atomic_fetch_sub(&undo->used, units);
                        return false;
                }
        }
        return true;
}
/* Charges without asking: for what is already held. */
static inline void
ls_budget_force(struct ls_budget *b, int64_t units)
{
        for (; b != 0; b = b->parent)
                atomic_fetch_add(&b->used, units);
}
static inline int64_t
ls_budget_used(struct ls_budget *b)
{
        return atomic_load(&b->used);
}
