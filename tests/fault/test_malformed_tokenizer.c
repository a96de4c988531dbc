/* SPDX-License-Identifier: Apache-2.0
 *
 * Thousands of malformed tokenizer.json files, each loaded in this process: no crash, no leak, the
 * expected answer, a typed error with its place, bounded time and memory; what is accepted is also
 * used. A case is made from its number alone by a mutator of components: every slot of the file has
 * variants whose class the author of the variant knows (ok, reject, either), a case takes one to
 * three of them, then perhaps damages bytes. The six panics of the reference (reliability F16) are
 * cases 0 to 5.
 * TANDEM_MALFORMED=all runs all 3,000; otherwise each third. TANDEM_MALFORMED=tokenizer:<n> runs
 * one and prints it. */
#include "support/support.h"

#include "base/clock.h"
#include "base/random.h"
#include "text/detok.h"

#define CASES 3000u
#define REJECT_NS_MAX INT64_C(1000000000)
#define PEAK_BYTES_MAX ((size_t)64 << 20)
#define LONG_BYTES 4097

typedef enum expectation { EXPECT_OK, EXPECT_REJECT, EXPECT_EITHER } expectation;

typedef struct variant {
    const char *text; /* "@long" stands for a text of LONG_BYTES letters */
    expectation expected;
} variant;

#define SLOT_VARIANTS_MAX 28

typedef struct slot {
    const char *key;                     /* with the comma and colon in front of the value */
    variant variants[SLOT_VARIANTS_MAX]; /* the first is what a sound file has */
} slot;

#define BL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define S1 "{\"id\":6,\"content\":\"<s>\",\"special\":true,\"normalized\":false}"
#define VOCAB "\"a\":0,\"b\":1,\"ab\":2,\"\\u0120\":3,\"\\u0120a\":4,\"c\":5,\"<s>\":6"

