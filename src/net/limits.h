/* net/limits.h - bounds of what HTTP clients can make us hold. */
#pragma once

/* Request line and headers together; libmicrohttpd answers 414 or 431 above it. */
#define LS_HTTP_HEAD_BYTES_MAX ((size_t)32 << 10)
#define LS_HTTP_HEADERS_MAX    100 /* above: 431 */
#define LS_HTTP_SEGMENTS_MAX   16  /* of a path; above: 414 */
#define LS_HTTP_QUERY_MAX      32  /* parameters; above: 414 */
#define LS_HTTP_PARAMS_MAX     6   /* {…} of a route */
/* Of a response, added by handlers. */
#define LS_HTTP_ANSWER_HEADERS_MAX 8
/* Decoded head, and what handlers take from the request's arena. */
#define LS_HTTP_ARENA_BYTES_MAX ((size_t)64 << 20)
/* A body above body_bytes_max is read and thrown away up to this, so that the client gets its 413
 * instead of a broken connection; a declared length above it is refused at once. */
#define LS_HTTP_DRAIN_BYTES_MAX ((uint64_t)16 << 20)
/* How long a stop waits for clients to take answers that are already made. */
#define LS_HTTP_STOP_MS_MAX 5000
