/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock table: the system's and the simulated one through one kit. */
#include "contract/clock_kit.h"

static void test_system(void **state) {
    (void)state;
    clock_kit_run(tdm_clock_system());
}

static void test_sim(void **state) {
    tdm_clock_sim sim;
    (void)state;
    tdm_clock_sim_init(&sim, 1700000000000000000);
    clock_kit_run(&sim.clock);
}

/* It moves only when told to, and exactly so. */
static void test_sim_stands_still(void **state) {
    tdm_clock_sim sim;
    (void)state;
    tdm_clock_sim_init(&sim, 1700000000000000000);
    assert_int_equal(sim.clock.monotonic_ns(sim.clock.ctx), 0);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(sim.clock.monotonic_ns(sim.clock.ctx), 0);
    }
    tdm_clock_sim_advance(&sim, 123);
    assert_int_equal(sim.clock.monotonic_ns(sim.clock.ctx), 123);
    sim.clock.sleep_ns(sim.clock.ctx, 1000);
    assert_int_equal(sim.clock.monotonic_ns(sim.clock.ctx), 1123);
    assert_int_equal(sim.clock.unix_ns(sim.clock.ctx), 1700000000000001123);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_system),
        cmocka_unit_test(test_sim),
        cmocka_unit_test(test_sim_stands_still),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