static const slot SLOTS[] = {
    {"{\"version\":\"1.0\",\"truncation\":",
     {{"null", EXPECT_OK},
      {"{\"max_length\":8,\"stride\":7}", EXPECT_OK},
      {"{\"max_length\":8,\"stride\":8}", EXPECT_REJECT},
      {"{\"max_length\":2,\"stride\":18446744073709551615}", EXPECT_REJECT},
      {"{\"max_length\":-1,\"stride\":0}", EXPECT_REJECT},
      {"{\"max_length\":1e3,\"stride\":0}", EXPECT_REJECT},
      {"{}", EXPECT_REJECT},
      {"[]", EXPECT_REJECT}}},
    {",\"padding\":", {{"null", EXPECT_OK}, {"{\"length\":-5}", EXPECT_EITHER}}},
    {",\"added_tokens\":",
     {{"[" S1 "]", EXPECT_OK},
      {"[" S1 ",{\"id\":7,\"content\":\"new\",\"lstrip\":true,\"rstrip\":true,"
       "\"single_word\":true,\"special\":false}]",
       EXPECT_OK},
      {"[" S1 ",{\"id\":9,\"content\":\"far\",\"special\":false}]", EXPECT_OK},
      {"[" S1 ",{\"id\":8,\"content\":\"\",\"special\":true}]", EXPECT_OK},
      {"[" S1 ",{\"id\":0,\"content\":\"other\",\"special\":false}]", EXPECT_REJECT},
      {"[" S1 ",{\"id\":-1,\"content\":\"x\",\"special\":false}]", EXPECT_REJECT},
      {"[" S1 ",{\"id\":16777216,\"content\":\"x\",\"special\":false}]", EXPECT_REJECT},
      {"[" S1 ",{\"id\":16777215,\"content\":\"x\",\"special\":false}]", EXPECT_REJECT},
      {"[" S1 ",{\"id\":7.5,\"content\":\"x\",\"special\":false}]", EXPECT_REJECT},
      {"[" S1 ",{\"id\":\"7\",\"content\":\"x\",\"special\":false}]", EXPECT_REJECT},
      {"[" S1 ",{\"id\":7,\"content\":7,\"special\":false}]", EXPECT_REJECT},
      {"[" S1 ",{\"id\":7,\"special\":false}]", EXPECT_REJECT},
      {"[" S1 ",{\"id\":7,\"content\":\"x\",\"special\":\"yes\"}]", EXPECT_REJECT},
      {"[" S1 ",{\"id\":7,\"content\":\"x\",\"lstrip\":1}]", EXPECT_REJECT},
      {"[" S1 ",{\"id\":7,\"content\":\"@long\",\"special\":true}]", EXPECT_REJECT},
      {"[" S1 ",7]", EXPECT_REJECT},
      {"[" S1 ",null]", EXPECT_REJECT},
      {"{}", EXPECT_REJECT},
      {"\"<s>\"", EXPECT_REJECT}}},
    {",\"normalizer\":",
     {{"null", EXPECT_OK},
      {"{\"type\":\"NFC\"}", EXPECT_OK},
      {"{\"type\":\"NFKD\"}", EXPECT_OK},
      {"{\"type\":\"Lowercase\"}", EXPECT_OK},
      {"{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false}", EXPECT_OK},
      {"{\"type\":\"Sequence\",\"normalizers\":[]}", EXPECT_OK},
      {"{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"a\"},"
       "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"b\"}]}",
       EXPECT_OK},
      {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a{1,3}\"},\"content\":\"\"}", EXPECT_OK},
      {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(a\"},\"content\":\"\"}", EXPECT_REJECT},
      {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a{99999}\"},\"content\":\"\"}",
       EXPECT_REJECT},
      {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"b\"}", EXPECT_REJECT},
      {"{\"type\":\"Replace\",\"pattern\":\"a\",\"content\":\"b\"}", EXPECT_REJECT},
      {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}}", EXPECT_REJECT},
      {"{\"type\":\"Prepend\"}", EXPECT_REJECT},
      {"{\"type\":\"Prepend\",\"prepend\":\"@long\"}", EXPECT_REJECT},
      {"{\"type\":\"Strip\",\"strip_left\":7}", EXPECT_REJECT},
      {"{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}", EXPECT_REJECT},
      {"{\"type\":\"Nonsense\"}", EXPECT_REJECT},
      {"{\"type\":7}", EXPECT_REJECT},
      {"{}", EXPECT_REJECT},
      {"[]", EXPECT_REJECT},
      {"{\"type\":\"Sequence\"}", EXPECT_REJECT},
      {"{\"type\":\"Sequence\",\"normalizers\":[null]}", EXPECT_REJECT},
      {"{\"type\":\"Sequence\",\"normalizers\":{\"type\":\"NFC\"}}", EXPECT_REJECT}}},
    {",\"pre_tokenizer\":",
     {{BL, EXPECT_OK},
      {"{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true},"
       "" BL "]}",
       EXPECT_OK},
      {"{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
       "\"(?=b)|c+\"},\"behavior\":\"MergedWithPrevious\",\"invert\":true}," BL "]}",
       EXPECT_OK},
      {"{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Sequence\",\"pretokenizers\":[" BL
       "]}]}",
       EXPECT_OK},
      {"{\"type\":\"ByteLevel\"}", EXPECT_OK},
      {"{\"type\":\"Sequence\",\"pretokenizers\":[" BL "," BL "]}", EXPECT_REJECT},
      {"{\"type\":\"FixedLength\",\"length\":0}", EXPECT_REJECT},
      {"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[\"},\"behavior\":\"Isolated\"}",
       EXPECT_REJECT},
      {"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"behavior\":\"Isolated\"}",
       EXPECT_REJECT},
      {"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Sideways\"}",
       EXPECT_REJECT},
      {"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"}}", EXPECT_REJECT},
      {"{\"type\":\"Split\",\"pattern\":{},\"behavior\":\"Isolated\"}", EXPECT_REJECT},
      {"{\"type\":\"Split\",\"pattern\":{\"String\":\"\"},\"behavior\":\"Isolated\"}",
       EXPECT_REJECT},
      {"{\"type\":\"Metaspace\",\"replacement\":\"\"}", EXPECT_REJECT},
      {"{\"type\":\"Metaspace\",\"replacement\":\"ab\"}", EXPECT_REJECT},
      {"{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"often\"}",
       EXPECT_REJECT},
      {"{\"type\":\"ByteLevel\",\"use_regex\":\"true\"}", EXPECT_REJECT},
      {"{\"type\":\"Digits\",\"individual_digits\":1}", EXPECT_REJECT},
      {"{\"type\":\"Sequence\",\"pretokenizers\":[[]]}", EXPECT_REJECT},
      {"7", EXPECT_REJECT}}},
    {",\"post_processor\":",
     {{"null", EXPECT_OK},
      {"{\"type\":\"ByteLevel\"}", EXPECT_OK},
      {"{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},"
       "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[6]}}}",
       EXPECT_OK},
      {"{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\"}}],"
       "\"special_tokens\":{}}",
       EXPECT_OK},
      {"{\"type\":\"BertProcessing\",\"sep\":[\"<s>\",6],\"cls\":[\"<s>\",6]}", EXPECT_OK},
      {"{\"type\":\"BertProcessing\",\"sep\":[\"<s>\",60],\"cls\":[\"<s>\",6]}", EXPECT_REJECT},
      {"{\"type\":\"BertProcessing\",\"sep\":[],\"cls\":[\"<s>\",6]}", EXPECT_REJECT},
      {"{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"[CLS]\"}},"
       "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[6]}}}",
       EXPECT_REJECT},
      {"{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},"
       "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[4000000000]}}}",
       EXPECT_REJECT},
      {"{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},"
       "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[]}}}",
       EXPECT_REJECT},
      {"{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}}],"
       "\"special_tokens\":{\"<s>\":{\"ids\":[6]}}}",
       EXPECT_REJECT},
      {"{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\"}},{\"Sequence\":"
       "{\"id\":\"A\"}}],\"special_tokens\":{}}",
       EXPECT_REJECT},
      {"{\"type\":\"TemplateProcessing\",\"single\":\"A\",\"special_tokens\":{}}", EXPECT_REJECT},
      {"{\"type\":\"TemplateProcessing\",\"single\":[7],\"special_tokens\":{}}", EXPECT_REJECT},
      {"{\"type\":\"Telepathy\"}", EXPECT_REJECT}}},
    {",\"decoder\":",
     {{"{\"type\":\"ByteLevel\"}", EXPECT_OK},
      {"null", EXPECT_OK},
      {"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},"
       "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\","
       "\"content\":\" \",\"start\":1,\"stop\":0}]}",
       EXPECT_OK},
      {"{\"type\":\"Metaspace\",\"replacement\":\"b\",\"prepend_scheme\":\"always\"}", EXPECT_OK},
      {"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":"
       "\"a\",\"start\":2147483647,\"stop\":0}]}",
       EXPECT_OK},
      {"{\"type\":\"Strip\",\"content\":\"a\",\"start\":5,\"stop\":5}", EXPECT_REJECT},
      {"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":"
       "\"a\",\"start\":-1,\"stop\":0}]}",
       EXPECT_REJECT},
      {"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":"
       "\"ab\",\"start\":1,\"stop\":0}]}",
       EXPECT_REJECT},
      {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\" \"}", EXPECT_REJECT},
      {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\" \"}", EXPECT_OK},
      {"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteLevel\"},{\"type\":\"ByteLevel\"}]}",
       EXPECT_REJECT},
      {"{\"type\":\"Morse\"}", EXPECT_REJECT},
      {"{\"decoders\":[]}", EXPECT_REJECT},
      {"\"ByteLevel\"", EXPECT_REJECT}}},
    {",\"model\":{\"type\":",
     {{"\"BPE\"", EXPECT_OK},
      {"\"Unigram\"", EXPECT_REJECT},
      {"\"WordPiece\"", EXPECT_REJECT},
      {"\"bpe\"", EXPECT_REJECT},
      {"7", EXPECT_REJECT},
      {"null", EXPECT_REJECT}}},
    {",\"dropout\":",
     {{"null", EXPECT_OK}, {"0.0", EXPECT_OK}, {"0.1", EXPECT_REJECT}, {"1e300", EXPECT_REJECT}}},
    {",\"unk_token\":",
     {{"null", EXPECT_OK},
      {"\"c\"", EXPECT_OK},
      {"\"<s>\"", EXPECT_OK},
      {"\"<unk>\"", EXPECT_REJECT},
      {"5", EXPECT_REJECT}}},
    {",\"continuing_subword_prefix\":",
     {{"null", EXPECT_OK}, {"\"\"", EXPECT_OK}, {"\"##\"", EXPECT_REJECT}, {"7", EXPECT_REJECT}}},
    {",\"end_of_word_suffix\":",
     {{"null", EXPECT_OK}, {"\"\"", EXPECT_OK}, {"\"</w>\"", EXPECT_REJECT}}},
    {",\"fuse_unk\":", {{"false", EXPECT_OK}, {"true", EXPECT_OK}, {"\"no\"", EXPECT_REJECT}}},
    {",\"byte_fallback\":", {{"false", EXPECT_OK}, {"true", EXPECT_OK}, {"[]", EXPECT_REJECT}}},
    {",\"ignore_merges\":", {{"false", EXPECT_OK}, {"true", EXPECT_OK}, {"0", EXPECT_REJECT}}},
    {",\"vocab\":",
     {{"{" VOCAB "}", EXPECT_OK},
      {"{" VOCAB ",\"\":7}", EXPECT_OK},
      {"{" VOCAB ",\"<0x00>\":7,\"<0x-1>\":8}", EXPECT_OK},
      {"{" VOCAB ",\"hole\":60000}", EXPECT_OK},
      {"{" VOCAB ",\"twin\":2}", EXPECT_REJECT},
      {"{" VOCAB ",\"a\":7}", EXPECT_REJECT},
      {"{" VOCAB ",\"x\":-1}", EXPECT_REJECT},
      {"{" VOCAB ",\"x\":16777216}", EXPECT_REJECT},
      {"{" VOCAB ",\"x\":9999999999999999999999}", EXPECT_REJECT},
      {"{" VOCAB ",\"x\":16777215}", EXPECT_REJECT},
      {"{" VOCAB ",\"x\":7.0}", EXPECT_REJECT},
      {"{" VOCAB ",\"x\":\"7\"}", EXPECT_REJECT},
      {"{" VOCAB ",\"x\":null}", EXPECT_REJECT},
      {"{" VOCAB ",\"@long\":7}", EXPECT_REJECT},
      {"{\"a\":0,\"b\":1,\"\\u0120\":3}", EXPECT_REJECT},
      {"{}", EXPECT_REJECT},
      {"[\"a\",\"b\"]", EXPECT_REJECT},
      {"null", EXPECT_REJECT}}},
    {",\"merges\":",
     {{"[\"a b\",\"\\u0120 a\"]", EXPECT_OK},
      {"[[\"a\",\"b\"],[\"\\u0120\",\"a\"]]", EXPECT_OK},
      {"[\"a b\",\"a b\"]", EXPECT_OK},
      {"[]", EXPECT_EITHER},
      {"[\"ab ab\"]", EXPECT_REJECT},
      {"[[\"ab\",\"<s><s><s><s>\"]]", EXPECT_REJECT},
      {"[\"a x\"]", EXPECT_REJECT},
      {"[\"a\"]", EXPECT_REJECT},
      {"[\"a b c\"]", EXPECT_REJECT},
      {"[\" b\"]", EXPECT_REJECT},
      {"[[\"a\"]]", EXPECT_REJECT},
      {"[[\"a\",\"b\",\"c\"]]", EXPECT_REJECT},
      {"[[\"a\",1]]", EXPECT_REJECT},
      {"[[\"@long\",\"a\"]]", EXPECT_REJECT},
      {"[7]", EXPECT_REJECT},
      {"{\"a\":\"b\"}", EXPECT_REJECT},
      {"null", EXPECT_REJECT}}},
};
#define N_SLOTS SUPPORT_LEN(SLOTS)

