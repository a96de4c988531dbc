/* SPDX-License-Identifier: Apache-2.0
 *
 * The same bits (design 1.1, law G2): a row's logits depend on its own tokens alone. Eight random
 * sequences are first run alone, each in one forward on one thread. Then the same sequences run cut
 * into chunks, beside mates, in random order, trimmed and appended again, on one, two and three
 * threads; every logit that comes out has to be the reference's, bit for bit. The longest sequence
 * crosses the pages of a full cache and the ring of a sliding one. */
#include "support/goldens.h"
#include "support/support.h"

#include "backend/cpu/cpu.h"
#include "model/model.h"
#include "tensor/half.h"

#define N_ROWS 8
#define LEN_MAX 264
#define PIECE_MAX 40
#define MATE_MAX 24 /* most tokens of a row beside mates */
#define TOKENS_MAX 1024
#define N_VOCAB 320

static const int32_t LENGTHS[N_ROWS] = {LEN_MAX, 33, 17, 66, 40, 9, 1, 24};
static const int32_t PIECES[] = {1, 2, 3, 7, 16, PIECE_MAX};

typedef struct setting {
    const char *model;
    tdm_tier tier;
    const char *isa; /* NULL: the best */
    tdm_dtype kv;
    bool is_brief; /* for slow kernels: two thread counts, no chunk sizes one by one */
} setting;

/* A model on a backend. */
typedef struct rig {
    tdm_backend *backend;
    tdm_checkpoint *checkpoint;
    tdm_model_config config;
    tdm_graph *graph;
} rig;

/* What runs: one thing of each sequence, and what is known about it. */
typedef struct bench {
    const setting *set;
    rig rig;
    int32_t n_threads;
    int32_t tokens[N_ROWS][LEN_MAX];
    float *want[N_ROWS]; /* [length, n_vocab] */
    float *got;          /* [TOKENS_MAX, n_vocab] */
    tdm_state *states[N_ROWS];
    uint64_t seed;
} bench;

static uint32_t draw(bench *b, uint32_t n) {
    b->seed = b->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(b->seed >> 33) % n;
}

static void must(tdm_status status, const tdm_error *err) {
    if (status != TDM_OK) {
        fail_msg("%s (%s)", err->what, err->where);
    }
}

static void rig_open(rig *r, const setting *set, int32_t n_threads) {
    char path[SUPPORT_PATH_MAX];
    char folder[SUPPORT_PATH_MAX];
    tdm_error err = {0};
    const tdm_cpu_options cpu = {.tier = set->tier, .isa = set->isa, .n_threads = n_threads};
    const tdm_checkpoint_options none = {0};
    const tdm_graph_options options = {0};
    *r = (rig){0};
    (void)support_join(folder, "goldens", set->model);
    must(tdm_cpu_backend_create(&r->backend, NULL, &cpu, &err), &err);
    must(tdm_checkpoint_open(&r->checkpoint, NULL, support_data_path(path, folder), &none, &err),
         &err);
    must(tdm_model_config_read(&r->config, r->checkpoint, &err), &err);
    assert_int_equal(r->config.n_vocab, N_VOCAB);
    must(tdm_graph_create(&r->graph, r->checkpoint, &r->config, r->backend, &options, &err), &err);
    must(r->graph->ops->reserve(r->graph, TOKENS_MAX, N_ROWS, TOKENS_MAX, &err), &err);
}

static void rig_close(rig *r) {
    r->graph->ops->destroy(r->graph);
    tdm_checkpoint_close(r->checkpoint);
    r->backend->ops->destroy(r->backend);
}

static void states_open(bench *b, int32_t append_max) {
    tdm_error err = {0};
    for (int i = 0; i < N_ROWS; i++) {
        must(b->rig.graph->ops->state_create(b->rig.graph, b->set->kv, append_max, &b->states[i],
                                             &err),
             &err);
    }
}

static void states_close(bench *b) {
    for (int i = 0; i < N_ROWS; i++) {
        b->rig.graph->ops->state_destroy(b->rig.graph, b->states[i]);
    }
}

/* One piece of sequence `row` in a step. */
typedef struct piece {
    int row;
    int32_t n;
    int32_t logits_from;
} piece;

