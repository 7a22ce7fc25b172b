/* servers/http/names.c - catalogs, namespaces and tables as paths name them; pages of lists. */
#include <stdlib.h>

#include "base/log.h"
#include "catalog/names.h"
#include "servers/http/http_int.h"

#define LEVEL_SEPARATOR '\x1f' /* of the specification, written %1F in paths */

ls_err
http_namespace_parse(struct ls_http_request *r, ls_str param, ls_str *ret_ns)
{
        size_t levels = 1, level_len = 0;
        ls_str ns;

        if (param.len > NAMESPACE_BYTES_MAX)
                return LS_ABSENT;
        ns = ls_arena_str(r->arena, param);
        if (ns.ptr == NULL)
                return LS_TOO_LARGE;
        for (size_t i = 0; i < ns.len; i++) {
                if (ns.ptr[i] == '.')
                        return LS_ABSENT; /* a level with a dot would be two levels */
                if (ns.ptr[i] != LEVEL_SEPARATOR) {
                        level_len++;
                        continue;
                }
                if (level_len == 0 || ++levels > NAMESPACE_LEVELS_MAX)
                        return LS_ABSENT;
                level_len = 0;
                ((char *)ns.ptr)[i] = '.';
        }
        if (level_len == 0)
                return LS_ABSENT;
        *ret_ns = ns;
        return LS_OK;
}

json_t *
http_namespace_json(ls_str ns)
{
        json_t *levels = json_array();
        size_t start = 0;

        for (size_t i = 0; i <= ns.len; i++) {
                if (i < ns.len && ns.ptr[i] != '.')
                        continue;
                json_array_append_new(levels,
                                      http_json_str(ls_str_make(ns.ptr + start, i - start)));
                start = i + 1;
        }
        return levels;
}

/* --- sorted lists --- */

static int
name_order(const void *left, const void *right)
{
        const ls_str *a = left, *b = right;

        return ls_span_cmp(ls_span_of(a->ptr, a->len), ls_span_of(b->ptr, b->len));
}

void
http_names_add(struct http_names *names, struct ls_http_request *r, ls_str name)
{
        ls_str copy = ls_arena_str(r->arena, name);

        if (copy.ptr == NULL)
                names->failed = true;
        else
                LS_PUSH(names->items, names->count, names->cap, copy);
}

void
http_names_sort(struct http_names *names)
{
        size_t kept = 0;

        if (names->count == 0)
                return;
        qsort(names->items, names->count, sizeof *names->items, name_order);
        for (size_t i = 0; i < names->count; i++)
                if (kept == 0 || !ls_str_eq(names->items[i], names->items[kept - 1]))
                        names->items[kept++] = names->items[i];
        names->count = kept;
}

