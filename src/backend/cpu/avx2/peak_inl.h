/* SPDX-License-Identifier: Apache-2.0
 *
 * Twelve sums side by side, so that no addition waits for the one before it. They are variables of
 * their own: gcc 12 kept an array of them in memory, and a peak of loads and stores is none. */
#ifndef TDM_BACKEND_CPU_AVX2_PEAK_INL_H
#define TDM_BACKEND_CPU_AVX2_PEAK_INL_H

#define PEAK_SUMS 12
#define PEAK_EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

/* Keeps a value in a register ("x", in AVX-512's sets "v"), and the compiler from knowing it. */
#define PEAK_OPAQUE(where, value) __asm__ volatile("" : "+" where(value))

#endif
