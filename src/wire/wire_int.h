/* wire/wire_int.h - for the files of this folder only. */
#pragma once
#include "base/assert.h"
#include "wire/wire.h"

/* Bytes of one element of an array field in memory. */
static inline size_t
wire_elem_size(const struct ls_wire_field *f)
{
        switch ((enum ls_wire_type)f->elem) {
        case LS_WIRE_BOOL: return sizeof(bool);
        case LS_WIRE_INT8: return 1;
        case LS_WIRE_INT16:
        case LS_WIRE_UINT16: return 2;
        case LS_WIRE_INT32: return 4;
        case LS_WIRE_INT64: return 8;
        case LS_WIRE_UUID: return sizeof(ls_uuid);
        case LS_WIRE_STRING: return sizeof(ls_str);
        case LS_WIRE_BYTES: return sizeof(ls_span);
        case LS_WIRE_RECORDS: return sizeof(struct ls_wire_records);
        case LS_WIRE_STRUCT: return f->sub->size;
        case LS_WIRE_ARRAY: break;
        }
        LS_ASSERT(!"an element");
        return 0;
}
