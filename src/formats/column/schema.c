/* formats/column/schema.c - see schema.h. */
#include "formats/column/schema.h"

#include "base/assert.h"
#include "base/mem.h"

void
ls_schema_init(struct ls_schema *s)
{
        *s = (struct ls_schema){ 0 };
        s->nodes = ls_grow(s->nodes, 0, &s->node_cap, sizeof *s->nodes);
        s->nodes[0] =
                (struct ls_schema_node){ .is_group = true, .field_id = LS_FIELD_ID_NONE, .end = 1 };
        s->node_count = 1;
}

void
ls_schema_done(struct ls_schema *s)
{
        for (uint32_t i = 0; i < s->node_count; i++)
                ls_free((char *)s->nodes[i].name.ptr);
        ls_free(s->nodes);
        ls_free(s->leaves);
        *s = (struct ls_schema){ 0 };
}

/* Nodes from the root to `node`, both counted. */
static uint32_t
schema_depth(const struct ls_schema *s, uint32_t node)
{
        uint32_t depth = 1;

        for (; node != LS_SCHEMA_ROOT; node = s->nodes[node].parent)
                depth++;
        return depth;
}

static uint32_t
schema_add(struct ls_schema *s, uint32_t parent, ls_str name, struct ls_schema_node node)
{
        uint32_t index = s->node_count;

        LS_ASSERT(!s->sealed);
        LS_ASSERT(parent < index && s->nodes[parent].is_group);
        LS_ASSERT(s->nodes[parent].end == index); /* pre-order: the parent's subtree is the last */
        if (index >= LS_SCHEMA_NODES_MAX || schema_depth(s, parent) >= LS_SCHEMA_DEPTH_MAX)
                return LS_NODE_NONE;
        node.name = (ls_str){ ls_str_dup(name.ptr ? name : LS_STR("")), name.len };
        node.parent = parent;
        node.end = index + 1;
        s->nodes = ls_grow(s->nodes, s->node_count, &s->node_cap, sizeof *s->nodes);
        s->nodes[s->node_count++] = node;
        s->nodes[parent].child_count++;
        for (uint32_t up = parent;; up = s->nodes[up].parent) {
                s->nodes[up].end = s->node_count;
                if (up == LS_SCHEMA_ROOT)
                        break;
        }
        return index;
}

uint32_t
ls_schema_add_group(struct ls_schema *s, uint32_t parent, ls_str name,
                    enum ls_col_repetition repetition, enum ls_col_logical logical,
                    int32_t field_id)
{
        return schema_add(s, parent, name,
                          (struct ls_schema_node){ .is_group = true,
                                                   .repetition = repetition,
                                                   .field_id = field_id,
                                                   .type.logical = logical });
}

uint32_t
ls_schema_add_leaf(struct ls_schema *s, uint32_t parent, ls_str name,
                   enum ls_col_repetition repetition, struct ls_col_type type, int32_t field_id)
{
        return schema_add(s, parent, name,
                          (struct ls_schema_node){
                                  .repetition = repetition, .field_id = field_id, .type = type });
}

uint32_t
ls_schema_add_list(struct ls_schema *s, uint32_t parent, ls_str name,
                   enum ls_col_repetition repetition, int32_t field_id)
{
        uint32_t list = ls_schema_add_group(s, parent, name, repetition, LS_COL_LIST, field_id);

        if (list == LS_NODE_NONE)
                return list;
        return ls_schema_add_group(s, list, LS_STR("list"), LS_COL_REPEATED, LS_COL_ANY,
                                   LS_FIELD_ID_NONE);
}

uint32_t
ls_schema_add_map(struct ls_schema *s, uint32_t parent, ls_str name,
                  enum ls_col_repetition repetition, int32_t field_id)
{
        uint32_t map = ls_schema_add_group(s, parent, name, repetition, LS_COL_MAP, field_id);

        if (map == LS_NODE_NONE)
                return map;
        return ls_schema_add_group(s, map, LS_STR("key_value"), LS_COL_REPEATED, LS_COL_ANY,
                                   LS_FIELD_ID_NONE);
}

/* Decimal digits that a two's complement integer of so many bytes always holds. */
static int32_t
schema_decimal_digits(uint32_t bytes)
{
        return bytes > 100 ? INT32_MAX : (int32_t)(((double)bytes * 8 - 1) * 0.30102999566398120);
}

static bool
schema_decimal_fits(const struct ls_col_type *t)
{
        if (t->precision < 1 || t->scale < 0 || t->scale > t->precision)
                return false;
        if (t->physical == LS_COL_INT32)
                return t->precision <= 9;
        if (t->physical == LS_COL_INT64)
                return t->precision <= 18;
        if (t->physical == LS_COL_FIXED)
                return t->precision <= schema_decimal_digits(t->fixed_bytes);
        return t->physical == LS_COL_BYTES;
}

