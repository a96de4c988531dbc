/* SPDX-License-Identifier: Apache-2.0
 *
 * The operating system's stream sockets behind the table of base/socket.h. Floor 9: the only place
 * that opens a socket. */
#ifndef TDM_SERVER_SOCKET_POSIX_H
#define TDM_SERVER_SOCKET_POSIX_H

#include "base/socket.h"

/* Lives in the caller's memory; holds nothing that would have to be freed. Pass &posix.net on. Time
 * is that of tdm_clock_system. Threads: the table may be used by any number of them. */
typedef struct tdm_net_posix {
    tdm_net net;
    const tdm_alloc *alloc;
} tdm_net_posix;

void tdm_net_posix_init(tdm_net_posix *posix, const tdm_alloc *alloc);

#endif
