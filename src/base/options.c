/* base/options.c - see options.h. */
#include "base/options.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/near.h"

#define ENV_PREFIX     "LAKESTREAM_"
#define ENV_NAME_BYTES 96
#define ENV_NEAR_MAX   2 /* a variable this close to a setting's is a slip, not another program's */

/* INT and BOOL carry a number as default, TEXT a string; both columns exist for every row. */
#define OPTION_INT_DEFAULT_INT(def)   (def)
#define OPTION_INT_DEFAULT_BOOL(def)  (def)
#define OPTION_INT_DEFAULT_TEXT(def)  0
#define OPTION_TEXT_DEFAULT_INT(def)  NULL
#define OPTION_TEXT_DEFAULT_BOOL(def) NULL
#define OPTION_TEXT_DEFAULT_TEXT(def) (def)
#define OPTION_INT_DEFAULT_SECRET     OPTION_INT_DEFAULT_TEXT
#define OPTION_TEXT_DEFAULT_SECRET    OPTION_TEXT_DEFAULT_TEXT

const struct ls_option_def ls_option_defs[LS_OPT_COUNT] = {
#define LS_OPTION(id, name, kind, def, min, max, unit, doc) \
        { name,                                             \
          LS_OPTION_##kind,                                 \
          OPTION_INT_DEFAULT_##kind(def),                   \
          OPTION_TEXT_DEFAULT_##kind(def),                  \
          min,                                              \
          max,                                              \
          unit,                                             \
          doc },
#include "base/options.def"
#undef LS_OPTION
};

void
ls_options_init(struct ls_options *o)
{
        for (size_t i = 0; i < LS_OPT_COUNT; i++) {
                const struct ls_option_def *d = &ls_option_defs[i];

                o->ints[i] = d->int_default;
                o->texts[i] = d->text_default ? ls_strdup(d->text_default) : NULL;
                o->sources[i] = LS_OPTION_DEFAULT;
        }
}

void
ls_options_done(struct ls_options *o)
{
        for (size_t i = 0; i < LS_OPT_COUNT; i++) {
                ls_free(o->texts[i]);
                o->texts[i] = NULL;
        }
}

static bool
option_one_of(const char *choices, ls_str value)
{
        const char *p = choices;

        for (;;) {
                const char *bar = strchr(p, '|');
                size_t len = bar ? (size_t)(bar - p) : strlen(p);

                if (value.len == len && memcmp(p, value.ptr, len) == 0)
                        return true;
                if (bar == NULL)
                        return false;
                p = bar + 1;
        }
}

static ls_err
option_assign(struct ls_options *o, size_t i, ls_str value, struct ls_errinfo *reterr)
{
        const struct ls_option_def *d = &ls_option_defs[i];
        int64_t number;

        switch (d->kind) {
        case LS_OPTION_INT:
                if (!ls_str_to_i64(value, d->min, d->max, &number))
                        return ls_fail(reterr, LS_INVALID,
                                       "%s: '%.*s' is not a whole number from %lld to %lld (%s)",
                                       d->name, LS_STR_ARG(value), (long long)d->min,
                                       (long long)d->max, d->unit);
                o->ints[i] = number;
                return LS_OK;
        case LS_OPTION_BOOL:
                if (!ls_str_is(value, "true") && !ls_str_is(value, "false"))
                        return ls_fail(reterr, LS_INVALID, "%s: '%.*s' is neither true nor false",
                                       d->name, LS_STR_ARG(value));
                o->ints[i] = ls_str_is(value, "true");
                return LS_OK;
        case LS_OPTION_TEXT:
        case LS_OPTION_SECRET:
                if (value.len > (size_t)d->max ||
                    memchr(value.ptr ? value.ptr : "", 0, value.len) != NULL)
                        return ls_fail(reterr, LS_INVALID, "%s: the text is too long", d->name);
                if (strchr(d->unit, '|') != NULL && !option_one_of(d->unit, value))
                        return ls_fail(reterr, LS_INVALID, "%s: '%.*s' is not one of %s", d->name,
                                       LS_STR_ARG(value), d->unit);
                ls_free(o->texts[i]);
                o->texts[i] = ls_str_dup(value.ptr ? value : LS_STR(""));
                return LS_OK;
        }
        return LS_INVALID;
}

