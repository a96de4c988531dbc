/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated network through the kit of the socket table, then each of its faults. The same kit
 * runs loopback TCP in tests/unit/server/test_socket_posix.c, where the server room is linked. */
#include "contract/socket_kit.h"

typedef struct sim_fixture {
    tdm_alloc_tracker tracker;
    tdm_clock_sim clock;
    tdm_net_sim *sim;
    socket_kit kit;
} sim_fixture;

static void sim_open(sim_fixture *f, uint64_t seed, size_t window) {
    tdm_error err;
    tdm_alloc_tracker_init(&f->tracker, NULL);
    tdm_clock_sim_init(&f->clock, 1700000000000000000);
    assert_int_equal(
        tdm_net_sim_create(&f->sim, &f->tracker.alloc, &f->clock.clock, seed, window, &err),
        TDM_OK);
}

static void sim_close(sim_fixture *f) {
    tdm_net_sim_destroy(f->sim);
    assert_int_equal(atomic_load(&f->tracker.live_bytes), 0);
}

static void test_sim(void **state) {
    const size_t windows[] = {1, 2, 1000, 65536};
    (void)state;
    for (size_t w = 0; w < SUPPORT_LEN(windows); w++) {
        sim_fixture f;
        sim_open(&f, w, windows[w]);
        if (windows[w] >= 1000) {
            socket_kit_run(tdm_net_sim_net(f.sim), &f.clock.clock);
            assert_int_equal(atomic_load(&f.tracker.n_live), 1); /* every socket is closed */
        } else {
            socket_kit_open(&f.kit, tdm_net_sim_net(f.sim), &f.clock.clock);
            socket_kit_streams(&f.kit, 3000);
        }
        sim_close(&f);
    }
    tdm_net_sim_destroy(NULL);
}

/* Short reads and writes and shut windows change when bytes arrive, never which. */
static void test_sim_short_and_stalled(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        sim_fixture f;
        const tdm_net_faults faults = {
            .short_percent = 60, .stall_percent = 20, .stall_ns = 5000000};
        sim_open(&f, seed, 4096);
        tdm_net_sim_faults(f.sim, &faults);
        socket_kit_open(&f.kit, tdm_net_sim_net(f.sim), &f.clock.clock);
        socket_kit_streams(&f.kit, 50000);
        assert_true(f.clock.monotonic_ns > 0); /* somebody had to wait */
        sim_close(&f);
    }
}

/* Writes until it fails; reads until the end or an error. */
static void run_until_struck(sim_fixture *f, size_t *out_written, size_t *out_read,
                             tdm_status *out_write, tdm_status *out_status) {
    const tdm_net *net = f->kit.net;
    tdm_socket *client = NULL;
    tdm_socket *server = NULL;
    uint8_t data[1000];
    size_t n = 0;
    socket_kit_pair(&f->kit, &client, &server);
    *out_written = 0;
    *out_read = 0;
    *out_write = TDM_OK;
    while (*out_write == TDM_OK) {
        for (size_t i = 0; i < sizeof data; i++) {
            data[i] = socket_kit_byte(9, *out_written + i);
        }
        *out_write = net->write(net->ctx, client, data, sizeof data, &n, NULL);
        *out_written += n;
    }
    do {
        *out_status = net->read(net->ctx, server, data, sizeof data, &n, NULL);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(data[i], socket_kit_byte(9, *out_read + i));
        }
        *out_read += n;
    } while (*out_status == TDM_OK && n > 0);
    assert_true(socket_kit_wait(&f->kit, server, TDM_SOCKET_READABLE));
    assert_true(socket_kit_wait(&f->kit, client, TDM_SOCKET_WRITABLE));
    net->close(net->ctx, client);
    net->close(net->ctx, server);
}

static void test_sim_close_at(void **state) {
    (void)state;
    for (size_t k = 1; k <= 5000; k += 1 + k / 3) {
        sim_fixture f;
        const tdm_net_faults faults = {.close_at = k};
        size_t written = 0;
        size_t read = 0;
        tdm_status write_status = TDM_OK;
        tdm_status read_status = TDM_OK;
        sim_open(&f, k, 65536);
        tdm_net_sim_faults(f.sim, &faults);
        socket_kit_open(&f.kit, tdm_net_sim_net(f.sim), &f.clock.clock);
        run_until_struck(&f, &written, &read, &write_status, &read_status);
        assert_int_equal(write_status, TDM_E_NETWORK);
        assert_int_equal(written, k);
        assert_int_equal(read_status, TDM_OK); /* a clean end, after every byte */
        assert_int_equal(read, k);
        sim_close(&f);
    }
}

