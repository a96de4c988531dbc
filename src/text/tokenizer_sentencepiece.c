/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer.model of SentencePiece: a protocol buffer with pieces, scores, types, the trainer's and
 * the normalizer's settings. The reader knows the wire format and no more; every length is checked
 * against what is left. Source: sentencepiece_model.proto. */
#include "text/tokenizer_files.h"
#include "text/tokenizer_gguf.h"

#include <stdio.h>
#include <string.h>

typedef struct message {
    const uint8_t *data;
    size_t len;
    size_t pos;
} message;

typedef struct field {
    uint32_t number;
    uint32_t wire;  /* 0 varint, 1 64 bits, 2 bytes, 5 32 bits */
    uint64_t value; /* varint, 32 and 64 bits */
    message nested; /* bytes */
} field;

static bool read_varint(message *m, uint64_t *out) {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
        if (m->pos == m->len) {
            return false;
        }
        const uint8_t byte = m->data[m->pos++];
        value |= (uint64_t)(byte & 0x7F) << shift;
        if ((byte & 0x80) == 0) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool read_fixed(message *m, size_t bytes, uint64_t *out) {
    *out = 0;
    if (m->len - m->pos < bytes) {
        return false;
    }
    for (size_t i = 0; i < bytes; i++) {
        *out |= (uint64_t)m->data[m->pos++] << (8 * i);
    }
    return true;
}

/* False at the end (*is_ok stays) and on damage (*is_ok false). */
static bool next_field(message *m, field *out, bool *is_ok) {
    uint64_t tag = 0;
    if (m->pos == m->len) {
        return false;
    }
    memset(out, 0, sizeof(*out));
    *is_ok = read_varint(m, &tag) && tag >> 3 > 0 && tag >> 3 < (uint64_t)1 << 29;
    if (!*is_ok) {
        return false;
    }
    out->number = (uint32_t)(tag >> 3);
    out->wire = (uint32_t)(tag & 7);
    switch (out->wire) {
    case 0:
        *is_ok = read_varint(m, &out->value);
        break;
    case 1:
        *is_ok = read_fixed(m, 8, &out->value);
        break;
    case 2:
        *is_ok = read_varint(m, &out->value) && out->value <= m->len - m->pos;
        if (*is_ok) {
            out->nested = (message){m->data + m->pos, (size_t)out->value, 0};
            m->pos += (size_t)out->value;
        }
        break;
    case 5:
        *is_ok = read_fixed(m, 4, &out->value);
        break;
    default: /* groups are not in use */
        *is_ok = false;
    }
    return *is_ok;
}

typedef struct settings {
    uint64_t model_type; /* 1 unigram, 2 BPE, 3 word, 4 character */
    bool has_byte_tokens;
    bool is_space_behind;
    int32_t unk, bos, eos;
    message charsmap;
    bool adds_prefix;
    bool is_squeezed;
    bool is_escaped;
} settings;

static tdm_status refuse_damaged(tdm_gguf_reader *r, size_t at) {
    (void)tdm_fail(r->err, TDM_E_FORMAT, "the file is no SentencePiece model, or damaged");
    tdm_err_where(r->err, "%s: byte %zu", r->name, at);
    return TDM_E_FORMAT;
}

static int32_t small_id(uint64_t value) { /* int32 in ten bytes when negative */
    return value < (uint64_t)TDM_VOCAB_MAX ? (int32_t)value : -1;
}

static tdm_status read_trainer(tdm_gguf_reader *r, message m, settings *s) {
    field f;
    bool is_ok = true;
    while (next_field(&m, &f, &is_ok)) {
        switch (f.number) {
        case 3:
            s->model_type = f.value;
            break;
        case 24:
            s->is_space_behind = f.value != 0;
            break;
        case 35:
            s->has_byte_tokens = f.value != 0;
            break;
        case 40:
            s->unk = small_id(f.value);
            break;
        case 41:
            s->bos = small_id(f.value);
            break;
        case 42:
            s->eos = small_id(f.value);
            break;
        default:
            break;
        }
    }
    return is_ok ? TDM_OK : refuse_damaged(r, m.pos);
}

static tdm_status read_normalizer(tdm_gguf_reader *r, message m, settings *s) {
    field f;
    bool is_ok = true;
    while (next_field(&m, &f, &is_ok)) {
        switch (f.number) {
        case 2:
            s->charsmap = f.nested;
            break;
        case 3:
            s->adds_prefix = f.value != 0;
            break;
        case 4:
            s->is_squeezed = f.value != 0;
            break;
        case 5:
            s->is_escaped = f.value != 0;
            break;
        default:
            break;
        }
    }
    return is_ok ? TDM_OK : refuse_damaged(r, m.pos);
}

/* Counts the pieces and reads the settings. */
static tdm_status read_outline(tdm_gguf_reader *r, message m, settings *s, size_t *out_n) {
    field f;
    bool is_ok = true;
    *out_n = 0;
    while (next_field(&m, &f, &is_ok)) {
        if (f.wire != 2) {
            continue;
        }
        *out_n += f.number == 1;
        if (f.number == 2) {
            TDM_TRY(read_trainer(r, f.nested, s));
        } else if (f.number == 3) {
            TDM_TRY(read_normalizer(r, f.nested, s));
        }
    }
    return is_ok ? TDM_OK : refuse_damaged(r, m.pos);
}

static tdm_token_kind kind_of(uint64_t type) {
    static const tdm_token_kind KINDS[] = {TDM_TOKEN_NORMAL,  TDM_TOKEN_NORMAL, TDM_TOKEN_UNKNOWN,
                                           TDM_TOKEN_CONTROL, TDM_TOKEN_USER,   TDM_TOKEN_UNUSED,
                                           TDM_TOKEN_BYTE};
    return type < sizeof(KINDS) / sizeof(KINDS[0]) ? KINDS[type] : TDM_TOKEN_UNUSED;
}

static tdm_status read_piece(tdm_gguf_reader *r, message m, int32_t id, float *out_score) {
    tdm_tokenizer *t = r->tokenizer;
    message text = {NULL, 0, 0};
    uint64_t type = 1;
    uint32_t bits = 0;
    field f;
    bool is_ok = true;
    while (next_field(&m, &f, &is_ok)) {
        if (f.number == 1 && f.wire == 2) {
            text = f.nested;
        } else if (f.number == 2 && f.wire == 5) {
            bits = (uint32_t)f.value;
        } else if (f.number == 3 && f.wire == 0) {
            type = f.value;
        }
    }
    memcpy(out_score, &bits, sizeof(bits));
    if (!is_ok || text.len == 0 || text.len > TDM_TOKEN_BYTES_MAX ||
        !(*out_score >= -3.0e38f && *out_score <= 3.0e38f)) {
        (void)tdm_fail(r->err, TDM_E_FORMAT, "piece %d has no text, a long one, or no finite score",
                       (int)id);
        tdm_err_where(r->err, "%s", r->name);
        return TDM_E_FORMAT;
    }
    TDM_TRY(tdm_tokenizer_spell(t, id, (const char *)text.data, text.len, r->err));
    t->kinds[id] = (uint8_t)kind_of(type);
    if (tdm_text_map_put(&t->by_spelling, id) >= 0 ||
        (t->kinds[id] == TDM_TOKEN_BYTE &&
         tdm_byte_token_value((const char *)text.data, text.len) < 0)) {
        (void)tdm_fail(r->err, TDM_E_FORMAT, "piece %d is there twice, or no byte <0xNN>", (int)id);
        tdm_err_where(r->err, "%s", r->name);
        return TDM_E_FORMAT;
    }
    return TDM_OK;
}

static tdm_status read_pieces(tdm_gguf_reader *r, message m, size_t n, float **out_scores) {
    tdm_tokenizer *t = r->tokenizer;
    field f;
    bool is_ok = true;
    int32_t id = 0;
    if (n == 0 || n > TDM_VOCAB_MAX) {
        (void)tdm_fail(r->err, n == 0 ? TDM_E_FORMAT : TDM_E_LIMIT,
                       "the model has no piece, or more than 2^24");
        tdm_err_where(r->err, "%s", r->name);
        return n == 0 ? TDM_E_FORMAT : TDM_E_LIMIT;
    }
    TDM_TRY(tdm_tokenizer_reserve(t, (int32_t)n, r->err));
    *out_scores = tdm_arena_calloc(&t->arena, n, sizeof(float));
    if (*out_scores == NULL) {
        return tdm_fail_nomem(r->err, "a vocabulary");
    }
    while (next_field(&m, &f, &is_ok)) {
        if (f.number == 1 && f.wire == 2) {
            TDM_TRY(read_piece(r, f.nested, id, &(*out_scores)[id]));
            id++;
        }
    }
    return TDM_OK;
}

static tdm_status make_normalizers(tdm_gguf_reader *r, const settings *s) {
    tdm_tokenizer *t = r->tokenizer;
    t->normalizers = tdm_arena_calloc(&t->arena, 4, sizeof(t->normalizers[0]));
    tdm_charsmap *map = tdm_arena_calloc(&t->arena, 1, sizeof(*map));
    if (t->normalizers == NULL || map == NULL) {
        return tdm_fail_nomem(r->err, "a tokenizer");
    }
    if (s->charsmap.len > 0) {
        const tdm_status status = tdm_charsmap_init(map, &t->arena, (const char *)s->charsmap.data,
                                                    s->charsmap.len, true, r->err);
        if (status != TDM_OK) {
            tdm_err_where(r->err, "%s", r->name);
            return status;
        }
        t->normalizers[t->n_normalizers++] =
            (tdm_text_op){.kind = TDM_TEXT_CHARSMAP, .charsmap = map};
    }
    if (s->is_squeezed) {
        t->normalizers[t->n_normalizers++] =
            (tdm_text_op){.kind = TDM_TEXT_SQUEEZE, .a = " ", .a_len = 1};
    }
    return tdm_gguf_escape_spaces(r, s->adds_prefix);
}

static tdm_status make_unigram(tdm_gguf_reader *r, const settings *s, const float *given) {
    tdm_tokenizer *t = r->tokenizer;
    tdm_unigram *u = &t->unigram;
    float worst = 0.0f;
    bool has_worst = false;
    double *scores = tdm_arena_calloc(&t->arena, (size_t)t->n_vocab, sizeof(*scores));
    if (scores == NULL) {
        return tdm_fail_nomem(r->err, "a vocabulary");
    }
    for (int32_t id = 0; id < t->n_vocab; id++) {
        scores[id] = t->kinds[id] == TDM_TOKEN_USER ? 0.0 : (double)given[id];
        if (t->kinds[id] == TDM_TOKEN_NORMAL && (!has_worst || given[id] < worst)) {
            worst = given[id];
            has_worst = true;
        }
    }
    u->scores = scores;
    u->unk_score = (double)(worst - (float)TDM_UNIGRAM_PENALTY);
    u->unk_id = t->unk;
    u->has_byte_tokens = s->has_byte_tokens;
    u->words = &t->by_bytes;
    tdm_gguf_find_bytes(t, u->fallback_ids);
    return tdm_gguf_fill_trie(r, &u->trie);
}

static tdm_status make_model(tdm_gguf_reader *r, const settings *s, const float *scores) {
    tdm_tokenizer *t = r->tokenizer;
    t->unk = s->unk < t->n_vocab ? s->unk : -1;
    if (s->model_type == 2) {
        t->model = TDM_MODEL_SPM;
        t->spm.words = &t->by_spelling;
        t->spm.kinds = t->kinds;
        t->spm.scores = scores;
        t->spm.unk_id = t->unk;
        tdm_gguf_find_bytes(t, t->spm.byte_ids);
    } else {
        t->model = TDM_MODEL_UNIGRAM;
        TDM_TRY(tdm_gguf_map_words(r));
        TDM_TRY(make_unigram(r, s, scores));
    }
    TDM_TRY(make_normalizers(r, s));
    TDM_TRY(tdm_gguf_make_pieces(r));
    TDM_TRY(tdm_gguf_read_added(r));
    return tdm_tokenizer_find_cuts(t, r->err);
}

static tdm_status read_all(tdm_gguf_reader *r, message m, const tdm_json *config) {
    settings s = {.model_type = 1,
                  .bos = 1,
                  .eos = 2,
                  .adds_prefix = true,
                  .is_squeezed = true,
                  .is_escaped = true};
    size_t n = 0;
    float *scores = NULL;
    char text[96];
    TDM_TRY(read_outline(r, m, &s, &n));
    if ((s.model_type != 1 && s.model_type != 2) || s.is_space_behind || !s.is_escaped) {
        return tdm_gguf_refuse(r, TDM_E_UNSUPPORTED, "trainer_spec",
                               "only unigram and BPE models with spaces in front are supported");
    }
    TDM_TRY(read_pieces(r, m, n, &scores));
    TDM_TRY(make_model(r, &s, scores));
    const tdm_file_facts facts = {
        .bos = s.bos, .eos = s.eos, .adds_bos = s.model_type == 2, .adds_eos = s.model_type == 1};
    TDM_TRY(tdm_tokenizer_set_facts(r->tokenizer, config, &facts, r->err));
    (void)snprintf(text, sizeof(text), "sentencepiece %s, %d tokens",
                   s.model_type == 2 ? "bpe" : "unigram", (int)r->tokenizer->n_vocab);
    r->tokenizer->description = tdm_arena_copy_text(&r->tokenizer->arena, text, strlen(text));
    return r->tokenizer->description != NULL ? TDM_OK : tdm_fail_nomem(r->err, "a tokenizer");
}

tdm_status tdm_tokenizer_from_sentencepiece(tdm_tokenizer **out, const tdm_alloc *alloc,
                                            const char *data, size_t len, const tdm_json *config,
                                            const char *name, tdm_error *err) {
    tdm_gguf_reader r = {.name = name, .err = err};
    const message m = {(const uint8_t *)(const void *)data, len, 0};
    *out = NULL;
    TDM_TRY(tdm_tokenizer_make(&r.tokenizer, alloc, err));
    const tdm_status status = read_all(&r, m, config);
    if (status == TDM_OK) {
        *out = r.tokenizer;
        r.tokenizer = NULL;
    }
    tdm_tokenizer_destroy(r.tokenizer);
    return status;
}
