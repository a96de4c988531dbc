/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract kit of tdm_net (base/socket.h, laws S1-S6): one thread drives both ends of real or
 * simulated connections on one host. */
#ifndef TDM_TESTS_SOCKET_KIT_H
#define TDM_TESTS_SOCKET_KIT_H

#include "support/support.h"

#include "base/random.h"
#include "base/socket.h"

#define SOCKET_KIT_HOST "127.0.0.1"
#define SOCKET_KIT_SECOND INT64_C(1000000000)

typedef struct socket_kit {
    const tdm_net *net;
    const tdm_clock *clock;
    tdm_socket *listener;
    uint16_t port;
} socket_kit;

/* Waits up to ten seconds; true when ready. */
static inline bool socket_kit_wait(const socket_kit *kit, tdm_socket *socket, uint32_t wanted) {
    tdm_socket_wait wait = {socket, wanted, 0};
    size_t n_ready = 99;
    const int64_t deadline = kit->clock->monotonic_ns(kit->clock->ctx) + 10 * SOCKET_KIT_SECOND;
    assert_int_equal(kit->net->poll(kit->net->ctx, &wait, 1, deadline, &n_ready, NULL), TDM_OK);
    assert_int_equal(n_ready, wait.ready != 0);
    assert_int_equal(wait.ready & ~wanted, 0);
    return n_ready == 1;
}

static inline void socket_kit_pair(const socket_kit *kit, tdm_socket **out_client,
                                   tdm_socket **out_server) {
    tdm_error err;
    const tdm_net *net = kit->net;
    assert_int_equal(net->connect(net->ctx, SOCKET_KIT_HOST, kit->port, out_client, &err), TDM_OK);
    assert_true(socket_kit_wait(kit, kit->listener, TDM_SOCKET_READABLE));
    assert_int_equal(net->accept(net->ctx, kit->listener, out_server, &err), TDM_OK);
    assert_true(socket_kit_wait(kit, *out_client, TDM_SOCKET_WRITABLE));
}

static inline uint8_t socket_kit_byte(uint32_t stream, size_t at) {
    return (uint8_t)(stream * 77U + at * 131U + at / 251U);
}

typedef struct socket_kit_flow {
    tdm_socket *from;
    tdm_socket *to;
    uint32_t stream;
    size_t total;
    size_t written;
    size_t read;
    bool is_shut;
    bool is_ended;
} socket_kit_flow;

/* One read and one write of random sizes, whatever can be done now. */
static inline void socket_kit_move(const socket_kit *kit, socket_kit_flow *flow, uint32_t step) {
    uint8_t data[3000];
    size_t n = 0;
    const tdm_net *net = kit->net;
    const size_t piece = 1 + (size_t)(tdm_random_u64(flow->stream, 0, step, 0) % sizeof data);
    if (flow->written < flow->total) {
        const size_t left = flow->total - flow->written;
        const size_t want = piece < left ? piece : left;
        for (size_t i = 0; i < want; i++) {
            data[i] = socket_kit_byte(flow->stream, flow->written + i);
        }
        const tdm_status status = net->write(net->ctx, flow->from, data, want, &n, NULL);
        assert_true(status == TDM_OK || status == TDM_E_BUSY);
        assert_true(status == TDM_OK ? n >= 1 && n <= want : n == 0);
        flow->written += n;
    } else if (!flow->is_shut) {
        assert_int_equal(net->shutdown(net->ctx, flow->from, NULL), TDM_OK);
        flow->is_shut = true;
    }
    const size_t ask = 1 + (size_t)(tdm_random_u64(flow->stream, 0, step, 1) % sizeof data);
    const tdm_status status = net->read(net->ctx, flow->to, data, ask, &n, NULL);
    assert_true(status == TDM_OK || status == TDM_E_BUSY);
    assert_true(n <= ask);
    for (size_t i = 0; i < n; i++) {
        if (data[i] != socket_kit_byte(flow->stream, flow->read + i)) {
            fail_msg("byte %zu of stream %u is wrong", flow->read + i, flow->stream);
        }
    }
    flow->read += n;
    assert_true(flow->read <= flow->written);
    if (status == TDM_OK && n == 0) { /* S3: the end only after every byte */
        assert_true(flow->is_shut);
        assert_int_equal(flow->read, flow->total);
        flow->is_ended = true;
    }
}

