/* servers/http/namespaces.c - namespaces of the Iceberg REST catalog.
 *
 * A namespace is there because a stream lives in it (or below it), or because it was made by hand;
 * `default` is always there. Properties are a JSON object of texts.
 */
#include "catalog/names.h"
#include "servers/http/http_int.h"

static void
answer_absent(struct ls_http_request *r, struct ls_http_answer *a)
{
        for (size_t i = 0; i < r->params[1].len; i++)
                if (r->params[1].ptr[i] == '\x1f')
                        ((char *)r->params[1].ptr)[i] = '.';
        http_answer_error(a, 404, "NoSuchNamespaceException", "Namespace does not exist: %.*s",
                          (int)LS_MIN(r->params[1].len, 300), r->params[1].ptr);
}

/* The namespace behind {namespace}; false: answered. */
static bool
namespace_find(struct ls_http_server *server, struct ls_http_request *r, struct ls_http_answer *a,
               struct http_names *names, ls_str *ret_ns)
{
        ls_err e;

        if (!http_catalog_known(r->params[0], a))
                return false;
        e = http_namespaces(server, r, r->params[0], names);
        if (e != LS_OK) {
                http_answer_failure(a, e, "listing namespaces", NULL);
                return false;
        }
        if (http_namespace_parse(r, r->params[1], ret_ns) != LS_OK ||
            !http_names_have(names, *ret_ns)) {
                answer_absent(r, a);
                return false;
        }
        return true;
}

bool
http_namespace_find(struct ls_http_server *server, struct ls_http_request *r,
                    struct ls_http_answer *a, ls_str *ret_ns)
{
        struct http_names all = { 0 };
        bool found = namespace_find(server, r, a, &all, ret_ns);

        http_names_done(&all);
        return found;
}

/* --- list --- */

/* Of `all`, those one level below `parent` (null: the top). */
static void
children_of(const struct http_names *all, struct ls_http_request *r, ls_str parent,
            struct http_names *ret)
{
        for (size_t i = 0; i < all->count; i++) {
                ls_str ns = all->items[i];
                size_t start = 0;

                if (parent.ptr != NULL) {
                        start = parent.len + 1;
                        if (ns.len <= start || memcmp(ns.ptr, parent.ptr, parent.len) != 0 ||
                            ns.ptr[parent.len] != '.')
                                continue;
                }
                if (memchr(ns.ptr + start, '.', ns.len - start) == NULL)
                        http_names_add(ret, r, ns);
        }
        http_names_sort(ret);
}

static void
list_answer(const struct http_names *names, struct ls_http_request *r, struct ls_http_answer *a)
{
        json_t *list;
        size_t first, count;
        ls_str token;

        if (names->failed) {
                http_answer_failure(a, LS_ELIMIT, "listing namespaces", NULL);
                return;
        }
        if (!http_names_page(names, r, a, &first, &count, &token))
                return;
        list = json_array();
        for (size_t i = first; i < first + count; i++)
                json_array_append_new(list, http_namespace_json(names->items[i]));
        http_answer_json(a, 200,
                         json_pack("{s:o,s:o}", "namespaces", list, "next-page-token",
                                   token.ptr ? http_json_str(token) : json_null()));
}

void
iceberg_namespace_list(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        ls_str parent_param = ls_http_query(r, "parent"), parent = LS_STR_NULL;
        struct http_names all = { 0 }, children = { 0 };
        ls_err e;

        if (!http_catalog_known(r->params[0], a))
                return;
        e = http_namespaces(ctx, r, r->params[0], &all);
        if (e != LS_OK) {
                http_answer_failure(a, e, "listing namespaces", NULL);
        } else if (parent_param.len > 0 &&
                   (http_namespace_parse(r, parent_param, &parent) != LS_OK ||
                    !http_names_have(&all, parent))) {
                r->params[1] = parent_param;
                answer_absent(r, a);
        } else {
                children_of(&all, r, parent, &children);
                list_answer(&children, r, a);
        }
        http_names_done(&children);
        http_names_done(&all);
}

