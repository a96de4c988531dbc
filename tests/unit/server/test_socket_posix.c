/* SPDX-License-Identifier: Apache-2.0
 *
 * Loopback TCP through the kit of the socket table (tests/contract/socket_kit.h), and what only
 * real sockets have: two families, descriptors. */
#include "contract/socket_kit.h"

#include "server/socket_posix.h"

#include <fcntl.h>

static void test_kit(void **state) {
    tdm_alloc_tracker tracker;
    tdm_net_posix posix;
    (void)state;
    tdm_alloc_tracker_init(&tracker, NULL);
    tdm_net_posix_init(&posix, &tracker.alloc);
    socket_kit_run(&posix.net, tdm_clock_system());
    socket_kit_without_memory(&posix.net, tdm_clock_system(), &tracker);
    assert_int_equal(atomic_load(&tracker.live_bytes), 0);
}

/* Number of open descriptors below 256. */
static int n_descriptors(void) {
    int n = 0;
    for (int fd = 0; fd < 256; fd++) {
        n += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    }
    return n;
}

static void test_no_descriptor_is_left(void **state) {
    tdm_alloc_tracker tracker;
    tdm_net_posix posix;
    const int before = n_descriptors();
    (void)state;
    tdm_alloc_tracker_init(&tracker, NULL);
    tdm_net_posix_init(&posix, &tracker.alloc);
    socket_kit_without_memory(&posix.net, tdm_clock_system(), &tracker);
    assert_int_equal(n_descriptors(), before);
}

static void test_ipv6(void **state) {
    tdm_net_posix posix;
    tdm_socket *listener = NULL;
    tdm_error err;
    (void)state;
    tdm_net_posix_init(&posix, NULL);
    const tdm_net *net = &posix.net;
    const tdm_status status = net->listen(net->ctx, "::1", 0, 4, &listener, &err);
    if (status != TDM_OK) { /* a machine without IPv6 refuses with a typed error */
        assert_int_equal(status, TDM_E_NETWORK);
        assert_null(listener);
        assert_true(err.what[0] != '\0');
        return;
    }
    socket_kit kit = {net, tdm_clock_system(), listener, net->port(net->ctx, listener)};
    tdm_socket *client = NULL;
    tdm_socket *server = NULL;
    assert_true(kit.port != 0);
    assert_int_equal(net->connect(net->ctx, "::1", kit.port, &client, &err), TDM_OK);
    assert_true(socket_kit_wait(&kit, listener, TDM_SOCKET_READABLE));
    assert_int_equal(net->accept(net->ctx, listener, &server, &err), TDM_OK);
    net->close(net->ctx, server);
    net->close(net->ctx, client);
    net->close(net->ctx, listener);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kit),
        cmocka_unit_test(test_no_descriptor_is_left),
        cmocka_unit_test(test_ipv6),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