static void forward(bench *b, const piece *pieces, int n_pieces) {
    static const tdm_phase phases[] = {TDM_PHASE_PROMPT, TDM_PHASE_PROMPT_CHUNK, TDM_PHASE_DECODE,
                                       TDM_PHASE_VERIFY, TDM_PHASE_KNOWN};
    tdm_step_row rows[N_ROWS];
    tdm_error err = {0};
    const tdm_step step = {.rows = rows, .n_rows = n_pieces, .logits = b->got};
    for (int i = 0; i < n_pieces; i++) {
        tdm_state *state = b->states[pieces[i].row];
        rows[i] = (tdm_step_row){.phase = phases[draw(b, SUPPORT_LEN(phases))],
                                 .state = state,
                                 .tokens = b->tokens[pieces[i].row] + state->length,
                                 .n_tokens = pieces[i].n,
                                 .logits_from = pieces[i].logits_from};
    }
    must(b->rig.graph->ops->forward(b->rig.graph, &step, &err), &err);
}

static void expect_reference(const bench *b, int row, int64_t position, const float *got) {
    const float *want = b->want[row] + position * N_VOCAB;
    for (int32_t i = 0; i < N_VOCAB; i++) {
        if (tdm_f32_bits(got[i]) != tdm_f32_bits(want[i])) {
            fail_msg("%s tier %d isa %s threads %d: row %d position %d logit %d is %.9g, alone "
                     "%.9g",
                     b->set->model, (int)b->set->tier, b->set->isa != NULL ? b->set->isa : "best",
                     (int)b->n_threads, row, (int)position, (int)i, (double)got[i],
                     (double)want[i]);
        }
    }
}

/* Runs the step and compares every logit that it gives. */
static void forward_and_compare(bench *b, const piece *pieces, int n_pieces) {
    int64_t from[N_ROWS];
    const float *got = b->got;
    for (int i = 0; i < n_pieces; i++) {
        from[i] = b->states[pieces[i].row]->length;
    }
    forward(b, pieces, n_pieces);
    for (int i = 0; i < n_pieces; i++) {
        for (int32_t t = pieces[i].logits_from; t < pieces[i].n; t++) {
            expect_reference(b, pieces[i].row, from[i] + t, got);
            got += N_VOCAB;
        }
    }
}

static void bench_open(bench *b, const setting *set) {
    *b = (bench){.set = set, .n_threads = 1, .seed = 11};
    b->got = malloc((size_t)TOKENS_MAX * N_VOCAB * sizeof *b->got);
    assert_non_null(b->got);
    rig_open(&b->rig, set, 1);
    states_open(b, LEN_MAX);
    for (int i = 0; i < N_ROWS; i++) {
        const size_t n = (size_t)LENGTHS[i] * N_VOCAB;
        b->want[i] = malloc(n * sizeof *b->want[i]);
        assert_non_null(b->want[i]);
        for (int32_t t = 0; t < LENGTHS[i]; t++) {
            b->tokens[i][t] = (int32_t)draw(b, N_VOCAB);
        }
        forward(b, &(piece){i, LENGTHS[i], 0}, 1);
        memcpy(b->want[i], b->got, n * sizeof *b->got);
    }
    states_close(b);
}

static void bench_close(bench *b) {
    for (int i = 0; i < N_ROWS; i++) {
        free(b->want[i]);
    }
    free(b->got);
}

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* Every chunk size; the largest on the long sequence, the small ones on shorter ones. */
static void chunked_alone(bench *b) {
    for (size_t c = 0; c < SUPPORT_LEN(PIECES); c++) {
        const int row = PIECES[c] == PIECE_MAX ? 0 : PIECES[c] >= 7 ? 3 : 1;
        states_open(b, PIECE_MAX);
        while (b->states[row]->length < LENGTHS[row]) {
            const int32_t left = LENGTHS[row] - (int32_t)b->states[row]->length;
            forward_and_compare(b, &(piece){row, least(left, PIECES[c]), 0}, 1);
        }
        states_close(b);
    }
}

/* One row with 1 to 7 mates in one step, first, in the middle and last. */
static void beside_mates(bench *b) {
    for (int n_mates = 1; n_mates < N_ROWS; n_mates++) {
        piece pieces[N_ROWS];
        states_open(b, LEN_MAX);
        for (int i = 0; i <= n_mates; i++) {
            const int row = (i + n_mates) % (n_mates + 1); /* turns row 0's place around */
            pieces[i] = (piece){row, least(LENGTHS[row], MATE_MAX), 0};
        }
        forward_and_compare(b, pieces, n_mates + 1);
        states_close(b);
    }
}

