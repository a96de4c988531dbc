/* SPDX-License-Identifier: Apache-2.0
 *
 * A network in memory, with faults drawn from a seed. A connection is two ends; each end owns the
 * ring of bytes that are on their way to it. All is single-threaded, so when poll finds nothing
 * ready, only time can change that: it sleeps to the next opening of a shut window, or to the
 * deadline. */
#include "base/random.h"
#include "base/socket.h"

#include <string.h>

#define FIRST_PORT 40000

struct tdm_socket {
    tdm_socket *next; /* of the network's sockets */
    bool is_listener;
    /* Listener. */
    uint16_t port;
    int32_t backlog;
    /* Connection. */
    tdm_socket *listener; /* while it waits to be accepted */
    uint64_t arrival;     /* accepted in order of arrival */
    tdm_socket *peer;     /* NULL: closed */
    tdm_net_faults faults;
    uint8_t *ring; /* [window] bytes to be read here */
    size_t ring_head;
    size_t ring_len;
    size_t n_received;   /* bytes ever put into ring */
    int64_t shut_until;  /* the ring takes nothing before that time */
    bool is_ended;       /* nothing more will be put into ring */
    bool is_broken;      /* reset */
    bool is_write_ended; /* own shutdown */
};

struct tdm_net_sim {
    tdm_net net;
    const tdm_alloc *alloc;
    const tdm_clock *clock;
    tdm_socket *sockets;
    tdm_net_faults faults;
    size_t window;
    uint64_t seed;
    uint64_t n_arrivals;
    uint32_t n_draws;
    uint16_t next_port;
};

/* True in percent of the calls. */
static bool happens(tdm_net_sim *sim, uint32_t percent) {
    if (percent == 0) {
        return false;
    }
    return tdm_random_u64(sim->seed, 0, 0, sim->n_draws++) % 100 < percent;
}

/* 1..n, or n itself when no fault strikes. */
static size_t shorten(tdm_net_sim *sim, const tdm_socket *sock, size_t n) {
    if (n <= 1 || !happens(sim, sock->faults.short_percent)) {
        return n;
    }
    return 1 + (size_t)(tdm_random_u64(sim->seed, 1, 0, sim->n_draws++) % n);
}

static bool is_address(const char *host) {
    return (host[0] >= '0' && host[0] <= '9') || host[0] == ':';
}

static tdm_socket *find_listener(const tdm_net_sim *sim, uint16_t port) {
    for (tdm_socket *s = sim->sockets; s != NULL; s = s->next) {
        if (s->is_listener && s->port == port) {
            return s;
        }
    }
    return NULL;
}

/* The connection that has waited longest at a listener; NULL: none. */
static tdm_socket *first_waiting(const tdm_net_sim *sim, const tdm_socket *listener,
                                 int32_t *out_n) {
    tdm_socket *first = NULL;
    *out_n = 0;
    for (tdm_socket *s = sim->sockets; s != NULL; s = s->next) {
        if (s->listener == listener) {
            *out_n += 1;
            first = first == NULL || s->arrival < first->arrival ? s : first;
        }
    }
    return first;
}

static tdm_socket *add_socket(tdm_net_sim *sim) {
    tdm_socket *sock = tdm_mem_calloc(sim->alloc, 1, sizeof *sock);
    if (sock != NULL) {
        sock->next = sim->sockets;
        sim->sockets = sock;
    }
    return sock;
}

static void drop_socket(tdm_net_sim *sim, tdm_socket *sock) {
    tdm_socket **at = &sim->sockets;
    while (*at != sock) {
        at = &(*at)->next;
    }
    *at = sock->next;
    tdm_mem_free(sim->alloc, sock->ring, sim->window);
    tdm_mem_free(sim->alloc, sock, sizeof *sock);
}

static void break_end(tdm_socket *sock) {
    if (sock != NULL) {
        sock->is_broken = true;
        sock->ring_len = 0;
    }
}

