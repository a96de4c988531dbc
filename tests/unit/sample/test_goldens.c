/* SPDX-License-Identifier: Apache-2.0
 *
 * The chain against an oracle in numpy (tests/data/sampling/make_goldens.py): same random numbers,
 * so the very ids have to agree, and log-probabilities to 2e-6. */
#include "support/support.h"

#include "base/json.h"
#include "sample/sampler.h"

#include <math.h>

#define LIST_MAX 16
#define TOLERANCE 2e-6 /* f32 exponentials summed in f64; measured 3e-7 */

typedef struct fixture {
    tdm_json_doc *doc;
    const tdm_json *cases;
    char *text;
    float *rows;
    int32_t n_vocab;
} fixture;

typedef struct lists {
    int32_t exempt[LIST_MAX];
    int32_t breakers[LIST_MAX];
    tdm_logit_bias bias[LIST_MAX];
} lists;

static double number(const tdm_json *node) {
    double value = 0.0;
    assert_true(tdm_json_as_f64(node, &value));
    return value;
}

static int32_t integer(const tdm_json *node) {
    int64_t value = 0;
    assert_true(tdm_json_as_i64(node, &value));
    return (int32_t)value;
}

static size_t read_ids(const tdm_json *node, int32_t *out, size_t max) {
    const size_t n = tdm_json_len(node);
    assert_true(n <= max);
    for (size_t i = 0; i < n; i++) {
        out[i] = integer(&node->u.items[i]);
    }
    return n;
}

static bool set_real(tdm_sampling *s, const tdm_json *member) {
    const struct {
        const char *name;
        float *field;
    } fields[] = {
        {"temperature", &s->temperature},
        {"top_p", &s->top_p},
        {"min_p", &s->min_p},
        {"top_n_sigma", &s->top_n_sigma},
        {"xtc_probability", &s->xtc_probability},
        {"xtc_threshold", &s->xtc_threshold},
        {"repetition_penalty", &s->repetition_penalty},
        {"presence_penalty", &s->presence_penalty},
        {"frequency_penalty", &s->frequency_penalty},
        {"dry_multiplier", &s->dry_multiplier},
        {"dry_base", &s->dry_base},
        {"mirostat_tau", &s->mirostat_tau},
        {"mirostat_eta", &s->mirostat_eta},
    };
    for (size_t i = 0; i < SUPPORT_LEN(fields); i++) {
        if (strcmp(member->key, fields[i].name) == 0) {
            *fields[i].field = (float)number(member);
            return true;
        }
    }
    return false;
}

static bool set_int(tdm_sampling *s, const tdm_json *member) {
    const struct {
        const char *name;
        int32_t *field;
    } fields[] = {
        {"top_k", &s->top_k},
        {"min_keep", &s->min_keep},
        {"repetition_window", &s->repetition_window},
        {"presence_window", &s->presence_window},
        {"frequency_window", &s->frequency_window},
        {"dry_allowed_length", &s->dry_allowed_length},
        {"dry_window", &s->dry_window},
        {"mirostat", &s->mirostat},
        {"n_logprobs", &s->n_logprobs},
    };
    for (size_t i = 0; i < SUPPORT_LEN(fields); i++) {
        if (strcmp(member->key, fields[i].name) == 0) {
            *fields[i].field = integer(member);
            return true;
        }
    }
    return false;
}

static bool set_other(tdm_sampling *s, lists *l, const tdm_json *member) {
    if (strcmp(member->key, "seed") == 0) {
        s->seed = strtoull(member->u.text, NULL, 10);
    } else if (strcmp(member->key, "choice") == 0) {
        s->choice = (uint32_t)integer(member);
    } else if (strcmp(member->key, "logprobs_is_raw") == 0) {
        s->logprobs_is_raw = member->boolean;
    } else if (strcmp(member->key, "xtc_exempt_ids") == 0) {
        s->n_xtc_exempt = read_ids(member, l->exempt, LIST_MAX);
        s->xtc_exempt_ids = l->exempt;
    } else if (strcmp(member->key, "dry_breakers") == 0) {
        s->n_dry_breakers = read_ids(member, l->breakers, LIST_MAX);
        s->dry_breakers = l->breakers;
    } else if (strcmp(member->key, "bias") == 0) {
        s->n_bias = tdm_json_len(member);
        assert_true(s->n_bias <= LIST_MAX);
        for (size_t i = 0; i < s->n_bias; i++) {
            const tdm_json *pair = &member->u.items[i];
            l->bias[i].id = integer(&pair->u.items[0]);
            l->bias[i].bias = (float)number(&pair->u.items[1]);
        }
        s->bias = l->bias;
    } else {
        return false;
    }
    return true;
}

