/* SPDX-License-Identifier: Apache-2.0
 *
 * 20,000 random texts (all scripts, marks, controls, added tokens glued to text) and every kind: ids
 * and decoded texts are the reference's, told by a hash each. make_random.py writes the file and,
 * run with a kind, shows a difference in words. Each by a tokenizer out of the first one's image,
 * too, where that kind has one. Batches on a team of threads give the same ids. */
#include "unit/text/tok_kit.h"

#include "base/thread.h"

#define FNV_BASIS UINT32_C(0x811C9DC5)
#define FNV_PRIME UINT32_C(0x01000193)

typedef struct random_file {
    char *data;
    size_t len;
    size_t pos;
    uint32_t n;
    tdm_batch_text *texts;
} random_file;

static uint32_t take(random_file *f, size_t bytes) {
    uint32_t value = 0;
    assert_true(f->len - f->pos >= bytes);
    for (size_t i = 0; i < bytes; i++) {
        value |= (uint32_t)(uint8_t)f->data[f->pos++] << (8 * i);
    }
    return value;
}

static random_file open_random(void) {
    char path[SUPPORT_PATH_MAX];
    random_file f = {NULL, 0, 6, 0, NULL};
    f.data = support_read_file(support_data_path(path, "tokenizers/random.bin"), &f.len);
    assert_true(f.len > 6 && memcmp(f.data, "TDMR1\n", 6) == 0);
    f.n = take(&f, 4);
    assert_int_equal(f.n, 20000);
    f.texts = calloc(f.n, sizeof(f.texts[0]));
    assert_non_null(f.texts);
    for (uint32_t i = 0; i < f.n; i++) {
        const size_t len = take(&f, 2);
        assert_true(f.len - f.pos >= len);
        f.texts[i] = (tdm_batch_text){f.data + f.pos, len};
        f.pos += len;
    }
    return f;
}

static void close_random(random_file *f) {
    free(f->texts);
    free(f->data);
}

static uint32_t fnv(uint32_t hash, const void *data, size_t len) {
    const uint8_t *bytes = data;
    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ bytes[i]) * FNV_PRIME;
    }
    return hash;
}

static uint32_t hash_of(const tdm_tokenizer *t, const tdm_batch_text *text, tdm_ids *ids,
                        tdm_buf *out) {
    const tdm_encode_options plain = {false, true, false};
    const tdm_encode_options special = {true, true, false};
    uint32_t hash = FNV_BASIS;
    ids->len = 0;
    tdm_buf_reset(out);
    assert_int_equal(tdm_tokenizer_encode(t, text->text, text->len, &plain, ids, NULL), TDM_OK);
    assert_int_equal(tdm_tokenizer_decode(t, ids->ids, ids->len, false, out, NULL), TDM_OK);
    hash = fnv(hash, ids->ids, ids->len * sizeof(ids->ids[0]));
    ids->len = 0;
    assert_int_equal(tdm_tokenizer_encode(t, text->text, text->len, &special, ids, NULL), TDM_OK);
    hash = fnv(hash, ids->ids, ids->len * sizeof(ids->ids[0]));
    return fnv(hash, out->data, out->len);
}

static void test_equal_to_the_reference(void **state) {
    random_file f = open_random();
    const uint32_t n_kinds = take(&f, 4);
    tdm_ids ids;
    tdm_buf out;
    (void)state;
    tdm_ids_init(&ids, NULL);
    tdm_buf_init(&out, NULL, 0);
    assert_int_equal(n_kinds, 12);
    for (uint32_t k = 0; k < n_kinds; k++) {
        char name[64] = "";
        const uint32_t len = take(&f, 1);
        assert_true(len < sizeof(name));
        memcpy(name, f.data + f.pos, len);
        f.pos += len;
        tok_kind kind = tok_kind_open(name);
        tok_copy copy = tok_copy_open(kind.tokenizer);
        for (uint32_t i = 0; i < f.n; i++) {
            const uint32_t want = take(&f, 4);
            if (hash_of(kind.tokenizer, &f.texts[i], &ids, &out) != want ||
                (copy.tokenizer != NULL &&
                 hash_of(copy.tokenizer, &f.texts[i], &ids, &out) != want)) {
                fail_msg("%s: text %u differs: %.*s", name, i, (int)f.texts[i].len,
                         f.texts[i].text);
            }
        }
        tok_copy_close(&copy);
        tok_kind_close(&kind);
    }
    assert_int_equal(f.pos, f.len);
    tdm_ids_deinit(&ids);
    tdm_buf_deinit(&out);
    close_random(&f);
}