static void trim(tdm_state *state, int64_t n) {
    tdm_error err = {0};
    for (int32_t i = 0; i < state->n_caches; i++) {
        must(state->caches[i]->ops->trim(state->caches[i], n, &err), &err);
        assert_true(state->caches[i]->ops->check(state->caches[i]));
    }
    state->length -= n;
}

static bool can_trim(const tdm_state *state, int64_t n) {
    for (int32_t i = 0; i < state->n_caches; i++) {
        if (!state->caches[i]->ops->can_trim(state->caches[i], n)) {
            return false;
        }
    }
    return true;
}

/* Wrong tokens are appended and undone, as a rejected draft is; then the right ones come. */
static void reject_a_draft(bench *b, int row) {
    const int32_t at = (int32_t)b->states[row]->length;
    const int32_t n = least(1 + (int32_t)draw(b, 16), LENGTHS[row] - at);
    int32_t right[16];
    if (n > 0) {
        memcpy(right, b->tokens[row] + at, (size_t)n * sizeof *right);
        for (int32_t t = 0; t < n; t++) {
            b->tokens[row][at + t] = (int32_t)draw(b, N_VOCAB);
        }
        forward(b, &(piece){row, n, n - 1}, 1);
        memcpy(b->tokens[row] + at, right, (size_t)n * sizeof *right);
        assert_true(can_trim(b->states[row], n));
        trim(b->states[row], n);
    }
}

