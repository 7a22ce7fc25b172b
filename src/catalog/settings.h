/* catalog/settings.h - settings of a stream: Kafka topic configs and table.*, from settings.def.
 *
 * A setting has a value of its own, else the server's default (when a server option stands behind
 * it), else the built-in one. Threads: immutable after parsing.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/options.h"

enum ls_setting_id {
#define LS_SETTING(id, name, kind, option, def, min, max, choices, doc) LS_SET_##id,
#include "catalog/settings.def"
#undef LS_SETTING
        LS_SET_COUNT,
};
enum ls_setting_kind {
        LS_SETTING_BOOL,
        LS_SETTING_INT,
        LS_SETTING_LONG,
        LS_SETTING_DOUBLE_MILLI,
        LS_SETTING_TEXT,
        LS_SETTING_LIST,
};
struct ls_setting_def {
        const char *name;
        enum ls_setting_kind kind;
        int option; /* enum ls_option_id of the server's default, or -1 */
        const char *text_default;
        int64_t min, max;
        const char *choices; /* TEXT, LIST: allowed values joined by '|'; else a unit */
        const char *doc;
};
extern const struct ls_setting_def ls_setting_defs[LS_SET_COUNT];

/* Effective values. */
struct ls_settings {
        int64_t ints[LS_SET_COUNT]; /* BOOL, INT, LONG, DOUBLE_MILLI */
        char *texts[LS_SET_COUNT];  /* TEXT, LIST; owned */
        bool is_set[LS_SET_COUNT];  /* on the stream itself */
};
/* All at their defaults under the server's options. */
void ls_settings_init(struct ls_settings *s, const struct ls_options *options);
void ls_settings_done(struct ls_settings *s);
/* The words for a name that is no setting, with the nearest one that is: LS_ABSENT. */
ls_err ls_setting_unknown(ls_str name, struct ls_errinfo *reterr);
/* LS_ABSENT: no such setting; LS_INVALID: not a value of it; with words. */
LS_MUST_USE ls_err ls_settings_set(struct ls_settings *s, ls_str name, ls_str value,
                                   struct ls_errinfo *reterr);
/* Index of a name, or -1. */
int ls_setting_find(ls_str name);
/* The effective value as Kafka prints it, appended. */
void ls_setting_print(const struct ls_settings *s, enum ls_setting_id id, struct ls_buf *ret);
/* The default under the server's options, as Kafka prints it, appended. */
void ls_setting_print_default(const struct ls_options *options, enum ls_setting_id id,
                              struct ls_buf *ret);
