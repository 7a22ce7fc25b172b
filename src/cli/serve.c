/* cli/serve.c - `lakestream serve`: reads the settings, starts the layers, waits, drains.
 *
 * Start: streams (recovery), loops, protocol servers, then the one line on standard output. Stop,
 * on SIGTERM or SIGINT: protocol servers answer what was asked, then streams, then loops.
 */
#include <stdio.h>

#include "base/log.h"
#include "base/options.h"
#include "cli/cli.h"
#include "servers/http/http.h"
#include "servers/kafka/server.h"
#include "stream/stream.h"
#include "sys/dial.h"
#include "sys/jobs.h"
#include "sys/process.h"

#define DRAIN_MS          10000
#define LOOPS_MAX         64
#define ADDRESS_BYTES_MAX 512

static const char usage[] = "lakestream serve --data-dir DIR [flags]\n\n"
                            "Runs a server that keeps everything under DIR: the Kafka protocol on "
                            "one port, HTTP (Iceberg\n"
                            "catalog, metrics, health) on another. SIGTERM drains and exits 0.";

struct serve_flags {
        const char *data_dir, *store, *meta, *kafka, *http, *advertise, *rack, *config, *log_level;
        int64_t broker_id; /* -1: not given */
        struct cli_list set;
        bool help_config;
};

/* --- settings --- */

static ls_err
options_gather(struct ls_options *o, const struct serve_flags *f, struct ls_errinfo *reterr)
{
        char number[24];

        snprintf(number, sizeof number, "%lld", (long long)f->broker_id);
        LS_TRY(cli_options_read(o, f->config, &f->set, reterr));
        LS_TRY(cli_option_flag(o, "data.dir", f->data_dir, reterr));
        LS_TRY(cli_option_flag(o, "store.url", f->store, reterr));
        LS_TRY(cli_option_flag(o, "meta.url", f->meta, reterr));
        LS_TRY(cli_option_flag(o, "kafka.listen", f->kafka, reterr));
        LS_TRY(cli_option_flag(o, "http.listen", f->http, reterr));
        LS_TRY(cli_option_flag(o, "advertise", f->advertise, reterr));
        LS_TRY(cli_option_flag(o, "broker.rack", f->rack, reterr));
        LS_TRY(cli_option_flag(o, "log.level", f->log_level, reterr));
        return cli_option_flag(o, "broker.id", f->broker_id >= 0 ? number : NULL, reterr);
}

static void
log_start(const struct ls_options *o)
{
        static const char *const names[] = { "debug", "info", "warn", "error" };
        const char *level = ls_option_text(o, LS_OPT_LOG_LEVEL);

        for (size_t i = 0; i < LS_COUNT(names); i++)
                if (strcmp(level, names[i]) == 0)
                        ls_log_setup((enum ls_log_level)i, NULL, NULL);
}

/* --- the server --- */

struct serve {
        const struct ls_options *options;
        struct ls_streams *streams;
        struct ls_loop *loops[LOOPS_MAX];
        size_t loop_count;
        struct ls_kafka_server *kafka;
        struct ls_http_server *http;
        char kafka_address[ADDRESS_BYTES_MAX], http_address[ADDRESS_BYTES_MAX];
};

/* A "host:port" setting into its parts; `ret_host` is the caller's to free. */
static ls_err
address_parse(const char *setting, const char *text, char **ret_host, uint16_t *ret_port,
              struct ls_errinfo *reterr)
{
        struct ls_errinfo inner = { "" };
        ls_str host;
        ls_err e = ls_host_port_split(ls_str_of(text), &host, ret_port, &inner);

        if (e != LS_OK)
                return ls_fail(reterr, e, "%s: %.400s", setting, inner.text);
        *ret_host = ls_str_dup(host);
        return LS_OK;
}

