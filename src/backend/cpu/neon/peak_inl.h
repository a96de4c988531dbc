/* SPDX-License-Identifier: Apache-2.0
 *
 * Sixteen sums side by side, so that no addition waits for the one before it: four pipes of four
 * cycles are the most that a processor has here. Variables of their own: gcc keeps an array of them
 * in memory. */
#ifndef TDM_BACKEND_CPU_NEON_PEAK_INL_H
#define TDM_BACKEND_CPU_NEON_PEAK_INL_H

#define PEAK_SUMS 16
#define PEAK_EACH(X)                                                                               \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

/* Keeps a value in a register, and the compiler from knowing it. */
#define PEAK_OPAQUE(value) __asm__ volatile("" : "+w"(value))

#endif
