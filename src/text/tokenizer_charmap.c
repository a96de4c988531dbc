/* SPDX-License-Identifier: Apache-2.0
 *
 * Rewriting character by character: Nmt, the parts of BertNormalizer, StripAccents, and
 * SentencePiece's character map. Bytes that are no UTF-8 pass through unchanged. */
#include "text/tokenizer_text.h"

#include "text/unicode.h"

#include <string.h>
#include <utf8proc.h>

typedef enum fate { TDM_FATE_KEPT, TDM_FATE_DROPPED, TDM_FATE_SPACE, TDM_FATE_SPACED } fate;

static fate fate_nmt(uint32_t cp) {
    if ((cp >= 0x01 && cp <= 0x08) || cp == 0x0B || (cp >= 0x0E && cp <= 0x1F) || cp == 0x7F ||
        cp == 0x8F || cp == 0x9F) {
        return TDM_FATE_DROPPED;
    }
    return cp == 0x09 || cp == 0x0A || cp == 0x0C || cp == 0x0D || cp == 0x1680 ||
                   (cp >= 0x200B && cp <= 0x200F) || cp == 0x2028 || cp == 0x2029 || cp == 0x2581 ||
                   cp == 0xFEFF || cp == 0xFFFD
               ? TDM_FATE_SPACE
               : TDM_FATE_KEPT;
}

static fate fate_clean(uint32_t cp) {
    if (cp < 0x7F && cp >= 0x20) {
        return TDM_FATE_KEPT;
    }
    if (tdm_unicode_is_older(TDM_OLDER_CONTROL, cp)) {
        return TDM_FATE_DROPPED;
    }
    return tdm_unicode_is_space(cp) ? TDM_FATE_SPACE : TDM_FATE_KEPT;
}

static fate fate_cjk(uint32_t cp) {
    /* U+2B920, not U+2B820, is the reference's slip, which models were trained with. */
    const bool is_cjk = (cp >= 0x4E00 && cp <= 0x9FFF) || (cp >= 0x3400 && cp <= 0x4DBF) ||
                        (cp >= 0x20000 && cp <= 0x2A6DF) || (cp >= 0x2A700 && cp <= 0x2B81F) ||
                        (cp >= 0x2B920 && cp <= 0x2CEAF) || (cp >= 0xF900 && cp <= 0xFAFF) ||
                        (cp >= 0x2F800 && cp <= 0x2FA1F);
    return is_cjk ? TDM_FATE_SPACED : TDM_FATE_KEPT;
}

static fate fate_of(tdm_text_map_kind map, uint32_t cp) {
    switch (map) {
    case TDM_MAP_NMT:
        return fate_nmt(cp);
    case TDM_MAP_BERT_CLEAN:
        return fate_clean(cp);
    case TDM_MAP_BERT_CJK:
        return fate_cjk(cp);
    case TDM_MAP_BERT_ACCENTS:
        return tdm_unicode_is_older(TDM_OLDER_NONSPACING, cp) ? TDM_FATE_DROPPED : TDM_FATE_KEPT;
    case TDM_MAP_MARKS:
        return tdm_unicode_is_older(TDM_OLDER_MARK, cp) ? TDM_FATE_DROPPED : TDM_FATE_KEPT;
    }
    return TDM_FATE_KEPT;
}

tdm_status tdm_text_map_chars(const tdm_text_op *op, const tdm_text_view *in,
                              tdm_text_builder *out) {
    size_t kept = 0; /* what stands in [kept, pos) is copied when something else comes */
    size_t pos = 0;
    while (pos < in->len) {
        uint32_t cp = (uint8_t)in->data[pos];
        bool is_ok = true;
        const size_t n =
            cp < 0x80 ? 1 : tdm_unicode_decode(in->data + pos, in->len - pos, &cp, &is_ok);
        const fate f = is_ok ? fate_of(op->map, cp) : TDM_FATE_KEPT;
        if (f != TDM_FATE_KEPT) {
            const tdm_origin origin = tdm_text_origin(in, pos, pos + n);
            TDM_TRY(tdm_text_copy(out, in, kept, pos));
            if (f != TDM_FATE_DROPPED) {
                TDM_TRY(tdm_text_put(out, " ", 1, origin));
            }
            if (f == TDM_FATE_SPACED) {
                TDM_TRY(tdm_text_copy(out, in, pos, pos + n));
                TDM_TRY(tdm_text_put(out, " ", 1, origin));
            }
            kept = pos + n;
        }
        pos += n;
    }
    return tdm_text_copy(out, in, kept, in->len);
}

/* End of the grapheme cluster at pos. */
static size_t cluster_end(const tdm_text_view *in, size_t pos) {
    uint32_t cp = 0;
    bool is_ok = false;
    utf8proc_int32_t state = 0;
    size_t end = pos + tdm_unicode_decode(in->data + pos, in->len - pos, &cp, &is_ok);
    while (is_ok && end < in->len) {
        uint32_t next = 0;
        const size_t n = tdm_unicode_decode(in->data + end, in->len - end, &next, &is_ok);
        if (!is_ok || utf8proc_grapheme_break_stateful((utf8proc_int32_t)cp, (utf8proc_int32_t)next,
                                                       &state)) {
            break;
        }
        cp = next;
        end += n;
    }
    return end;
}

#define CLUSTER_BYTES_MAX 6 /* clusters below that are looked up as a whole, as in the reference */

static tdm_status map_characters(const tdm_charsmap *map, const tdm_text_view *in, size_t begin,
                                 size_t end, tdm_text_builder *out) {
    for (size_t pos = begin; pos < end;) {
        uint32_t cp = 0;
        const char *text = NULL;
        size_t len = 0;
        const size_t n = tdm_utf8_decode(in->data + pos, end - pos, &cp, NULL);
        TDM_TRY(tdm_charsmap_find(map, in->data + pos, n, false, &text, &len) > 0
                    ? tdm_text_put(out, text, len, tdm_text_origin(in, pos, pos + n))
                    : tdm_text_copy(out, in, pos, pos + n));
        pos += n;
    }
    return TDM_OK;
}

tdm_status tdm_text_apply_charsmap(const tdm_text_op *op, const tdm_text_view *in,
                                   tdm_text_builder *out) {
    const tdm_charsmap *map = op->charsmap;
    size_t pos = 0;
    while (pos < in->len) {
        const char *text = NULL;
        size_t len = 0;
        if (map->is_longest) {
            size_t n = tdm_charsmap_find(map, in->data + pos, in->len - pos, true, &text, &len);
            if (n > 0) {
                TDM_TRY(tdm_text_put(out, text, len, tdm_text_origin(in, pos, pos + n)));
            } else {
                uint32_t cp = 0;
                n = tdm_utf8_decode(in->data + pos, in->len - pos, &cp, NULL);
                TDM_TRY(tdm_text_copy(out, in, pos, pos + n));
            }
            pos += n;
            continue;
        }
        const size_t end = cluster_end(in, pos);
        if (end - pos < CLUSTER_BYTES_MAX &&
            tdm_charsmap_find(map, in->data + pos, end - pos, false, &text, &len) > 0) {
            TDM_TRY(tdm_text_put(out, text, len, tdm_text_origin(in, pos, end)));
        } else {
            TDM_TRY(map_characters(map, in, pos, end, out));
        }
        pos = end;
    }
    return TDM_OK;
}