/* --- properties --- */

/* An object whose values are all texts, of a bounded size. */
static bool
properties_check(const json_t *properties, struct ls_http_answer *a)
{
        const char *name;
        json_t *value;

        if (!json_is_object(properties) || json_object_size(properties) > PROPERTIES_MAX) {
                http_answer_error(a, 400, "BadRequestException",
                                  "properties must be an object with at most %d entries",
                                  PROPERTIES_MAX);
                return false;
        }
        json_object_foreach((json_t *)properties, name, value)
        {
                if (!json_is_string(value)) {
                        http_answer_error(a, 400, "BadRequestException",
                                          "the property '%.200s' is not a text", name);
                        return false;
                }
        }
        return true;
}

/* Those of a namespace that exists; what only streams imply has none. NULL: answered. */
static json_t *
properties_get(struct ls_http_server *server, struct ls_http_request *r, ls_str ns,
               struct ls_http_answer *a)
{
        LS_AUTO(ls_free) char *text = NULL;
        ls_err e = ls_namespace_get(server->streams, r->params[0], ns, &text);
        json_t *properties;

        if (e == LS_ABSENT)
                return json_object();
        if (e != LS_OK) {
                http_answer_failure(a, e, "reading the namespace", NULL);
                return NULL;
        }
        properties = json_loads(text, 0, NULL);
        if (json_is_object(properties))
                return properties;
        json_decref(properties);
        http_answer_failure(a, LS_EBROKEN, "reading the namespace's properties", NULL);
        return NULL;
}

static ls_err
properties_put(struct ls_http_server *server, ls_str catalog, ls_str ns, const json_t *properties,
               bool create)
{
        char *text = json_dumps(properties, JSON_COMPACT);
        ls_err e;

        if (text == NULL)
                return LS_EINTERNAL;
        if (create) {
                e = ls_namespace_create(server->streams, catalog, ns, ls_str_of(text));
        } else {
                e = ls_namespace_set(server->streams, catalog, ns, ls_str_of(text));
                if (e == LS_ABSENT)
                        e = ls_namespace_create(server->streams, catalog, ns, ls_str_of(text));
        }
        ls_free(text);
        return e;
}

void
iceberg_namespace_load(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        struct http_names all = { 0 };
        json_t *properties;
        ls_str ns;

        if (namespace_find(ctx, r, a, &all, &ns)) {
                properties = properties_get(ctx, r, ns, a);
                if (properties != NULL)
                        http_answer_json(a, 200,
                                         json_pack("{s:o,s:o}", "namespace",
                                                   http_namespace_json(ns), "properties",
                                                   properties));
        }
        http_names_done(&all);
}

void
iceberg_namespace_exists(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        struct http_names all = { 0 };
        ls_str ns;

        if (namespace_find(ctx, r, a, &all, &ns))
                a->status = 204;
        http_names_done(&all);
}

/* --- create --- */

static bool
level_is_valid(const json_t *level)
{
        const char *text = json_string_value(level);
        size_t len = json_string_length(level);

        if (text == NULL || len == 0)
                return false;
        for (size_t i = 0; i < len; i++) {
                char c = text[i];

                if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-'))
                        return false;
        }
        return true;
}

