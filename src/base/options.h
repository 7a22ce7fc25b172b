/* base/options.h - the settings of a server: one table (options.def), three sources.
 *
 * Order of precedence: flags and --set, environment (LAKESTREAM_WAL_SYNC for wal.sync),
 * configuration file (`name = value` a line, # comments), default. Threads: written at start, then
 * read by any.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"

enum ls_option_id {
#define LS_OPTION(id, name, kind, def, min, max, unit, doc) LS_OPT_##id,
#include "base/options.def"
#undef LS_OPTION
        LS_OPT_COUNT,
};
enum ls_option_kind {
        LS_OPTION_INT,
        LS_OPTION_BOOL,
        LS_OPTION_TEXT,
        LS_OPTION_SECRET, /* a text that is never shown */
};
enum ls_option_source { LS_OPTION_DEFAULT, LS_OPTION_FILE, LS_OPTION_ENV, LS_OPTION_FLAG };

struct ls_option_def {
        const char *name;
        enum ls_option_kind kind;
        int64_t int_default;
        const char *text_default;
        int64_t min, max; /* of an INT; of the length of a TEXT */
        const char *unit; /* for a TEXT with '|': the allowed values */
        const char *doc;
};
extern const struct ls_option_def ls_option_defs[LS_OPT_COUNT];

struct ls_options {
        int64_t ints[LS_OPT_COUNT];
        char *texts[LS_OPT_COUNT];
        enum ls_option_source sources[LS_OPT_COUNT];
};

void ls_options_init(struct ls_options *o);
void ls_options_done(struct ls_options *o);
static inline int64_t
ls_option_int(const struct ls_options *o, enum ls_option_id id)
{
        return o->ints[id];
}
static inline bool
ls_option_bool(const struct ls_options *o, enum ls_option_id id)
{
        return o->ints[id] != 0;
}
static inline const char *
ls_option_text(const struct ls_options *o, enum ls_option_id id)
{
        return o->texts[id];
}
/* LS_ABSENT: no such name; LS_INVALID: not a value of it. Both with words. A source never overrides
 * a stronger one. */
LS_MUST_USE ls_err ls_options_set(struct ls_options *o, ls_str name, ls_str value,
                                  enum ls_option_source source, struct ls_errinfo *reterr);
/* The text of a configuration file: of two lines with one name the last counts. Words name the
 * line. */
LS_MUST_USE ls_err ls_options_parse(struct ls_options *o, ls_str text, struct ls_errinfo *reterr);
/* Environment variables LAKESTREAM_NAME. Those that name no setting are left alone, but LS_ABSENT
 * for one that is nearly the name of one. */
LS_MUST_USE ls_err ls_options_env(struct ls_options *o, char *const *environment,
                                  struct ls_errinfo *reterr);
/* The value as text, into `ret` (appended); "[hidden]" for a secret that is set. */
void ls_option_print(const struct ls_options *o, enum ls_option_id id, struct ls_buf *ret);
/* All settings with meaning, unit, bounds and default, as the text of a configuration file. */
void ls_options_help(struct ls_buf *ret);
