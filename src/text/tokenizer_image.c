/* SPDX-License-Identifier: Apache-2.0
 *
 * One walk over a tokenizer serves both ways: each step writes a part, or reads it into the same
 * place, so that the two cannot disagree. The first failure stays in status and makes the rest of
 * the walk do nothing. What the walk has read is looked at by tokenizer_image_check.c. */
#include "text/tokenizer_image.h"

#include "text/tokenizer_priv.h"

#include "base/arith.h"
#include "base/hash.h"
#include "base/system.h"

#include <stdatomic.h>
#include <string.h>

#define NO_TEXT UINT64_MAX
#define NO_REF UINT32_MAX
#define LISTS_MAX 64u /* operations, stages, ids around a text */
#define KNOWN_MAX 2
#define SLOTS_MAX ((size_t)1 << 28)
#define RULES_MAX 1024u

static const char MAGIC[8] = {'T', 'D', 'M', 'T', 'O', 'K', 'E', 'N'};

typedef struct image_head {
    char magic[8];
    uint64_t writer;
    uint64_t bytes;
    uint64_t texts_at;
    uint64_t check; /* hash of the head with 0 here, then of the rest */
} image_head;

_Static_assert(sizeof(image_head) == 40, "no padding that would be written undefined");

typedef struct file_ref {
    uint32_t at; /* in the texts; NO_REF: none */
    uint32_t len;
} file_ref;

typedef struct image {
    tdm_status status;
    bool is_reading;
    /* writing */
    tdm_buf *out;
    tdm_buf texts;
    const tdm_text_ref *known[KNOWN_MAX]; /* lists whose texts others may lie in, id by id */
    size_t known_at[KNOWN_MAX];           /* where their file_refs lie in out */
    size_t n_known;
    /* reading */
    tdm_arena *arena;
    const uint8_t *data;
    size_t at, end; /* of the parts */
    const char *in; /* texts */
    size_t in_bytes;
} image;

static void fail(image *m, tdm_status status) {
    if (m->status == TDM_OK) {
        m->status = status;
    }
}

static void require(image *m, bool is_true) {
    if (!is_true) {
        fail(m, m->is_reading ? TDM_E_FORMAT : TDM_E_UNSUPPORTED);
    }
}

/* ---- parts ---- */

static void append(image *m, tdm_buf *to, const void *bytes, size_t n) {
    if (m->status == TDM_OK && n > 0) {
        m->status = tdm_buf_append(to, bytes, n);
    }
}

static const uint8_t *take(image *m, size_t n) {
    require(m, tdm_range_is_inside(m->at, n, m->end));
    if (m->status != TDM_OK) {
        return NULL;
    }
    m->at += n; /* bounded: inside, by the test */
    return &m->data[m->at - n];
}

/* A value of no pointers. */
static void raw(image *m, void *value, size_t bytes) {
    if (!m->is_reading) {
        append(m, m->out, value, bytes);
        return;
    }
    const uint8_t *from = take(m, bytes);
    if (from != NULL) {
        memcpy(value, from, bytes);
    } else {
        memset(value, 0, bytes);
    }
}

static void flag(image *m, bool *value) {
    uint8_t byte = *value ? 1 : 0;
    raw(m, &byte, 1);
    *value = byte == 1;
}

static void i32(image *m, int32_t *value) {
    raw(m, value, sizeof *value);
}

static void u32(image *m, uint32_t *value) {
    raw(m, value, sizeof *value);
}

/* A number of at most max. */
static void size(image *m, size_t *value, size_t max) {
    uint64_t wide = *value;
    raw(m, &wide, sizeof wide);
    require(m, wide <= max);
    *value = m->status == TDM_OK ? (size_t)wide : 0;
}

/* A kind: 0 to last. */
static uint32_t choice(image *m, uint32_t value, uint32_t last) {
    raw(m, &value, sizeof value);
    require(m, value <= last);
    return m->status == TDM_OK ? value : 0;
}