bool
ls_col_type_fits(const struct ls_col_type *t)
{
        switch (t->logical) {
        case LS_COL_ANY: return t->physical != LS_COL_FIXED || t->fixed_bytes > 0;
        case LS_COL_STRING:
        case LS_COL_ENUM:
        case LS_COL_JSON:
        case LS_COL_BSON: return t->physical == LS_COL_BYTES;
        case LS_COL_DECIMAL: return schema_decimal_fits(t);
        case LS_COL_DATE: return t->physical == LS_COL_INT32;
        case LS_COL_TIME:
                return t->physical == (t->unit == LS_COL_MILLIS ? LS_COL_INT32 : LS_COL_INT64);
        case LS_COL_TIMESTAMP: return t->physical == LS_COL_INT64;
        case LS_COL_INT:
                return t->physical == (t->bits == 64 ? LS_COL_INT64 : LS_COL_INT32) &&
                       (t->bits == 8 || t->bits == 16 || t->bits == 32 || t->bits == 64);
        case LS_COL_UUID: return t->physical == LS_COL_FIXED && t->fixed_bytes == 16;
        case LS_COL_FLOAT16: return t->physical == LS_COL_FIXED && t->fixed_bytes == 2;
        case LS_COL_MAP:
        case LS_COL_LIST: return false; /* groups only */
        }
        return false;
}

static void
schema_node_levels(struct ls_schema *s, uint32_t index)
{
        struct ls_schema_node *n = &s->nodes[index];
        const struct ls_schema_node *up = &s->nodes[n->parent];

        if (index == LS_SCHEMA_ROOT)
                return;
        n->max_def = (uint8_t)(up->max_def + (n->repetition != LS_COL_REQUIRED));
        n->max_rep = (uint8_t)(up->max_rep + (n->repetition == LS_COL_REPEATED));
}

ls_err
ls_schema_seal(struct ls_schema *s, struct ls_errinfo *reterr)
{
        LS_ASSERT(!s->sealed);
        for (uint32_t i = 0; i < s->node_count; i++) {
                const struct ls_schema_node *n = &s->nodes[i];

                if (n->is_group ? n->child_count == 0 : !ls_col_type_fits(&n->type))
                        return ls_fail(reterr, LS_INVALID, "schema node \"%.*s\": %s",
                                       LS_STR_ARG(n->name),
                                       n->is_group ? "a group without members"
                                                   : "its logical type needs another physical one");
                s->leaf_count += !n->is_group;
        }
        s->leaves = ls_calloc(s->leaf_count, sizeof *s->leaves);
        for (uint32_t i = 0, leaf = 0; i < s->node_count; i++) {
                schema_node_levels(s, i);
                s->nodes[i].leaf = leaf;
                if (!s->nodes[i].is_group)
                        s->leaves[leaf++] = i;
        }
        for (uint32_t i = 0; i < s->node_count; i++) {
                struct ls_schema_node *n = &s->nodes[i];

                n->leaf_count =
                        (n->end < s->node_count ? s->nodes[n->end].leaf : s->leaf_count) - n->leaf;
        }
        s->sealed = true;
        return LS_OK;
}

uint32_t
ls_schema_child(const struct ls_schema *s, uint32_t node, ls_str name)
{
        for (uint32_t i = node + 1; i < s->nodes[node].end; i = s->nodes[i].end) {
                if (ls_str_eq(s->nodes[i].name, name))
                        return i;
        }
        return LS_NODE_NONE;
}

uint32_t
ls_schema_by_field_id(const struct ls_schema *s, int32_t field_id)
{
        for (uint32_t i = 1; i < s->node_count; i++) {
                if (s->nodes[i].field_id == field_id)
                        return i;
        }
        return LS_NODE_NONE;
}

static bool
schema_type_equal(const struct ls_col_type *a, const struct ls_col_type *b)
{
        return a->physical == b->physical && a->logical == b->logical && a->unit == b->unit &&
               a->utc == b->utc && a->is_signed == b->is_signed && a->bits == b->bits &&
               a->precision == b->precision && a->scale == b->scale &&
               a->fixed_bytes == b->fixed_bytes;
}

bool
ls_schema_equal(const struct ls_schema *a, const struct ls_schema *b)
{
        if (a->node_count != b->node_count)
                return false;
        for (uint32_t i = 1; i < a->node_count; i++) {
                const struct ls_schema_node *x = &a->nodes[i], *y = &b->nodes[i];

                if (!ls_str_eq(x->name, y->name) || x->field_id != y->field_id ||
                    x->repetition != y->repetition || x->is_group != y->is_group ||
                    x->parent != y->parent || !schema_type_equal(&x->type, &y->type))
                        return false;
        }
        return true;
}

uint32_t
ls_col_value_bytes(const struct ls_col_type *type)
{
        switch (type->physical) {
        case LS_COL_BOOL: return 1;
        case LS_COL_INT32:
        case LS_COL_FLOAT: return 4;
        case LS_COL_INT64:
        case LS_COL_DOUBLE: return 8;
        case LS_COL_INT96: return 12;
        case LS_COL_BYTES: return sizeof(ls_span);
        case LS_COL_FIXED: return type->fixed_bytes;
        }
        return 0;
}
