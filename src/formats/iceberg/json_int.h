/* iceberg/json_int.h - what json.c and metadata.c share: readers of JSON members with words for
 * what is wrong, and the parts of table metadata as JSON trees. */
#pragma once
#include <jansson.h>

#include "formats/iceberg/metadata.h"

/* What every reader needs: where results go and where words go. */
struct ls_ice_json {
        struct ls_arena *arena;
        struct ls_errinfo *reterr;
        uint32_t depth;
        uint32_t fields; /* met so far */
};

/* Parses text; LS_INVALID with words. The caller drops the reference. */
LS_MUST_USE ls_err ls_ice_json_load(ls_str text, struct ls_errinfo *reterr, json_t **ret_json);
/* Members of an object. LS_INVALID: of another type, out of range, or absent without a default.
 * `absent` stands in for an absent or null member when `required` is false. */
LS_MUST_USE ls_err ls_ice_json_int(struct ls_ice_json *j, const json_t *object, const char *key,
                                   bool required, int64_t min, int64_t max, int64_t absent,
                                   int64_t *ret);
LS_MUST_USE ls_err ls_ice_json_id(struct ls_ice_json *j, const json_t *object, const char *key,
                                  int32_t *ret);
LS_MUST_USE ls_err ls_ice_json_str(struct ls_ice_json *j, const json_t *object, const char *key,
                                   bool required, ls_str *ret);
LS_MUST_USE ls_err ls_ice_json_bool(struct ls_ice_json *j, const json_t *object, const char *key,
                                    bool required, bool *ret);
/* An array member; absent is an empty one when not required. */
LS_MUST_USE ls_err ls_ice_json_list(struct ls_ice_json *j, const json_t *object, const char *key,
                                    bool required, const json_t **ret, size_t *ret_count);
/* A cleared array in the arena; LS_TOO_LARGE. */
LS_MUST_USE ls_err ls_ice_json_alloc(struct ls_ice_json *j, size_t count, size_t bytes, void *ret);
/* The compact text of `json`, in the arena; null for NULL. */
LS_MUST_USE ls_err ls_ice_json_text(struct ls_ice_json *j, const json_t *json, ls_str *ret);
/* Sets a string member. */
void ls_ice_json_set_str(json_t *object, const char *key, ls_str value);
/* Dumps compactly and drops the reference. */
void ls_ice_json_dump(json_t *json, struct ls_buf *out);

LS_MUST_USE ls_err ls_ice_schema_read(struct ls_ice_json *j, const json_t *json,
                                      struct ls_iceberg_schema *ret);
LS_MUST_USE ls_err ls_ice_spec_read(struct ls_ice_json *j, const json_t *json,
                                    struct ls_iceberg_spec *ret);
/* The bare array of fields; ids that version 1 left out count from 1000. */
LS_MUST_USE ls_err ls_ice_spec_fields_read(struct ls_ice_json *j, const json_t *list,
                                           struct ls_iceberg_spec *ret);
LS_MUST_USE ls_err ls_ice_sort_order_read(struct ls_ice_json *j, const json_t *json,
                                          struct ls_iceberg_sort_order *ret);
json_t *ls_ice_schema_json(const struct ls_iceberg_schema *s);
json_t *ls_ice_spec_json(const struct ls_iceberg_spec *s);
json_t *ls_ice_sort_order_json(const struct ls_iceberg_sort_order *s);