/* S2, S3: both directions at once, each shut down on its own. */
static inline void socket_kit_streams(const socket_kit *kit, size_t total) {
    tdm_socket *client = NULL;
    tdm_socket *server = NULL;
    socket_kit_pair(kit, &client, &server);
    socket_kit_flow flows[2] = {{.from = client, .to = server, .stream = 1, .total = total},
                                {.from = server, .to = client, .stream = 2, .total = total / 3}};
    for (uint32_t step = 0; !flows[0].is_ended || !flows[1].is_ended; step++) {
        assert_true(step < 4000000);
        for (size_t f = 0; f < 2; f++) {
            if (!flows[f].is_ended) {
                socket_kit_move(kit, &flows[f], step);
            }
        }
        /* Waits for whatever is missing, so that a simulated clock moves. */
        tdm_socket_wait waits[2] = {
            {server,
             (flows[0].is_ended ? 0 : TDM_SOCKET_READABLE) |
                 (flows[1].written < flows[1].total ? TDM_SOCKET_WRITABLE : 0),
             0},
            {client,
             (flows[1].is_ended ? 0 : TDM_SOCKET_READABLE) |
                 (flows[0].written < flows[0].total ? TDM_SOCKET_WRITABLE : 0),
             0}};
        size_t n_ready = 0;
        const bool is_waiting = !flows[0].is_ended || !flows[1].is_ended;
        const bool can_shut = (flows[0].written == flows[0].total && !flows[0].is_shut) ||
                              (flows[1].written == flows[1].total && !flows[1].is_shut);
        const bool is_all_said = flows[0].is_shut && flows[1].is_shut;
        if (is_waiting && !can_shut && (step % 7 == 0 || is_all_said)) {
            const int64_t deadline =
                kit->clock->monotonic_ns(kit->clock->ctx) + 10 * SOCKET_KIT_SECOND;
            const tdm_net *net = kit->net;
            assert_int_equal(net->poll(net->ctx, waits, 2, deadline, &n_ready, NULL), TDM_OK);
            assert_true(n_ready > 0);
        }
    }
    size_t n = 9;
    uint8_t byte = 0;
    for (int i = 0; i < 3; i++) { /* the end as often as asked */
        assert_int_equal(kit->net->read(kit->net->ctx, server, &byte, 1, &n, NULL), TDM_OK);
        assert_int_equal(n, 0);
    }
    assert_int_equal(kit->net->write(kit->net->ctx, client, &byte, 1, &n, NULL), TDM_E_STATE);
    assert_int_equal(kit->net->shutdown(kit->net->ctx, client, NULL), TDM_OK); /* again */
    kit->net->close(kit->net->ctx, client);
    kit->net->close(kit->net->ctx, server);
}

/* S1: what cannot be done now says so; S5: poll keeps its deadline. */
static inline void socket_kit_busy(const socket_kit *kit) {
    const tdm_net *net = kit->net;
    static uint8_t data[65536];
    tdm_error err;
    tdm_socket *client = NULL;
    tdm_socket *server = NULL;
    tdm_socket *nobody = (tdm_socket *)(void *)&err;
    size_t n = 9;
    assert_int_equal(net->accept(net->ctx, kit->listener, &nobody, &err), TDM_E_BUSY);
    assert_null(nobody);
    socket_kit_pair(kit, &client, &server);
    assert_int_equal(net->read(net->ctx, server, data, 10, &n, &err), TDM_E_BUSY);
    assert_int_equal(n, 0);
    tdm_socket_wait waits[3] = {
        {kit->listener, TDM_SOCKET_READABLE, 7}, {server, TDM_SOCKET_READABLE, 7}, {client, 0, 7}};
    const int64_t delays_ns[] = {0, -SOCKET_KIT_SECOND, 1, 999999, 3000000};
    for (size_t i = 0; i < SUPPORT_LEN(delays_ns); i++) {
        const int64_t start = kit->clock->monotonic_ns(kit->clock->ctx);
        n = 9;
        assert_int_equal(net->poll(net->ctx, waits, 3, start + delays_ns[i], &n, &err), TDM_OK);
        assert_int_equal(n, 0);
        assert_int_equal(waits[0].ready | waits[1].ready | waits[2].ready, 0);
        const int64_t took = kit->clock->monotonic_ns(kit->clock->ctx) - start;
        assert_true(took >= delays_ns[i] && took < 2 * SOCKET_KIT_SECOND);
    }
    size_t in_flight = 0; /* a peer that does not read: the window fills */
    for (tdm_status status = TDM_OK; status != TDM_E_BUSY;) {
        status = net->write(net->ctx, client, data, sizeof data, &n, &err);
        assert_true(status == TDM_OK || status == TDM_E_BUSY);
        in_flight += n;
        assert_true(in_flight < (size_t)64 << 20);
        if (status == TDM_E_BUSY && socket_kit_wait(kit, server, TDM_SOCKET_READABLE)) {
            break;
        }
    }
    size_t read = 0;
    while (read < in_flight) {
        assert_true(socket_kit_wait(kit, server, TDM_SOCKET_READABLE));
        assert_int_equal(net->read(net->ctx, server, data, sizeof data, &n, &err), TDM_OK);
        assert_true(n > 0);
        read += n;
    }
    assert_int_equal(read, in_flight);
    assert_true(socket_kit_wait(kit, client, TDM_SOCKET_WRITABLE)); /* and opens again */
    net->close(net->ctx, client);
    net->close(net->ctx, server);
}