static tdm_status fail_host(const char *host, tdm_error *err) {
    (void)tdm_fail(err, TDM_E_ARG, "\"%s\" is no numeric address", host);
    tdm_err_where(err, "host");
    return TDM_E_ARG;
}

static tdm_status sim_listen(void *ctx, const char *host, uint16_t port, int32_t backlog,
                             tdm_socket **out_socket, tdm_error *err) {
    tdm_net_sim *sim = ctx;
    *out_socket = NULL;
    if (!is_address(host)) {
        return fail_host(host, err);
    }
    if (port == 0) {
        do {
            port = sim->next_port++;
            sim->next_port = sim->next_port < FIRST_PORT ? FIRST_PORT : sim->next_port;
        } while (find_listener(sim, port) != NULL);
    } else if (find_listener(sim, port) != NULL) {
        (void)tdm_fail(err, TDM_E_BUSY, "port %u is in use", port);
        tdm_err_where(err, "%s:%u", host, port);
        tdm_err_remedy(err, "choose another port");
        return TDM_E_BUSY;
    }
    tdm_socket *sock = add_socket(sim);
    if (sock == NULL) {
        return tdm_fail_nomem(err, "a listener");
    }
    sock->is_listener = true;
    sock->port = port;
    sock->backlog = backlog > 0 ? backlog : 1;
    *out_socket = sock;
    return TDM_OK;
}

static uint16_t sim_port(void *ctx, const tdm_socket *listener) {
    (void)ctx;
    return listener->port;
}

static tdm_status sim_accept(void *ctx, tdm_socket *listener, tdm_socket **out_socket,
                             tdm_error *err) {
    int32_t n = 0;
    tdm_socket *sock = first_waiting(ctx, listener, &n);
    *out_socket = sock;
    if (sock == NULL) {
        return tdm_fail(err, TDM_E_BUSY, "nobody has connected yet");
    }
    sock->listener = NULL;
    return TDM_OK;
}

static tdm_socket *add_end(tdm_net_sim *sim) {
    tdm_socket *end = add_socket(sim);
    if (end != NULL) {
        end->faults = sim->faults;
        end->ring = tdm_mem_alloc(sim->alloc, sim->window);
        if (end->ring == NULL) {
            drop_socket(sim, end);
            end = NULL;
        }
    }
    return end;
}

static tdm_status sim_connect(void *ctx, const char *host, uint16_t port, tdm_socket **out_socket,
                              tdm_error *err) {
    tdm_net_sim *sim = ctx;
    int32_t n = 0;
    *out_socket = NULL;
    if (!is_address(host)) {
        return fail_host(host, err);
    }
    tdm_socket *listener = find_listener(sim, port);
    if (listener != NULL) {
        (void)first_waiting(sim, listener, &n);
    }
    if (listener == NULL || n >= listener->backlog) {
        (void)tdm_fail(err, TDM_E_NETWORK, "connection refused");
        tdm_err_where(err, "%s:%u", host, port);
        return TDM_E_NETWORK;
    }
    tdm_socket *near = add_end(sim);
    tdm_socket *far = add_end(sim);
    if (near == NULL || far == NULL) {
        if (near != NULL) {
            drop_socket(sim, near);
        }
        if (far != NULL) {
            drop_socket(sim, far);
        }
        return tdm_fail_nomem(err, "a connection");
    }
    near->peer = far;
    far->peer = near;
    far->listener = listener;
    far->arrival = sim->n_arrivals++;
    *out_socket = near;
    return TDM_OK;
}

static tdm_status fail_broken(tdm_error *err) {
    return tdm_fail(err, TDM_E_NETWORK, "the connection was reset");
}