/* The reference's six panics: slot and the text of its variant. */
static const struct {
    const char *key;
    const char *part;
} PANICS[6] = {
    {"truncation", "\"stride\":8}"},
    {"post_processor", "[CLS]"},
    {"merges", "<s><s>"},
    {"decoder", "\"stop\":5"},
    {"pre_tokenizer", "FixedLength"},
    {"normalizer", "Precompiled"},
};

typedef struct malformed_case {
    tdm_buf text;
    char label[160];
    expectation expected;
} malformed_case;

static size_t count_variants(const slot *s) {
    size_t n = 0;
    while (n < SLOT_VARIANTS_MAX && s->variants[n].text != NULL) {
        n++;
    }
    return n;
}

static void put(tdm_buf *out, const char *text) {
    assert_int_equal(tdm_buf_append_text(out, text), TDM_OK);
}

static void put_variant(tdm_buf *out, const char *text) {
    const char *mark = strstr(text, "@long");
    if (mark == NULL) {
        put(out, text);
        return;
    }
    assert_int_equal(tdm_buf_append(out, text, (size_t)(mark - text)), TDM_OK);
    for (size_t i = 0; i < LONG_BYTES; i++) {
        put(out, "l");
    }
    put(out, mark + 5);
}

static void choose(malformed_case *c, size_t chosen[N_SLOTS], size_t slot_idx, size_t variant_idx) {
    const variant *v = &SLOTS[slot_idx].variants[variant_idx];
    const size_t used = strlen(c->label);
    chosen[slot_idx] = variant_idx;
    (void)snprintf(c->label + used, sizeof(c->label) - used, "%.24s[%zu] ", SLOTS[slot_idx].key,
                   variant_idx);
    if (v->expected == EXPECT_REJECT || c->expected == EXPECT_REJECT) {
        c->expected = EXPECT_REJECT;
    } else if (v->expected == EXPECT_EITHER) {
        c->expected = EXPECT_EITHER;
    }
}

