/* stream/table.c - streams as tables: the lake's answers under the names that servers use. */
#include "stream/table.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "catalog/names.h"
#include "stream/stream_int.h"

void
ls_table_done(struct ls_table *t)
{
        ls_free(t->metadata_uri);
        ls_slice_unref(t->metadata);
        *t = (struct ls_table){ 0 };
}

static void
table_etag(const struct ls_stream_info *info, uint64_t version, char *ret, size_t bytes)
{
        char uuid[LS_UUID_TEXT_BYTES];

        ls_uuid_text(info->topic_id, uuid);
        snprintf(ret, bytes, "%s-%llu", uuid, (unsigned long long)version);
}

void
ls_table_engine_config(struct ls_streams *s,
                       void (*fn)(void *ctx, const char *name, const char *value), void *ctx)
{
        ls_store_engine_config(s->store, fn, ctx);
}

ls_err
ls_table_load(struct ls_streams *s, struct ls_stream *stream, int64_t deadline_ms,
              struct ls_table *ret_table, struct ls_errinfo *reterr)
{
        struct ls_lake_table t = { 0 };

        if (deadline_ms < 0)
                deadline_ms = ls_option_int(s->options, LS_OPT_TABLE_LOAD_MAX);
        LS_TRY(ls_lake_load(stream->lake, deadline_ms, &t, reterr));
        *ret_table = (struct ls_table){ .metadata_uri = ls_store_uri(s->store, t.metadata_key),
                                        .metadata = LS_STEAL(t.metadata),
                                        .fresh = t.fresh,
                                        .behind_records = t.behind_records };
        table_etag(ls_stream_info(stream), t.version, ret_table->etag, sizeof ret_table->etag);
        ls_lake_table_done(&t);
        return LS_OK;
}

ls_err
ls_table_unchanged(struct ls_streams *s, struct ls_stream *stream, const char *etag,
                   bool *ret_current)
{
        char now[sizeof((struct ls_table *)0)->etag];
        uint64_t version;
        bool fresh;

        LS_TRY(ls_lake_version(stream->lake, &version, &fresh));
        table_etag(ls_stream_info(stream), version, now, sizeof now);
        *ret_current = fresh && strcmp(now, etag) == 0;
        return LS_OK;
}

ls_err
ls_table_verify(struct ls_streams *s, struct ls_stream *stream, bool deep,
                struct ls_table_verify *ret, struct ls_errinfo *reterr)
{
        struct ls_lake_verify v = { 0 };

        LS_TRY(ls_lake_verify(stream->lake, deep, &v, reterr));
        *ret = (struct ls_table_verify){ .records_log = v.records_log,
                                         .records_table = v.records_table,
                                         .hash_log = v.hash_log,
                                         .hash_table = v.hash_table,
                                         .files = v.files,
                                         .equal = v.equal };
        memcpy(ret->first_difference, v.first_difference, sizeof ret->first_difference);
        return LS_OK;
}

struct files_walk {
        struct ls_streams *streams;
        ls_err (*fn)(void *ctx, const struct ls_table_file *file);
        void *ctx;
};

static ls_err
files_each(void *ctx, const struct ls_meta_file *f)
{
        struct files_walk *walk = ctx;
        LS_AUTO(ls_free) char *uri = ls_store_uri(walk->streams->store, f->key);
        struct ls_table_file file = { .uri = uri, .bytes = f->bytes, .rows = f->rows };

        return walk->fn(walk->ctx, &file);
}

ls_err
ls_table_files(struct ls_streams *s, struct ls_stream *stream,
               ls_err (*fn)(void *ctx, const struct ls_table_file *file), void *ctx)
{
        struct files_walk walk = { s, fn, ctx };

        return ls_lake_files(stream->lake, files_each, &walk);
}

/* --- namespaces: those made by hand, and those (with their parents) that streams live in --- */

struct ns_set {
        struct ls_map map; /* name -> properties (JSON text, owned) */
};

static void
ns_put(struct ns_set *set, ls_str ns, const char *properties)
{
        void *before = ls_map_get(&set->map, ls_map_key_str(ns));

        if (before != NULL && properties == NULL)
                return;
        ls_free(ls_map_set(&set->map, ls_map_key_str(ns),
                           ls_strdup(properties ? properties : "{}")));
}

static void
ns_put_with_parents(struct ns_set *set, ls_str ns)
{
        for (size_t i = 0; i < ns.len; i++) {
                if (ns.ptr[i] == '.')
                        ns_put(set, ls_str_make(ns.ptr, i), NULL);
        }
        ns_put(set, ns, NULL);
}

static ls_err
ns_collect(void *ctx, const char *ns, const char *properties)
{
        ns_put(ctx, ls_str_of(ns), properties);
        return LS_OK;
}

