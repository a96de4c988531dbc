/* SPDX-License-Identifier: Apache-2.0
 *
 * TCP over IPv4 and IPv6, never blocking but in poll. Addresses are numeric: a name server could
 * hold a thread for seconds, and what a server listens on should be what was written. Small writes
 * leave at once (TCP_NODELAY), since a token is a small write. */
#include "server/socket_posix.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct tdm_socket {
    int fd;
    uint16_t port; /* of a listener */
    bool is_write_ended;
};

static tdm_status fail_errno(tdm_error *err, int cause, const char *verb) {
    char text[128] = "";
    const tdm_status code = cause == EAGAIN || cause == EADDRINUSE || cause == EINPROGRESS
                                ? TDM_E_BUSY
                            : cause == EMFILE || cause == ENFILE  ? TDM_E_LIMIT
                            : cause == ENOMEM || cause == ENOBUFS ? TDM_E_NOMEM
                                                                  : TDM_E_NETWORK;
    if (err == NULL) { /* "not now" is the common answer: no text for nobody */
        return code;
    }
    (void)strerror_r(cause, text, sizeof text);
    (void)tdm_fail(err, code, "cannot %s: %s", verb, text);
    if (cause == EADDRINUSE) {
        tdm_err_remedy(err, "choose another port, or stop the program that has it");
    } else if (code == TDM_E_LIMIT) {
        tdm_err_limit(err, "open descriptors");
        tdm_err_remedy(err, "raise the limit (ulimit -n)");
    }
    return code;
}

static bool make_nonblocking(int fd) {
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
           fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

/* Owns fd from here on, also on failure. */
static tdm_status wrap(const tdm_net_posix *posix, int fd, tdm_socket **out_socket,
                       tdm_error *err) {
    const int one = 1;
    tdm_socket *socket = NULL;
    if (!make_nonblocking(fd)) {
        const int cause = errno;
        (void)close(fd);
        return fail_errno(err, cause, "set up a socket");
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* only speed */
    socket = tdm_mem_calloc(posix->alloc, 1, sizeof *socket);
    if (socket == NULL) {
        (void)close(fd);
        return tdm_fail_nomem(err, "a socket");
    }
    socket->fd = fd;
    *out_socket = socket;
    return TDM_OK;
}

/* The address and a socket of its family. On success the caller frees *out_info. */
static tdm_status open_for(const tdm_net_posix *posix, const char *host, uint16_t port,
                           tdm_socket **out_socket, struct addrinfo **out_info, tdm_error *err) {
    char service[8];
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    *out_info = NULL;
    (void)snprintf(service, sizeof service, "%u", port);
    if (getaddrinfo(host, service, &hints, out_info) != 0) {
        *out_info = NULL;
        (void)tdm_fail(err, TDM_E_ARG, "\"%s\" is no numeric address", host);
        tdm_err_where(err, "host");
        tdm_err_remedy(err, "write the address in numbers, 127.0.0.1 or ::1");
        return TDM_E_ARG;
    }
    const int fd = socket((*out_info)->ai_family, SOCK_STREAM, 0);
    tdm_status status =
        fd >= 0 ? wrap(posix, fd, out_socket, err) : fail_errno(err, errno, "open a socket");
    if (status != TDM_OK) {
        freeaddrinfo(*out_info);
        *out_info = NULL;
    }
    return status;
}

static void posix_close(void *ctx, tdm_socket *socket) {
    const tdm_net_posix *posix = ctx;
    if (socket != NULL) {
        (void)close(socket->fd);
        tdm_mem_free(posix->alloc, socket, sizeof *socket);
    }
}

/* The port that the system gave a bound socket; 0 when it does not tell. */
static uint16_t bound_port(int fd) {
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    uint16_t port = 0;
    memset(&address, 0, sizeof address);
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        return 0;
    }
    if (address.ss_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, &address, sizeof in6);
        port = ntohs(in6.sin6_port);
    } else if (address.ss_family == AF_INET) {
        struct sockaddr_in in4;
        memcpy(&in4, &address, sizeof in4);
        port = ntohs(in4.sin_port);
    }
    return port;
}

static tdm_status posix_listen(void *ctx, const char *host, uint16_t port, int32_t backlog,
                               tdm_socket **out_socket, tdm_error *err) {
    const tdm_net_posix *posix = ctx;
    const int one = 1;
    tdm_status status = TDM_OK;
    tdm_socket *socket = NULL;
    struct addrinfo *info = NULL;
    *out_socket = NULL;
    TDM_TRY(open_for(posix, host, port, &socket, &info, err));
    (void)setsockopt(socket->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(socket->fd, info->ai_addr, info->ai_addrlen) != 0 ||
        listen(socket->fd, backlog > 0 ? backlog : 1) != 0) {
        status = fail_errno(err, errno, "listen");
        tdm_err_where(err, "%s:%u", host, port);
        goto done;
    }
    socket->port = bound_port(socket->fd);
    *out_socket = socket;
    socket = NULL;
done:
    freeaddrinfo(info);
    posix_close(ctx, socket);
    return status;
}

static uint16_t posix_port(void *ctx, const tdm_socket *listener) {
    (void)ctx;
    return listener->port;
}

static tdm_status posix_accept(void *ctx, tdm_socket *listener, tdm_socket **out_socket,
                               tdm_error *err) {
    int fd = -1;
    *out_socket = NULL;
    do { /* a connection that died in the queue is none */
        fd = accept(listener->fd, NULL, NULL);
    } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED || errno == EPROTO));
    if (fd < 0) {
        return fail_errno(err, errno, "accept a connection");
    }
    return wrap(ctx, fd, out_socket, err);
}

