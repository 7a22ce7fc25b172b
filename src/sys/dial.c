/* sys/dial.c - blocking TCP for client programs. See dial.h. */
#include "sys/dial.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define DIAL_SPANS_MAX      16
#define DIAL_HOST_BYTES_MAX 255 /* RFC 1035 */

struct ls_dial {
        int fd;
};

ls_err
ls_host_port_split(ls_str text, ls_str *ret_host, uint16_t *ret_port, struct ls_errinfo *reterr)
{
        size_t colon = text.len;
        ls_str host, port;
        int64_t number;

        while (colon > 0 && text.ptr[colon - 1] != ':')
                colon--;
        if (colon == 0)
                return ls_fail(reterr, LS_INVALID, "'%.*s' has no port; write HOST:PORT",
                               LS_STR_ARG(text));
        host = ls_str_make(text.ptr, colon - 1);
        port = ls_str_make(text.ptr + colon, text.len - colon);
        if (!ls_str_to_i64(port, 0, UINT16_MAX, &number))
                return ls_fail(reterr, LS_INVALID, "'%.*s' is not a port (0 to 65535)",
                               LS_STR_ARG(port));
        if (host.len >= 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']')
                host = ls_str_make(host.ptr + 1, host.len - 2);
        else if (memchr(host.ptr, ':', host.len) != NULL)
                return ls_fail(reterr, LS_INVALID,
                               "'%.*s': write an IPv6 address in brackets, [ADDRESS]:PORT",
                               LS_STR_ARG(text));
        if (host.len > DIAL_HOST_BYTES_MAX)
                return ls_fail(reterr, LS_INVALID, "a host name of %zu bytes", host.len);
        *ret_host = host;
        *ret_port = (uint16_t)number;
        return LS_OK;
}

static ls_err
resolve(const char *host, uint16_t port, bool passive, struct addrinfo **ret_list,
        struct ls_errinfo *reterr)
{
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                                  .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0) };
        bool all = *host == '\0' || strcmp(host, "*") == 0;
        char service[8];
        int failed;

        snprintf(service, sizeof service, "%u", (unsigned)port);
        if (all && passive)
                hints.ai_family = AF_INET;
        failed = getaddrinfo(all ? NULL : host, service, &hints, ret_list);
        if (failed != 0)
                return ls_fail(reterr, LS_INVALID, "no address for the host '%s': %s", host,
                               gai_strerror(failed));
        return LS_OK;
}

ls_err
ls_resolve(const char *host, uint16_t port, struct sockaddr_storage *ret_address,
           socklen_t *ret_bytes, struct ls_errinfo *reterr)
{
        struct addrinfo *list = NULL;

        LS_TRY(resolve(host, port, true, &list, reterr));
        memcpy(ret_address, list->ai_addr, list->ai_addrlen);
        *ret_bytes = list->ai_addrlen;
        freeaddrinfo(list);
        return LS_OK;
}

/* Waits until the socket is ready for `events`. */
static ls_err
dial_wait(int fd, short events, int64_t deadline_ms)
{
        for (;;) {
                struct pollfd p = { .fd = fd, .events = events };
                int64_t left_ms = deadline_ms - ls_clock_monotonic_ms();
                int n;

                if (left_ms <= 0)
                        return LS_TIMEOUT;
                n = poll(&p, 1, (int)LS_MIN(left_ms, INT32_MAX));
                if (n > 0)
                        return LS_OK;
                if (n < 0 && errno != EINTR)
                        return LS_ENET;
        }
}

static ls_err
dial_connect(const struct addrinfo *a, int64_t deadline_ms, int *ret_fd, int *ret_errno)
{
        int fd =
                socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
        socklen_t len = sizeof *ret_errno;
        int on = 1;
        ls_err e = LS_OK;

        *ret_errno = errno;
        if (fd < 0)
                return LS_ENET;
        *ret_errno = 0;
        if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
                *ret_errno = errno;
                e = LS_ENET;
                if (errno == EINPROGRESS) {
                        e = dial_wait(fd, POLLOUT, deadline_ms);
                        if (e == LS_OK &&
                            (getsockopt(fd, SOL_SOCKET, SO_ERROR, ret_errno, &len) != 0 ||
                             *ret_errno != 0))
                                e = LS_ENET;
                }
        }
        if (e != LS_OK) {
                close(fd);
                return e;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        *ret_fd = fd;
        return LS_OK;
}