static void align(image *m) {
    static const uint8_t ZEROS[TDM_IMAGE_ALIGN] = {0};
    size_t padded = 0;
    if (!m->is_reading) {
        append(m, m->out, ZEROS,
               (TDM_IMAGE_ALIGN - m->out->len % TDM_IMAGE_ALIGN) % TDM_IMAGE_ALIGN);
    } else if (tdm_pad_size(m->at, TDM_IMAGE_ALIGN, &padded) && padded <= m->end) {
        m->at = padded;
    } else {
        fail(m, TDM_E_FORMAT);
    }
}

/* An array of n elements; what is read stays where it lies. */
static void *array(image *m, const void *elems, size_t n, size_t elem_bytes) {
    size_t bytes = 0;
    require(m, tdm_mul_size(n, elem_bytes, &bytes));
    align(m);
    if (m->is_reading) {
        return (void *)(uintptr_t)take(m, bytes); /* nobody writes to a tokenizer that is made */
    }
    append(m, m->out, elems, bytes);
    return (void *)(uintptr_t)elems;
}

/* The same, where there may be none. */
static void *array_or_null(image *m, const void *elems, size_t n, size_t elem_bytes) {
    bool has_one = elems != NULL;
    flag(m, &has_one);
    return has_one ? array(m, elems, n, elem_bytes) : NULL;
}

/* New elements when reading, the same when writing. */
static void *make_array(image *m, void *elems, size_t n, size_t elem_bytes) {
    if (!m->is_reading || m->status != TDM_OK || n == 0) {
        return elems;
    }
    void *made = tdm_arena_calloc(m->arena, n, elem_bytes);
    if (made == NULL) {
        fail(m, TDM_E_NOMEM);
    }
    return made;
}

/* ---- texts ---- */

/* Puts a text behind the others; where. */
static size_t put_text(image *m, const char *data, size_t len) {
    const size_t at = m->texts.len;
    append(m, &m->texts, data, len);
    append(m, &m->texts, "", 1);
    return at;
}

static void text(image *m, const char **data, size_t *len) {
    uint64_t place[2] = {NO_TEXT, *len};
    if (!m->is_reading && *data != NULL) {
        place[0] = put_text(m, *data, *len);
    }
    raw(m, place, sizeof place);
    if (m->is_reading) {
        const bool is_there = place[0] != NO_TEXT;
        require(m, !is_there || (place[0] < m->in_bytes && place[1] < m->in_bytes - place[0] &&
                                 m->in[place[0] + place[1]] == '\0'));
        *data = is_there && m->status == TDM_OK ? &m->in[place[0]] : NULL;
        *len = is_there && m->status == TDM_OK ? (size_t)place[1] : 0;
    }
}

static void text_ref(image *m, tdm_text_ref *ref) {
    size_t len = ref->len;
    text(m, &ref->data, &len);
    require(m, len <= UINT32_MAX);
    ref->len = (uint32_t)len;
}

/* Where ref's text lies that was put for the same id before; NO_REF: nowhere. */
static uint32_t find_known(const image *m, size_t idx, const tdm_text_ref *ref) {
    for (size_t i = 0; i < m->n_known; i++) {
        const tdm_text_ref *have = &m->known[i][idx];
        const uintptr_t begin = (uintptr_t)have->data;
        const uintptr_t want = (uintptr_t)ref->data;
        if (have->data != NULL && want >= begin && want - begin <= have->len &&
            ref->len <= have->len - (want - begin)) {
            file_ref put;
            memcpy(&put, &m->out->data[m->known_at[i] + idx * sizeof put], sizeof put);
            return put.at + (uint32_t)(want - begin); /* bounded: inside that text */
        }
    }
    return NO_REF;
}

static void write_refs(image *m, const tdm_text_ref *list, size_t n) {
    const size_t begin = m->out->len;
    for (size_t i = 0; i < n && m->status == TDM_OK; i++) {
        file_ref put = {NO_REF, 0};
        if (list[i].data != NULL) {
            put = (file_ref){find_known(m, i, &list[i]), list[i].len};
        }
        if (list[i].data != NULL && put.at == NO_REF) {
            const size_t at = put_text(m, list[i].data, list[i].len);
            require(m, at < NO_REF);
            put.at = (uint32_t)at;
        }
        append(m, m->out, &put, sizeof put);
    }
    if (m->n_known < KNOWN_MAX) {
        m->known[m->n_known] = list;
        m->known_at[m->n_known++] = begin;
    }
}

