/* SPDX-License-Identifier: Apache-2.0
 *
 * Views, builders and the rewriting operations but Unicode's normal forms. Bytes that are no UTF-8
 * pass through every operation unchanged, except through regular expressions, which refuse them. */
#include "text/tokenizer_text.h"

#include "text/unicode.h"

#include <string.h>

tdm_text_view tdm_text_slice(const tdm_text_view *view, size_t begin, size_t end) {
    tdm_text_view slice = {view->data + begin, end - begin, NULL, 0};
    if (view->origins != NULL) {
        slice.origins = view->origins + begin;
    } else {
        slice.base = view->base + (uint32_t)begin;
    }
    return slice;
}

tdm_origin tdm_text_origin(const tdm_text_view *view, size_t begin, size_t end) {
    tdm_origin origin = {view->base + (uint32_t)begin, view->base + (uint32_t)end};
    if (view->origins != NULL) {
        if (view->len == 0) {
            origin.begin = origin.end = 0;
        } else if (begin == end) {
            origin.begin =
                begin < view->len ? view->origins[begin].begin : view->origins[view->len - 1].end;
            origin.end = origin.begin;
        } else {
            origin.begin = view->origins[begin].begin;
            origin.end = view->origins[end - 1].end;
        }
    }
    return origin;
}

void tdm_text_builder_init(tdm_text_builder *builder, const tdm_alloc *alloc, bool wants_origins) {
    tdm_buf_init(&builder->text, alloc, 0);
    tdm_buf_init(&builder->origins, alloc, 0);
    builder->wants_origins = wants_origins;
}

void tdm_text_builder_deinit(tdm_text_builder *builder) {
    tdm_buf_deinit(&builder->text);
    tdm_buf_deinit(&builder->origins);
}

void tdm_text_builder_reset(tdm_text_builder *builder) {
    tdm_buf_reset(&builder->text);
    tdm_buf_reset(&builder->origins);
}

tdm_text_view tdm_text_builder_view(const tdm_text_builder *builder) {
    tdm_text_view view = {builder->text.data, builder->text.len, NULL, 0};
    if (view.data == NULL) {
        view.data = "";
    }
    if (builder->wants_origins) {
        view.origins = (const tdm_origin *)(const void *)builder->origins.data;
    }
    return view;
}

tdm_status tdm_text_copy(tdm_text_builder *out, const tdm_text_view *from, size_t begin,
                         size_t end) {
    if (begin == end) {
        return TDM_OK;
    }
    TDM_TRY(tdm_buf_append(&out->text, from->data + begin, end - begin));
    for (size_t i = begin; out->wants_origins && i < end; i++) {
        const tdm_origin origin = tdm_text_origin(from, i, i + 1);
        TDM_TRY(tdm_buf_append(&out->origins, &origin, sizeof(origin)));
    }
    return TDM_OK;
}

tdm_status tdm_text_put(tdm_text_builder *out, const char *bytes, size_t len, tdm_origin origin) {
    if (len == 0) {
        return TDM_OK;
    }
    TDM_TRY(tdm_buf_append(&out->text, bytes, len));
    for (size_t i = 0; out->wants_origins && i < len; i++) {
        TDM_TRY(tdm_buf_append(&out->origins, &origin, sizeof(origin)));
    }
    return TDM_OK;
}

static tdm_status put_in_front(const char *bytes, size_t len, const tdm_text_view *in,
                               tdm_text_builder *out) {
    return tdm_text_put(out, bytes, len, tdm_text_origin(in, 0, 0));
}

static bool starts_with(const tdm_text_view *in, const char *bytes, size_t len) {
    return in->len >= len && memcmp(in->data, bytes, len) == 0;
}

static tdm_status replace_all(const char *a, size_t a_len, const char *b, size_t b_len,
                              const tdm_text_view *in, tdm_text_builder *out) {
    size_t kept = 0;
    size_t pos = 0;
    while (in->len - pos >= a_len && pos < in->len) {
        const char *hit = memchr(in->data + pos, a[0], in->len - pos - (a_len - 1));
        if (hit == NULL) {
            break;
        }
        pos = (size_t)(hit - in->data);
        if (memcmp(hit, a, a_len) != 0) {
            pos++;
            continue;
        }
        TDM_TRY(tdm_text_copy(out, in, kept, pos));
        TDM_TRY(tdm_text_put(out, b, b_len, tdm_text_origin(in, pos, pos + a_len)));
        pos += a_len;
        kept = pos;
    }
    return tdm_text_copy(out, in, kept, in->len);
}

static tdm_status replace_expr(const tdm_text_op *op, tdm_regex_scratch *scratch,
                               const tdm_text_view *in, tdm_text_builder *out, tdm_error *err) {
    size_t kept = 0;
    size_t from = 0;
    if (tdm_utf8_valid_prefix(in->data, in->len) != in->len) {
        return tdm_fail(err, TDM_E_FORMAT, "the text is not UTF-8");
    }
    while (from <= in->len) {
        bool is_found = false;
        size_t begin = 0;
        size_t end = 0;
        TDM_TRY(tdm_regex_find(op->expr, scratch, in->data, in->len, from, &is_found, &begin, &end,
                               err));
        if (!is_found) {
            break;
        }
        TDM_TRY(tdm_text_copy(out, in, kept, begin));
        TDM_TRY(tdm_text_put(out, op->b, op->b_len, tdm_text_origin(in, begin, end)));
        kept = end;
        from = end;
        if (end == begin) { /* behind an empty match the search goes on one character later */
            uint32_t cp = 0;
            from += end < in->len ? tdm_utf8_decode(in->data + end, in->len - end, &cp, NULL) : 1;
        }
    }
    return tdm_text_copy(out, in, kept, in->len);
}