/* The levels of a request's "namespace", joined; null: answered 400. */
static ls_str
levels_parse(const json_t *levels, struct ls_http_request *r, struct ls_http_answer *a)
{
        size_t i, count = json_array_size(levels);
        ls_str ns = LS_STR("");
        json_t *level;

        if (count == 0 || count > NAMESPACE_LEVELS_MAX) {
                http_answer_error(a, 400, "BadRequestException",
                                  "namespace must be an array of 1 to %d levels",
                                  NAMESPACE_LEVELS_MAX);
                return LS_STR_NULL;
        }
        json_array_foreach(levels, i, level)
        {
                if (!level_is_valid(level)) {
                        http_answer_error(
                                a, 400, "BadRequestException",
                                "level %zu of the namespace must be of letters, digits, '_' and "
                                "'-', so that topic names can hold it",
                                i + 1);
                        return LS_STR_NULL;
                }
                ns = ls_arena_printf(r->arena, "%.*s%s%s", LS_STR_ARG(ns), i ? "." : "",
                                     json_string_value(level));
        }
        if (ns.len > NAMESPACE_BYTES_MAX) {
                http_answer_error(a, 400, "BadRequestException",
                                  "the namespace has %zu bytes; a topic name has room for %d",
                                  ns.len, NAMESPACE_BYTES_MAX);
                return LS_STR_NULL;
        }
        return ns;
}

/* Answers what became of creating `ns`. */
static void
create_answer(ls_err e, ls_str ns, json_t *properties, struct ls_http_answer *a)
{
        if (e == LS_OK)
                http_answer_json(a, 200,
                                 json_pack("{s:o,s:O}", "namespace", http_namespace_json(ns),
                                           "properties", properties));
        else if (e == LS_EXISTS)
                http_answer_error(a, 409, "AlreadyExistsException",
                                  "Namespace already exists: %.*s", LS_STR_ARG(ns));
        else
                http_answer_failure(a, e, "creating the namespace", NULL);
}

static void
namespace_create(struct ls_http_server *server, struct ls_http_request *r, const json_t *body,
                 struct ls_http_answer *a)
{
        json_t *properties = json_incref(json_object_get(body, "properties"));
        ls_str ns = levels_parse(json_object_get(body, "namespace"), r, a);
        struct http_names all = { 0 };
        ls_err e;

        if (properties == NULL || json_is_null(properties)) {
                json_decref(properties);
                properties = json_object();
        }
        if (ns.ptr != NULL && properties_check(properties, a)) {
                /* `default` as a first level would not be a namespace of its own: catalog/names.h.
                 * */
                if (ns.len > 8 && memcmp(ns.ptr, LS_NAMESPACE_DEFAULT ".", 8) == 0) {
                        http_answer_error(a, 400, "BadRequestException",
                                          "the namespace '%s' has no levels below it",
                                          LS_NAMESPACE_DEFAULT);
                } else {
                        e = http_namespaces(server, r, r->params[0], &all);
                        if (e == LS_OK && http_names_have(&all, ns))
                                e = LS_EXISTS;
                        if (e == LS_OK)
                                e = properties_put(server, r->params[0], ns, properties, true);
                        create_answer(e, ns, properties, a);
                }
        }
        http_names_done(&all);
        json_decref(properties);
}

void
iceberg_namespace_create(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        json_t *body;

        if (!http_catalog_known(r->params[0], a))
                return;
        body = http_body_object(r, a);
        if (body == NULL)
                return;
        namespace_create(ctx, r, body, a);
        json_decref(body);
}

/* --- drop --- */

static bool
has_children(const struct http_names *all, ls_str ns)
{
        for (size_t i = 0; i < all->count; i++)
                if (all->items[i].len > ns.len && all->items[i].ptr[ns.len] == '.' &&
                    memcmp(all->items[i].ptr, ns.ptr, ns.len) == 0)
                        return true;
        return false;
}

void
iceberg_namespace_drop(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        struct ls_http_server *server = ctx;
        struct http_names all = { 0 };
        ls_str ns;
        ls_err e;

        if (namespace_find(ctx, r, a, &all, &ns)) {
                e = has_children(&all, ns) ? LS_NOT_EMPTY
                                           : ls_namespace_drop(server->streams, r->params[0], ns);
                if (e == LS_OK)
                        a->status = 204;
                else if (ls_str_is(ns, LS_NAMESPACE_DEFAULT))
                        http_answer_error(a, 409, "NamespaceNotEmptyException",
                                          "The namespace '%s' is always there",
                                          LS_NAMESPACE_DEFAULT);
                else if (e == LS_NOT_EMPTY)
                        http_answer_error(a, 409, "NamespaceNotEmptyException",
                                          "Namespace %.*s is not empty: delete its topics first",
                                          LS_STR_ARG(ns));
                else if (e == LS_ABSENT)
                        answer_absent(r, a);
                else
                        http_answer_failure(a, e, "dropping the namespace", NULL);
        }
        http_names_done(&all);
}