static tdm_text_ref *read_refs(image *m, size_t n, bool has_nul) {
    const file_ref *from = (const file_ref *)(const void *)take(m, n * sizeof *from);
    tdm_text_ref *made =
        m->status == TDM_OK ? tdm_arena_alloc(m->arena, n * sizeof *made, 16) : NULL;
    if (made == NULL) {
        fail(m, TDM_E_NOMEM);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        const file_ref ref = from[i];
        made[i] = (tdm_text_ref){NULL, 0};
        if (ref.at == NO_REF) {
            continue;
        }
        if (!tdm_range_is_inside(ref.at, (size_t)ref.len + has_nul, m->in_bytes) ||
            (has_nul && m->in[(size_t)ref.at + ref.len] != '\0')) {
            fail(m, TDM_E_FORMAT);
            return NULL;
        }
        made[i] = (tdm_text_ref){&m->in[ref.at], ref.len};
    }
    return made;
}

/* A text for each id, or none. Those that lie in earlier lists' texts are put once; the first list
 * is the spellings, which end in a NUL. */
static tdm_text_ref *refs(image *m, tdm_text_ref *list, size_t n) {
    const bool is_first = m->n_known == 0;
    align(m);
    if (m->is_reading) {
        m->n_known++; /* bounded: a handful of lists */
        return read_refs(m, n, is_first);
    }
    write_refs(m, list, n);
    return list;
}

static tdm_text_ref *refs_or_null(image *m, const tdm_text_ref *list, size_t n) {
    bool has_one = list != NULL;
    flag(m, &has_one);
    return has_one ? refs(m, (tdm_text_ref *)(uintptr_t)list, n) : NULL;
}

/* ---- the walk ---- */

static void map(image *m, tdm_text_map *map, const tdm_text_ref *texts) {
    size_t n_slots = map->slots != NULL ? map->mask + 1 : 0;
    size(m, &n_slots, SLOTS_MAX);
    require(m, n_slots == 0 || tdm_is_power_of_two(n_slots));
    map->slots = array_or_null(m, map->slots, n_slots, sizeof map->slots[0]);
    map->mask = n_slots - 1;
    map->texts = texts;
    u32(m, &map->len_max);
    require(m, (n_slots == 0) == (map->slots == NULL));
}

static void vocabulary(image *m, tdm_tokenizer *t) {
    i32(m, &t->n_vocab);
    require(m, t->n_vocab >= 1 && t->n_vocab <= TDM_VOCAB_MAX);
    const size_t n = m->status == TDM_OK ? (size_t)t->n_vocab : 0;
    t->unicode = array(m, t->unicode, 1, sizeof *t->unicode);
    t->kinds = array(m, t->kinds, n, 1);
    t->flags = array(m, t->flags, n, 1);
    t->spellings = refs(m, t->spellings, n);
    map(m, &t->by_spelling, t->spellings);
    /* texts of its own: NULL says the spellings */
    const bool is_own = t->by_bytes.texts != t->spellings;
    tdm_text_ref *texts = refs_or_null(m, is_own ? t->by_bytes.texts : NULL, n);
    map(m, &t->by_bytes, texts != NULL ? texts : t->spellings);
    t->pieces = refs(m, t->pieces, n);
    t->decoder.first_pieces = refs_or_null(m, t->decoder.first_pieces, n);
}

