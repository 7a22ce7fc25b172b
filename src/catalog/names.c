/* catalog/names.c - see names.h. */
#include "catalog/names.h"

#include "base/assert.h"

ls_err
ls_topic_name_check(ls_str name, struct ls_errinfo *reterr)
{
        if (name.len == 0)
                return ls_fail(reterr, LS_INVALID,
                               "Topic name is invalid: the empty string is not allowed");
        if (ls_str_is(name, ".") || ls_str_is(name, ".."))
                return ls_fail(reterr, LS_INVALID, "Topic name is invalid: '%.*s' is not allowed",
                               LS_STR_ARG(name));
        if (name.len > LS_TOPIC_BYTES_MAX)
                return ls_fail(
                        reterr, LS_INVALID,
                        "Topic name is invalid: the length of '%.60s...' is longer than the max "
                        "allowed length %d",
                        name.ptr, LS_TOPIC_BYTES_MAX);
        for (size_t i = 0; i < name.len; i++) {
                char c = name.ptr[i];

                if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '.' || c == '_' || c == '-')
                        continue;
                return ls_fail(
                        reterr, LS_INVALID,
                        "Topic name is invalid: '%.*s' contains one or more characters other than "
                        "ASCII alphanumerics, '.', '_' and '-'",
                        LS_STR_ARG(name));
        }
        return LS_OK;
}

static bool
splits_cleanly(ls_str name)
{
        if (name.ptr[0] == '.' || name.ptr[name.len - 1] == '.')
                return false;
        for (size_t i = 1; i < name.len; i++) {
                if (name.ptr[i] == '.' && name.ptr[i - 1] == '.')
                        return false;
        }
        return true;
}

void
ls_topic_name_split(ls_str name, ls_str *ret_ns, ls_str *ret_name)
{
        const size_t default_len = sizeof LS_NAMESPACE_DEFAULT - 1;
        size_t dot = name.len;

        LS_ASSERT(name.len > 0);
        *ret_ns = LS_STR(LS_NAMESPACE_DEFAULT);
        *ret_name = name;
        while (dot > 0 && name.ptr[dot - 1] != '.')
                dot--;
        if (dot == 0 || !splits_cleanly(name))
                return;
        if (name.len > default_len && memcmp(name.ptr, LS_NAMESPACE_DEFAULT, default_len) == 0 &&
            name.ptr[default_len] == '.')
                return;
        *ret_ns = ls_str_make(name.ptr, dot - 1);
        *ret_name = ls_str_make(name.ptr + dot, name.len - dot);
}
