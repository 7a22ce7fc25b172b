/* sys/listen.c - server sockets: one a loop, on the same port. See loop.h.
 *
 * The sockets are made by the caller's thread, so that a refusal is an answer, and handed to the
 * loops. The first socket binds without SO_REUSEPORT: with it, a second process of the same user
 * would get half of our connections without an error. Once it is bound it takes the option, and
 * the others join.
 */
#include <errno.h>
#include <netdb.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "sys/jobs.h"
#include "sys/loop_int.h"

#define ACCEPT_WARN_MS  10000
#define ACCEPT_PAUSE_MS 100
#define ACCEPT_TURN_MAX 64 /* connections in one turn of the loop */

struct ls_listener {
        const struct ls_conn_ops *ops;
        void *server;
        pthread_mutex_t lock; /* of what follows and of part->loop */
        struct ls_cond changed;
        size_t pending; /* messages that the loops have not run */
        size_t refs;    /* parts that libuv holds, and the owner */
        int failed;     /* libuv's error of a part that could not listen */
        size_t part_count;
        struct listen_part parts[];
};

static void
listener_unref(struct ls_listener *listener)
{
        size_t refs;

        pthread_mutex_lock(&listener->lock);
        refs = --listener->refs;
        pthread_mutex_unlock(&listener->lock);
        if (refs > 0)
                return;
        pthread_mutex_destroy(&listener->lock);
        ls_cond_done(&listener->changed);
        ls_free(listener);
}

/* ---- on the loop ---- */

static void
listen_on_closed(uv_handle_t *handle)
{
        struct listen_part *part = handle->data;
        struct ls_loop *loop = handle->loop->data;

        if (--part->handles > 0)
                return;
        if (part->prev != NULL)
                part->prev->next = part->next;
        else
                loop->listens = part->next;
        if (part->next != NULL)
                part->next->prev = part->prev;
        listener_unref(part->listener);
        loop_check_end(loop);
}

void
listen_part_close(struct listen_part *part)
{
        if (uv_is_closing((uv_handle_t *)&part->pause))
                return;
        pthread_mutex_lock(&part->listener->lock);
        part->loop = NULL;
        pthread_mutex_unlock(&part->listener->lock);
        if (part->handles > 1)
                uv_close((uv_handle_t *)&part->poll, listen_on_closed);
        uv_close((uv_handle_t *)&part->pause, listen_on_closed);
        close(part->fd); /* at once: who closed it may listen on the port again */
}

static void listen_on_readable(uv_poll_t *poll, int status, int events);

static void
listen_on_pause_over(uv_timer_t *timer)
{
        struct listen_part *part = timer->data;

        uv_poll_start(&part->poll, UV_READABLE, listen_on_readable);
}

/* There is nothing to accept with (descriptors, memory): connections wait in the kernel's queue. */
static void
listen_pause(struct listen_part *part, int errnum)
{
        struct ls_loop *loop = part->poll.loop->data;
        int64_t now_ms = ls_clock_monotonic_ms();

        uv_poll_stop(&part->poll);
        uv_timer_start(&part->pause, listen_on_pause_over, ACCEPT_PAUSE_MS, 0);
        if (loop->accept_warned_ms != 0 && now_ms - loop->accept_warned_ms < ACCEPT_WARN_MS)
                return;
        loop->accept_warned_ms = now_ms;
        ls_log_warn("sys", "msg=\"new connections wait\" error=\"%s\"", strerror(errnum));
}

/* Not libuv's own accepting: without a descriptor it calls accept for ever, in one turn of the
 * loop, once two loops have taken its spare one from each other. */
