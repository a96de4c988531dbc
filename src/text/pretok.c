/* SPDX-License-Identifier: Apache-2.0
 *
 * The stages, one after the other, over a list of pieces. A split stage reads one list and writes
 * the other; a rewriting stage also copies the text. Each piece is a text of its own: a lookahead
 * at its end sees the end, as in the reference. */
#include "text/pretok.h"

#include <string.h>

void tdm_pretok_scratch_init(tdm_pretok_scratch *scratch, const tdm_alloc *alloc,
                             bool wants_origins) {
    for (size_t i = 0; i < 2; i++) {
        tdm_buf_init(&scratch->pieces[i], alloc, 0);
        tdm_text_builder_init(&scratch->builders[i], alloc, wants_origins);
    }
    tdm_regex_scratch_init(&scratch->regex, alloc);
}

void tdm_pretok_scratch_deinit(tdm_pretok_scratch *scratch) {
    for (size_t i = 0; i < 2; i++) {
        tdm_buf_deinit(&scratch->pieces[i]);
        tdm_text_builder_deinit(&scratch->builders[i]);
    }
    tdm_regex_scratch_deinit(&scratch->regex);
}

/* Takes the parts of one piece in order and puts pieces down as the behavior asks. */
typedef struct sink {
    tdm_buf *out;
    tdm_split_behavior behavior;
    bool is_inverted;
    bool has_open; /* a piece that may still grow */
    bool is_open_match;
    bool was_match; /* of the last part */
    tdm_piece open;
} sink;

static tdm_status close_open(sink *s) {
    if (!s->has_open) {
        return TDM_OK;
    }
    s->has_open = false;
    return s->open.begin < s->open.end ? tdm_buf_append(s->out, &s->open, sizeof(s->open)) : TDM_OK;
}

static tdm_status open_piece(sink *s, size_t begin, size_t end, bool is_match) {
    TDM_TRY(close_open(s));
    s->open = (tdm_piece){(uint32_t)begin, (uint32_t)end};
    s->has_open = true;
    s->is_open_match = is_match;
    return TDM_OK;
}

static tdm_status take_part(sink *s, size_t begin, size_t end, bool is_match) {
    is_match = is_match != s->is_inverted;
    bool is_joined = false;
    switch (s->behavior) {
    case TDM_SPLIT_ISOLATED:
        break;
    case TDM_SPLIT_REMOVED:
        if (is_match) {
            return TDM_OK;
        }
        break;
    case TDM_SPLIT_CONTIGUOUS:
        is_joined = s->has_open && s->is_open_match == is_match;
        break;
    case TDM_SPLIT_MERGED_WITH_PREVIOUS:
        is_joined = s->has_open && is_match && !s->was_match;
        break;
    case TDM_SPLIT_MERGED_WITH_NEXT:
        /* The mirror image: a match takes the part behind it when that is none. */
        is_joined = s->has_open && !is_match && s->was_match;
        break;
    }
    s->was_match = is_match;
    if (is_joined) {
        s->open.end = (uint32_t)end;
        return TDM_OK;
    }
    return open_piece(s, begin, end, is_match);
}

static tdm_status split_by_rule(const tdm_scan_rule *rule, const tdm_unicode *unicode,
                                const char *text, tdm_piece piece, sink *s) {
    const char *data = text + piece.begin;
    const size_t len = piece.end - piece.begin;
    size_t gap = 0;
    size_t pos = 0;
    while (pos < len) {
        if (pos == 0 || pos > gap) {
            pos = tdm_scan_skip(rule, unicode, data, len, pos);
            if (pos == len) {
                break;
            }
        }
        const size_t end = tdm_scan(rule, unicode, data, len, pos);
        if (end == 0) {
            uint32_t cp = 0;
            pos += tdm_utf8_decode(data + pos, len - pos, &cp, NULL);
            continue;
        }
        if (pos > gap) {
            TDM_TRY(take_part(s, piece.begin + gap, piece.begin + pos, false));
        }
        TDM_TRY(take_part(s, piece.begin + pos, piece.begin + end, true));
        pos = end;
        gap = end;
    }
    return len > gap ? take_part(s, piece.begin + gap, piece.end, false) : TDM_OK;
}

static tdm_status split_by_literal(const tdm_pretok_stage *stage, const char *text, tdm_piece piece,
                                   sink *s) {
    size_t gap = piece.begin;
    size_t pos = piece.begin;
    while (piece.end - pos >= stage->literal_len) {
        const char *hit =
            memchr(text + pos, stage->literal[0], piece.end - pos - (stage->literal_len - 1));
        if (hit == NULL) {
            break;
        }
        pos = (size_t)(hit - text);
        if (memcmp(text + pos, stage->literal, stage->literal_len) != 0) {
            pos++;
            continue;
        }
        if (pos > gap) {
            TDM_TRY(take_part(s, gap, pos, false));
        }
        TDM_TRY(take_part(s, pos, pos + stage->literal_len, true));
        pos += stage->literal_len;
        gap = pos;
    }
    return piece.end > gap ? take_part(s, gap, piece.end, false) : TDM_OK;
}