static void choose_panic(malformed_case *c, size_t chosen[N_SLOTS], size_t number) {
    bool is_found = false;
    for (size_t s = 0; s < N_SLOTS; s++) {
        for (size_t v = 0; strstr(SLOTS[s].key, PANICS[number].key) != NULL &&
                           v < count_variants(&SLOTS[s]) && !is_found;
             v++) {
            if (strstr(SLOTS[s].variants[v].text, PANICS[number].part) != NULL) {
                choose(c, chosen, s, v);
                is_found = true;
            }
        }
    }
    assert_true(is_found);
}

static uint64_t draw(uint32_t number, uint32_t idx) {
    return tdm_random_u64(151, number, 0, idx);
}

static void label_more(malformed_case *c, const char *word) {
    size_t len = strlen(c->label);
    (void)snprintf(c->label + len, sizeof(c->label) - len, "%s", word);
}

/* Cuts or damages the finished text. */
static void damage(malformed_case *c, uint32_t number) {
    const uint64_t kind = draw(number, 20) % 10;
    if (kind == 0) { /* a JSON text that ends early is no JSON text */
        c->text.len = (size_t)(draw(number, 21) % c->text.len);
        c->expected = EXPECT_REJECT;
        label_more(c, "cut");
    } else if (kind == 1) {
        const size_t at = (size_t)(draw(number, 21) % c->text.len);
        c->text.data[at] = (char)(uint8_t)draw(number, 22);
        c->expected = EXPECT_EITHER;
        label_more(c, "byte");
    } else if (kind == 2 && number % 3 == 0) {
        put(&c->text, "}");
        c->expected = EXPECT_REJECT;
        label_more(c, "tail");
    }
}