static tdm_status lowercase(const tdm_text_view *in, tdm_text_builder *out) {
    size_t pos = 0;
    while (pos < in->len) {
        uint32_t cp = 0;
        bool is_ok = false;
        char bytes[4];
        const size_t n = tdm_unicode_decode(in->data + pos, in->len - pos, &cp, &is_ok);
        const uint32_t lower = is_ok ? tdm_unicode_lower(cp) : cp;
        if (is_ok && cp == 0x130) { /* the one character whose small form is two */
            TDM_TRY(tdm_text_put(out, "i\xCC\x87", 3, tdm_text_origin(in, pos, pos + n)));
        } else if (!is_ok || lower == cp) {
            TDM_TRY(tdm_text_copy(out, in, pos, pos + n));
        } else {
            const size_t len = tdm_utf8_encode(lower, bytes);
            TDM_TRY(tdm_text_put(out, bytes, len, tdm_text_origin(in, pos, pos + n)));
        }
        pos += n;
    }
    return TDM_OK;
}

static tdm_status strip(const tdm_text_op *op, const tdm_text_view *in, tdm_text_builder *out) {
    size_t begin = 0;
    size_t end = 0;
    size_t pos = 0;
    bool is_leading = true;
    while (pos < in->len) {
        uint32_t cp = 0;
        const size_t n = tdm_utf8_decode(in->data + pos, in->len - pos, &cp, NULL);
        pos += n;
        if (tdm_unicode_is_space(cp)) {
            begin = is_leading ? pos : begin;
        } else {
            is_leading = false;
            end = pos;
        }
    }
    begin = op->is_left ? begin : 0;
    end = op->is_right ? end : in->len;
    return begin < end ? tdm_text_copy(out, in, begin, end) : TDM_OK;
}

static tdm_status metaspace(const tdm_text_op *op, const tdm_text_view *in, tdm_text_builder *out) {
    const bool begins = starts_with(in, op->a, op->a_len) || starts_with(in, " ", 1);
    if (op->has_prepend && in->len > 0 && !begins &&
        (!op->is_first_only || tdm_text_origin(in, 0, 0).begin == 0)) {
        TDM_TRY(put_in_front(op->a, op->a_len, in, out));
    }
    return replace_all(" ", 1, op->a, op->a_len, in, out);
}

/* Runs of a become one; those at the two ends vanish. */
static tdm_status squeeze(const tdm_text_op *op, const tdm_text_view *in, tdm_text_builder *out) {
    const size_t n = op->a_len;
    size_t gap = SIZE_MAX; /* where the last run of a began; none before the first other text */
    bool has_text = false;
    size_t pos = 0;
    size_t kept = 0;
    while (pos < in->len) {
        if (in->len - pos >= n && memcmp(in->data + pos, op->a, n) == 0) {
            if (gap == SIZE_MAX) {
                TDM_TRY(tdm_text_copy(out, in, kept, pos));
                gap = pos;
            }
            pos += n;
            kept = pos;
            continue;
        }
        if (gap != SIZE_MAX && has_text) {
            TDM_TRY(tdm_text_copy(out, in, gap, gap + n));
        }
        gap = SIZE_MAX;
        has_text = true;
        pos++;
    }
    return tdm_text_copy(out, in, kept, in->len);
}

tdm_status tdm_text_op_apply(const tdm_text_op *op, tdm_regex_scratch *scratch,
                             const tdm_text_view *in, tdm_text_builder *out, tdm_error *err) {
    tdm_status status = TDM_OK;
    switch (op->kind) {
    case TDM_TEXT_NORMALIZE:
        status = tdm_text_normalize(op, in, out);
        break;
    case TDM_TEXT_PREPEND:
        status = in->len > 0 ? put_in_front(op->a, op->a_len, in, out) : TDM_OK;
        status = status == TDM_OK ? tdm_text_copy(out, in, 0, in->len) : status;
        break;
    case TDM_TEXT_REPLACE:
        status = replace_all(op->a, op->a_len, op->b, op->b_len, in, out);
        break;
    case TDM_TEXT_REPLACE_EXPR:
        return replace_expr(op, scratch, in, out, err);
    case TDM_TEXT_LOWERCASE:
        status = lowercase(in, out);
        break;
    case TDM_TEXT_STRIP:
        status = strip(op, in, out);
        break;
    case TDM_TEXT_METASPACE:
        status = metaspace(op, in, out);
        break;
    case TDM_TEXT_MAP:
        status = tdm_text_map_chars(op, in, out);
        break;
    case TDM_TEXT_CHARSMAP:
        status = tdm_text_apply_charsmap(op, in, out);
        break;
    case TDM_TEXT_SQUEEZE:
        status = squeeze(op, in, out);
        break;
    case TDM_TEXT_PREFIX_SPACE:
        status = in->len > 0 && !starts_with(in, op->a, op->a_len)
                     ? put_in_front(op->a, op->a_len, in, out)
                     : TDM_OK;
        status = status == TDM_OK ? tdm_text_copy(out, in, 0, in->len) : status;
        break;
    }
    return status == TDM_OK ? TDM_OK : tdm_fail_nomem(err, "normalized text");
}