ls_err
ls_dial_open(const char *host, uint16_t port, int64_t timeout_ms, struct ls_dial **ret_dial,
             struct ls_errinfo *reterr)
{
        int64_t deadline_ms = ls_clock_monotonic_ms() + timeout_ms;
        struct addrinfo *list = NULL;
        ls_err e = LS_ENET;
        int fd = -1, failed = 0;

        LS_TRY(resolve(host, port, false, &list, reterr));
        for (struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next)
                e = dial_connect(a, deadline_ms, &fd, &failed);
        freeaddrinfo(list);
        if (e == LS_TIMEOUT)
                return ls_fail(reterr, e, "no connection to %s:%u within %lld ms", host,
                               (unsigned)port, (long long)timeout_ms);
        if (e != LS_OK)
                return ls_fail(reterr, e, "no connection to %s:%u: %s", host, (unsigned)port,
                               strerror(failed));
        *ret_dial = ls_calloc(1, sizeof **ret_dial);
        (*ret_dial)->fd = fd;
        return LS_OK;
}

void
ls_dial_close(struct ls_dial *d)
{
        if (d == NULL)
                return;
        close(d->fd);
        ls_free(d);
}

ls_err
ls_dial_send(struct ls_dial *d, const ls_span *spans, size_t count, int64_t timeout_ms)
{
        int64_t deadline_ms = ls_clock_monotonic_ms() + timeout_ms;
        size_t at = 0, pos = 0; /* the next byte is byte `pos` of span `at` */

        while (at < count) {
                struct iovec v[DIAL_SPANS_MAX];
                struct msghdr msg = { .msg_iov = v };
                size_t skip = pos;
                ssize_t n;

                for (size_t i = at; i < count && msg.msg_iovlen < DIAL_SPANS_MAX; i++, skip = 0)
                        v[msg.msg_iovlen++] = (struct iovec){ (void *)(spans[i].ptr + skip),
                                                              spans[i].len - skip };
                n = sendmsg(d->fd, &msg, MSG_NOSIGNAL);
                if (n < 0 && errno == EAGAIN)
                        LS_TRY(dial_wait(d->fd, POLLOUT, deadline_ms));
                if (n < 0 && errno != EINTR && errno != EAGAIN)
                        return LS_ENET;
                for (size_t left = n > 0 ? (size_t)n : 0; at < count;) {
                        size_t here = LS_MIN(left, spans[at].len - pos);

                        pos += here;
                        left -= here;
                        if (pos < spans[at].len)
                                break;
                        at++;
                        pos = 0;
                }
        }
        return LS_OK;
}

ls_err
ls_dial_read_some(struct ls_dial *d, void *ret_bytes, size_t len, int64_t timeout_ms,
                  size_t *ret_len)
{
        int64_t deadline_ms = ls_clock_monotonic_ms() + timeout_ms;

        for (;;) {
                ssize_t n = recv(d->fd, ret_bytes, len, 0);

                if (n > 0) {
                        *ret_len = (size_t)n;
                        return LS_OK;
                }
                if (n == 0)
                        return LS_END;
                if (errno == EAGAIN)
                        LS_TRY(dial_wait(d->fd, POLLIN, deadline_ms));
                else if (errno != EINTR)
                        return LS_ENET;
        }
}

ls_err
ls_dial_read(struct ls_dial *d, void *ret_bytes, size_t len, int64_t timeout_ms)
{
        int64_t deadline_ms = ls_clock_monotonic_ms() + timeout_ms;
        size_t got = 0;

        while (got < len) {
                size_t n = 0;
                ls_err e = ls_dial_read_some(d, (uint8_t *)ret_bytes + got, len - got,
                                             deadline_ms - ls_clock_monotonic_ms(), &n);

                if (e == LS_END && got > 0)
                        return LS_ENET;
                LS_TRY(e);
                got += n;
        }
        return LS_OK;
}