static void make_case(malformed_case *c, uint32_t number) {
    size_t chosen[N_SLOTS] = {0};
    size_t n_flat = 0;
    memset(c, 0, sizeof(*c));
    tdm_buf_init(&c->text, NULL, 0);
    c->expected = EXPECT_OK;
    for (size_t s = 0; s < N_SLOTS; s++) {
        n_flat += count_variants(&SLOTS[s]);
    }
    if (number < 6) {
        choose_panic(c, chosen, number);
    } else if (number - 6 < n_flat) { /* each variant alone, once */
        size_t flat = number - 6;
        size_t s = 0;
        while (flat >= count_variants(&SLOTS[s])) {
            flat -= count_variants(&SLOTS[s++]);
        }
        choose(c, chosen, s, flat);
    } else { /* one to three, more often than not sound ones */
        const size_t n = 1 + (size_t)(draw(number, 0) % 3);
        for (uint32_t i = 0; i < n; i++) {
            const size_t s = (size_t)(draw(number, 1 + 3 * i) % N_SLOTS);
            size_t v = (size_t)(draw(number, 2 + 3 * i) % count_variants(&SLOTS[s]));
            if (draw(number, 3 + 3 * i) % 2 == 0) {
                v = v % 2; /* the first two of every slot are sound, or nearly */
            }
            if (chosen[s] == 0) {
                choose(c, chosen, s, v);
            }
        }
    }
    for (size_t s = 0; s < N_SLOTS; s++) {
        put(&c->text, SLOTS[s].key);
        put_variant(&c->text, SLOTS[s].variants[chosen[s]].text);
    }
    put(&c->text, "}}");
    if (number - 6 >= n_flat && number >= 6) {
        damage(c, number);
    }
}

