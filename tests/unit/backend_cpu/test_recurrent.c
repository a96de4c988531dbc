/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated delta rule over a prompt: every width of register and every cut of a sequence, around the
 * lengths at which the kernels change their way, give the bits of single steps. */
#include "support/support.h"

#include "backend/cpu/cpu.h"
#include "base/random.h"
#include "tensor/ops.h"

enum { KEYS = 2, VALUES = 4, KEY_DIM = 24, VALUE_DIM = 150, N = 300 };
enum { WIDTH = 2 * KEYS * KEY_DIM + VALUES * VALUE_DIM + 2 * VALUES };
enum { LD_OUT = VALUES * VALUE_DIM, STATE = VALUES * KEY_DIM * VALUE_DIM };

typedef struct fixture {
    float x[N * WIDTH];
    float from[STATE];
    float state[2][STATE];
    float out[2][N * LD_OUT];
} fixture;

static fixture F; /* 2.6 MB */

static void fill(float *out, size_t n, uint32_t seed) {
    for (size_t i = 0; i < n; ++i) {
        out[i] = (float)(tdm_random_f64(seed, 0, (uint32_t)i, 0) - 0.5);
    }
}

/* All positions by spans of cut, the first from a state apart. */
static void scan(const char *isa, int32_t n_threads, int32_t cut, float *state, float *out) {
    static const float DECAY[VALUES] = {-0.5f, -0.01f, -2.0f, -1.0f};
    static const float BIAS[VALUES] = {0.5f, 0.0f, -1.0f, 0.25f};
    const tdm_delta delta = {.n_key_heads = KEYS,
                             .n_value_heads = VALUES,
                             .key_dim = KEY_DIM,
                             .value_dim = VALUE_DIM,
                             .decay = DECAY,
                             .dt_bias = BIAS};
    tdm_cpu_options options = {.tier = TDM_TIER_FAST, .isa = isa, .n_threads = n_threads};
    tdm_backend *be = NULL;
    tdm_error err = {0};
    assert_int_equal(tdm_cpu_backend_create(&be, NULL, &options, &err), TDM_OK);
    for (int32_t t = 0; t < N; t += cut) {
        const tdm_delta_span span = {.from = t == 0 ? F.from : state,
                                     .to = state,
                                     .x = F.x + (size_t)t * WIDTH,
                                     .out = out + (size_t)t * LD_OUT,
                                     .ld_x = WIDTH,
                                     .ld_out = LD_OUT,
                                     .n = t + cut < N ? cut : N - t};
        tdm_op_delta_scan(be, &delta, &span, 1);
    }
    be->ops->destroy(be);
}

static void assert_same_bits(const char *isa, int32_t cut) {
    if (memcmp(F.state[0], F.state[1], sizeof F.state[0]) != 0 ||
        memcmp(F.out[0], F.out[1], sizeof F.out[0]) != 0) {
        fail_msg("%s in spans of %d has other bits", isa, (int)cut);
    }
}

static void every_cut_has_the_bits_of_single_steps(void **state) {
    static const char *const SETS[] = {"scalar", "avx2", "avxvnni", "avx512", "amx", "neon"};
    static const int32_t CUTS[] = {2, 4, 5, 7, 128, 129, N};
    const char *vectors = NULL; /* the first set that is not scalar: all have its bits */
    (void)state;
    fill(F.x, SUPPORT_LEN(F.x), 1);
    fill(F.from, SUPPORT_LEN(F.from), 2);
    for (size_t s = 0; s < SUPPORT_LEN(SETS); ++s) {
        tdm_cpu_options options = {.tier = TDM_TIER_FAST, .isa = SETS[s], .n_threads = 1};
        tdm_backend *be = NULL;
        if (tdm_cpu_backend_create(&be, NULL, &options, NULL) != TDM_OK) {
            continue; /* not of this machine */
        }
        be->ops->destroy(be);
        if (vectors == NULL) {
            scan(SETS[s], 1, 1, F.state[0], F.out[0]);
            vectors = s > 0 ? SETS[s] : NULL;
        }
        for (size_t i = 0; i < SUPPORT_LEN(CUTS); ++i) {
            memset(F.state[1], 0xff, sizeof F.state[1]);
            memset(F.out[1], 0xff, sizeof F.out[1]);
            scan(SETS[s], i % 2 == 0 ? 1 : 3, CUTS[i], F.state[1], F.out[1]);
            assert_same_bits(SETS[s], CUTS[i]);
        }
    }
    assert_true(F.out[0][0] != 0.0f && F.out[0][N * LD_OUT - 1] != 0.0f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_has_the_bits_of_single_steps),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