/* S3, S4: what the other end sees of a close, with and without bytes unread. */
static inline void socket_kit_close(const socket_kit *kit) {
    const tdm_net *net = kit->net;
    for (int is_unread = 0; is_unread <= 1; is_unread++) {
        uint8_t data[100] = {1, 2, 3};
        tdm_socket *client = NULL;
        tdm_socket *server = NULL;
        size_t n = 0;
        socket_kit_pair(kit, &client, &server);
        if (is_unread == 1) {
            assert_int_equal(net->write(net->ctx, client, data, 50, &n, NULL), TDM_OK);
            assert_true(socket_kit_wait(kit, server, TDM_SOCKET_READABLE));
        }
        assert_int_equal(net->write(net->ctx, server, data, 1, &n, NULL), TDM_OK);
        assert_int_equal(n, 1);
        net->close(net->ctx, server);
        assert_true(socket_kit_wait(kit, client, TDM_SOCKET_READABLE));
        size_t total = 0;
        tdm_status status = TDM_OK;
        for (n = 1; status == TDM_OK && n > 0; total += n) {
            status = net->read(net->ctx, client, data, sizeof data, &n, NULL);
            if (status == TDM_E_BUSY) {
                assert_true(socket_kit_wait(kit, client, TDM_SOCKET_READABLE));
                status = TDM_OK;
                n = 1;
                total--;
            }
        }
        if (is_unread == 0) {
            assert_int_equal(status, TDM_OK);
            assert_int_equal(total, 1); /* every byte, then the end */
        } else {
            assert_true(status == TDM_E_NETWORK || status == TDM_OK);
        }
        for (int tries = 0; status != TDM_E_NETWORK; tries++) { /* sooner or later */
            assert_true(tries < 1000);
            assert_true(socket_kit_wait(kit, client, TDM_SOCKET_WRITABLE));
            status = net->write(net->ctx, client, data, 1, &n, NULL);
            assert_true(status == TDM_OK || status == TDM_E_NETWORK);
        }
        (void)net->shutdown(net->ctx, client, NULL);
        net->close(net->ctx, client);
    }
    net->close(net->ctx, NULL);
}

/* A connection to nobody fails by connect, or once it was waited for; never by waiting for ever. */
static inline void socket_kit_refused(const socket_kit *kit) {
    const tdm_net *net = kit->net;
    tdm_error err;
    tdm_socket *other = NULL;
    tdm_socket *client = (tdm_socket *)(void *)&err;
    uint8_t byte = 0;
    size_t n = 0;
    assert_int_equal(net->listen(net->ctx, SOCKET_KIT_HOST, 0, 4, &other, &err), TDM_OK);
    const uint16_t port = net->port(net->ctx, other);
    assert_true(port != 0 && port != kit->port);
    net->close(net->ctx, other);
    tdm_status status = net->connect(net->ctx, SOCKET_KIT_HOST, port, &client, &err);
    if (status == TDM_OK) {
        assert_true(socket_kit_wait(kit, client, TDM_SOCKET_WRITABLE));
        status = net->write(net->ctx, client, &byte, 1, &n, &err);
        net->close(net->ctx, client);
    } else {
        assert_null(client);
    }
    assert_int_equal(status, TDM_E_NETWORK);
    assert_true(err.what[0] != '\0');
    client = (tdm_socket *)(void *)&err;
    assert_int_equal(net->listen(net->ctx, SOCKET_KIT_HOST, kit->port, 4, &client, &err),
                     TDM_E_BUSY);
    assert_null(client);
    assert_true(err.where[0] != '\0' && err.remedy[0] != '\0');
    const char *names[] = {"localhost", "", "example.org"};
    for (size_t i = 0; i < SUPPORT_LEN(names); i++) {
        assert_int_equal(net->listen(net->ctx, names[i], 0, 4, &client, &err), TDM_E_ARG);
        assert_null(client);
        assert_int_equal(net->connect(net->ctx, names[i], 80, &client, &err), TDM_E_ARG);
        assert_null(client);
    }
    static tdm_socket_wait waits[TDM_SOCKET_POLL_MAX + 1];
    for (size_t i = 0; i < SUPPORT_LEN(waits); i++) {
        waits[i].socket = kit->listener;
        waits[i].wanted = TDM_SOCKET_READABLE;
    }
    assert_int_equal(net->poll(net->ctx, waits, SUPPORT_LEN(waits), 0, &n, &err), TDM_E_LIMIT);
    assert_int_equal(net->poll(net->ctx, waits, TDM_SOCKET_POLL_MAX, 0, &n, &err), TDM_OK);
    assert_int_equal(n, 0);
}

