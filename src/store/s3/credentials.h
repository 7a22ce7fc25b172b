/* store/s3/credentials.h - who we are for S3, found as the AWS tools find it.
 *
 * The first that is there: what was given (options), the environment (AWS_ACCESS_KEY_ID,
 * AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN), a web identity (AWS_WEB_IDENTITY_TOKEN_FILE,
 * AWS_ROLE_ARN, AWS_ROLE_SESSION_NAME), the profile AWS_PROFILE or "default" of the files
 * AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE (~/.aws/credentials, ~/.aws/config), a
 * container's endpoint (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI), the instance's
 * metadata (version 2; AWS_EC2_METADATA_DISABLED, AWS_EC2_METADATA_SERVICE_ENDPOINT). What ends is
 * fetched anew before. Source: the AWS SDKs and Tools Reference Guide, "Standardized credential
 * providers".
 *
 * Threads: any.
 */
#pragma once
#include "store/s3/sign.h"

struct s3_credentials;

struct s3_credentials_options {
        const char *access, *secret, *session; /* given; NULL or "": not */
        const char *region;                    /* of the token service */
        const char *ca_file;                   /* as of store_remote_options */
};

/* Finds the source and the first keys. With words: LS_ABSENT when there are none anywhere. */
LS_MUST_USE ls_err s3_credentials_new(const struct s3_credentials_options *options,
                                      struct s3_credentials **ret_credentials,
                                      struct ls_errinfo *reterr);
/* Accepts NULL. */
void s3_credentials_free(struct s3_credentials *c);
/* Copies the keys of now; fetches new ones when they are about to end. LS_DENIED, LS_ENET when that
 * fails and the old ones have ended. Free with s3_keys_done. */
LS_MUST_USE ls_err s3_credentials_get(struct s3_credentials *c, struct s3_keys *ret_keys);
void s3_keys_done(struct s3_keys *keys);

/* The region that the environment or the profile names, to be freed; NULL: none. */
char *s3_region_find(void);
