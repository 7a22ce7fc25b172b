/* servers/http/server.c - starts and stops the HTTP server. See http.h. */
#include <stdio.h>

#include "base/clock.h"
#include "servers/http/http_int.h"

ls_err
ls_http_server_start(struct ls_streams *streams, const char *host, uint16_t port,
                     const char *kafka_address, struct ls_http_server **ret_server,
                     uint16_t *ret_port, struct ls_errinfo *reterr)
{
        const struct ls_options *settings = ls_streams_options(streams);
        struct ls_http_options options = LS_HTTP_OPTIONS_DEFAULT;
        struct ls_http_server *server = ls_calloc(1, sizeof *server);
        char *address;
        ls_err e;

        json_set_alloc_funcs(ls_malloc, ls_free);
        json_object_seed(0);
        server->streams = streams;
        server->kafka_address = ls_strdup(kafka_address);
        server->address_early = ls_strdup(host);
        atomic_init(&server->address, server->address_early);
        server->started_ms = ls_clock_monotonic_ms();
        pthread_mutex_init(&server->properties, NULL);
        options.host = host;
        options.port = port;
        options.routes = http_routes;
        options.route_count = http_route_count;
        options.server = server;
        options.on_error = http_on_error;
        options.threads = HANDLER_THREADS;
        options.connections_max = (size_t)ls_option_int(settings, LS_OPT_MAX_CONNECTIONS);
        options.body_bytes_max = BODY_BYTES_MAX;
        options.idle_s =
                (unsigned)LS_MIN(ls_option_int(settings, LS_OPT_CONNECTIONS_IDLE) / 1000, 86400);
        e = ls_http_start(&options, &server->http, ret_port, reterr);
        if (e != LS_OK) {
                ls_http_server_stop(server);
                return e;
        }
        address = strchr(host, ':') != NULL ? ls_format("[%s]:%u", host, (unsigned)*ret_port)
                                            : ls_format("%s:%u", host, (unsigned)*ret_port);
        atomic_store(&server->address, address);
        *ret_server = server;
        return LS_OK;
}

void
ls_http_server_stop(struct ls_http_server *server)
{
        if (server == NULL)
                return;
        ls_http_stop(server->http);
        pthread_mutex_destroy(&server->properties);
        ls_free(server->kafka_address);
        if (server->address != server->address_early)
                ls_free(server->address);
        ls_free(server->address_early);
        ls_free(server);
}
