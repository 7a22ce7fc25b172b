/* store/open.c - the store that a server's settings name. */
#include "base/mem.h"
#include "store/store.h"

static ls_err
style_of(const char *text, enum ls_store_s3_style *ret_style)
{
        static const char *const names[] = { "auto", "path", "host" };

        for (size_t i = 0; i < LS_COUNT(names); i++) {
                if (strcmp(text, names[i]) == 0) {
                        *ret_style = (enum ls_store_s3_style)i;
                        return LS_OK;
                }
        }
        return LS_INVALID;
}

/* In front of a store that is far away. */
static ls_err
open_cached(struct ls_store *far, const struct ls_options *o, struct ls_store **ret_store,
            struct ls_errinfo *reterr)
{
        int64_t bytes = ls_option_int(o, LS_OPT_STORE_CACHE_BYTES);
        ls_err e = LS_OK;

        *ret_store = far;
        if (bytes > 0)
                e = ls_store_cache_new(far, (uint64_t)bytes, ret_store, reterr);
        if (e != LS_OK)
                ls_store_close(far);
        return e;
}

/* "BUCKET/PREFIX" of a url; both to be freed. */
static void
place_split(const char *place, char **ret_name, char **ret_prefix)
{
        const char *slash = strchr(place, '/');
        size_t len;

        *ret_name = ls_str_dup(
                ls_str_make(place, slash != NULL ? (size_t)(slash - place) : strlen(place)));
        *ret_prefix = ls_strdup(slash != NULL ? slash + 1 : "");
        len = strlen(*ret_prefix);
        while (len > 0 && (*ret_prefix)[len - 1] == '/')
                (*ret_prefix)[--len] = '\0';
}

static ls_err
open_s3(const char *place, const struct ls_options *o, struct ls_store **ret_store,
        struct ls_errinfo *reterr)
{
        struct ls_store *far;
        LS_AUTO(ls_free) char *name = NULL;
        LS_AUTO(ls_free) char *prefix = NULL;
        struct ls_store_s3_options s3 = {
                .endpoint = ls_option_text(o, LS_OPT_S3_ENDPOINT),
                .region = ls_option_text(o, LS_OPT_S3_REGION),
                .access = ls_option_text(o, LS_OPT_S3_ACCESS_KEY),
                .secret = ls_option_text(o, LS_OPT_S3_SECRET_KEY),
                .session = ls_option_text(o, LS_OPT_S3_SESSION_TOKEN),
                .ca_file = ls_option_text(o, LS_OPT_STORE_CA_FILE),
                .connections_max = (size_t)ls_option_int(o, LS_OPT_STORE_CONNECTIONS),
                .deadline_ms = ls_option_int(o, LS_OPT_STORE_DEADLINE),
                .hedge_ms = ls_option_int(o, LS_OPT_STORE_HEDGE),
        };

        place_split(place, &name, &prefix);
        s3.bucket = name;
        s3.prefix = prefix;
        LS_TRY(style_of(ls_option_text(o, LS_OPT_S3_STYLE), &s3.style));
        LS_TRY(ls_store_s3_open(&s3, &far, reterr));
        return open_cached(far, o, ret_store, reterr);
}

static ls_err
open_azure(const char *place, const struct ls_options *o, struct ls_store **ret_store,
           struct ls_errinfo *reterr)
{
        struct ls_store *far;
        LS_AUTO(ls_free) char *name = NULL;
        LS_AUTO(ls_free) char *prefix = NULL;
        struct ls_store_azure_options azure = {
                .account = ls_option_text(o, LS_OPT_AZURE_ACCOUNT),
                .endpoint = ls_option_text(o, LS_OPT_AZURE_ENDPOINT),
                .key = ls_option_text(o, LS_OPT_AZURE_KEY),
                .sas = ls_option_text(o, LS_OPT_AZURE_SAS),
                .ca_file = ls_option_text(o, LS_OPT_STORE_CA_FILE),
                .connections_max = (size_t)ls_option_int(o, LS_OPT_STORE_CONNECTIONS),
                .deadline_ms = ls_option_int(o, LS_OPT_STORE_DEADLINE),
                .hedge_ms = ls_option_int(o, LS_OPT_STORE_HEDGE),
        };

        place_split(place, &name, &prefix);
        azure.container = name;
        azure.prefix = prefix;
        LS_TRY(ls_store_azure_open(&azure, &far, reterr));
        return open_cached(far, o, ret_store, reterr);
}

static ls_err
open_gcs(const char *place, const struct ls_options *o, struct ls_store **ret_store,
         struct ls_errinfo *reterr)
{
        struct ls_store *far;
        LS_AUTO(ls_free) char *name = NULL;
        LS_AUTO(ls_free) char *prefix = NULL;
        struct ls_store_gcs_options gcs = {
                .endpoint = ls_option_text(o, LS_OPT_GCS_ENDPOINT),
                .token = ls_option_text(o, LS_OPT_GCS_TOKEN),
                .credentials_file = ls_option_text(o, LS_OPT_GCS_CREDENTIALS_FILE),
                .ca_file = ls_option_text(o, LS_OPT_STORE_CA_FILE),
                .connections_max = (size_t)ls_option_int(o, LS_OPT_STORE_CONNECTIONS),
                .deadline_ms = ls_option_int(o, LS_OPT_STORE_DEADLINE),
                .hedge_ms = ls_option_int(o, LS_OPT_STORE_HEDGE),
        };

        place_split(place, &name, &prefix);
        gcs.bucket = name;
        gcs.prefix = prefix;
        LS_TRY(ls_store_gcs_open(&gcs, &far, reterr));
        return open_cached(far, o, ret_store, reterr);
}

ls_err
ls_store_open(const struct ls_options *options, const char *dir, struct ls_store **ret_store,
              struct ls_errinfo *reterr)
{
        const char *url = ls_option_text(options, LS_OPT_STORE_URL);

        if (url[0] == '\0')
                return ls_store_local_open(dir, ret_store, reterr);
        if (strncmp(url, "s3://", 5) == 0)
                return open_s3(url + strlen("s3://"), options, ret_store, reterr);
        if (strncmp(url, "az://", 5) == 0)
                return open_azure(url + strlen("az://"), options, ret_store, reterr);
        if (strncmp(url, "gs://", 5) == 0)
                return open_gcs(url + strlen("gs://"), options, ret_store, reterr);
        if (strncmp(url, "file:///", 8) == 0)
                return ls_store_local_open(url + strlen("file://"), ret_store, reterr);
        return ls_fail(reterr, LS_INVALID,
                       "store.url %.200s: write s3://BUCKET/PREFIX, az://CONTAINER/PREFIX, "
                       "gs://BUCKET/PREFIX or file:///FOLDER",
                       url);
}