/* Encodes and decodes; every id must be one of the vocabulary. */
static const char *use(const tdm_tokenizer *tokenizer, const tdm_alloc *alloc) {
    static const char TEXT[] = "ab <s> a\xCC\x81 new abc\n\xFF 12  a";
    const char *wrong = NULL;
    tdm_ids ids;
    tdm_buf out;
    tdm_error err = {TDM_OK, "", "", "", ""};
    tdm_ids_init(&ids, alloc);
    tdm_buf_init(&out, alloc, 0);
    for (int i = 0; i < 4 && wrong == NULL; i++) {
        const tdm_encode_options options = {(i & 1) != 0, (i & 2) != 0, i == 3};
        ids.len = 0;
        const tdm_status status =
            tdm_tokenizer_encode(tokenizer, TEXT, sizeof(TEXT) - 1, &options, &ids, &err);
        if (status != TDM_OK && status != TDM_E_FORMAT && status != TDM_E_LIMIT) {
            wrong = "encoding failed for no reason that a text can give";
        }
        for (size_t k = 0; k < ids.len; k++) {
            if (ids.ids[k] < 0 || ids.ids[k] >= tdm_tokenizer_n_vocab(tokenizer)) {
                wrong = "an id is outside the vocabulary";
            }
        }
        if (wrong == NULL &&
            tdm_tokenizer_decode(tokenizer, ids.ids, ids.len, i == 1, &out, &err) != TDM_OK) {
            wrong = "decoding what was encoded failed";
        }
    }
    tdm_ids_deinit(&ids);
    tdm_buf_deinit(&out);
    return wrong;
}

typedef struct tally {
    size_t n[3];
    size_t n_accepted;
    size_t n_wrong;
    int64_t ns_max;
    size_t peak_max;
} tally;

