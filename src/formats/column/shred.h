/* formats/column/shred.h - nested values to levels, and back (Dremel's record shredding).
 *
 * Shredding is pushed: for each row, visit every child of every present group in schema order:
 *
 *      ls_shred_row(s);
 *      v = ls_shred_value(s, leaf_node);  then  ls_vec_value_i64(v, 7);
 *      ls_shred_null(s, node);            an absent optional leaf or group, an empty repeated node
 *      ls_shred_enter(s, group);  ...children...  ls_shred_leave(s);
 *      repeated: for each item  ls_shred_item(s, node);  ...children...  ls_shred_leave(s);
 *                and ls_shred_null(s, node) when there is no item.
 *
 * Assembly is pulled with the same shape: ls_unshred_has(u, node) tells whether the optional or
 * repeated node is there (first item), ls_unshred_more whether a further item follows,
 * ls_unshred_value gives a leaf's value index, ls_unshred_skip steps over an absent node.
 * Threads: one owner.
 */
#pragma once
#include "formats/column/vec.h"

struct ls_shred {
        struct ls_columns *columns; /* borrowed */
        struct {
                uint32_t node;
                uint8_t rep, def;
        } stack[LS_SCHEMA_DEPTH_MAX + 1];
        uint32_t depth;
        uint32_t item_node[LS_SCHEMA_DEPTH_MAX + 1]; /* last repeated node that had an item here */
};
void ls_shred_init(struct ls_shred *s, struct ls_columns *columns);
/* Starts a row; the one before must be complete (asserted). */
void ls_shred_row(struct ls_shred *s);
/* Enters a present group that is not repeated. */
void ls_shred_enter(struct ls_shred *s, uint32_t node);
/* Enters the next item of a repeated group. */
void ls_shred_item(struct ls_shred *s, uint32_t node);
void ls_shred_leave(struct ls_shred *s);
/* A slot for a present leaf; the caller pushes exactly one value into the vector it gives. A
 * repeated leaf: once an item. */
struct ls_vec *ls_shred_value(struct ls_shred *s, uint32_t node);
/* The node is absent (or has no items): one slot for each leaf below. */
void ls_shred_null(struct ls_shred *s, uint32_t node);

struct ls_unshred {
        const struct ls_columns *columns; /* borrowed */
        struct {
                size_t slot, value;
        } * at;      /* a leaf each */
        bool failed; /* levels that cannot be: data from outside */
};
void ls_unshred_init(struct ls_unshred *u, const struct ls_columns *columns);
void ls_unshred_done(struct ls_unshred *u);
/* True while rows are left. */
bool ls_unshred_row(struct ls_unshred *u);
/* The node is present (optional), or has an item (repeated, before its first). */
bool ls_unshred_has(const struct ls_unshred *u, uint32_t node);
/* After an item: another one of the same repeated node follows. */
bool ls_unshred_more(const struct ls_unshred *u, uint32_t node);
/* The value of a present leaf: its index in the vector's values; steps on. SIZE_MAX and failed when
 * the levels lie. */
size_t ls_unshred_value(struct ls_unshred *u, uint32_t node);
/* Steps over an absent node: one slot of each leaf below. */
void ls_unshred_skip(struct ls_unshred *u, uint32_t node);