static tdm_sampling read_options(const tdm_json *options, lists *l) {
    tdm_sampling s = TDM_SAMPLING_DEFAULT;
    for (size_t i = 0; i < tdm_json_len(options); i++) {
        const tdm_json *member = &options->u.items[i];
        if (!set_real(&s, member) && !set_int(&s, member) && !set_other(&s, l, member)) {
            fail_msg("golden option %s is not known here", member->key);
        }
    }
    return s;
}

static void check_top(const tdm_json *want, const tdm_sampled *got, const char *name) {
    if ((size_t)got->n_top != tdm_json_len(want)) {
        fail_msg("%s: %d best, want %zu", name, got->n_top, tdm_json_len(want));
    }
    for (int32_t i = 0; i < got->n_top; i++) {
        const tdm_json *pair = &want->u.items[i];
        assert_int_equal(got->top[i].id, integer(&pair->u.items[0]));
        assert_true(fabs((double)got->top[i].logprob - number(&pair->u.items[1])) <=
                    TOLERANCE * (1.0 + fabs(number(&pair->u.items[1]))));
    }
}

static void run_case(const fixture *f, const tdm_json *node) {
    lists l;
    int32_t history[256];
    tdm_error err;
    tdm_sampler *sampler = NULL;
    tdm_sampled got;
    const char *name = tdm_json_get(node, "name")->u.text;
    const tdm_json *rows = tdm_json_get(node, "rows");
    const tdm_json *ids = tdm_json_get(node, "ids");
    const tdm_json *logprobs = tdm_json_get(node, "logprobs");
    const tdm_json *top = tdm_json_get(node, "top");
    const tdm_sampling options = read_options(tdm_json_get(node, "options"), &l);
    const size_t n_history = read_ids(tdm_json_get(node, "history"), history, 256);
    const size_t row_bytes = (size_t)f->n_vocab * sizeof(float);
    float *logits = malloc(row_bytes);
    assert_non_null(logits);
    assert_int_equal(tdm_sampler_create(&sampler, NULL, &options, f->n_vocab, &err), TDM_OK);
    assert_int_equal(tdm_sampler_accept(sampler, history, n_history, &err), TDM_OK);
    for (size_t i = 0; i < tdm_json_len(ids); i++) {
        bool is_finite = false;
        const int32_t row = integer(&rows->u.items[i % tdm_json_len(rows)]);
        memcpy(logits, f->rows + (size_t)row * (size_t)f->n_vocab, row_bytes);
        tdm_sampler_sample(sampler, logits, (uint32_t)i, &got, &is_finite);
        assert_true(is_finite);
        if (got.id != integer(&ids->u.items[i])) {
            fail_msg("%s: token %zu is %d, want %d", name, i, got.id, integer(&ids->u.items[i]));
        }
        const double want = number(&logprobs->u.items[i]);
        if (fabs((double)got.logprob - want) > TOLERANCE * (1.0 + fabs(want))) {
            fail_msg("%s: log-probability %zu is %.9g, want %.9g", name, i, (double)got.logprob,
                     want);
        }
        if (i < tdm_json_len(top)) {
            check_top(&top->u.items[i], &got, name);
        }
        assert_int_equal(tdm_sampler_accept(sampler, &got.id, 1, &err), TDM_OK);
    }
    tdm_sampler_destroy(sampler);
    free(logits);
}

static void test_goldens(void **state) {
    const fixture *f = *state;
    assert_true(tdm_json_len(f->cases) >= 20);
    for (size_t i = 0; i < tdm_json_len(f->cases); i++) {
        run_case(f, &f->cases->u.items[i]);
    }
}

static int set_up(void **state) {
    char path[SUPPORT_PATH_MAX];
    size_t bytes = 0;
    tdm_error err;
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->text = support_read_file(support_data_path(path, "sampling/goldens.json"), &bytes);
    assert_int_equal(tdm_json_parse(&f->doc, NULL, f->text, bytes, NULL, path, &err), TDM_OK);
    const tdm_json *root = tdm_json_doc_root(f->doc);
    f->cases = tdm_json_get(root, "cases");
    f->n_vocab = integer(tdm_json_get(root, "n_vocab"));
    const size_t n_rows = (size_t)integer(tdm_json_get(root, "n_rows"));
    f->rows =
        (float *)(void *)support_read_file(support_data_path(path, "sampling/rows.f32"), &bytes);
    assert_int_equal(bytes, n_rows * (size_t)f->n_vocab * sizeof(float));
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    tdm_json_doc_destroy(f->doc);
    free(f->text);
    free(f->rows);
    free(f);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_goldens)};
    return support_exit(cmocka_run_group_tests(tests, set_up, tear_down), SUPPORT_LEN(tests));
}
