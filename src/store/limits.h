/* store/limits.h - bounds of this folder. */
#pragma once

enum store_limits {
        STORE_HEADERS_MAX = 16,       /* of a request; the most that one of ours has is 9 */
        STORE_ETAG_TEXT_MAX = 64,     /* an MD5 in hex with "-10000" is 38 */
        STORE_TOKEN_TEXT_MAX = 40,    /* 32 hex digits are used */
        STORE_KEPT_MAX = 2,           /* headers of an answer that a back end asks for */
        STORE_KEPT_TEXT_MAX = 8192,   /* of each: the address of an upload has a key in it */
        STORE_TRIES_MAX = 10,         /* of a call */
        STORE_PAUSE_FIRST_MS = 50,    /* the pause before try n is random below first x 2^n, */
        STORE_PAUSE_MAX_MS = 5000,    /* and below this */
        STORE_CONNECT_MS = 3000,      /* to a connection */
        STORE_STALL_S = 10,           /* no byte for so long ends a try */
        STORE_BUDGET_TRIES = 100,     /* further tries that may be under way or lately used up */
        STORE_BUDGET_REFUND = 10,     /* calls that succeed for one try given back */
        STORE_PARTS_AT_ONCE = 4,      /* of one upload */
        STORE_UPLOAD_THREADS = 8,     /* of a store */
        STORE_ERROR_BYTES_MAX = 65536 /* of a store's words about an error */
};
