/* servers/http/limits.h - bounds of the HTTP server. */
#pragma once

#define BODY_BYTES_MAX       ((size_t)1 << 20) /* requests carry names and properties, never data */
#define PAGE_ITEMS_MAX       10000             /* of a list, also when a client asks for more */
#define PAGE_ITEMS_DEFAULT   1000              /* when it pages without saying how many */
#define NAMESPACE_LEVELS_MAX 32
#define NAMESPACE_BYTES_MAX  249 /* with the dots: a topic name has to fit behind it */
#define PROPERTIES_MAX       1000
#define ETAGS_MAX            16 /* of one If-None-Match; further ones are not looked at */
#define HANDLER_THREADS      16 /* a load waits for a commit that it shares with the others */
