/* SPDX-License-Identifier: Apache-2.0
 *
 * Row kernels in registers of 256 bits. */
#include "backend/cpu/avx2/avx2_priv.h"

#include "backend/cpu/avx2/lanes_inl.h"

#define ROWS(name) tdm_avx2_##name

#include "backend/cpu/rows_tmpl.h"