static void
address_print(char ret[ADDRESS_BYTES_MAX], const char *host, uint16_t port)
{
        if (*host == '\0' || strcmp(host, "*") == 0)
                host = "0.0.0.0";
        snprintf(ret, ADDRESS_BYTES_MAX, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
                 (unsigned)port);
}

static ls_err
serve_loops(struct serve *s, struct ls_errinfo *reterr)
{
        size_t wanted = (size_t)ls_option_int(s->options, LS_OPT_LOOP_THREADS);

        if (wanted == 0)
                wanted = ls_cpu_count();
        wanted = LS_MIN(wanted, LOOPS_MAX);
        while (s->loop_count < wanted) {
                char name[16];
                ls_err e;

                snprintf(name, sizeof name, "ls-loop-%u", (unsigned)(s->loop_count & 0xff));
                e = ls_loop_start(name, &s->loops[s->loop_count]);
                if (e != LS_OK)
                        return ls_fail(reterr, e, "no event loop: %s", ls_err_text(e));
                s->loop_count++;
        }
        return LS_OK;
}

static ls_err
serve_kafka(struct serve *s, struct ls_errinfo *reterr)
{
        const char *advertise = ls_option_text(s->options, LS_OPT_ADVERTISE);
        LS_AUTO(ls_free) char *host = NULL, *advertised = NULL;
        struct ls_kafka_config config = { .streams = s->streams,
                                          .loops = s->loops,
                                          .loop_count = s->loop_count,
                                          .rack = ls_option_text(s->options, LS_OPT_BROKER_RACK) };
        uint16_t port;

        LS_TRY(address_parse("kafka.listen", ls_option_text(s->options, LS_OPT_KAFKA_LISTEN), &host,
                             &config.port, reterr));
        if (strchr(advertise, ':') != NULL)
                LS_TRY(address_parse("advertise", advertise, &advertised, &config.advertised_port,
                                     reterr));
        config.host = host;
        config.advertised_host = advertised != NULL ? advertised : advertise;
        LS_TRY(ls_kafka_start(&config, &s->kafka, &port, reterr));
        address_print(s->kafka_address, host, port);
        return LS_OK;
}

static ls_err
serve_http(struct serve *s, struct ls_errinfo *reterr)
{
        LS_AUTO(ls_free) char *host = NULL;
        uint16_t port;

        LS_TRY(address_parse("http.listen", ls_option_text(s->options, LS_OPT_HTTP_LISTEN), &host,
                             &port, reterr));
        LS_TRY(ls_http_server_start(s->streams, host, port, s->kafka_address, &s->http, &port,
                                    reterr));
        address_print(s->http_address, host, port);
        return LS_OK;
}

static ls_err
serve_start(struct serve *s, struct ls_errinfo *reterr)
{
        char advertised[ADDRESS_BYTES_MAX];

        LS_TRY(ls_streams_open(s->options, &s->streams, reterr));
        LS_TRY(serve_loops(s, reterr));
        LS_TRY(serve_kafka(s, reterr));
        LS_TRY(serve_http(s, reterr));
        ls_kafka_advertised(s->kafka, advertised, sizeof advertised);
        return ls_streams_announce(s->streams, advertised, s->http_address, reterr);
}

/* Also of what started by half. */
static void
serve_stop(struct serve *s)
{
        if (s->kafka != NULL && ls_streams_shared(s->streams) &&
            ls_streams_announce(s->streams, NULL, NULL, NULL) != LS_OK)
                ls_log_warn("serve", "event=not_withdrawn others list this broker for a while");
        ls_http_server_stop(s->http);
        ls_kafka_stop(s->kafka, DRAIN_MS);
        if (s->streams != NULL)
                ls_streams_close(s->streams);
        for (size_t i = 0; i < s->loop_count; i++)
                ls_loop_stop(s->loops[i]);
}