static ls_err
option_unknown(ls_str name, struct ls_errinfo *reterr)
{
        struct ls_near near = ls_near_of(name);

        for (size_t i = 0; i < LS_OPT_COUNT; i++)
                ls_near_try(&near, ls_option_defs[i].name);
        return ls_fail(reterr, LS_ABSENT,
                       "there is no setting '%.*s'%s%s%s; `lakestream serve --help-config` lists "
                       "all",
                       (int)LS_MIN(name.len, 200), name.ptr, near.name ? ": did you mean '" : "",
                       near.name ? near.name : "", near.name ? "'" : "");
}

ls_err
ls_options_set(struct ls_options *o, ls_str name, ls_str value, enum ls_option_source source,
               struct ls_errinfo *reterr)
{
        for (size_t i = 0; i < LS_OPT_COUNT; i++) {
                if (!ls_str_is(name, ls_option_defs[i].name))
                        continue;
                if (o->sources[i] > source)
                        return LS_OK;
                LS_TRY(option_assign(o, i, value, reterr));
                o->sources[i] = source;
                return LS_OK;
        }
        return option_unknown(name, reterr);
}

static ls_str
str_trim(ls_str s)
{
        while (s.len > 0 && (s.ptr[0] == ' ' || s.ptr[0] == '\t')) {
                s.ptr++;
                s.len--;
        }
        while (s.len > 0 && strchr(" \t\r", s.ptr[s.len - 1]) != NULL)
                s.len--;
        return s;
}

/* One line that is neither empty nor a comment. */
static ls_err
option_line(struct ls_options *o, ls_str line, struct ls_errinfo *reterr)
{
        const char *equals = memchr(line.ptr, '=', line.len);
        ls_str name, value;

        if (equals == NULL)
                return ls_fail(reterr, LS_INVALID, "expected `name = value`");
        name = ls_str_make(line.ptr, (size_t)(equals - line.ptr));
        value = ls_str_make(equals + 1, (size_t)(line.ptr + line.len - equals - 1));
        return ls_options_set(o, str_trim(name), str_trim(value), LS_OPTION_FILE, reterr);
}

ls_err
ls_options_parse(struct ls_options *o, ls_str text, struct ls_errinfo *reterr)
{
        struct ls_errinfo info = { "" };
        size_t line_number = 0;

        while (text.len > 0) {
                const char *newline = memchr(text.ptr, '\n', text.len);
                size_t len = newline ? (size_t)(newline - text.ptr) : text.len;
                ls_str line = str_trim(ls_str_make(text.ptr, len));
                ls_err e;

                line_number++;
                text.ptr += len + (newline != NULL);
                text.len -= len + (newline != NULL);
                if (line.len == 0 || line.ptr[0] == '#')
                        continue;
                e = option_line(o, line, &info);
                if (e != LS_OK)
                        return ls_fail(reterr, e, "line %zu: %.480s", line_number, info.text);
        }
        return LS_OK;
}

/* LAKESTREAM_WAL_SYNC of wal.sync. */
static void
env_name(const char *option, char *ret, size_t bytes)
{
        size_t len = strlen(ENV_PREFIX);

        LS_ASSERT(len + strlen(option) < bytes);
        memcpy(ret, ENV_PREFIX, len);
        for (; *option != '\0'; option++) {
                char c = *option == '.' ? '_' : *option;

                ret[len++] = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
        }
        ret[len] = '\0';
}

/* The setting whose variable this is (*ret_exact), or nearly is; LS_OPT_COUNT: neither. */
static size_t
env_find(ls_str variable, bool *ret_exact)
{
        size_t best = LS_OPT_COUNT, distance = ENV_NEAR_MAX + 1;

        for (size_t i = 0; i < LS_OPT_COUNT; i++) {
                char name[ENV_NAME_BYTES];
                size_t d;

                env_name(ls_option_defs[i].name, name, sizeof name);
                d = ls_near_distance(variable, ls_str_of(name));
                if (d < distance) {
                        distance = d;
                        best = i;
                }
        }
        *ret_exact = distance == 0;
        return best;
}

