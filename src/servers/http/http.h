/* servers/http/http.h - the HTTP server of Lakestream: Iceberg REST catalog, admin, metrics,
 * health.
 *
 * Routes are one table (routes.c); what each path does: docs/protocols/iceberg_rest.md and
 * docs/protocols/http.md. Threads: start and stop on any thread that is not a handler's.
 */
#pragma once
#include "stream/stream.h"

struct ls_http_server;

/* Serves `streams` (borrowed until stopped) on host:port; port 0 takes a free one. `kafka_address`
 * ("host:port", copied) is what pages tell users about. LS_EXISTS: the port is taken; LS_INVALID:
 * no such host; LS_DENIED; LS_ENET; with words. */
LS_MUST_USE ls_err ls_http_server_start(struct ls_streams *streams, const char *host, uint16_t port,
                                        const char *kafka_address,
                                        struct ls_http_server **ret_server, uint16_t *ret_port,
                                        struct ls_errinfo *reterr);
/* Answers what is under way, then closes. Accepts NULL. */
void ls_http_server_stop(struct ls_http_server *server);
