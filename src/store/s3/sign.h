/* store/s3/sign.h - AWS signature version 4 of requests to S3 (and STS).
 *
 * Source: the AWS General Reference, "Create a signed AWS API request" (canonical request, string
 * to sign, signing key), with S3's rule that the path is encoded once.
 * Threads: any; no state.
 */
#pragma once
#include "base/buf.h"
#include "store/remote.h"

#define S3_SHA256_TEXT 65 /* 64 hex digits and a NUL */
#define S3_DATE_TEXT   17 /* "20261201T102030Z" and a NUL */

struct s3_keys {
        char *access, *secret;
        char *session; /* NULL: none */
};

/* Hex of the SHA-256 of all spans one after the other. */
void s3_sha256(const ls_span *spans, size_t count, char ret_hex[S3_SHA256_TEXT]);
/* The time as S3 wants it, UTC. */
void s3_date(int64_t wall_ms, char ret_date[S3_DATE_TEXT]);
/* Adds x-amz-date, x-amz-content-sha256 (`payload`, borrowed), x-amz-security-token where there is
 * a session, and authorization to `r`, whose path, query and headers are signed as they stand, with
 * `host`. The texts are put into `text`, to which nothing else may be added afterwards. */
void s3_sign(struct store_request *r, const char *host, const struct s3_keys *keys,
             const char *region, const char *service, int64_t wall_ms, const char *payload,
             struct ls_buf *text);
