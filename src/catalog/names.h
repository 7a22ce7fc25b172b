/* catalog/names.h - Kafka topic names and the three-level names of streams.
 *
 * Topic `orders` is `main.default.orders`; `sales.eu.orders` is `main.sales.eu.orders`: what stands
 * after the last dot is the stream, before it the namespace, a level a dot. A name that does not
 * split cleanly (leading, trailing, doubled dots), or whose first level would be `default`, is a
 * stream of `default` as it stands, so that no two topics share a table. The Kafka name always
 * round-trips. Threads: any.
 */
#pragma once
#include "base/err.h"
#include "base/span.h"

#define LS_CATALOG_DEFAULT   "main"
#define LS_NAMESPACE_DEFAULT "default"
#define LS_TOPIC_BYTES_MAX   249

/* LS_INVALID with Kafka's words: empty, ".", "..", too long, characters outside [a-zA-Z0-9._-]. */
LS_MUST_USE ls_err ls_topic_name_check(ls_str kafka_name, struct ls_errinfo *reterr);
/* Splits a checked name; both results point into it or to constants. */
void ls_topic_name_split(ls_str kafka_name, ls_str *ret_ns, ls_str *ret_name);
