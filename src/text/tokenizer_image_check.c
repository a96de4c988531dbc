/* SPDX-License-Identifier: Apache-2.0
 *
 * What keeps a tokenizer that came from an image inside its memory. Each table is met once, from
 * front to back; arrays' lengths are right already, since the walk computed them. What is wrong but
 * leads nowhere (a rank, a score, a merge of other tokens) is not looked for: the hash told damage. */
#include "text/tokenizer_image.h"

#include "text/tokenizer_priv.h"

#include <math.h>
#include <string.h>

/* Whether every id is in [first, n_vocab); first is 0 or -1. */
static bool has_ids(const int32_t *ids, size_t n, int32_t first, int32_t n_vocab) {
    const uint32_t limit = (uint32_t)(n_vocab - first);
    uint32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t place = (uint32_t)ids[i] - (uint32_t)first;
        largest = place > largest ? place : largest;
    }
    return n == 0 || largest < limit;
}

static bool is_id(int32_t id, int32_t first, int32_t n_vocab) {
    return has_ids(&id, 1, first, n_vocab);
}

/* A search ends at a free slot: there is one. */
static bool is_map_sound(const tdm_text_map *map, int32_t n_vocab) {
    const size_t n_slots = map->slots != NULL ? map->mask + 1 : 0;
    uint32_t largest = 0;
    size_t n_used = 0;
    for (size_t i = 0; i < n_slots; i++) {
        const uint32_t place = (uint32_t)map->slots[i].id + 1; /* 0: free */
        largest = place > largest ? place : largest;
        n_used += place != 0;
    }
    return n_slots == 0 || (largest <= (uint32_t)n_vocab && n_used < n_slots);
}

static bool are_texts_sound(const tdm_tokenizer *t) {
    uint8_t worst = 0;
    uint32_t longest = 0;
    for (int32_t id = 0; id < t->n_vocab; id++) {
        worst = t->kinds[id] > worst ? t->kinds[id] : worst;
        longest = t->spellings[id].len > longest ? t->spellings[id].len : longest;
    }
    return worst <= TDM_TOKEN_UNUSED && longest <= TDM_TOKEN_BYTES_MAX;
}

static bool are_merges_sound(const tdm_bpe *b, int32_t n_vocab) {
    uint32_t largest = 0;
    size_t n_used = 0;
    for (size_t i = 0; i <= b->mask; i++) {
        const bool is_used = b->merges[i].key != UINT64_MAX;
        const uint32_t id = is_used ? (uint32_t)b->merges[i].id : 0;
        largest = id > largest ? id : largest;
        n_used += is_used;
    }
    return largest < (uint32_t)n_vocab && n_used <= b->mask;
}

static bool are_pairs_sound(const tdm_bpe *b) {
    bool is_sound = true;
    for (size_t i = 0; i < 65536; i++) {
        const size_t pair = b->byte_pairs[i];
        is_sound =
            is_sound && pair <= b->mask + 1 && (pair == 0 || b->merges[pair - 1].key != UINT64_MAX);
    }
    return is_sound;
}

static bool is_bpe_sound(const tdm_bpe *b, int32_t n_vocab) {
    const int32_t *bytes = b->is_byte_level ? b->byte_ids : b->fallback_ids;
    /* a word of bytes goes straight to their tokens where pairs are tabled, and in windows where it
     * is local: then every byte has one */
    const bool has_all = has_ids(bytes, 256, 0, n_vocab);
    return has_ids(b->byte_ids, 256, -1, n_vocab) && has_ids(b->fallback_ids, 256, -1, n_vocab) &&
           is_id(b->unk_id, -1, n_vocab) && are_merges_sound(b, n_vocab) &&
           (!b->is_local || (has_all && (b->is_byte_level || b->has_byte_tokens))) &&
           (b->byte_pairs == NULL || (b->is_byte_level && has_all && are_pairs_sound(b))) &&
           (b->char_ids == NULL || has_ids(b->char_ids, 65536, -1, n_vocab));
}

static bool is_spm_sound(const tdm_spm *s, int32_t n_vocab) {
    bool is_finite = true;
    for (int32_t id = 0; id < n_vocab; id++) {
        is_finite = is_finite && isfinite(s->scores[id]);
    }
    return is_finite && has_ids(s->byte_ids, 256, -1, n_vocab) && is_id(s->unk_id, -1, n_vocab);
}

/* An operation finds the texts that it works with. */
static bool is_op_sound(const tdm_text_op *op) {
    switch (op->kind) {
    case TDM_TEXT_PREPEND:
    case TDM_TEXT_METASPACE:
    case TDM_TEXT_SQUEEZE:
    case TDM_TEXT_PREFIX_SPACE:
        return op->a != NULL && op->a_len > 0;
    case TDM_TEXT_REPLACE:
        return op->a != NULL && op->a_len > 0 && op->b != NULL;
    case TDM_TEXT_NORMALIZE:
    case TDM_TEXT_LOWERCASE:
    case TDM_TEXT_STRIP:
    case TDM_TEXT_MAP:
        return true;
    case TDM_TEXT_REPLACE_EXPR:
    case TDM_TEXT_CHARSMAP:
        break;
    }
    return false; /* they have no image */
}

static bool is_pipeline_sound(const tdm_tokenizer *t) {
    bool is_sound = true;
    for (size_t i = 0; i < t->n_normalizers; i++) {
        is_sound = is_sound && is_op_sound(&t->normalizers[i]);
    }
    for (size_t i = 0; i < t->n_stages; i++) {
        const tdm_pretok_stage *s = &t->stages[i];
        const bool has_split = s->rule != NULL || (s->literal != NULL && s->literal_len > 0);
        is_sound = is_sound && (s->op != NULL ? is_op_sound(s->op) : has_split);
    }
    for (size_t i = 0; i < t->n_added; i++) {
        is_sound = is_sound && is_id(t->added[i].id, 0, t->n_vocab);
    }
    return is_sound;
}

bool tdm_image_is_sound(const tdm_tokenizer *t) {
    const int32_t n = t->n_vocab;
    return are_texts_sound(t) && is_map_sound(&t->by_spelling, n) &&
           is_map_sound(&t->by_bytes, n) &&
           (t->model == TDM_MODEL_BPE ? is_bpe_sound(&t->bpe, n) : is_spm_sound(&t->spm, n)) &&
           is_pipeline_sound(t) && has_ids(t->prefix_ids, t->n_prefix, 0, n) &&
           has_ids(t->suffix_ids, t->n_suffix, 0, n) && is_id(t->bos, -1, n) &&
           is_id(t->eos, -1, n) && is_id(t->unk, -1, n) && has_ids(t->eog, t->n_eog, 0, n) &&
           (t->decoder.n_stripped == 0 || t->decoder.strip_text.data != NULL);
}
