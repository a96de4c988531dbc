/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream sockets through a table, so that a simulated network can stand in for the real one. The
 * real one lives in server/socket_posix.h: this room opens no socket. Floor 0. */
#ifndef TDM_BASE_SOCKET_H
#define TDM_BASE_SOCKET_H

#include "base/alloc.h"
#include "base/clock.h"

typedef struct tdm_socket tdm_socket; /* a listener or a connection, made by an implementation */

/* What poll can tell. Ready means that the call will not answer TDM_E_BUSY: there are bytes, room,
 * a connection to accept, an end or an error. */
#define TDM_SOCKET_READABLE 1u /* read or accept */
#define TDM_SOCKET_WRITABLE 2u /* write */

typedef struct tdm_socket_wait {
    tdm_socket *socket;
    uint32_t wanted;
    uint32_t ready; /* set by poll: a part of wanted */
} tdm_socket_wait;

#define TDM_SOCKET_POLL_MAX 1024
#define TDM_SOCKET_FOREVER INT64_MAX

/* Laws:
 *  S1 Only poll waits. Every other call does what can be done now, or answers TDM_E_BUSY.
 *  S2 Bytes arrive in order and once; what has been read is a prefix of what was written.
 *  S3 After the peer's shutdown or close a reader gets every byte that was written before it, then
 *     the end (TDM_OK with 0 bytes) as often as it asks. The other direction works on after a
 *     shutdown.
 *  S4 After a reset (the peer closed with bytes unread, or the network broke) read and write answer
 *     TDM_E_NETWORK, or the end; bytes not yet read may be lost. Writing to a peer that closed
 *     fails so sooner or later. Nothing raises a signal.
 *  S5 poll returns with *out_ready 0 at the deadline and never before it. Time is that of the
 *     implementation's clock. A deadline that has passed asks without waiting.
 *  S6 A failed listen, connect or accept leaves *out NULL and nothing behind.
 * Threads: a socket belongs to one thread at a time. */
typedef struct tdm_net {
    void *ctx;
    /* host is a numeric address; port 0 lets the system choose. Errors: TDM_E_ARG (no address),
     * TDM_E_BUSY (in use), TDM_E_NOMEM, TDM_E_LIMIT (no descriptors left), TDM_E_NETWORK. */
    tdm_status (*listen)(void *ctx, const char *host, uint16_t port, int32_t backlog,
                         tdm_socket **out_socket, tdm_error *err);
    /* The port a listener has. */
    uint16_t (*port)(void *ctx, const tdm_socket *listener);
    tdm_status (*accept)(void *ctx, tdm_socket *listener, tdm_socket **out_socket, tdm_error *err);
    /* The connection may still be on its way: it is writable once it stands or has failed. */
    tdm_status (*connect)(void *ctx, const char *host, uint16_t port, tdm_socket **out_socket,
                          tdm_error *err);
    /* bytes >= 1. *out_read 1..bytes, or 0 at the end. */
    tdm_status (*read)(void *ctx, tdm_socket *socket, void *out, size_t bytes, size_t *out_read,
                       tdm_error *err);
    /* bytes >= 1. *out_written 1..bytes. TDM_E_STATE after an own shutdown. */
    tdm_status (*write)(void *ctx, tdm_socket *socket, const void *data, size_t bytes,
                        size_t *out_written, tdm_error *err);
    /* No more will be written. TDM_OK when that is so already or the peer is gone. */
    tdm_status (*shutdown)(void *ctx, tdm_socket *socket, tdm_error *err);
    /* n at most TDM_SOCKET_POLL_MAX, else TDM_E_LIMIT. *out_ready counts entries with ready != 0.
     */
    tdm_status (*poll)(void *ctx, tdm_socket_wait *waits, size_t n, int64_t deadline_ns,
                       size_t *out_ready, tdm_error *err);
    /* NULL-safe. */
    void (*close)(void *ctx, tdm_socket *socket);
} tdm_net;

/* What a simulated network may do wrong. Percentages are drawn from the seed; byte counts are those
 * of one direction of one connection. They apply to connections made afterwards. */
typedef struct tdm_net_faults {
    uint32_t short_percent; /* of reads and writes that do less than they could */
    uint32_t stall_percent; /* of writes after which the window is shut for stall_ns */
    int64_t stall_ns;
    size_t close_at; /* 0: never; else the stream ends cleanly after so many bytes */
    size_t reset_at; /* 0: never; else the connection breaks after so many bytes */
} tdm_net_faults;

/* A network in memory. Hosts are any text that begins with a digit or ':'; ports are its own. Owns:
 * caller destroys, after every socket is closed. Owner thread only. */
typedef struct tdm_net_sim tdm_net_sim;
/* window_bytes: what a direction holds unread, at least 1. clock: borrowed; poll sleeps on it. */
TDM_NODISCARD tdm_status tdm_net_sim_create(tdm_net_sim **out_sim, const tdm_alloc *alloc,
                                            const tdm_clock *clock, uint64_t seed,
                                            size_t window_bytes, tdm_error *err);
void tdm_net_sim_destroy(tdm_net_sim *sim);
const tdm_net *tdm_net_sim_net(tdm_net_sim *sim);
void tdm_net_sim_faults(tdm_net_sim *sim, const tdm_net_faults *faults);

#endif
