/* servers/http/pages.c - metrics, health, and the page that says what is here. */
#include "base/clock.h"
#include "base/metric.h"
#include "servers/http/http_int.h"

static LS_METRIC(uptime, GAUGE, "lakestream_uptime_seconds",
                 "seconds since the HTTP server started");
static LS_METRIC_BY(build, GAUGE, "lakestream_build_info", "always 1; the label is the version");

#define TEXT_TYPE "text/plain; charset=utf-8"

/* For people; the README has more. */
void
page_root(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        struct ls_http_server *server = ctx;
        struct ls_buf page;

        ls_buf_init(&page, LS_BUF_MAX_DEFAULT);
        ls_buf_printf(&page,
                      "Lakestream " LS_VERSION
                      "\n\nKafka    %s\nIceberg  http://%s/iceberg (warehouse "
                      "main)\n\n",
                      server->kafka_address, http_address(server));
        for (size_t i = 0; i < http_route_count; i++)
                if (http_route_is_served(&http_routes[i]))
                        ls_buf_printf(&page, "%-6s %-70s %s\n", http_routes[i].method,
                                      http_routes[i].pattern, http_routes[i].doc);
        http_answer_buf(a, TEXT_TYPE, &page);
}

void
page_metrics(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        struct ls_http_server *server = ctx;
        struct ls_buf page;

        ls_metric_set(&uptime, (ls_clock_monotonic_ms() - server->started_ms) / 1000);
        ls_metric_series_set(ls_metric_with(&build, "version", LS_STR(LS_VERSION)), 1);
        ls_buf_init(&page, LS_BUF_MAX_DEFAULT);
        ls_metric_print(&page);
        http_answer_buf(a, "text/plain; version=0.0.4; charset=utf-8", &page);
}

/* The process answers: nothing else is meant. */
void
page_healthz(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        http_answer_json(a, 200, json_pack("{s:s}", "status", "ok"));
}

/* Appends can be acknowledged. */
void
page_readyz(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        struct ls_http_server *server = ctx;
        struct ls_errinfo info = { "" };
        ls_err e = ls_streams_ready(server->streams, &info);

        if (e == LS_OK)
                http_answer_json(a, 200, json_pack("{s:s}", "status", "ready"));
        else
                http_answer_json(a, 503,
                                 json_pack("{s:s,s:o}", "status", "not ready", "because",
                                           http_json_str(ls_str_of(
                                                   info.text[0] ? info.text : ls_err_text(e)))));
}