static void bpe(image *m, tdm_tokenizer *t) {
    tdm_bpe *b = &t->bpe;
    size_t n_slots = b->mask + 1;
    flag(m, &b->is_byte_level);
    flag(m, &b->has_byte_tokens);
    flag(m, &b->takes_whole_word);
    flag(m, &b->is_unk_fused);
    flag(m, &b->is_local);
    i32(m, &b->unk_id);
    raw(m, b->byte_ids, sizeof b->byte_ids);
    raw(m, b->fallback_ids, sizeof b->fallback_ids);
    size(m, &n_slots, SLOTS_MAX);
    require(m, tdm_is_power_of_two(n_slots));
    b->mask = n_slots - 1;
    b->filter_mask = n_slots * 8 - 1; /* bounded: by SLOTS_MAX */
    b->merges = array(m, b->merges, n_slots, sizeof b->merges[0]);
    b->filter = array(m, b->filter, n_slots, 1);
    b->byte_pairs = array_or_null(m, b->byte_pairs, 65536, sizeof b->byte_pairs[0]);
    b->char_ids = array_or_null(m, b->char_ids, 65536, sizeof b->char_ids[0]);
    b->words = &t->by_bytes;
    b->whole = make_array(m, b->whole, (size_t)t->n_vocab, sizeof b->whole[0]);
}

static void spm(image *m, tdm_tokenizer *t) {
    tdm_spm *s = &t->spm;
    s->scores = array(m, s->scores, (size_t)t->n_vocab, sizeof s->scores[0]);
    raw(m, s->byte_ids, sizeof s->byte_ids);
    i32(m, &s->unk_id);
    s->words = &t->by_spelling;
    s->kinds = t->kinds;
}

static void matcher(image *m, tdm_tokenizer *t, tdm_matcher *matcher, bool wants_normalized) {
    flag(m, &matcher->is_longest_first);
    if (m->is_reading && m->status == TDM_OK) {
        m->status = tdm_matcher_init(matcher, m->arena, t->added, t->n_added, wants_normalized,
                                     matcher->is_longest_first);
    }
}

static void added(image *m, tdm_tokenizer *t) {
    size_t bytes = 0; /* of the trie, which may not outgrow the file */
    size(m, &t->n_added, (size_t)t->n_vocab);
    t->added = make_array(m, t->added, t->n_added, sizeof t->added[0]);
    for (size_t i = 0; i < t->n_added && m->status == TDM_OK; i++) {
        tdm_added_token *token = &t->added[i];
        tdm_text_ref ref = {token->text, token->len};
        i32(m, &token->id);
        text_ref(m, &ref);
        flag(m, &token->is_special);
        flag(m, &token->is_single_word);
        flag(m, &token->is_left_stripped);
        flag(m, &token->is_right_stripped);
        flag(m, &token->is_normalized);
        require(m, ref.data != NULL && tdm_add_size(bytes, ref.len, &bytes) &&
                       (!m->is_reading || bytes <= m->in_bytes));
        token->text = ref.data;
        token->len = ref.len;
    }
    matcher(m, t, &t->raw_matcher, false);
    matcher(m, t, &t->normalized_matcher, true);
    flag(m, &t->has_special_normalized);
}

static void operation(image *m, tdm_text_op *op) {
    require(m, op->expr == NULL && op->charsmap == NULL);
    op->kind = (tdm_text_op_kind)choice(m, (uint32_t)op->kind, TDM_TEXT_PREFIX_SPACE);
    op->map = (tdm_text_map_kind)choice(m, (uint32_t)op->map, TDM_MAP_MARKS);
    text(m, &op->a, &op->a_len);
    text(m, &op->b, &op->b_len);
    flag(m, &op->is_composed);
    flag(m, &op->is_compat);
    op->inert = array_or_null(m, op->inert, TDM_UNICODE_BMP / 8, 1);
    flag(m, &op->is_left);
    flag(m, &op->is_right);
    flag(m, &op->is_first_only);
    flag(m, &op->has_prepend);
}

/* Scanners by number: the two that no expression stands for, then the table. */
static const tdm_scan_rule *rule_at(uint32_t code) {
    switch (code) {
    case 0:
        return NULL;
    case 1:
        return tdm_scan_punctuation();
    case 2:
        return tdm_scan_digits(false);
    case 3:
        return tdm_scan_digits(true);
    default:
        return tdm_scan_at(code - 4);
    }
}

static void scanner(image *m, const tdm_scan_rule **rule) {
    uint32_t code = 0;
    while (!m->is_reading && rule_at(code) != *rule) {
        code++; /* every rule is one of the room's */
    }
    code = choice(m, code, RULES_MAX);
    *rule = rule_at(code);
    require(m, code == 0 || *rule != NULL);
}