static tdm_status split_by_expr(const tdm_regex *expr, tdm_regex_scratch *scratch, const char *text,
                                tdm_piece piece, sink *s, tdm_error *err) {
    const char *data = text + piece.begin;
    const size_t len = piece.end - piece.begin;
    size_t gap = 0;
    size_t from = 0;
    bool has_matched = false;
    while (from <= len) {
        bool is_found = false;
        size_t begin = 0;
        size_t end = 0;
        TDM_TRY(tdm_regex_find(expr, scratch, data, len, from, &is_found, &begin, &end, err));
        if (!is_found) {
            break;
        }
        /* An empty match cuts, but not right behind another one. */
        if (begin < end || begin > gap || !has_matched) {
            tdm_status status = TDM_OK;
            if (begin > gap) {
                status = take_part(s, piece.begin + gap, piece.begin + begin, false);
            }
            if (status == TDM_OK) {
                status = take_part(s, piece.begin + begin, piece.begin + end, true);
            }
            if (status != TDM_OK) {
                return tdm_fail_nomem(err, "pieces");
            }
            gap = end;
            has_matched = true;
        }
        from = end;
        if (begin == end) {
            uint32_t cp = 0;
            from += end < len ? tdm_utf8_decode(data + end, len - end, &cp, NULL) : 1;
        }
    }
    if (len > gap && take_part(s, piece.begin + gap, piece.end, false) != TDM_OK) {
        return tdm_fail_nomem(err, "pieces");
    }
    return TDM_OK;
}

static tdm_status run_split(const tdm_pretok_stage *stage, const tdm_unicode *unicode,
                            const tdm_text_view *text, const tdm_buf *in, tdm_buf *out,
                            tdm_regex_scratch *scratch, tdm_error *err) {
    const tdm_piece *pieces = (const tdm_piece *)(const void *)in->data;
    const size_t n = in->len / sizeof(*pieces);
    tdm_buf_reset(out);
    for (size_t i = 0; i < n; i++) {
        sink s = {.out = out, .behavior = stage->behavior, .is_inverted = stage->is_inverted};
        tdm_status status = TDM_OK;
        if (stage->rule != NULL) {
            status = split_by_rule(stage->rule, unicode, text->data, pieces[i], &s);
        } else if (stage->expr != NULL) {
            TDM_TRY(split_by_expr(stage->expr, scratch, text->data, pieces[i], &s, err));
        } else {
            status = split_by_literal(stage, text->data, pieces[i], &s);
        }
        if (status == TDM_OK) {
            status = close_open(&s);
        }
        if (status != TDM_OK) {
            return tdm_fail_nomem(err, "pieces");
        }
    }
    return TDM_OK;
}

static tdm_status run_op(const tdm_text_op *op, const tdm_text_view *text, const tdm_buf *in,
                         tdm_buf *out, tdm_text_builder *builder, tdm_regex_scratch *scratch,
                         tdm_error *err) {
    const tdm_piece *pieces = (const tdm_piece *)(const void *)in->data;
    const size_t n = in->len / sizeof(*pieces);
    tdm_buf_reset(out);
    tdm_text_builder_reset(builder);
    for (size_t i = 0; i < n; i++) {
        const tdm_text_view piece = tdm_text_slice(text, pieces[i].begin, pieces[i].end);
        const size_t begin = builder->text.len;
        TDM_TRY(tdm_text_op_apply(op, scratch, &piece, builder, err));
        const size_t end = builder->text.len;
        if (end > UINT32_MAX) {
            return tdm_fail(err, TDM_E_LIMIT, "the text grows past 4 GiB while it is split");
        }
        const tdm_piece put = {(uint32_t)begin, (uint32_t)end};
        if (end > begin && tdm_buf_append(out, &put, sizeof(put)) != TDM_OK) {
            return tdm_fail_nomem(err, "pieces");
        }
    }
    return TDM_OK;
}

tdm_status tdm_pretok_run(const tdm_pretok_stage *stages, size_t n_stages,
                          const tdm_unicode *unicode, const tdm_text_view *text,
                          tdm_pretok_scratch *scratch, tdm_text_view *out_text,
                          const tdm_piece **out_pieces, size_t *out_n, tdm_error *err) {
    size_t turn = 0;
    size_t text_turn = 0;
    bool is_checked = false;
    *out_text = *text;
    tdm_buf_reset(&scratch->pieces[0]);
    const tdm_piece whole = {0, (uint32_t)text->len};
    if (text->len > 0 && tdm_buf_append(&scratch->pieces[0], &whole, sizeof(whole)) != TDM_OK) {
        return tdm_fail_nomem(err, "pieces");
    }
    for (size_t i = 0; i < n_stages; i++) {
        const tdm_pretok_stage *stage = &stages[i];
        const tdm_buf *in = &scratch->pieces[turn];
        tdm_buf *out = &scratch->pieces[1 - turn];
        if (stage->op == NULL) {
            if (stage->expr != NULL && !is_checked &&
                tdm_utf8_valid_prefix(out_text->data, out_text->len) != out_text->len) {
                return tdm_fail(err, TDM_E_FORMAT, "the text is not UTF-8");
            }
            is_checked = is_checked || stage->expr != NULL;
            TDM_TRY(run_split(stage, unicode, out_text, in, out, &scratch->regex, err));
        } else {
            tdm_text_builder *builder = &scratch->builders[text_turn];
            TDM_TRY(run_op(stage->op, out_text, in, out, builder, &scratch->regex, err));
            *out_text = tdm_text_builder_view(builder);
            text_turn = 1 - text_turn;
        }
        turn = 1 - turn;
    }
    *out_pieces = (const tdm_piece *)(const void *)scratch->pieces[turn].data;
    *out_n = scratch->pieces[turn].len / sizeof(tdm_piece);
    return TDM_OK;
}