/* Connections wait in order, with what they have sent; a closed listener turns them away. */
static inline void socket_kit_queue(const socket_kit *kit) {
    const tdm_net *net = kit->net;
    tdm_socket *clients[3] = {NULL};
    tdm_error err;
    for (uint8_t i = 0; i < 3; i++) {
        size_t n = 0;
        assert_int_equal(net->connect(net->ctx, SOCKET_KIT_HOST, kit->port, &clients[i], &err),
                         TDM_OK);
        assert_true(socket_kit_wait(kit, clients[i], TDM_SOCKET_WRITABLE));
        assert_int_equal(net->write(net->ctx, clients[i], &i, 1, &n, &err), TDM_OK);
    }
    for (uint8_t i = 0; i < 3; i++) {
        tdm_socket *server = NULL;
        uint8_t byte = 99;
        size_t n = 0;
        assert_true(socket_kit_wait(kit, kit->listener, TDM_SOCKET_READABLE));
        assert_int_equal(net->accept(net->ctx, kit->listener, &server, &err), TDM_OK);
        assert_true(socket_kit_wait(kit, server, TDM_SOCKET_READABLE));
        assert_int_equal(net->read(net->ctx, server, &byte, 1, &n, &err), TDM_OK);
        assert_int_equal(byte, i);
        net->close(net->ctx, server);
        net->close(net->ctx, clients[i]);
    }
}

static inline void socket_kit_open(socket_kit *kit, const tdm_net *net, const tdm_clock *clock) {
    tdm_error err;
    kit->net = net;
    kit->clock = clock;
    assert_int_equal(net->listen(net->ctx, SOCKET_KIT_HOST, 0, 8, &kit->listener, &err), TDM_OK);
    kit->port = net->port(net->ctx, kit->listener);
    assert_true(kit->port != 0);
}

static inline void socket_kit_run(const tdm_net *net, const tdm_clock *clock) {
    socket_kit kit;
    socket_kit_open(&kit, net, clock);
    socket_kit_streams(&kit, 1);
    socket_kit_streams(&kit, 300000);
    socket_kit_busy(&kit);
    socket_kit_close(&kit);
    socket_kit_refused(&kit);
    socket_kit_queue(&kit);
    tdm_socket *orphan = NULL;
    assert_int_equal(net->connect(net->ctx, SOCKET_KIT_HOST, kit.port, &orphan, NULL), TDM_OK);
    net->close(net->ctx, kit.listener);
    assert_true(socket_kit_wait(&kit, orphan, TDM_SOCKET_READABLE));
    net->close(net->ctx, orphan);
}

/* S6: a failed call leaves nothing behind. tracker: what the implementation allocates from. */
static inline void socket_kit_without_memory(const tdm_net *net, const tdm_clock *clock,
                                             tdm_alloc_tracker *tracker) {
    const size_t live = atomic_load(&tracker->live_bytes);
    for (size_t nth = 1; nth < 20; nth++) {
        tdm_error err;
        socket_kit kit = {net, clock, NULL, 0};
        tdm_socket *client = NULL;
        tdm_socket *server = NULL;
        tracker->fail_at = atomic_load(&tracker->n_calls) + nth;
        tdm_status status = net->listen(net->ctx, SOCKET_KIT_HOST, 0, 8, &kit.listener, &err);
        if (status == TDM_OK) {
            status = net->connect(net->ctx, SOCKET_KIT_HOST, net->port(net->ctx, kit.listener),
                                  &client, &err);
        }
        if (status == TDM_OK) {
            assert_true(socket_kit_wait(&kit, kit.listener, TDM_SOCKET_READABLE));
            status = net->accept(net->ctx, kit.listener, &server, &err);
        }
        tracker->fail_at = 0;
        net->close(net->ctx, server);
        net->close(net->ctx, client);
        net->close(net->ctx, kit.listener);
        assert_int_equal(atomic_load(&tracker->live_bytes), live);
        if (status == TDM_OK) {
            assert_true(nth > 2);
            return;
        }
        assert_int_equal(status, TDM_E_NOMEM);
    }
    fail_msg("never succeeded");
}

#endif