static void stage(image *m, tdm_pretok_stage *stage) {
    bool has_op = stage->op != NULL;
    tdm_text_op *op = (tdm_text_op *)(uintptr_t)stage->op;
    require(m, stage->expr == NULL);
    flag(m, &has_op);
    if (has_op) {
        op = make_array(m, op, 1, sizeof *op);
        stage->op = op;
    }
    if (has_op && m->status == TDM_OK) {
        operation(m, op);
    }
    scanner(m, &stage->rule);
    text(m, &stage->literal, &stage->literal_len);
    stage->behavior =
        (tdm_split_behavior)choice(m, (uint32_t)stage->behavior, TDM_SPLIT_CONTIGUOUS);
    flag(m, &stage->is_inverted);
}

static void pipeline(image *m, tdm_tokenizer *t) {
    size(m, &t->n_normalizers, LISTS_MAX);
    t->normalizers = make_array(m, t->normalizers, t->n_normalizers, sizeof t->normalizers[0]);
    for (size_t i = 0; i < t->n_normalizers && m->status == TDM_OK; i++) {
        operation(m, &t->normalizers[i]);
    }
    size(m, &t->n_stages, LISTS_MAX);
    t->stages = make_array(m, t->stages, t->n_stages, sizeof t->stages[0]);
    for (size_t i = 0; i < t->n_stages && m->status == TDM_OK; i++) {
        stage(m, &t->stages[i]);
    }
}

/* Bytes that are 0 or 1 once they are read. */
static const bool *cuts(image *m, const bool *crosses) {
    const uint8_t *bytes = array_or_null(m, crosses, 256, 1);
    if (!m->is_reading || bytes == NULL) {
        return crosses;
    }
    bool *made = make_array(m, NULL, 256, sizeof *made);
    for (size_t i = 0; i < 256 && made != NULL; i++) {
        made[i] = bytes[i] != 0;
    }
    return made;
}

static void facts(image *m, tdm_tokenizer *t) {
    tdm_decoder *d = &t->decoder;
    size_t len = strlen(t->description);
    size(m, &t->n_prefix, LISTS_MAX);
    t->prefix_ids = array(m, t->prefix_ids, t->n_prefix, sizeof t->prefix_ids[0]);
    size(m, &t->n_suffix, LISTS_MAX);
    t->suffix_ids = array(m, t->suffix_ids, t->n_suffix, sizeof t->suffix_ids[0]);
    d->mode = (tdm_decode_mode)choice(m, (uint32_t)d->mode, TDM_DECODE_RUNS);
    flag(m, &d->has_separator);
    u32(m, &d->n_stripped);
    text_ref(m, &d->strip_text);
    i32(m, &t->bos);
    i32(m, &t->eos);
    i32(m, &t->unk);
    flag(m, &t->adds_bos);
    size(m, &t->n_eog, TDM_EOG_MAX);
    raw(m, t->eog, sizeof t->eog);
    text(m, &t->chat_template, &t->chat_template_len);
    text(m, &t->description, &len);
    require(m, t->description != NULL);
}

static void walk(image *m, tdm_tokenizer *t) {
    t->model = (tdm_model_kind)choice(m, (uint32_t)t->model, TDM_MODEL_WORDPIECE);
    require(m, t->model == TDM_MODEL_BPE || t->model == TDM_MODEL_SPM);
    vocabulary(m, t);
    if (m->status == TDM_OK && t->model == TDM_MODEL_BPE) {
        bpe(m, t);
    } else if (m->status == TDM_OK) {
        spm(m, t);
    }
    t->crosses = cuts(m, t->crosses);
    pipeline(m, t);
    if (m->status == TDM_OK) {
        added(m, t);
        facts(m, t);
    }
}

/* ---- both ends ---- */

/* This build and the library of characters; 0: unknown. */
static uint64_t writer_of_images(void) {
    uint8_t build[TDM_BUILD_ID_MAX];
    const size_t n = tdm_build_id(build);
    const char *library = tdm_unicode_library();
    return n > 0 ? tdm_hash64_seeded(library, strlen(library), tdm_hash64(build, n)) : 0;
}