static tdm_status sim_read(void *ctx, tdm_socket *sock, void *out, size_t bytes, size_t *out_read,
                           tdm_error *err) {
    tdm_net_sim *sim = ctx;
    uint8_t *to = out;
    *out_read = 0;
    TDM_CHECK(bytes > 0);
    if (sock->is_broken) {
        return fail_broken(err);
    }
    if (sock->ring_len == 0) {
        return sock->is_ended ? TDM_OK : tdm_fail(err, TDM_E_BUSY, "no bytes have arrived");
    }
    const size_t n = shorten(sim, sock, bytes < sock->ring_len ? bytes : sock->ring_len);
    for (size_t i = 0; i < n; i++) {
        to[i] = sock->ring[(sock->ring_head + i) % sim->window];
    }
    sock->ring_head = (sock->ring_head + n) % sim->window;
    sock->ring_len -= n;
    *out_read = n;
    return TDM_OK;
}

/* Bytes that can be put on the way to an end now. */
static size_t room_of(const tdm_net_sim *sim, const tdm_socket *end) {
    if (sim->clock->monotonic_ns(sim->clock->ctx) < end->shut_until) {
        return 0;
    }
    return sim->window - end->ring_len;
}

static void put_bytes(const tdm_net_sim *sim, tdm_socket *end, const uint8_t *from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        end->ring[(end->ring_head + end->ring_len + i) % sim->window] = from[i];
    }
    end->ring_len += n;
    end->n_received += n;
}

/* What strikes once an end has been sent so many bytes. */
static void strike(tdm_net_sim *sim, tdm_socket *end) {
    if (end->faults.reset_at > 0 && end->n_received >= end->faults.reset_at) {
        break_end(end->peer);
        break_end(end);
        return;
    }
    if (end->faults.close_at > 0 && end->n_received >= end->faults.close_at) {
        end->is_ended = true;
    }
    if (happens(sim, end->faults.stall_percent)) {
        end->shut_until = sim->clock->monotonic_ns(sim->clock->ctx) + end->faults.stall_ns;
    }
}

static tdm_status sim_write(void *ctx, tdm_socket *sock, const void *data, size_t bytes,
                            size_t *out_written, tdm_error *err) {
    tdm_net_sim *sim = ctx;
    tdm_socket *end = sock->peer;
    *out_written = 0;
    TDM_CHECK(bytes > 0);
    if (sock->is_write_ended) {
        return tdm_fail(err, TDM_E_STATE, "the connection was shut down for writing");
    }
    if (sock->is_broken) {
        return fail_broken(err);
    }
    if (end == NULL || end->is_ended) {
        return tdm_fail(err, TDM_E_NETWORK, "the peer has closed the connection");
    }
    size_t n = room_of(sim, end);
    if (n == 0) {
        return tdm_fail(err, TDM_E_BUSY, "the peer takes no more bytes yet");
    }
    n = shorten(sim, sock, bytes < n ? bytes : n);
    const size_t stops[] = {end->faults.close_at, end->faults.reset_at};
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        if (stops[i] > 0 && n > stops[i] - end->n_received) {
            n = stops[i] - end->n_received; /* at least 1: else it had struck before */
        }
    }
    put_bytes(sim, end, data, n);
    strike(sim, end);
    *out_written = n;
    return TDM_OK;
}

static tdm_status sim_shutdown(void *ctx, tdm_socket *sock, tdm_error *err) {
    (void)ctx;
    (void)err;
    sock->is_write_ended = true;
    if (sock->peer != NULL) {
        sock->peer->is_ended = true;
    }
    return TDM_OK;
}

static uint32_t readiness(const tdm_net_sim *sim, const tdm_socket *sock) {
    uint32_t ready = 0;
    int32_t n = 0;
    if (sock->is_listener) {
        return first_waiting(sim, sock, &n) != NULL ? TDM_SOCKET_READABLE : 0;
    }
    if (sock->is_broken || sock->ring_len > 0 || sock->is_ended) {
        ready |= TDM_SOCKET_READABLE;
    }
    if (sock->is_broken || sock->is_write_ended || sock->peer == NULL || sock->peer->is_ended ||
        room_of(sim, sock->peer) > 0) {
        ready |= TDM_SOCKET_WRITABLE;
    }
    return ready;
}