static void run_case(const malformed_case *c, uint32_t number, tally *t, bool is_loud) {
    tdm_alloc_tracker tracker;
    tdm_error err = {TDM_OK, "", "", "", ""};
    tdm_tokenizer *tokenizer = NULL;
    const tdm_clock *clock = tdm_clock_system();
    const char *wrong = NULL;
    int64_t ns = clock->monotonic_ns(clock->ctx);
    tdm_alloc_tracker_init(&tracker, NULL);
    const tdm_status status = tdm_tokenizer_from_json(&tokenizer, &tracker.alloc, c->text.data,
                                                      c->text.len, NULL, "tokenizer.json", &err);
    ns = clock->monotonic_ns(clock->ctx) - ns;
    if (status == TDM_OK) {
        wrong = use(tokenizer, &tracker.alloc);
    } else if (tokenizer != NULL || err.code != status || err.what[0] == '\0' ||
               err.where[0] == '\0') {
        wrong = "the error does not say what and where";
    } else if (status != TDM_E_FORMAT && status != TDM_E_LIMIT && status != TDM_E_UNSUPPORTED) {
        wrong = "the status is none that a file can cause";
    }
    tdm_tokenizer_destroy(tokenizer);
    if ((c->expected == EXPECT_OK && status != TDM_OK) ||
        (c->expected == EXPECT_REJECT && status == TDM_OK)) {
        wrong = "another answer was expected";
    } else if (tracker.n_live != 0) {
        wrong = "something was not given back";
    } else if (ns > REJECT_NS_MAX || tracker.peak_bytes > PEAK_BYTES_MAX) {
        wrong = "too slow or too large";
    }
    t->n[c->expected]++;
    t->n_accepted += status == TDM_OK;
    t->ns_max = ns > t->ns_max ? ns : t->ns_max;
    t->peak_max = tracker.peak_bytes > t->peak_max ? tracker.peak_bytes : t->peak_max;
    if (wrong != NULL || is_loud) {
        t->n_wrong += wrong != NULL;
        (void)printf("tokenizer:%u %s\n  %s: %s | %s | %s\n", (unsigned)number, c->label,
                     wrong != NULL ? wrong : "as expected", tdm_status_name(status), err.what,
                     err.where);
    }
}

static void test_malformed(void **state) {
    const char *mode = getenv("TANDEM_MALFORMED");
    const char *colon = mode != NULL ? strchr(mode, ':') : NULL;
    const bool is_all = mode != NULL && strcmp(mode, "all") == 0;
    uint32_t first = 0;
    uint32_t stride = is_all ? 1 : 3;
    tally t = {{0, 0, 0}, 0, 0, 0, 0};
    (void)state;
    if (colon != NULL) {
        if (strncmp(mode, "tokenizer:", 10) != 0) {
            return;
        }
        first = (uint32_t)strtoul(colon + 1, NULL, 10);
        stride = CASES;
    }
    for (uint32_t i = first; i < CASES && t.n_wrong <= 20; i += stride) {
        malformed_case c;
        make_case(&c, i);
        run_case(&c, i, &t, colon != NULL);
        tdm_buf_deinit(&c.text);
    }
    (void)printf("tokenizer: %zu cases (ok %zu, reject %zu, either %zu), %zu accepted, slowest "
                 "%.2f ms, largest %.2f MiB\n",
                 t.n[0] + t.n[1] + t.n[2], t.n[EXPECT_OK], t.n[EXPECT_REJECT], t.n[EXPECT_EITHER],
                 t.n_accepted, (double)t.ns_max / 1e6, (double)t.peak_max / 1048576.0);
    (void)fflush(stdout);
    assert_int_equal(t.n_wrong, 0);
    if (colon == NULL) { /* a reader that refuses all passes nothing */
        assert_true(t.n[EXPECT_OK] * 10 > CASES / stride);
        assert_true(t.n[EXPECT_EITHER] * 5 < CASES / stride);
    }
}

/* The six by name, whatever the sample. */
static void test_known_panics(void **state) {
    tally t = {{0, 0, 0}, 0, 0, 0, 0};
    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        malformed_case c;
        make_case(&c, i);
        assert_int_equal(c.expected, EXPECT_REJECT);
        run_case(&c, i, &t, false);
        tdm_buf_deinit(&c.text);
    }
    assert_int_equal(t.n_wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_panics),
        cmocka_unit_test(test_malformed),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