static uint64_t check_of(const image_head *head, const uint8_t *rest, size_t bytes) {
    image_head blank = *head;
    blank.check = 0;
    return tdm_hash64_seeded(rest, bytes, tdm_hash64(&blank, sizeof blank));
}

static void write_all(image *m, tdm_tokenizer *t) {
    image_head head = {.writer = writer_of_images()};
    require(m, head.writer != 0);
    raw(m, &head, sizeof head);
    walk(m, t);
    head.texts_at = m->out->len;
    append(m, m->out, m->texts.data, m->texts.len);
    if (m->status == TDM_OK) {
        memcpy(head.magic, MAGIC, sizeof MAGIC);
        head.bytes = m->out->len;
        head.check =
            check_of(&head, (const uint8_t *)m->out->data + sizeof head, m->out->len - sizeof head);
        memcpy(m->out->data, &head, sizeof head);
    }
}

tdm_status tdm_tokenizer_image_write(const tdm_tokenizer *tokenizer, tdm_buf *out, tdm_error *err) {
    image m = {.out = out};
    tdm_tokenizer copy = *tokenizer; /* the walk puts back what it finds */
    TDM_CHECK(out->len == 0);
    if (tokenizer->by_bytes.texts == tokenizer->spellings || tokenizer->by_bytes.texts == NULL) {
        copy.by_bytes.texts = copy.spellings;
    }
    tdm_buf_init(&m.texts, out->alloc, 0);
    write_all(&m, &copy);
    tdm_buf_deinit(&m.texts);
    if (m.status == TDM_E_UNSUPPORTED) {
        return tdm_fail(err, m.status, "a tokenizer of this kind is made at every load");
    }
    return m.status == TDM_OK ? TDM_OK : tdm_fail_nomem(err, "a tokenizer's tables");
}

static tdm_status check_head(image_head *head, const uint8_t *data, size_t bytes, tdm_error *err) {
    if (bytes >= sizeof *head) {
        memcpy(head, data, sizeof *head);
    }
    if (bytes < sizeof *head || memcmp(head->magic, MAGIC, sizeof MAGIC) != 0 ||
        head->bytes != bytes || head->texts_at < sizeof *head || head->texts_at > bytes ||
        check_of(head, data + sizeof *head, bytes - sizeof *head) != head->check) {
        return tdm_fail(err, TDM_E_FORMAT, "the tokenizer's tables are damaged");
    }
    if (head->writer == 0 || head->writer != writer_of_images()) {
        return tdm_fail(err, TDM_E_STATE, "the tokenizer's tables are of another build");
    }
    return TDM_OK;
}

tdm_status tdm_tokenizer_image_open(tdm_tokenizer **out, const tdm_alloc *alloc,
                                    const uint8_t *data, size_t bytes, tdm_error *err) {
    image_head head = {.check = 0};
    *out = NULL;
    TDM_TRY(check_head(&head, data, bytes, err));
    tdm_tokenizer *t = tdm_mem_calloc(alloc, 1, sizeof *t);
    if (t == NULL) {
        return tdm_fail_nomem(err, "a tokenizer");
    }
    t->alloc = alloc;
    t->description = "";
    tdm_arena_init(&t->arena, alloc);
    image m = {.is_reading = true,
               .arena = &t->arena,
               .data = data,
               .at = sizeof head,
               .end = (size_t)head.texts_at,
               .in = (const char *)data + head.texts_at,
               .in_bytes = bytes - (size_t)head.texts_at};
    walk(&m, t);
    require(&m, m.status != TDM_OK || tdm_image_is_sound(t));
    if (m.status != TDM_OK) {
        tdm_tokenizer_destroy(t);
        return m.status == TDM_E_FORMAT
                   ? tdm_fail(err, TDM_E_FORMAT, "the tokenizer's tables are damaged")
                   : tdm_fail_nomem(err, "a tokenizer");
    }
    *out = t;
    return TDM_OK;
}
