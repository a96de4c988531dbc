/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract kit of tdm_clock (base/clock.h): monotonic time never goes back, a sleep is never
 * short on the same clock, wall time moves with it. */
#ifndef TDM_TESTS_CLOCK_KIT_H
#define TDM_TESTS_CLOCK_KIT_H

#include "support/support.h"

#include "base/clock.h"

static inline void clock_kit_run(const tdm_clock *clock) {
    const int64_t naps_ns[] = {0, -5, 1, 1000, 2000000, 5000000};
    int64_t last = clock->monotonic_ns(clock->ctx);
    for (int i = 0; i < 10000; i++) {
        const int64_t now = clock->monotonic_ns(clock->ctx);
        assert_true(now >= last);
        last = now;
    }
    for (size_t i = 0; i < SUPPORT_LEN(naps_ns); i++) {
        const int64_t unix_before = clock->unix_ns(clock->ctx);
        const int64_t before = clock->monotonic_ns(clock->ctx);
        clock->sleep_ns(clock->ctx, naps_ns[i]);
        const int64_t slept = clock->monotonic_ns(clock->ctx) - before;
        assert_true(slept >= naps_ns[i] && slept >= 0);
        assert_true(slept < 5000000000); /* 0 and less return at once */
        assert_true(clock->unix_ns(clock->ctx) >= unix_before + (naps_ns[i] > 0 ? naps_ns[i] : 0) -
                                                      1000000); /* wall time may be slewed */
    }
    assert_true(clock->unix_ns(clock->ctx) > 1500000000000000000); /* after July 2017 */
}

#endif