/* --- update properties --- */

/* Applies the request to `properties`; the answer's three lists. NULL: answered. */
static json_t *
properties_apply(json_t *properties, const json_t *removals, json_t *updates,
                 struct ls_http_answer *a)
{
        json_t *updated = json_array(), *removed = json_array(), *missing = json_array(), *value;
        const char *name;
        size_t i;

        json_array_foreach(removals, i, value)
        {
                name = json_string_value(value);
                json_array_append(json_object_get(properties, name) ? removed : missing, value);
                json_object_del(properties, name);
        }
        json_object_foreach(updates, name, value)
        {
                json_object_set(properties, name, value);
                json_array_append_new(updated, json_string(name));
        }
        return json_pack("{s:o,s:o,s:o}", "updated", updated, "removed", removed, "missing",
                         missing);
}

static bool
properties_request_check(const json_t *removals, const json_t *updates, struct ls_http_answer *a)
{
        json_t *value;
        size_t i;

        if (!properties_check(updates, a))
                return false;
        if (!json_is_array(removals) || json_array_size(removals) > PROPERTIES_MAX) {
                http_answer_error(a, 400, "BadRequestException",
                                  "removals must be an array of at most %d names", PROPERTIES_MAX);
                return false;
        }
        json_array_foreach(removals, i, value)
        {
                if (!json_is_string(value)) {
                        http_answer_error(a, 400, "BadRequestException",
                                          "removals must be an array of names");
                        return false;
                }
                if (json_object_get(updates, json_string_value(value)) != NULL) {
                        http_answer_error(a, 422, "UnprocessableEntityException",
                                          "the property '%.200s' is both in removals and updates",
                                          json_string_value(value));
                        return false;
                }
        }
        return true;
}

/* Under the lock: two updates of one namespace must not lose each other's. */
static void
properties_update(struct ls_http_server *server, struct ls_http_request *r, ls_str ns,
                  const json_t *removals, json_t *updates, struct ls_http_answer *a)
{
        json_t *properties = properties_get(server, r, ns, a), *result;
        ls_err e;

        if (properties == NULL)
                return;
        result = properties_apply(properties, removals, updates, a);
        if (properties_check(properties, a)) {
                e = properties_put(server, r->params[0], ns, properties, false);
                if (e == LS_OK)
                        http_answer_json(a, 200, json_incref(result));
                else
                        http_answer_failure(a, e, "changing the namespace's properties", NULL);
        }
        json_decref(result);
        json_decref(properties);
}

void
iceberg_namespace_properties(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        struct ls_http_server *server = ctx;
        struct http_names all = { 0 };
        json_t *body = NULL, *none = json_object(), *nothing = json_array(), *removals, *updates;
        ls_str ns;

        if (namespace_find(ctx, r, a, &all, &ns))
                body = http_body_object(r, a);
        if (body != NULL) {
                removals = json_object_get(body, "removals");
                updates = json_object_get(body, "updates");
                if (removals == NULL || json_is_null(removals))
                        removals = nothing;
                if (updates == NULL || json_is_null(updates))
                        updates = none;
                if (properties_request_check(removals, updates, a)) {
                        pthread_mutex_lock(&server->properties);
                        properties_update(server, r, ns, removals, updates, a);
                        pthread_mutex_unlock(&server->properties);
                }
        }
        json_decref(body);
        json_decref(none);
        json_decref(nothing);
        http_names_done(&all);
}