/* Some of the unfinished rows, in random order, each with a piece of random size. */
static int draw_step(bench *b, piece *pieces) {
    int order[N_ROWS] = {0};
    int n = 0;
    for (int i = 0; i < N_ROWS; i++) {
        const int j = (int)draw(b, (uint32_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < N_ROWS; i++) {
        const int row = order[i];
        const int32_t left = LENGTHS[row] - (int32_t)b->states[row]->length;
        if (left > 0 && draw(b, 3) != 0) {
            const int32_t size = least(left, PIECES[draw(b, SUPPORT_LEN(PIECES))]);
            pieces[n++] = (piece){row, size, (int32_t)draw(b, (uint32_t)size + 1)};
        }
    }
    return n;
}

static bool is_finished(const bench *b) {
    for (int i = 0; i < N_ROWS; i++) {
        if (b->states[i]->length < LENGTHS[i]) {
            return false;
        }
    }
    return true;
}

/* What a scheduler could do to eight rows, with drafts rejected and positions given back. */
static void random_schedule(bench *b) {
    int n_trims = 0;
    states_open(b, PIECE_MAX);
    while (!is_finished(b)) {
        piece pieces[N_ROWS];
        const int n = draw_step(b, pieces);
        if (n > 0) {
            forward_and_compare(b, pieces, n);
        }
        const int row = (int)draw(b, N_ROWS);
        const int64_t back = 1 + draw(b, 24);
        if (draw(b, 3) == 0) {
            reject_a_draft(b, row);
        }
        if (n_trims < 8 && draw(b, 2) == 0 && back <= b->states[row]->length &&
            can_trim(b->states[row], back)) {
            trim(b->states[row], back); /* its tokens are appended again later */
            n_trims++;
        }
    }
    assert_true(n_trims > 0);
    states_close(b);
}

static void check_setting(const setting *set) {
    bench b;
    bench_open(&b, set);
    rig_close(&b.rig);
    for (b.n_threads = 1; b.n_threads <= 3; b.n_threads += set->is_brief ? 2 : 1) {
        rig_open(&b.rig, set, b.n_threads);
        if (b.n_threads != 2 && !set->is_brief) {
            chunked_alone(&b);
        }
        if (b.n_threads != 3) {
            beside_mates(&b);
        }
        random_schedule(&b);
        rig_close(&b.rig);
    }
    bench_close(&b);
}

#define SETTING_TEST(name, ...)                                                                    \
    static void name(void **state) {                                                               \
        static const setting set = {__VA_ARGS__};                                                  \
        (void)state;                                                                               \
        check_setting(&set);                                                                       \
    }

SETTING_TEST(llama_exact, "llama", TDM_TIER_EXACT, NULL, TDM_DTYPE_F32, false)
SETTING_TEST(llama_fast, "llama", TDM_TIER_FAST, NULL, TDM_DTYPE_BF16, false)
SETTING_TEST(llama_scalar_exact, "llama", TDM_TIER_EXACT, "scalar", TDM_DTYPE_BF16, true)
SETTING_TEST(llama_scalar_fast, "llama", TDM_TIER_FAST, "scalar", TDM_DTYPE_F32, true)
SETTING_TEST(mistral_exact, "mistral-sliding", TDM_TIER_EXACT, NULL, TDM_DTYPE_F32, false)
SETTING_TEST(mistral_fast, "mistral-sliding", TDM_TIER_FAST, NULL, TDM_DTYPE_BF16, false)
SETTING_TEST(gemma4_exact, "gemma4-dense-keqv", TDM_TIER_EXACT, NULL, TDM_DTYPE_F32, false)
SETTING_TEST(gemma4_fast, "gemma4-ple-shared", TDM_TIER_FAST, NULL, TDM_DTYPE_BF16, false)
SETTING_TEST(qwen3_exact, "qwen3", TDM_TIER_EXACT, NULL, TDM_DTYPE_F32, false)
SETTING_TEST(qwen3_fast, "qwen3", TDM_TIER_FAST, NULL, TDM_DTYPE_BF16, false)
SETTING_TEST(qwen3_next_exact, "qwen3-next", TDM_TIER_EXACT, NULL, TDM_DTYPE_F32, false)
SETTING_TEST(lfm2_exact, "lfm2", TDM_TIER_EXACT, NULL, TDM_DTYPE_F32, true)
SETTING_TEST(qwen3_5_fast, "qwen3_5", TDM_TIER_FAST, NULL, TDM_DTYPE_BF16, true)
SETTING_TEST(latent_exact, "deepseek-v3", TDM_TIER_EXACT, NULL, TDM_DTYPE_F32, true)
SETTING_TEST(sparse_exact, "glm-moe-dsa-shared", TDM_TIER_EXACT, NULL, TDM_DTYPE_F32, true)
SETTING_TEST(sparse_fast, "glm-moe-dsa", TDM_TIER_FAST, NULL, TDM_DTYPE_BF16, true)

/* Every family, in a tier that changes from one to the next. */
static void every_golden(void **state) {
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(SUPPORT_GOLDENS); i++) {
        bool is_fast = i % 2 != 0;
        const setting set = {SUPPORT_GOLDENS[i].name, is_fast ? TDM_TIER_FAST : TDM_TIER_EXACT,
                             NULL, is_fast ? TDM_DTYPE_BF16 : TDM_DTYPE_F32, true};
        bench b; /* one schedule: the settings above have chunks and mates by themselves */
        bench_open(&b, &set);
        rig_close(&b.rig);
        b.n_threads = 2;
        rig_open(&b.rig, &set, b.n_threads);
        random_schedule(&b);
        rig_close(&b.rig);
        bench_close(&b);
    }
}

/* The comparison itself can fail: one bit of one reference logit is turned. */
static void turned_bit(void **state) {
    static const setting set = {"llama", TDM_TIER_EXACT, NULL, TDM_DTYPE_F32, false};
    bench b;
    uint32_t bits = 0;
    (void)state;
    bench_open(&b, &set);
    memcpy(&bits, &b.want[0][123], sizeof bits);
    bits ^= 1;
    memcpy(&b.want[0][123], &bits, sizeof bits);
    chunked_alone(&b);
}

static int run_canary(void *arg) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(turned_bit)};
    (void)arg;
    return cmocka_run_group_tests(tests, NULL, NULL) != 0 ? 42 : 0;
}

static void a_turned_bit_is_seen(void **state) {
    (void)state;
    assert_int_equal(support_run_child(run_canary, NULL), 42);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_exact),        cmocka_unit_test(llama_fast),
        cmocka_unit_test(llama_scalar_exact), cmocka_unit_test(llama_scalar_fast),
        cmocka_unit_test(mistral_exact),      cmocka_unit_test(mistral_fast),
        cmocka_unit_test(gemma4_exact),       cmocka_unit_test(gemma4_fast),
        cmocka_unit_test(qwen3_exact),        cmocka_unit_test(qwen3_fast),
        cmocka_unit_test(qwen3_next_exact),   cmocka_unit_test(qwen3_5_fast),
        cmocka_unit_test(latent_exact),       cmocka_unit_test(sparse_exact),
        cmocka_unit_test(sparse_fast),        cmocka_unit_test(lfm2_exact),
        cmocka_unit_test(every_golden),       cmocka_unit_test(a_turned_bit_is_seen),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