static tdm_status posix_connect(void *ctx, const char *host, uint16_t port, tdm_socket **out_socket,
                                tdm_error *err) {
    const tdm_net_posix *posix = ctx;
    tdm_status status = TDM_OK;
    tdm_socket *socket = NULL;
    struct addrinfo *info = NULL;
    *out_socket = NULL;
    TDM_TRY(open_for(posix, host, port, &socket, &info, err));
    if (connect(socket->fd, info->ai_addr, info->ai_addrlen) != 0 && errno != EINPROGRESS &&
        errno != EINTR) {
        const int cause = errno;
        (void)fail_errno(err, cause, "connect");
        tdm_err_where(err, "%s:%u", host, port);
        status = TDM_E_NETWORK;
        if (err != NULL) {
            err->code = status;
        }
        goto done;
    }
    *out_socket = socket;
    socket = NULL;
done:
    freeaddrinfo(info);
    posix_close(ctx, socket);
    return status;
}

static tdm_status posix_read(void *ctx, tdm_socket *socket, void *out, size_t bytes,
                             size_t *out_read, tdm_error *err) {
    ssize_t n = 0;
    (void)ctx;
    *out_read = 0;
    TDM_CHECK(bytes > 0);
    do {
        n = recv(socket->fd, out, bytes, 0);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return fail_errno(err, errno, "read from a connection");
    }
    *out_read = (size_t)n;
    return TDM_OK;
}

static tdm_status posix_write(void *ctx, tdm_socket *socket, const void *data, size_t bytes,
                              size_t *out_written, tdm_error *err) {
    ssize_t n = 0;
    (void)ctx;
    *out_written = 0;
    TDM_CHECK(bytes > 0);
    if (socket->is_write_ended) {
        return tdm_fail(err, TDM_E_STATE, "the connection was shut down for writing");
    }
    do {
        n = send(socket->fd, data, bytes, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return fail_errno(err, errno, "write to a connection");
    }
    *out_written = (size_t)n;
    return TDM_OK;
}

static tdm_status posix_shutdown(void *ctx, tdm_socket *socket, tdm_error *err) {
    (void)ctx;
    socket->is_write_ended = true;
    if (shutdown(socket->fd, SHUT_WR) != 0 && errno != ENOTCONN) { /* ENOTCONN: the peer is gone */
        return fail_errno(err, errno, "shut a connection down");
    }
    return TDM_OK;
}

/* Milliseconds to wait, rounded up so that poll never returns early; -1: for ever. */
static int timeout_ms(int64_t deadline_ns, int64_t now) {
    if (deadline_ns == TDM_SOCKET_FOREVER) {
        return -1;
    }
    if (deadline_ns <= now) {
        return 0;
    }
    const int64_t ms = (deadline_ns - now - 1) / 1000000 + 1;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

static size_t take_events(tdm_socket_wait *waits, const struct pollfd *fds, size_t n) {
    size_t n_ready = 0;
    for (size_t i = 0; i < n; i++) {
        const int events = fds[i].revents;
        uint32_t ready = 0;
        if ((events & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) != 0) {
            ready |= TDM_SOCKET_READABLE;
        }
        if ((events & (POLLOUT | POLLHUP | POLLERR | POLLNVAL)) != 0) {
            ready |= TDM_SOCKET_WRITABLE;
        }
        waits[i].ready = ready & waits[i].wanted;
        n_ready += waits[i].ready != 0 ? 1 : 0;
    }
    return n_ready;
}

static tdm_status posix_poll(void *ctx, tdm_socket_wait *waits, size_t n, int64_t deadline_ns,
                             size_t *out_ready, tdm_error *err) {
    struct pollfd fds[TDM_SOCKET_POLL_MAX];
    const tdm_clock *clock = tdm_clock_system();
    (void)ctx;
    *out_ready = 0;
    if (n > TDM_SOCKET_POLL_MAX) {
        (void)tdm_fail(err, TDM_E_LIMIT, "%zu sockets in one poll", n);
        tdm_err_limit(err, "%d", TDM_SOCKET_POLL_MAX);
        return TDM_E_LIMIT;
    }
    for (;;) {
        for (size_t i = 0; i < n; i++) {
            const bool is_read = (waits[i].wanted & TDM_SOCKET_READABLE) != 0;
            const bool is_write = (waits[i].wanted & TDM_SOCKET_WRITABLE) != 0;
            /* Who wants nothing is left out: a hang-up would be reported all the same. */
            fds[i].fd = is_read || is_write ? waits[i].socket->fd : -1;
            fds[i].events = (short)((is_read ? POLLIN : 0) | (is_write ? POLLOUT : 0));
            fds[i].revents = 0;
        }
        const int64_t now = clock->monotonic_ns(clock->ctx);
        const int result = poll(fds, (nfds_t)n, timeout_ms(deadline_ns, now));
        if (result < 0 && errno != EINTR) {
            return fail_errno(err, errno, "wait for connections");
        }
        *out_ready = result > 0 ? take_events(waits, fds, n) : 0;
        if (*out_ready > 0) {
            return TDM_OK;
        }
        if (result <= 0 && clock->monotonic_ns(clock->ctx) >= deadline_ns) {
            for (size_t i = 0; i < n; i++) {
                waits[i].ready = 0;
            }
            return TDM_OK;
        }
    }
}

void tdm_net_posix_init(tdm_net_posix *posix, const tdm_alloc *alloc) {
    posix->alloc = alloc;
    posix->net = (tdm_net){posix,      posix_listen, posix_port,     posix_accept, posix_connect,
                           posix_read, posix_write,  posix_shutdown, posix_poll,   posix_close};
}