static void test_sim_reset_at(void **state) {
    (void)state;
    for (size_t k = 1; k <= 5000; k += 1 + k / 3) {
        sim_fixture f;
        const tdm_net_faults faults = {.reset_at = k};
        size_t written = 0;
        size_t read = 0;
        tdm_status write_status = TDM_OK;
        tdm_status read_status = TDM_OK;
        sim_open(&f, k, 65536);
        tdm_net_sim_faults(f.sim, &faults);
        socket_kit_open(&f.kit, tdm_net_sim_net(f.sim), &f.clock.clock);
        run_until_struck(&f, &written, &read, &write_status, &read_status);
        assert_int_equal(write_status, TDM_E_NETWORK);
        assert_int_equal(written, k);
        assert_int_equal(read_status, TDM_E_NETWORK);
        sim_close(&f);
    }
}

/* Closing with bytes unread is a reset, as TCP has it: what was on its way back is lost. */
static void test_sim_close_unread(void **state) {
    sim_fixture f;
    tdm_socket *client = NULL;
    tdm_socket *server = NULL;
    uint8_t byte = 5;
    size_t n = 0;
    (void)state;
    sim_open(&f, 1, 100);
    socket_kit_open(&f.kit, tdm_net_sim_net(f.sim), &f.clock.clock);
    const tdm_net *net = f.kit.net;
    socket_kit_pair(&f.kit, &client, &server);
    assert_int_equal(net->write(net->ctx, client, &byte, 1, &n, NULL), TDM_OK);
    assert_int_equal(net->write(net->ctx, server, &byte, 1, &n, NULL), TDM_OK);
    net->close(net->ctx, server);
    assert_int_equal(net->read(net->ctx, client, &byte, 1, &n, NULL), TDM_E_NETWORK);
    assert_int_equal(net->write(net->ctx, client, &byte, 1, &n, NULL), TDM_E_NETWORK);
    sim_close(&f);
}

/* The same seed is the same run. */
static void test_sim_is_a_function_of_the_seed(void **state) {
    int64_t times[3];
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        sim_fixture f;
        const tdm_net_faults faults = {.short_percent = 50, .stall_percent = 10, .stall_ns = 777};
        sim_open(&f, i == 2 ? 6 : 5, 2048);
        tdm_net_sim_faults(f.sim, &faults);
        socket_kit_open(&f.kit, tdm_net_sim_net(f.sim), &f.clock.clock);
        socket_kit_streams(&f.kit, 30000);
        times[i] = f.clock.monotonic_ns;
        sim_close(&f);
    }
    assert_true(times[0] == times[1]);
    assert_true(times[0] != times[2]);
}

/* A poll that nothing could ever end says so instead of hanging a test. */
static void test_sim_does_not_hang(void **state) {
    sim_fixture f;
    size_t n = 9;
    tdm_error err;
    (void)state;
    sim_open(&f, 1, 100);
    socket_kit_open(&f.kit, tdm_net_sim_net(f.sim), &f.clock.clock);
    tdm_socket_wait wait = {f.kit.listener, TDM_SOCKET_READABLE, 0};
    assert_int_equal(f.kit.net->poll(f.kit.net->ctx, &wait, 1, TDM_SOCKET_FOREVER, &n, &err),
                     TDM_E_STATE);
    assert_int_equal(n, 0);
    for (int i = 0; i < 8; i++) { /* a full queue refuses */
        tdm_socket *client = NULL;
        assert_int_equal(f.kit.net->connect(f.kit.net->ctx, "::1", f.kit.port, &client, &err),
                         TDM_OK);
    }
    tdm_socket *client = NULL;
    assert_int_equal(f.kit.net->connect(f.kit.net->ctx, "::1", f.kit.port, &client, &err),
                     TDM_E_NETWORK);
    sim_close(&f); /* with sockets still open */
}

static void test_every_allocation_fails(void **state) {
    sim_fixture f;
    tdm_error err;
    (void)state;
    sim_open(&f, 1, 100);
    socket_kit_without_memory(tdm_net_sim_net(f.sim), &f.clock.clock, &f.tracker);
    sim_close(&f);
    f.tracker.fail_at = atomic_load(&f.tracker.n_calls) + 1;
    assert_int_equal(tdm_net_sim_create(&f.sim, &f.tracker.alloc, &f.clock.clock, 1, 100, &err),
                     TDM_E_NOMEM);
    assert_null(f.sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sim),
        cmocka_unit_test(test_sim_short_and_stalled),
        cmocka_unit_test(test_sim_close_at),
        cmocka_unit_test(test_sim_reset_at),
        cmocka_unit_test(test_sim_close_unread),
        cmocka_unit_test(test_sim_is_a_function_of_the_seed),
        cmocka_unit_test(test_sim_does_not_hang),
        cmocka_unit_test(test_every_allocation_fails),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
