/* sys/dial.h - names to addresses, and blocking TCP connections for client programs.
 *
 * Servers use sys/loop.h; this is for the command line and for tests. Every call blocks for at most
 * the time it is given. Threads: a connection has one owner at a time; ls_resolve any.
 */
#pragma once
#include <sys/socket.h>

#include "base/err.h"
#include "base/span.h"

/* "host:port", "[v6]:port" or ":port" (all addresses) into its parts, borrowed from `text`.
 * LS_INVALID, with words. */
LS_MUST_USE ls_err ls_host_port_split(ls_str text, ls_str *ret_host, uint16_t *ret_port,
                                      struct ls_errinfo *reterr);
/* The first address of `host` ("" or "*": all addresses of this machine). LS_INVALID: no such
 * host. */
LS_MUST_USE ls_err ls_resolve(const char *host, uint16_t port, struct sockaddr_storage *ret_address,
                              socklen_t *ret_bytes, struct ls_errinfo *reterr);

struct ls_dial;

/* Connects, trying each address of the name. LS_INVALID: no such host; LS_TIMEOUT; LS_ENET:
 * refused or broken; all with words. */
LS_MUST_USE ls_err ls_dial_open(const char *host, uint16_t port, int64_t timeout_ms,
                                struct ls_dial **ret_dial, struct ls_errinfo *reterr);
/* Accepts NULL. */
void ls_dial_close(struct ls_dial *d);
/* Sends all of `spans`. LS_TIMEOUT; LS_ENET. */
LS_MUST_USE ls_err ls_dial_send(struct ls_dial *d, const ls_span *spans, size_t count,
                                int64_t timeout_ms);
/* Reads exactly `len` bytes. LS_END: the peer closed before the first of them; LS_TIMEOUT;
 * LS_ENET. */
LS_MUST_USE ls_err ls_dial_read(struct ls_dial *d, void *ret_bytes, size_t len, int64_t timeout_ms);
/* Reads what is there, at least 1 byte, at most `len`. Outcomes as ls_dial_read. */
LS_MUST_USE ls_err ls_dial_read_some(struct ls_dial *d, void *ret_bytes, size_t len,
                                     int64_t timeout_ms, size_t *ret_len);