/* The next time at which a shut window that somebody waits for opens; deadline at most. */
static int64_t next_event(const tdm_socket_wait *waits, size_t n, int64_t now, int64_t deadline) {
    int64_t at = deadline;
    for (size_t i = 0; i < n; i++) {
        const tdm_socket *peer = waits[i].socket->peer;
        if ((waits[i].wanted & TDM_SOCKET_WRITABLE) != 0 && peer != NULL &&
            peer->shut_until > now && peer->shut_until < at) {
            at = peer->shut_until;
        }
    }
    return at;
}

static tdm_status sim_poll(void *ctx, tdm_socket_wait *waits, size_t n, int64_t deadline_ns,
                           size_t *out_ready, tdm_error *err) {
    const tdm_net_sim *sim = ctx;
    *out_ready = 0;
    if (n > TDM_SOCKET_POLL_MAX) {
        (void)tdm_fail(err, TDM_E_LIMIT, "%zu sockets in one poll", n);
        tdm_err_limit(err, "%d", TDM_SOCKET_POLL_MAX);
        return TDM_E_LIMIT;
    }
    for (;;) {
        for (size_t i = 0; i < n; i++) {
            waits[i].ready = readiness(sim, waits[i].socket) & waits[i].wanted;
            *out_ready += waits[i].ready != 0 ? 1 : 0;
        }
        const int64_t now = sim->clock->monotonic_ns(sim->clock->ctx);
        const int64_t until = next_event(waits, n, now, deadline_ns);
        if (*out_ready > 0 || now >= deadline_ns) {
            return TDM_OK;
        }
        if (until == TDM_SOCKET_FOREVER) { /* nobody else runs: it would wait for ever */
            return tdm_fail(err, TDM_E_STATE, "a simulated poll that nothing can end");
        }
        sim->clock->sleep_ns(sim->clock->ctx, until - now);
    }
}

static void sim_close(void *ctx, tdm_socket *sock) {
    tdm_net_sim *sim = ctx;
    if (sock == NULL) {
        return;
    }
    if (sock->is_listener) {
        int32_t n = 0;
        for (tdm_socket *waiting = first_waiting(sim, sock, &n); waiting != NULL;
             waiting = first_waiting(sim, sock, &n)) {
            break_end(waiting->peer);
            waiting->peer->peer = NULL;
            drop_socket(sim, waiting);
        }
    } else if (sock->peer != NULL) {
        if (sock->ring_len > 0) { /* bytes that nobody will read: a reset, as TCP has it */
            break_end(sock->peer);
        }
        sock->peer->is_ended = true;
        sock->peer->peer = NULL;
    }
    drop_socket(sim, sock);
}

tdm_status tdm_net_sim_create(tdm_net_sim **out_sim, const tdm_alloc *alloc, const tdm_clock *clock,
                              uint64_t seed, size_t window_bytes, tdm_error *err) {
    tdm_net_sim *sim = tdm_mem_calloc(alloc, 1, sizeof *sim);
    *out_sim = NULL;
    if (sim == NULL) {
        return tdm_fail_nomem(err, "a simulated network");
    }
    sim->net = (tdm_net){sim,      sim_listen, sim_port,     sim_accept, sim_connect,
                         sim_read, sim_write,  sim_shutdown, sim_poll,   sim_close};
    sim->alloc = alloc;
    sim->clock = clock;
    sim->seed = seed;
    sim->window = window_bytes > 0 ? window_bytes : 1;
    sim->next_port = FIRST_PORT;
    *out_sim = sim;
    return TDM_OK;
}

void tdm_net_sim_destroy(tdm_net_sim *sim) {
    if (sim != NULL) {
        while (sim->sockets != NULL) {
            drop_socket(sim, sim->sockets);
        }
        tdm_mem_free(sim->alloc, sim, sizeof *sim);
    }
}

const tdm_net *tdm_net_sim_net(tdm_net_sim *sim) {
    return &sim->net;
}

void tdm_net_sim_faults(tdm_net_sim *sim, const tdm_net_faults *faults) {
    sim->faults = *faults;
}