static void
listen_on_readable(uv_poll_t *poll, int status, int events)
{
        struct listen_part *part = poll->data;
        struct ls_loop *loop = poll->loop->data;

        for (int i = 0; i < ACCEPT_TURN_MAX && !uv_is_closing((uv_handle_t *)poll); i++) {
                int fd = accept4(part->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (fd >= 0) {
                        conn_accept(loop, fd, part->listener->ops, part->listener->server);
                        continue;
                }
                if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                        listen_pause(part, errno);
                else if (errno == EINTR || errno == ECONNABORTED)
                        continue;
                return; /* nothing there, or a network's error of that connection */
        }
}

static void
listener_report(struct ls_listener *listener, int status)
{
        pthread_mutex_lock(&listener->lock);
        if (status != 0)
                listener->failed = status;
        listener->pending--;
        ls_cond_broadcast(&listener->changed);
        pthread_mutex_unlock(&listener->lock);
}

static void
listen_on_start(struct ls_loop_msg *msg)
{
        struct listen_part *part = LS_CONTAINER(msg, struct listen_part, msg);
        struct ls_loop *loop = part->loop;
        int status;

        uv_timer_init(&loop->uv, &part->pause);
        part->pause.data = part;
        part->handles = 1;
        part->next = loop->listens;
        if (part->next != NULL)
                part->next->prev = part;
        loop->listens = part;
        status = uv_poll_init(&loop->uv, &part->poll, part->fd);
        if (status == 0) {
                part->handles++;
                part->poll.data = part;
                status = uv_poll_start(&part->poll, UV_READABLE, listen_on_readable);
        }
        if (status != 0 || loop->stopping)
                listen_part_close(part);
        listener_report(part->listener, status);
}

static void
listen_on_stop(struct ls_loop_msg *msg)
{
        struct listen_part *part = LS_CONTAINER(msg, struct listen_part, msg);

        listen_part_close(part);
        listener_report(part->listener, 0);
}

/* ---- sockets ---- */

static int
socket_bind(const struct addrinfo *addr, uint16_t port, bool share)
{
        struct sockaddr_storage where;
        int on = 1, off = 0, saved;
        int fd = socket(addr->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0)
                return -1;
        memcpy(&where, addr->ai_addr, addr->ai_addrlen);
        if (addr->ai_family == AF_INET6) {
                ((struct sockaddr_in6 *)&where)->sin6_port = htons(port);
                setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        } else {
                ((struct sockaddr_in *)&where)->sin_port = htons(port);
        }
        if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
            (!share || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0) &&
            bind(fd, (struct sockaddr *)&where, addr->ai_addrlen) == 0 &&
            (share || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0) &&
            listen(fd, LOOP_BACKLOG) == 0)
                return fd;
        saved = errno;
        close(fd);
        errno = saved;
        return -1;
}

static uint16_t
socket_port(int fd)
{
        struct sockaddr_storage addr;
        socklen_t len = sizeof addr;

        if (getsockname(fd, (struct sockaddr *)&addr, &len) != 0)
                return 0;
        return ntohs(addr.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&addr)->sin6_port
                                                : ((struct sockaddr_in *)&addr)->sin_port);
}

/* Binds one socket a part to the first address that takes it; false with errno. */
static bool
sockets_bind(struct ls_listener *listener, const struct addrinfo *addrs, uint16_t *port)
{
        for (const struct addrinfo *addr = addrs; addr != NULL; addr = addr->ai_next) {
                uint16_t bound = *port;
                size_t made = 0;
                int saved;

                while (made < listener->part_count) {
                        int fd = socket_bind(addr, bound, made > 0);

                        if (fd < 0)
                                break;
                        listener->parts[made++].fd = fd;
                        bound = socket_port(fd);
                }
                if (made == listener->part_count) {
                        *port = bound;
                        return true;
                }
                saved = errno;
                while (made > 0)
                        close(listener->parts[--made].fd);
                errno = saved;
        }
        return false;
}

static ls_err
bind_failed(int errnum, const char *host, uint16_t port, struct ls_errinfo *reterr)
{
        if (errnum == EADDRINUSE)
                return ls_fail(reterr, LS_EXISTS,
                               "cannot listen on %s:%u: another program has this port; stop it or "
                               "choose another port",
                               host, port);
        if (errnum == EADDRNOTAVAIL)
                return ls_fail(reterr, LS_INVALID,
                               "cannot listen on %s:%u: this machine has no such address", host,
                               port);
        return ls_fail(reterr, errnum == EACCES ? LS_DENIED : ls_err_from_errno(errnum),
                       "cannot listen on %s:%u: %s", host, port, strerror(errnum));
}