#define BATCH 2000u

static void test_batches(void **state) {
    random_file f = open_random();
    tok_kind kind = tok_kind_open("qwen2-nfc");
    const tdm_encode_options options = {true, true, true};
    tdm_ids *ids = calloc(BATCH, sizeof(*ids));
    tdm_team *team = NULL;
    tdm_ids one;
    (void)state;
    assert_non_null(ids);
    tdm_ids_init(&one, NULL);
    for (uint32_t i = 0; i < BATCH; i++) {
        tdm_ids_init(&ids[i], NULL);
    }
    assert_int_equal(tdm_team_create(&team, NULL, 3, NULL), TDM_OK);
    for (size_t round = 0; round < 2; round++) { /* with the team and without */
        for (uint32_t i = 0; i < BATCH; i++) {
            ids[i].len = 0;
        }
        assert_int_equal(tdm_tokenizer_encode_batch(kind.tokenizer, round == 0 ? team : NULL,
                                                    f.texts, BATCH, &options, ids, NULL),
                         TDM_OK);
        for (uint32_t i = 0; i < BATCH; i++) {
            one.len = 0;
            assert_int_equal(tdm_tokenizer_encode(kind.tokenizer, f.texts[i].text, f.texts[i].len,
                                                  &options, &one, NULL),
                             TDM_OK);
            assert_int_equal(one.len, ids[i].len);
            for (size_t k = 0; k < one.len; k++) {
                assert_int_equal(one.ids[k], ids[i].ids[k]);
                assert_int_equal(one.offsets[k][0], ids[i].offsets[k][0]);
                assert_int_equal(one.offsets[k][1], ids[i].offsets[k][1]);
            }
        }
    }
    for (uint32_t i = 0; i < BATCH; i++) {
        tdm_ids_deinit(&ids[i]);
    }
    tdm_ids_deinit(&one);
    tdm_team_destroy(team);
    free(ids);
    tok_kind_close(&kind);
    close_random(&f);
}

/* The error is that of the first text that fails, whichever thread met one first. */
static void test_a_batch_says_which_text(void **state) {
    static const char FILE[] =
        "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?=x)\"},\"behavior\":"
        "\"Isolated\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}";
    const tdm_batch_text texts[] = {{"a", 1}, {"a", 1}, {"\xFF", 1}, {"a", 1}, {"\xFE", 1}};
    const tdm_encode_options options = {false, false, false};
    tdm_tokenizer *t = NULL;
    tdm_team *team = NULL;
    tdm_error err = {TDM_OK, "", "", "", ""};
    tdm_ids ids[SUPPORT_LEN(texts)];
    (void)state;
    assert_int_equal(tdm_tokenizer_from_json(&t, NULL, FILE, sizeof(FILE) - 1, NULL, "made", NULL),
                     TDM_OK);
    assert_int_equal(tdm_team_create(&team, NULL, 2, NULL), TDM_OK);
    for (size_t i = 0; i < SUPPORT_LEN(texts); i++) {
        tdm_ids_init(&ids[i], NULL);
    }
    assert_int_equal(
        tdm_tokenizer_encode_batch(t, team, texts, SUPPORT_LEN(texts), &options, ids, &err),
        TDM_E_FORMAT);
    assert_non_null(strstr(err.what, "text 2 of 5"));
    assert_int_equal(ids[0].len, 1);
    assert_int_equal(ids[2].len + ids[3].len + ids[4].len, 0);
    for (size_t i = 0; i < SUPPORT_LEN(texts); i++) {
        tdm_ids_deinit(&ids[i]);
    }
    tdm_team_destroy(team);
    tdm_tokenizer_destroy(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_to_the_reference),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_a_batch_says_which_text),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
