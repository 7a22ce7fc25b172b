/* store/xml.c - see xml.h. Over expat. */
#include "store/xml.h"

#include <expat.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"

#define DEPTH_MAX      8
#define NAME_BYTES_MAX 64
#define TEXT_BYTES_MAX 65536

struct xml {
        XML_Parser parser;
        char names[DEPTH_MAX][NAME_BYTES_MAX];
        int depth;      /* open elements */
        bool has_child; /* the element that ends held others */
        struct ls_buf text;
        ls_err result;
        ls_err (*fn)(void *ctx, const char *parent, const char *name, ls_str text);
        void *ctx;
};

static void
xml_stop(struct xml *x, ls_err e)
{
        if (x->result == LS_OK)
                x->result = e;
        XML_StopParser(x->parser, XML_FALSE);
}

static void
on_start(void *ctx, const char *name, const char **attributes)
{
        const char *colon = strrchr(name, ':');
        struct xml *x = ctx;

        if (x->depth == DEPTH_MAX) {
                xml_stop(x, LS_CORRUPT);
                return;
        }
        snprintf(x->names[x->depth++], NAME_BYTES_MAX, "%s", colon != NULL ? colon + 1 : name);
        x->has_child = false;
        ls_buf_clear(&x->text);
}

static void
on_end(void *ctx, const char *name)
{
        struct xml *x = ctx;
        ls_err e;

        if (x->result != LS_OK)
                return;
        x->depth--;
        e = x->fn(x->ctx, x->depth > 0 ? x->names[x->depth - 1] : "", x->names[x->depth],
                  x->has_child ? LS_STR_NULL : ls_str_make(ls_buf_cstr(&x->text), x->text.len));
        x->has_child = true;
        if (e != LS_OK)
                xml_stop(x, e);
}

static void
on_text(void *ctx, const char *text, int bytes)
{
        struct xml *x = ctx;

        ls_buf_put(&x->text, text, (size_t)bytes);
        if (ls_buf_failed(&x->text))
                xml_stop(x, LS_CORRUPT);
}

static void
on_doctype(void *ctx, const char *name, const char *system_id, const char *public_id, int internal)
{
        xml_stop(ctx, LS_CORRUPT);
}

ls_err
store_xml_read(ls_span bytes,
               ls_err (*fn)(void *ctx, const char *parent, const char *name, ls_str text),
               void *ctx)
{
        struct xml x = { .parser = XML_ParserCreate(NULL), .fn = fn, .ctx = ctx };

        if (x.parser == NULL)
                return LS_EINTERNAL;
        ls_buf_init(&x.text, TEXT_BYTES_MAX);
        XML_SetUserData(x.parser, &x);
        XML_SetElementHandler(x.parser, on_start, on_end);
        XML_SetCharacterDataHandler(x.parser, on_text);
        XML_SetStartDoctypeDeclHandler(x.parser, on_doctype);
        if (bytes.len > INT32_MAX)
                x.result = LS_CORRUPT;
        else if (XML_Parse(x.parser, (const char *)bytes.ptr, (int)bytes.len, XML_TRUE) !=
                         XML_STATUS_OK &&
                 x.result == LS_OK)
                x.result = LS_CORRUPT;
        XML_ParserFree(x.parser);
        ls_buf_done(&x.text);
        return x.result;
}

static ls_err
on_error(void *ctx, const char *parent, const char *name, ls_str text)
{
        struct store_xml_error *error = ctx;

        if (strcmp(parent, "Error") == 0 && strcmp(name, "Code") == 0)
                snprintf(error->code, sizeof error->code, "%.*s", LS_STR_ARG(text));
        else if (strcmp(parent, "Error") == 0 && strcmp(name, "Message") == 0)
                snprintf(error->message, sizeof error->message, "%.*s", LS_STR_ARG(text));
        return LS_OK;
}

void
store_xml_error_read(ls_span bytes, struct store_xml_error *ret_error)
{
        memset(ret_error, 0, sizeof *ret_error);
        if (store_xml_read(bytes, on_error, ret_error) != LS_OK && ret_error->code[0] == '\0')
                snprintf(ret_error->code, sizeof ret_error->code, "none");
}
