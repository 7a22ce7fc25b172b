/* formats/column/shred.c - see shred.h. */
#include "formats/column/shred.h"

#include "base/assert.h"

void
ls_shred_init(struct ls_shred *s, struct ls_columns *columns)
{
        *s = (struct ls_shred){ .columns = columns };
}

void
ls_shred_row(struct ls_shred *s)
{
        LS_ASSERT(s->depth == 0);
        s->stack[0].node = LS_SCHEMA_ROOT;
        s->stack[0].rep = s->stack[0].def = 0;
        s->item_node[0] = LS_NODE_NONE;
}

/* Goes down to `node`, a direct child of the group we are in. */
static void
shred_push(struct ls_shred *s, uint32_t node, uint8_t rep)
{
        LS_ASSERT(s->depth < LS_SCHEMA_DEPTH_MAX);
        LS_ASSERT(s->columns->schema->nodes[node].parent == s->stack[s->depth].node);
        s->depth++;
        s->stack[s->depth].node = node;
        s->stack[s->depth].rep = rep;
        s->stack[s->depth].def = s->columns->schema->nodes[node].max_def;
        s->item_node[s->depth] = LS_NODE_NONE;
}

/* The repetition level of the next item: that of the surroundings for the first one. */
static uint8_t
shred_item_rep(struct ls_shred *s, uint32_t node)
{
        const struct ls_schema_node *n = &s->columns->schema->nodes[node];
        uint8_t rep = s->item_node[s->depth] == node ? n->max_rep : s->stack[s->depth].rep;

        s->item_node[s->depth] = node;
        return rep;
}

void
ls_shred_enter(struct ls_shred *s, uint32_t node)
{
        LS_ASSERT(s->columns->schema->nodes[node].repetition != LS_COL_REPEATED);
        shred_push(s, node, s->stack[s->depth].rep);
}

void
ls_shred_item(struct ls_shred *s, uint32_t node)
{
        LS_ASSERT(s->columns->schema->nodes[node].repetition == LS_COL_REPEATED);
        shred_push(s, node, shred_item_rep(s, node));
}

void
ls_shred_leave(struct ls_shred *s)
{
        LS_ASSERT(s->depth > 0);
        s->depth--;
}

struct ls_vec *
ls_shred_value(struct ls_shred *s, uint32_t node)
{
        const struct ls_schema_node *n = &s->columns->schema->nodes[node];
        struct ls_vec *v = &s->columns->vecs[n->leaf];
        uint8_t rep = s->stack[s->depth].rep;

        LS_ASSERT(!n->is_group && n->parent == s->stack[s->depth].node);
        if (n->repetition == LS_COL_REPEATED)
                rep = shred_item_rep(s, node);
        ls_vec_slot(v, rep, n->max_def);
        return v;
}

void
ls_shred_null(struct ls_shred *s, uint32_t node)
{
        const struct ls_schema_node *n = &s->columns->schema->nodes[node];

        LS_ASSERT(n->repetition != LS_COL_REQUIRED && n->parent == s->stack[s->depth].node);
        for (uint32_t i = 0; i < n->leaf_count; i++)
                ls_vec_slot(&s->columns->vecs[n->leaf + i], s->stack[s->depth].rep,
                            s->stack[s->depth].def);
}

void
ls_unshred_init(struct ls_unshred *u, const struct ls_columns *columns)
{
        *u = (struct ls_unshred){ .columns = columns };
        u->at = ls_calloc(columns->count, sizeof *u->at);
}

void
ls_unshred_done(struct ls_unshred *u)
{
        ls_free(u->at);
        *u = (struct ls_unshred){ 0 };
}

bool
ls_unshred_row(struct ls_unshred *u)
{
        return !u->failed && u->at[0].slot < u->columns->vecs[0].slots;
}

bool
ls_unshred_has(const struct ls_unshred *u, uint32_t node)
{
        const struct ls_schema_node *n = &u->columns->schema->nodes[node];
        const struct ls_vec *v = &u->columns->vecs[n->leaf];
        size_t slot = u->at[n->leaf].slot;

        return slot < v->slots && (v->def == NULL || v->def[slot] >= n->max_def);
}

bool
ls_unshred_more(const struct ls_unshred *u, uint32_t node)
{
        const struct ls_schema_node *n = &u->columns->schema->nodes[node];
        const struct ls_vec *v = &u->columns->vecs[n->leaf];
        size_t slot = u->at[n->leaf].slot;

        return slot < v->slots && v->rep != NULL && v->rep[slot] == n->max_rep;
}

size_t
ls_unshred_value(struct ls_unshred *u, uint32_t node)
{
        const struct ls_schema_node *n = &u->columns->schema->nodes[node];
        const struct ls_vec *v = &u->columns->vecs[n->leaf];

        if (!ls_unshred_has(u, node) || u->at[n->leaf].value >= v->count) {
                u->failed = true;
                return SIZE_MAX;
        }
        u->at[n->leaf].slot++;
        return u->at[n->leaf].value++;
}

void
ls_unshred_skip(struct ls_unshred *u, uint32_t node)
{
        const struct ls_schema_node *n = &u->columns->schema->nodes[node];

        for (uint32_t i = 0; i < n->leaf_count; i++) {
                const struct ls_vec *v = &u->columns->vecs[n->leaf + i];
                size_t slot = u->at[n->leaf + i].slot;

                if (slot >= v->slots || (v->def != NULL && v->def[slot] >= n->max_def)) {
                        u->failed = true;
                        return;
                }
                u->at[n->leaf + i].slot++;
        }
}
