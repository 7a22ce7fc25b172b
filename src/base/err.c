/* base/err.c - see err.h. */
#include "base/err.h"

#include <errno.h>
#include <stdio.h>

const char *
ls_err_name(ls_err e)
{
        switch ((enum ls_err_code)e) {
#define LS_ERR(name, value, text, retriable) \
        case name:                           \
                return #name;
#include "base/err.def"
#undef LS_ERR
        }
        return "LS_?";
}

const char *
ls_err_text(ls_err e)
{
        switch ((enum ls_err_code)e) {
#define LS_ERR(name, value, text, retriable) \
        case name:                           \
                return text;
#include "base/err.def"
#undef LS_ERR
        }
        return "unknown error";
}

bool
ls_err_retriable(ls_err e)
{
        switch ((enum ls_err_code)e) {
#define LS_ERR(name, value, text, retriable) \
        case name:                           \
                return retriable;
#include "base/err.def"
#undef LS_ERR
        }
        return false;
}

ls_err
ls_err_from_errno(int errnum)
{
        switch (errnum) {
        case ENOSPC:
        case EDQUOT:
        case EFBIG: return LS_ENOSPC;
        case EROFS: return LS_EREADONLY;
        case EACCES:
        case EPERM: return LS_EACCESS;
        case EMFILE:
        case ENFILE:
        case ENOMEM: return LS_ELIMIT;
        default: return LS_EIO;
        }
}

ls_err
ls_fail(struct ls_errinfo *info, ls_err e, const char *format, ...)
{
        va_list ap;

        if (info == NULL)
                return e;
        va_start(ap, format);
        vsnprintf(info->text, sizeof info->text, format, ap);
        va_end(ap);
        return e;
}
