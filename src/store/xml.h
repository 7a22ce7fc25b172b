/* store/xml.h - reading the XML of a store's answers (s3/, azure/).
 *
 * Threads: any; no state. The bytes are from outside: depth and text are bounded, and a document
 * type declaration (entities) is refused.
 */
#pragma once
#include "base/err.h"
#include "base/span.h"

/* Calls fn at each end of an element that holds text only, with the names of it and of its parent
 * (without namespaces) and its text, and with `text` null at each end of one that holds others.
 * LS_CORRUPT: no XML of this kind. What fn returned, if not LS_OK. */
LS_MUST_USE ls_err store_xml_read(ls_span bytes,
                                  ls_err (*fn)(void *ctx, const char *parent, const char *name,
                                               ls_str text),
                                  void *ctx);

/* What a store says about a refusal; texts of others are cut. */
struct store_xml_error {
        char code[64], message[256];
};
/* Reads <Error><Code/><Message/></Error>. The code is "" where there is none, and "none" where
 * there is no XML. */
void store_xml_error_read(ls_span bytes, struct store_xml_error *ret_error);