ls_err
ls_options_env(struct ls_options *o, char *const *environment, struct ls_errinfo *reterr)
{
        for (; *environment != NULL; environment++) {
                const char *equals = strchr(*environment, '=');
                ls_str variable;
                bool exact;
                size_t i;

                if (strncmp(*environment, ENV_PREFIX, strlen(ENV_PREFIX)) != 0 || equals == NULL)
                        continue;
                variable = ls_str_make(*environment, (size_t)(equals - *environment));
                i = env_find(variable, &exact);
                if (i == LS_OPT_COUNT)
                        continue; /* other programs of ours use the prefix too: LAKESTREAM_CACHE */
                if (!exact) {
                        char name[ENV_NAME_BYTES];

                        env_name(ls_option_defs[i].name, name, sizeof name);
                        return ls_fail(reterr, LS_ABSENT,
                                       "the environment variable %.*s names no setting: did you "
                                       "mean %s?",
                                       LS_STR_ARG(variable), name);
                }
                LS_TRY(ls_options_set(o, ls_str_of(ls_option_defs[i].name), ls_str_of(equals + 1),
                                      LS_OPTION_ENV, reterr));
        }
        return LS_OK;
}

void
ls_option_print(const struct ls_options *o, enum ls_option_id id, struct ls_buf *ret)
{
        switch (ls_option_defs[id].kind) {
        case LS_OPTION_INT: ls_buf_printf(ret, "%lld", (long long)o->ints[id]); break;
        case LS_OPTION_BOOL: ls_buf_put_text(ret, o->ints[id] ? "true" : "false"); break;
        case LS_OPTION_TEXT: ls_buf_put_text(ret, o->texts[id]); break;
        case LS_OPTION_SECRET: ls_buf_put_text(ret, o->texts[id][0] ? "[hidden]" : ""); break;
        }
}

/* "bytes, 1048576 to 4294967296"; bounds that are none are left out. */
static void
option_print_range(const struct ls_option_def *d, struct ls_buf *ret)
{
        if (d->kind == LS_OPTION_BOOL)
                ls_buf_put_text(ret, "true or false");
        else if (d->kind == LS_OPTION_TEXT && strchr(d->unit, '|') != NULL)
                ls_buf_printf(ret, "one of %s", d->unit);
        else if (d->kind == LS_OPTION_TEXT || d->kind == LS_OPTION_SECRET)
                ls_buf_printf(ret, "%s", d->unit[0] ? d->unit : "text");
        else
                ls_buf_printf(ret, "%s, %lld", d->unit[0] ? d->unit : "a number",
                              (long long)d->min);
        if (d->kind == LS_OPTION_INT && d->max == INT64_MAX)
                ls_buf_put_text(ret, " or more");
        else if (d->kind == LS_OPTION_INT)
                ls_buf_printf(ret, " to %lld", (long long)d->max);
}

void
ls_options_help(struct ls_buf *ret)
{
        struct ls_options defaults;

        ls_options_init(&defaults);
        ls_buf_put_text(ret,
                        "# Every setting with its default. A setting comes from a flag or --set "
                        "NAME=VALUE, else from\n# the environment (" ENV_PREFIX
                        "WAL_SYNC for wal.sync), else from the file of --config, which takes\n"
                        "# lines like these.\n");
        for (size_t i = 0; i < LS_OPT_COUNT; i++) {
                const struct ls_option_def *d = &ls_option_defs[i];

                ls_buf_printf(ret, "\n# %s\n# ", d->doc);
                option_print_range(d, ret);
                ls_buf_printf(ret, "\n%s = ", d->name);
                ls_option_print(&defaults, (enum ls_option_id)i, ret);
                ls_buf_put_text(ret, "\n");
        }
        ls_options_done(&defaults);
}