static ls_err
ns_load(struct ls_streams *s, ls_str catalog, struct ns_set *set)
{
        LS_AUTO(ls_free) char *name = ls_str_dup(catalog);
        struct ls_stream **list;
        size_t count;
        ls_err e;

        ls_map_init(&set->map);
        if (!ls_str_is(catalog, LS_CATALOG_DEFAULT))
                return LS_ABSENT;
        ns_put(set, LS_STR(LS_NAMESPACE_DEFAULT), NULL);
        ls_stream_list(s, &list, &count);
        for (size_t i = 0; i < count; i++)
                ns_put_with_parents(set, ls_str_of(ls_stream_info(list[i])->ns));
        ls_stream_list_free(list, count);
        e = ls_meta_namespaces(s->meta, name, ns_collect, set);
        return e;
}

static void
ns_done(struct ns_set *set)
{
        struct ls_map_entry *entry;
        size_t pos = 0;

        while ((entry = ls_map_next(&set->map, &pos)) != NULL)
                ls_free(entry->value);
        ls_map_done(&set->map);
}

static int
text_order(const void *left, const void *right)
{
        return strcmp(*(char *const *)left, *(char *const *)right);
}

ls_err
ls_namespace_list(struct ls_streams *s, ls_str catalog, ls_err (*fn)(void *ctx, const char *ns),
                  void *ctx)
{
        struct ls_map_entry *entry;
        struct ns_set set;
        char **names = NULL;
        size_t pos = 0, count = 0, cap = 0;
        ls_err e = ns_load(s, catalog, &set);

        while (e == LS_OK && (entry = ls_map_next(&set.map, &pos)) != NULL) {
                char *name = ls_str_dup(ls_str_make((const char *)entry->key, entry->key_len));

                LS_PUSH(names, count, cap, name);
        }
        if (count > 1)
                qsort(names, count, sizeof *names, text_order);
        for (size_t i = 0; i < count; i++) {
                if (e == LS_OK)
                        e = fn(ctx, names[i]);
                ls_free(names[i]);
        }
        ls_free(names);
        ns_done(&set);
        return e;
}

ls_err
ls_namespace_get(struct ls_streams *s, ls_str catalog, ls_str ns, char **ret_properties)
{
        struct ns_set set;
        ls_err e = ns_load(s, catalog, &set);

        if (e == LS_OK) {
                const char *properties = ls_map_get(&set.map, ls_map_key_str(ns));

                if (properties != NULL)
                        *ret_properties = ls_strdup(properties);
                else
                        e = LS_ABSENT;
        }
        ns_done(&set);
        return e;
}

ls_err
ls_namespace_create(struct ls_streams *s, ls_str catalog, ls_str ns, ls_str properties)
{
        LS_AUTO(ls_free) char *c = ls_str_dup(catalog);
        LS_AUTO(ls_free) char *n = ls_str_dup(ns);
        LS_AUTO(ls_free) char *p = ls_str_dup(properties);
        char *present = NULL;
        ls_err e = ls_namespace_get(s, catalog, ns, &present);

        ls_free(present);
        if (e == LS_OK)
                return LS_EXISTS;
        if (!ls_str_is(catalog, LS_CATALOG_DEFAULT))
                return LS_ABSENT;
        return ls_meta_namespace_create(s->meta, c, n, p ? p : "{}");
}

ls_err
ls_namespace_set(struct ls_streams *s, ls_str catalog, ls_str ns, ls_str properties)
{
        LS_AUTO(ls_free) char *c = ls_str_dup(catalog);
        LS_AUTO(ls_free) char *n = ls_str_dup(ns);
        LS_AUTO(ls_free) char *p = ls_str_dup(properties);
        char *present = NULL;
        ls_err e;

        LS_TRY(ls_namespace_get(s, catalog, ns, &present));
        ls_free(present);
        e = ls_meta_namespace_set(s->meta, c, n, p);
        if (e == LS_ABSENT) /* implied by a stream so far: now it has properties of its own */
                e = ls_meta_namespace_create(s->meta, c, n, p);
        return e;
}

ls_err
ls_namespace_drop(struct ls_streams *s, ls_str catalog, ls_str ns)
{
        LS_AUTO(ls_free) char *c = ls_str_dup(catalog);
        LS_AUTO(ls_free) char *n = ls_str_dup(ns);
        struct ls_stream **list;
        size_t count, in_use = 0;

        ls_stream_list(s, &list, &count);
        for (size_t i = 0; i < count; i++) {
                const struct ls_stream_info *info = ls_stream_info(list[i]);
                size_t len = strlen(n);

                if (strncmp(info->ns, n, len) == 0 &&
                    (info->ns[len] == '\0' || info->ns[len] == '.'))
                        in_use++;
        }
        ls_stream_list_free(list, count);
        if (in_use > 0 || ls_str_is(ns, LS_NAMESPACE_DEFAULT))
                return LS_NOT_EMPTY;
        return ls_meta_namespace_drop(s->meta, c, n);
}