static ls_err
listener_bind(struct ls_listener *listener, const char *host, uint16_t *port,
              struct ls_errinfo *reterr)
{
        static const struct sockaddr_in6 any6 = { .sin6_family = AF_INET6 };
        static const struct sockaddr_in any4 = { .sin_family = AF_INET };
        struct addrinfo any[2] = {
                { .ai_family = AF_INET6, .ai_addr = (void *)&any6, .ai_addrlen = sizeof any6 },
                { .ai_family = AF_INET, .ai_addr = (void *)&any4, .ai_addrlen = sizeof any4 },
        };
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
        struct addrinfo *found = NULL;
        bool bound;
        int failed, saved;

        if (host == NULL || host[0] == '\0' || strcmp(host, "*") == 0) {
                any[0].ai_next = &any[1]; /* both families, or IPv4 where there is no IPv6 */
                return sockets_bind(listener, any, port) ? LS_OK
                                                         : bind_failed(errno, "*", *port, reterr);
        }
        /* "localhost" is 127.0.0.1 before it is ::1: that is what clients try. */
        hints.ai_family = strchr(host, ':') != NULL ? AF_INET6 : AF_INET;
        failed = getaddrinfo(host, NULL, &hints, &found);
        if (failed != 0) {
                hints.ai_family = AF_UNSPEC;
                failed = getaddrinfo(host, NULL, &hints, &found);
        }
        if (failed != 0)
                return ls_fail(reterr, LS_INVALID, "cannot listen on %s:%u: %s", host, *port,
                               gai_strerror(failed));
        bound = sockets_bind(listener, found, port);
        saved = errno;
        freeaddrinfo(found);
        return bound ? LS_OK : bind_failed(saved, host, *port, reterr);
}

/* ---- API ---- */

ls_err
ls_listen(struct ls_loop **loops, size_t loop_count, const char *host, uint16_t port,
          const struct ls_conn_ops *ops, void *server, struct ls_listener **ret_listener,
          uint16_t *ret_port, struct ls_errinfo *reterr)
{
        struct ls_listener *listener;
        ls_err e;
        int failed;

        LS_ASSERT(loop_count > 0 && ops->accept != NULL && ops->on_bytes != NULL);
        LS_ASSERT(ops->on_close != NULL);
        listener = ls_calloc(1, sizeof *listener + loop_count * sizeof listener->parts[0]);
        listener->ops = ops;
        listener->server = server;
        listener->part_count = loop_count;
        listener->refs = 1;
        pthread_mutex_init(&listener->lock, NULL);
        ls_cond_init(&listener->changed);
        e = listener_bind(listener, host, &port, reterr);
        if (e != LS_OK) {
                listener_unref(listener);
                return e;
        }
        listener->pending = loop_count;
        listener->refs += loop_count;
        for (size_t i = 0; i < loop_count; i++) {
                struct listen_part *part = &listener->parts[i];

                LS_ASSERT(!ls_loop_is_current(loops[i]));
                part->listener = listener;
                part->loop = loops[i];
                part->msg.fn = listen_on_start;
                ls_loop_post(loops[i], &part->msg);
        }
        pthread_mutex_lock(&listener->lock);
        while (listener->pending > 0)
                ls_cond_wait(&listener->changed, &listener->lock);
        failed = listener->failed;
        pthread_mutex_unlock(&listener->lock);
        if (failed != 0) {
                ls_listener_close(listener);
                return ls_fail(reterr, LS_EIO, "cannot listen on %s:%u: %s", host, port,
                               uv_strerror(failed));
        }
        *ret_listener = listener;
        *ret_port = port;
        return LS_OK;
}

void
ls_listener_close(struct ls_listener *listener)
{
        struct listen_part *own = NULL;

        if (listener == NULL)
                return;
        pthread_mutex_lock(&listener->lock);
        for (size_t i = 0; i < listener->part_count; i++) {
                struct listen_part *part = &listener->parts[i];

                if (part->loop == NULL)
                        continue; /* its loop has stopped */
                if (ls_loop_is_current(part->loop)) {
                        own = part;
                        continue;
                }
                listener->pending++;
                part->msg.fn = listen_on_stop;
                ls_loop_post(part->loop, &part->msg);
        }
        pthread_mutex_unlock(&listener->lock);
        if (own != NULL)
                listen_part_close(own);
        pthread_mutex_lock(&listener->lock);
        while (listener->pending > 0)
                ls_cond_wait(&listener->changed, &listener->lock);
        pthread_mutex_unlock(&listener->lock);
        listener_unref(listener);
}
