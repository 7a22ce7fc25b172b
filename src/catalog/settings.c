/* catalog/settings.c - see settings.h. */
#include "catalog/settings.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/near.h"

#define LS_OPT_NONE -1
const struct ls_setting_def ls_setting_defs[LS_SET_COUNT] = {
#define LS_SETTING(id, name, kind, option, def, min, max, choices, doc) \
        { name, LS_SETTING_##kind, LS_OPT_##option, def, min, max, choices, doc },
#include "catalog/settings.def"
#undef LS_SETTING
};

static bool
setting_is_text(enum ls_setting_kind kind)
{
        return kind == LS_SETTING_TEXT || kind == LS_SETTING_LIST;
}

static bool
choice_has(const char *choices, ls_str value)
{
        const char *p = choices;

        for (;;) {
                size_t len = strcspn(p, "|");

                if (value.len == len && memcmp(p, value.ptr, len) == 0)
                        return true;
                if (p[len] == '\0')
                        return false;
                p += len + 1;
        }
}

/* A LIST is names joined by commas, blanks around them allowed; each must be a choice. */
static bool
list_ok(const char *choices, ls_str value)
{
        size_t pos = 0;

        while (pos <= value.len) {
                size_t start = pos, end;

                while (pos < value.len && value.ptr[pos] != ',')
                        pos++;
                end = pos++;
                while (start < end && value.ptr[start] == ' ')
                        start++;
                while (end > start && value.ptr[end - 1] == ' ')
                        end--;
                if (!choice_has(choices, ls_str_make(value.ptr + start, end - start)))
                        return false;
        }
        return true;
}

/* "0.5" -> 500; at most three digits count, more must be zeros. */
static bool
parse_milli(ls_str s, int64_t *ret)
{
        int64_t whole = 0, milli = 0, unit = 100;
        size_t i = 0;

        for (; i < s.len && s.ptr[i] != '.'; i++) {
                if (s.ptr[i] < '0' || s.ptr[i] > '9' || whole > 1000000)
                        return false;
                whole = whole * 10 + (s.ptr[i] - '0');
        }
        for (i++; i < s.len; i++, unit /= 10) {
                if (s.ptr[i] < '0' || s.ptr[i] > '9')
                        return false;
                milli += unit * (s.ptr[i] - '0');
        }
        *ret = whole * 1000 + milli;
        return s.len > 0;
}

static ls_err
setting_assign(struct ls_settings *s, size_t i, ls_str value, struct ls_errinfo *reterr)
{
        const struct ls_setting_def *d = &ls_setting_defs[i];
        int64_t number = 0;
        bool ok = false;

        switch (d->kind) {
        case LS_SETTING_BOOL:
                ok = ls_str_is(value, "true") || ls_str_is(value, "false");
                number = ls_str_is(value, "true");
                break;
        case LS_SETTING_INT:
        case LS_SETTING_LONG: ok = ls_str_to_i64(value, d->min, d->max, &number); break;
        case LS_SETTING_DOUBLE_MILLI:
                ok = parse_milli(value, &number) && number >= d->min && number <= d->max;
                break;
        case LS_SETTING_TEXT:
                ok = value.ptr != NULL && value.len <= 4096 &&
                     memchr(value.ptr, 0, value.len) == NULL &&
                     (d->choices[0] == '\0' || choice_has(d->choices, value));
                break;
        case LS_SETTING_LIST: ok = value.ptr != NULL && list_ok(d->choices, value); break;
        }
        if (!ok && i == LS_SET_CLEANUP_POLICY)
                return ls_fail(reterr, LS_INVALID,
                               "Invalid value %.*s for configuration cleanup.policy: key "
                               "compaction is not "
                               "supported yet, use 'delete'",
                               LS_STR_ARG(value));
        if (!ok)
                return ls_fail(reterr, LS_INVALID, "Invalid value %.*s for configuration %s%s%s",
                               LS_STR_ARG(value), d->name, d->choices[0] ? ": expected " : "",
                               d->choices);
        if (setting_is_text(d->kind)) {
                ls_free(s->texts[i]);
                s->texts[i] = ls_str_dup(value);
        } else {
                s->ints[i] = number;
        }
        return LS_OK;
}

void
ls_setting_print_default(const struct ls_options *options, enum ls_setting_id id,
                         struct ls_buf *ret)
{
        const struct ls_setting_def *d = &ls_setting_defs[id];

        if (d->option >= 0 && options != NULL)
                ls_option_print(options, (enum ls_option_id)d->option, ret);
        else
                ls_buf_put_text(ret, d->text_default);
}

void
ls_settings_init(struct ls_settings *s, const struct ls_options *options)
{
        struct ls_buf text;

        *s = (struct ls_settings){ 0 };
        ls_buf_init(&text, 1 << 16);
        for (size_t i = 0; i < LS_SET_COUNT; i++) {
                ls_err e;

                ls_buf_clear(&text);
                ls_setting_print_default(options, (enum ls_setting_id)i, &text);
                ls_buf_cstr(&text);
                e = setting_assign(s, i, ls_str_make((const char *)text.ptr, text.len), NULL);
                LS_ASSERT(e == LS_OK); /* options have the same bounds as settings: settings_test */
        }
        ls_buf_done(&text);
}

void
ls_settings_done(struct ls_settings *s)
{
        for (size_t i = 0; i < LS_SET_COUNT; i++) {
                ls_free(s->texts[i]);
                s->texts[i] = NULL;
        }
}

int
ls_setting_find(ls_str name)
{
        for (size_t i = 0; i < LS_SET_COUNT; i++) {
                if (ls_str_is(name, ls_setting_defs[i].name))
                        return (int)i;
        }
        return -1;
}

ls_err
ls_setting_unknown(ls_str name, struct ls_errinfo *reterr)
{
        struct ls_near near = ls_near_of(name);

        for (size_t i = 0; i < LS_SET_COUNT; i++)
                ls_near_try(&near, ls_setting_defs[i].name);
        return ls_fail(reterr, LS_ABSENT, "Unknown topic config name: %.*s%s%s%s",
                       (int)LS_MIN(name.len, 200), name.ptr, near.name ? " (did you mean " : "",
                       near.name ? near.name : "", near.name ? "?)" : "");
}

ls_err
ls_settings_set(struct ls_settings *s, ls_str name, ls_str value, struct ls_errinfo *reterr)
{
        int i = ls_setting_find(name);

        if (i < 0)
                return ls_setting_unknown(name, reterr);
        LS_TRY(setting_assign(s, (size_t)i, value, reterr));
        s->is_set[i] = true;
        return LS_OK;
}

void
ls_setting_print(const struct ls_settings *s, enum ls_setting_id id, struct ls_buf *ret)
{
        switch (ls_setting_defs[id].kind) {
        case LS_SETTING_BOOL: ls_buf_put_text(ret, s->ints[id] ? "true" : "false"); break;
        case LS_SETTING_INT:
        case LS_SETTING_LONG: ls_buf_printf(ret, "%lld", (long long)s->ints[id]); break;
        case LS_SETTING_DOUBLE_MILLI: {
                int64_t milli = s->ints[id] % 1000;
                int digits = milli % 10 ? 3 : milli % 100 ? 2 : 1;

                ls_buf_printf(ret, "%lld.%0*lld", (long long)(s->ints[id] / 1000), digits,
                              (long long)(digits == 3   ? milli
                                          : digits == 2 ? milli / 10
                                                        : milli / 100));
                break;
        }
        case LS_SETTING_TEXT:
        case LS_SETTING_LIST: ls_buf_put_text(ret, s->texts[id]); break;
        }
}
