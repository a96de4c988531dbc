/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about the machine that decide what fits. Floor 0. */
#ifndef TDM_BASE_SYSTEM_H
#define TDM_BASE_SYSTEM_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that this process could still take without swapping: the kernel's MemAvailable, cut down to
 * what the control group leaves. SIZE_MAX when the system does not tell. Threads: any. */
size_t tdm_memory_available(void);

#define TDM_BUILD_ID_MAX 64
/* The name that the linker gave to the program or library that this code is part of, different for
 * every build; its length, 0 when there is none. Threads: any. */
size_t tdm_build_id(uint8_t out[TDM_BUILD_ID_MAX]);

#endif
