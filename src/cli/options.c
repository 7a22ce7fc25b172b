/* cli/options.c - the settings of a command that opens a data folder: file, environment, flags. */
#include "base/options.h"

#include "cli/cli.h"
#include "sys/file.h"
#include "sys/process.h"

#define CONFIG_BYTES_MAX ((size_t)1 << 20)

ls_err
cli_option_flag(struct ls_options *o, const char *name, const char *value,
                struct ls_errinfo *reterr)
{
        if (value == NULL)
                return LS_OK;
        return ls_options_set(o, ls_str_of(name), ls_str_of(value), LS_OPTION_FLAG, reterr);
}

static ls_err
options_set_list(struct ls_options *o, const struct cli_list *list, struct ls_errinfo *reterr)
{
        for (size_t i = 0; i < list->count; i++) {
                const char *equals = strchr(list->items[i], '=');
                ls_str name;

                if (equals == NULL)
                        return ls_fail(reterr, LS_INVALID, "--set %s: write --set name=value",
                                       list->items[i]);
                name = ls_str_make(list->items[i], (size_t)(equals - list->items[i]));
                LS_TRY(ls_options_set(o, name, ls_str_of(equals + 1), LS_OPTION_FLAG, reterr));
        }
        return LS_OK;
}

static ls_err
options_file(struct ls_options *o, const char *path, struct ls_errinfo *reterr)
{
        LS_AUTO(ls_slice_unref) struct ls_slice *text = NULL;
        ls_err e;

        if (path == NULL)
                return LS_OK;
        e = ls_file_read_all(path, CONFIG_BYTES_MAX, &text);
        if (e != LS_OK)
                return ls_fail(reterr, e, "the configuration file %s: %s", path, ls_err_text(e));
        e = ls_options_parse(o, ls_str_make((const char *)text->ptr, text->len), reterr);
        if (e != LS_OK) {
                struct ls_errinfo inner = *reterr;

                return ls_fail(reterr, e, "%.128s: %.350s", path, inner.text);
        }
        return LS_OK;
}

ls_err
cli_options_read(struct ls_options *o, const char *config, const struct cli_list *set,
                 struct ls_errinfo *reterr)
{
        LS_TRY(options_file(o, config, reterr));
        LS_TRY(ls_options_env(o, ls_process_environment(), reterr));
        return options_set_list(o, set, reterr);
}