/* Index of the first item that is not below `name`. */
static size_t
names_lower_bound(const struct http_names *names, ls_str name)
{
        size_t low = 0, high = names->count;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (name_order(&names->items[middle], &name) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

bool
http_names_have(const struct http_names *names, ls_str name)
{
        size_t at = names_lower_bound(names, name);

        return at < names->count && ls_str_eq(names->items[at], name);
}

/* --- pages: a token is "1" and the last name shown, in hexadecimal --- */

#define TOKEN_VERSION '1'

static ls_str
token_of(struct ls_http_request *r, ls_str name)
{
        static const char digits[] = "0123456789abcdef";
        char *token = ls_arena_alloc(r->arena, 2 * name.len + 2);

        if (token == NULL)
                return LS_STR_NULL;
        token[0] = TOKEN_VERSION;
        for (size_t i = 0; i < name.len; i++) {
                token[1 + 2 * i] = digits[(uint8_t)name.ptr[i] >> 4];
                token[2 + 2 * i] = digits[(uint8_t)name.ptr[i] & 15];
        }
        return ls_str_make(token, 2 * name.len + 1);
}

static int
token_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool
token_parse(struct ls_http_request *r, ls_str token, ls_str *ret_name)
{
        char *name;
        size_t len = token.len / 2;

        if (token.len % 2 != 1 || token.ptr[0] != TOKEN_VERSION)
                return false;
        name = ls_arena_alloc(r->arena, len + 1);
        if (name == NULL)
                return false;
        for (size_t i = 0; i < len; i++) {
                int high = token_digit(token.ptr[1 + 2 * i]),
                    low = token_digit(token.ptr[2 + 2 * i]);

                if (high < 0 || low < 0)
                        return false;
                name[i] = (char)(high << 4 | low);
        }
        *ret_name = ls_str_make(name, len);
        return true;
}

bool
http_names_page(const struct http_names *names, struct ls_http_request *r, struct ls_http_answer *a,
                size_t *ret_first, size_t *ret_count, ls_str *ret_token)
{
        ls_str token = ls_http_query(r, "pageToken"), size_text = ls_http_query(r, "pageSize"),
               after;
        int64_t size = PAGE_ITEMS_DEFAULT;
        size_t first = 0;

        if (size_text.ptr != NULL && !ls_str_to_i64(size_text, 1, INT64_MAX, &size)) {
                http_answer_error(a, 400, "BadRequestException",
                                  "pageSize must be a number above 0");
                return false;
        }
        *ret_token = LS_STR_NULL;
        *ret_first = 0;
        *ret_count = names->count;
        if (token.ptr == NULL)
                return true; /* the specification: without a token, everything at once */
        if (token.len > 0) {
                if (!token_parse(r, token, &after)) {
                        http_answer_error(a, 400, "BadRequestException",
                                          "pageToken is not one that this server gave");
                        return false;
                }
                first = names_lower_bound(names, after);
                if (first < names->count && ls_str_eq(names->items[first], after))
                        first++;
        }
        size = LS_MIN(size, PAGE_ITEMS_MAX);
        *ret_first = first;
        *ret_count = LS_MIN(names->count - first, (size_t)size);
        if (first + *ret_count<names->count && * ret_count> 0)
                *ret_token = token_of(r, names->items[first + *ret_count - 1]);
        return true;
}

/* --- what is there --- */

bool
http_catalog_known(ls_str catalog, struct ls_http_answer *a)
{
        if (ls_str_is(catalog, LS_CATALOG_DEFAULT))
                return true;
        http_answer_error(a, 404, "NoSuchWarehouseException",
                          "There is no catalog '%.*s'; the one of this server is '%s'",
                          (int)LS_MIN(catalog.len, 200), catalog.ptr, LS_CATALOG_DEFAULT);
        return false;
}

struct namespaces_walk {
        struct http_names *names;
        struct ls_http_request *r;
};

static ls_err
namespaces_add(void *ctx, const char *ns)
{
        struct namespaces_walk *walk = ctx;
        ls_str name = ls_str_of(ns);

        for (size_t i = 0; i < name.len; i++)
                if (name.ptr[i] == '.')
                        http_names_add(walk->names, walk->r, ls_str_make(name.ptr, i));
        http_names_add(walk->names, walk->r, name);
        return LS_OK;
}

ls_err
http_namespaces(struct ls_http_server *server, struct ls_http_request *r, ls_str catalog,
                struct http_names *ret_names)
{
        struct namespaces_walk walk = { ret_names, r };
        ls_err e;

        http_catch_up(server);
        e = ls_namespace_list(server->streams, catalog, namespaces_add, &walk);

        http_names_sort(ret_names);
        return e == LS_OK && ret_names->failed ? LS_ELIMIT : e;
}

void
http_catch_up(struct ls_http_server *server)
{
        ls_err e = ls_streams_refresh(server->streams);

        if (e != LS_OK) /* then as this broker knew them last */
                ls_log_warn("http", "event=catalog_stale error=%s", ls_err_name(e));
}

struct ls_stream *
http_table_find(struct ls_http_server *server, struct ls_http_request *r, struct ls_http_answer *a)
{
        struct ls_stream *stream = NULL;
        ls_str ns;

        http_catch_up(server);
        if (http_namespace_parse(r, r->params[1], &ns) == LS_OK)
                stream = ls_stream_find_table(server->streams, r->params[0], ns, r->params[2]);
        if (stream != NULL && http_is_table(ls_stream_info(stream)))
                return stream;
        ls_stream_unref(stream);
        for (size_t i = 0; i < r->params[1].len; i++)
                if (r->params[1].ptr[i] == LEVEL_SEPARATOR)
                        ((char *)r->params[1].ptr)[i] = '.';
        http_answer_error(a, 404, "NoSuchTableException", "Table does not exist: %.*s.%.*s",
                          (int)LS_MIN(r->params[1].len, 300), r->params[1].ptr,
                          (int)LS_MIN(r->params[2].len, 300), r->params[2].ptr);
        return NULL;
}
