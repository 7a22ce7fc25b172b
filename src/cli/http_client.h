/* cli/http_client.h - asks a server's /api/v1. Threads: one owner. */
#pragma once
#include <jansson.h>

#include "base/err.h"

#define HTTP_ADDRESS_DEFAULT "127.0.0.1:8181"

/* Appends `text` to a path as one segment, escaped; the result is the caller's (ls_free). */
char *http_path(const char *before, const char *text, const char *after);
/* Sends GET or POST (without a body) to http://address/path and gives the answer's JSON, a new
 * reference. With words on anything but success: the server's own where it has some. LS_ENET: no
 * server; LS_ABSENT: it has no such thing; LS_DENIED: it refuses; LS_CORRUPT: not an answer of
 * ours. */
LS_MUST_USE ls_err http_ask(const char *address, const char *method, const char *path,
                            json_t **ret_json, struct ls_errinfo *reterr);