static int
serve_run(const struct ls_options *options)
{
        struct serve s = { .options = options };
        struct ls_errinfo info = { "" };
        ls_err e;

        ls_mem_keep_little(ls_cpu_count());
        e = serve_start(&s, &info);
        if (e != LS_OK) {
                cli_fail("%s", info.text[0] ? info.text : ls_err_text(e));
                serve_stop(&s);
                return CLI_FAILED;
        }
        printf("ready kafka=%s http=%s\n", s.kafka_address, s.http_address);
        fflush(stdout);
        ls_log_info("serve", "event=ready version=%s kafka=%s http=%s", LS_VERSION, s.kafka_address,
                    s.http_address);
        ls_log_info("serve", "event=draining signal=%d", ls_process_wait_stop());
        serve_stop(&s);
        ls_log_info("serve", "event=stopped");
        return CLI_OK;
}

static void
print_settings(void)
{
        struct ls_buf help;

        ls_buf_init(&help, LS_BUF_MAX_DEFAULT);
        ls_options_help(&help);
        fwrite(help.ptr, 1, help.len, stdout);
        ls_buf_done(&help);
}

static int
serve_with(const struct serve_flags *f)
{
        struct ls_errinfo info = { "" };
        struct ls_options options;
        int result;

        ls_options_init(&options);
        if (options_gather(&options, f, &info) != LS_OK) {
                result = cli_misuse("%s", info.text);
        } else if (*ls_option_text(&options, LS_OPT_DATA_DIR) == '\0' &&
                   *ls_option_text(&options, LS_OPT_META_URL) == '\0') {
                result = cli_misuse("say where to keep the data: lakestream serve --data-dir DIR");
        } else {
                log_start(&options);
                ls_process_setup();
                result = serve_run(&options);
        }
        ls_options_done(&options);
        return result;
}

int
cli_serve(int argc, char **argv)
{
        struct serve_flags f = { .broker_id = -1 };
        const struct cli_flag flags[] = {
                { "data-dir", CLI_TEXT, &f.data_dir, "DIR", "folder that holds everything", 0, 0 },
                { "kafka", CLI_TEXT, &f.kafka, "HOST:PORT",
                  "default 127.0.0.1:9092; port 0: a free one", 0, 0 },
                { "http", CLI_TEXT, &f.http, "HOST:PORT",
                  "default 127.0.0.1:8181; port 0: a free one", 0, 0 },
                { "advertise", CLI_TEXT, &f.advertise, "HOST[:PORT]", "what Kafka clients are told",
                  0, 0 },
                { "broker-id", CLI_INT, &f.broker_id, "N", "number of this broker", 0, INT32_MAX },
                { "rack", CLI_TEXT, &f.rack, "NAME", "zone of this broker", 0, 0 },
                { "config", CLI_TEXT, &f.config, "FILE", "settings, `name = value` a line", 0, 0 },
                { "set", CLI_LIST, &f.set, "NAME=VALUE", "one setting", 0, 0 },
                { "log-level", CLI_TEXT, &f.log_level, "LEVEL", "debug, info, warn or error", 0,
                  0 },
                { "help-config", CLI_BOOL, &f.help_config, NULL, "list all settings and stop", 0,
                  0 },
                { "store", CLI_TEXT, &f.store, "URL",
                  "where tables are kept: s3://, az:// or gs:// BUCKET/PREFIX; default: in the "
                  "data folder",
                  0, 0 },
                { "meta", CLI_TEXT, &f.meta, "URL",
                  "many brokers on one store: postgres://… of their metadata (no --data-dir)", 0,
                  0 },
        };
        struct cli_args args;
        int result = CLI_OK;

        if (!cli_args_parse(argc, argv, flags, LS_COUNT(flags), usage, &args))
                result = CLI_USAGE;
        else if (args.help)
                result = CLI_OK;
        else if (f.help_config)
                print_settings();
        else if (args.words.count > 0)
                result = cli_misuse("serve takes flags only, not '%s'", args.words.items[0]);
        else
                result = serve_with(&f);
        cli_args_done(&args);
        cli_list_done(&f.set);
        return result;
}
