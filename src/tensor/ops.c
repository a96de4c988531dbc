/* SPDX-License-Identifier: Apache-2.0
 *
 * Op entries: check once for every backend, then call the table. Refuses nothing that a kernel
 * could survive; a kernel trusts whatever passed here. */
#include "tensor/ops.h"

#include "tensor/weight.h"

static tdm_status check_readable(const tdm_backend *be, tdm_dtype dtype, tdm_error *err) {
    if ((uint32_t)dtype < (uint32_t)TDM_DTYPE_COUNT && be->ops->can_read(be, dtype)) {
        return TDM_OK;
    }
    return tdm_fail(
        err, TDM_E_UNSUPPORTED, "%s cannot multiply weights stored as %s", be->ops->name(be),
        (uint32_t)dtype < (uint32_t)TDM_DTYPE_COUNT ? TDM_DTYPES[dtype].name : "an unknown type");
}

tdm_status tdm_weight_init_source(tdm_backend *be, const tdm_weight_source *source,
                                  tdm_weight *out_weight, tdm_error *err) {
    TDM_CHECK(be != NULL && source != NULL && out_weight != NULL);
    tdm_weight weight;
    *out_weight = (tdm_weight){0};
    if (source->mode == TDM_WEIGHT_PLAIN) {
        TDM_TRY(check_readable(be, source->view.dtype, err));
    }
    TDM_TRY(tdm_weight_describe(source, &weight, err));
    TDM_TRY(be->ops->weight_init(be, &weight, err));
    *out_weight = weight;
    return TDM_OK;
}

tdm_status tdm_weight_init(tdm_backend *be, const tdm_tensor_view *view, tdm_weight *out_weight,
                           tdm_error *err) {
    TDM_CHECK(view != NULL);
    const tdm_weight_source source = tdm_weight_source_plain(view);
    return tdm_weight_init_source(be, &source, out_weight, err);
}

void tdm_weight_deinit(tdm_backend *be, tdm_weight *weight) {
    if (weight != NULL && weight->data != NULL) {
        be->ops->weight_deinit(be, weight);
    }
}

static void check_part(const tdm_linear_part *part, const float *x, int64_t ld_x, int64_t n_in) {
    const tdm_weight *w = part->weight;
    TDM_CHECK(w != NULL && w->data != NULL && part->out != NULL);
    TDM_CHECK(w->n_in == n_in && w->n_in <= ld_x);
    TDM_CHECK(w->n_out <= part->ld_out && part->out != x);
}

void tdm_op_linear(tdm_backend *be, const float *x, int64_t ld_x, int64_t n,
                   const tdm_linear_part *parts, int32_t n_parts) {
    TDM_CHECK(n >= 0 && n_parts >= 1 && n_parts <= TDM_LINEAR_PARTS_MAX);
    if (n == 0) {
        return;
    }
    TDM_CHECK(x != NULL);
    for (int32_t i = 0; i < n_parts; ++i) {
        TDM_CHECK(parts[0].weight != NULL);
        check_part(&parts[i], x, ld_x, parts[0].weight->n_in);
    }
    be->ops->linear(be, x, ld_x, n, parts, n_parts);
}

void tdm_op_linear_groups(tdm_backend *be, const float *x, int64_t ld_x,
                          const tdm_linear_group *groups, int32_t n_groups) {
    int64_t end = 0;
    TDM_CHECK(n_groups >= 0);
    for (int32_t i = 0; i < n_groups; ++i) {
        const tdm_linear_group *g = &groups[i];
        TDM_CHECK(x != NULL && g->n >= 1 && g->row0 >= end);
        TDM_CHECK(g->n_parts >= 1 && g->n_parts <= 2 && groups[0].parts[0].weight != NULL);
        for (int32_t p = 0; p < g->n_parts; ++p) {
            check_part(&g->parts[p], x, ld_x, groups[0].parts[0].weight->n_in);
        }
        end = g->row0 + g->n;
    }
    if (n_groups > 0) {
        be->ops->linear_groups(be, x, ld_x, groups, n_groups);
    }
}

tdm_status tdm_op_embed(tdm_backend *be, float *out, int64_t ld_out, const tdm_weight *table,
                        const int32_t *ids, int64_t n, float scale, tdm_error *err) {
    TDM_CHECK(table != NULL && table->data != NULL && n >= 0 && table->n_in <= ld_out);
    TDM_CHECK(!table->is_transient && table->columns == NULL);
    for (int64_t i = 0; i < n; ++i) {
        if (ids[i] < 0 || (int64_t)ids[i] >= table->n_out) {
            (void)tdm_fail(err, TDM_E_ARG, "token id %d is outside the vocabulary", (int)ids[i]);
            tdm_err_limit(err, "0 to %lld", (long long)(table->n_out - 1));
            return TDM_E_ARG;
        }
    }
    if (n > 0) {
        TDM_CHECK(out != NULL);
        be->ops->embed(be, out, ld_out, table, ids, n, scale);
    }
    return TDM_OK;
}

void tdm_op_rms_norm(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                     const float *w, int64_t n, int64_t dim, float eps) {
    TDM_CHECK(n >= 0 && dim >= 1 && dim <= ld_out && dim <= ld_x);
    TDM_CHECK(out != x || ld_out == ld_x);
    if (n > 0) {
        TDM_CHECK(out != NULL && x != NULL);
        be->ops->rms_norm(be, out, ld_out, x, ld_x, w, n, dim, eps);
    }
}

void tdm_op_layer_norm(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                       const float *w, const float *bias, int64_t n, int64_t dim, float eps) {
    TDM_CHECK(n >= 0 && dim >= 1 && dim <= ld_out && dim <= ld_x);
    TDM_CHECK(out != x || ld_out == ld_x);
    if (n > 0) {
        TDM_CHECK(out != NULL && x != NULL);
        be->ops->layer_norm(be, out, ld_out, x, ld_x, w, bias, n, dim, eps);
    }
}

void tdm_op_rope_table(tdm_backend *be, float *table, const int64_t *positions, int64_t n,
                       const float *inv_freq, int32_t n_freq, float magnitude) {
    TDM_CHECK(n >= 0 && n_freq >= 1);
    if (n > 0) {
        TDM_CHECK(table != NULL && positions != NULL && inv_freq != NULL);
        be->ops->rope_table(be, table, positions, n, inv_freq, n_freq, magnitude);
    }
}

void tdm_op_rope(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int32_t n_heads,
                 int32_t head_dim, const float *table, int32_t n_freq, tdm_rope_pairing pairing) {
    TDM_CHECK(n >= 0 && n_heads >= 1 && head_dim >= 1 && n_freq >= 1);
    TDM_CHECK(2 * (int64_t)n_freq <= head_dim && (int64_t)n_heads * head_dim <= ld_x);
    if (n > 0) {
        TDM_CHECK(x != NULL && table != NULL);
        be->ops->rope(be, x, ld_x, n, n_heads, head_dim, table, n_freq, pairing);
    }
}

static void check_pages(const tdm_kv_pages *pages, int64_t pos0, int64_t n) {
    TDM_CHECK(pages != NULL && pages->k != NULL && pages->v != NULL && pages->n_pages >= 1);
    TDM_CHECK(pages->page_shift >= 6 && pages->page_shift <= 24);
    TDM_CHECK(pages->dtype == TDM_DTYPE_F32 || pages->dtype == TDM_DTYPE_BF16);
    TDM_CHECK(pages->n_kv_heads >= 1);
    TDM_CHECK(pages->head_dim >= 1 && pages->head_dim <= TDM_HEAD_DIM_MAX);
    /* Keys of BF16 lie in pairs of dimensions. */
    TDM_CHECK(pages->dtype == TDM_DTYPE_F32 || pages->is_latent || pages->head_dim % 2 == 0);
    TDM_CHECK(pages->value_dim >= 1 && pages->value_dim <= TDM_HEAD_DIM_MAX);
    TDM_CHECK(!pages->is_latent || (pages->n_kv_heads == 1 && pages->value_dim <= pages->head_dim));
    TDM_CHECK((pages->index != NULL) == (pages->index_dim > 0) && pages->index_dim >= 0 &&
              pages->index_dim <= TDM_HEAD_DIM_MAX);
    TDM_CHECK(pos0 >= 0 && n <= (int64_t)pages->n_pages << pages->page_shift);
}

void tdm_op_kv_write(tdm_backend *be, const tdm_kv_write_span *spans, int32_t n_spans) {
    TDM_CHECK(n_spans >= 0);
    for (int32_t i = 0; i < n_spans; ++i) {
        const tdm_kv_write_span *s = &spans[i];
        TDM_CHECK(s->n >= 0);
        check_pages(s->pages, s->pos0, s->n);
        TDM_CHECK((int64_t)s->pages->n_kv_heads * s->pages->head_dim <= s->ld_k);
        TDM_CHECK(s->n == 0 || s->k != NULL);
        if (!s->pages->is_latent) {
            TDM_CHECK((int64_t)s->pages->n_kv_heads * s->pages->value_dim <= s->ld_v);
            TDM_CHECK(s->n == 0 || s->v != NULL);
        }
        TDM_CHECK(s->pages->index_dim <= s->ld_index || s->pages->index == NULL);
        TDM_CHECK(s->n == 0 || s->pages->index == NULL || s->index != NULL);
    }
    if (n_spans > 0) {
        be->ops->kv_write(be, spans, n_spans);
    }
}

/* Lists are made by our own blocks; a first and a last entry a query are looked at. */
static void check_lists(const tdm_attention_span *s) {
    for (int32_t i = 0; s->chosen != NULL && i < s->n; ++i) {
        const int32_t *list = s->chosen + i * s->ld_chosen;
        TDM_CHECK(s->window == 0 && s->n_chosen[i] >= 1 && s->n_chosen[i] <= s->ld_chosen);
        TDM_CHECK(list[0] >= 0 && list[s->n_chosen[i] - 1] <= s->pos0 + i);
    }
}

void tdm_op_attention(tdm_backend *be, const tdm_attention_span *spans, int32_t n_spans) {
    TDM_CHECK(n_spans >= 0);
    for (int32_t i = 0; i < n_spans; ++i) {
        const tdm_attention_span *s = &spans[i];
        TDM_CHECK(s->n >= 0 && s->window >= 0);
        check_pages(s->pages, s->pos0, s->n);
        TDM_CHECK(s->n_heads >= 1 && s->n_heads % s->pages->n_kv_heads == 0);
        TDM_CHECK((int64_t)s->n_heads * s->pages->head_dim <= s->ld_q);
        TDM_CHECK((int64_t)s->n_heads * s->pages->value_dim <= s->ld_out);
        TDM_CHECK(s->n == 0 || (s->q != NULL && s->out != NULL && s->out != s->q));
        TDM_CHECK(s->sinks == NULL || (s->sinks != s->out && s->sinks != s->q));
        /* What a query sees must still be held: everything, or its window. */
        int64_t seen = s->pos0 + s->n;
        if (s->window > 0 && seen > (int64_t)s->window - 1 + s->n) {
            seen = (int64_t)s->window - 1 + s->n;
        }
        TDM_CHECK(seen <= (int64_t)s->pages->n_pages << s->pages->page_shift);
        check_lists(s);
    }
    if (n_spans > 0) {
        be->ops->attention(be, spans, n_spans);
    }
}

void tdm_op_index_scores(tdm_backend *be, const tdm_index_span *spans, int32_t n_spans) {
    TDM_CHECK(n_spans >= 0);
    for (int32_t i = 0; i < n_spans; ++i) {
        const tdm_index_span *s = &spans[i];
        TDM_CHECK(s->n >= 0 && s->n_heads >= 1);
        check_pages(s->pages, s->pos0, s->n);
        TDM_CHECK(s->pages->index != NULL && s->q != NULL && s->weights != NULL);
        TDM_CHECK(s->pos0 + s->n <= (int64_t)s->pages->n_pages << s->pages->page_shift);
        TDM_CHECK(s->n == 0 || s->out != NULL);
    }
    if (n_spans > 0) {
        be->ops->index_scores(be, spans, n_spans);
    }
}

static void check_activation(const tdm_activation *act) {
    TDM_CHECK(act != NULL && (uint32_t)act->kind < (uint32_t)TDM_GLU_COUNT);
    TDM_CHECK(act->kind != TDM_GLU_CLAMPED || (act->alpha > 0.0f && act->limit > 0.0f));
}

void tdm_op_glu_mul(tdm_backend *be, const tdm_activation *act, float *out, int64_t ld_out,
                    const float *gate, int64_t ld_gate, const float *up, int64_t ld_up, int64_t n,
                    int64_t dim) {
    check_activation(act);
    TDM_CHECK(n >= 0 && dim >= 1 && dim <= ld_out && dim <= ld_gate && dim <= ld_up);
    TDM_CHECK(out != gate || ld_out == ld_gate);
    if (n > 0) {
        TDM_CHECK(out != NULL && gate != NULL && up != NULL && out != up);
        be->ops->glu_mul(be, act, out, ld_out, gate, ld_gate, up, ld_up, n, dim);
    }
}

void tdm_op_activate(tdm_backend *be, const tdm_activation *act, float *x, int64_t ld_x, int64_t n,
                     int64_t dim) {
    check_activation(act);
    TDM_CHECK(n >= 0 && dim >= 1 && dim <= ld_x);
    if (n > 0) {
        TDM_CHECK(x != NULL);
        be->ops->activate(be, act, x, ld_x, n, dim);
    }
}

void tdm_op_l2_norm(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int32_t n_heads,
                    int32_t dim, float eps, float scale) {
    TDM_CHECK(n >= 0 && n_heads >= 1 && dim >= 1 && (int64_t)n_heads * dim <= ld_x);
    TDM_CHECK(eps > 0.0f);
    if (n > 0) {
        TDM_CHECK(x != NULL);
        be->ops->l2_norm(be, x, ld_x, n, n_heads, dim, eps, scale);
    }
}

void tdm_op_regroup(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                    int64_t n, const tdm_groups *groups) {
    TDM_CHECK(n >= 0 && groups->n >= 1 && groups->dim >= 1);
    TDM_CHECK(groups->dim <= groups->step_out && groups->dim <= groups->step_x);
    TDM_CHECK((groups->n - 1) * groups->step_out + groups->dim <= ld_out);
    TDM_CHECK((groups->n - 1) * groups->step_x + groups->dim <= ld_x);
    if (n > 0) {
        TDM_CHECK(out != NULL && x != NULL && out != x);
        be->ops->regroup(be, out, ld_out, x, ld_x, n, groups);
    }
}

void tdm_op_conv(tdm_backend *be, const tdm_conv *conv, const tdm_conv_span *spans,
                 int32_t n_spans) {
    TDM_CHECK(n_spans >= 0 && conv->taps != NULL && conv->dim >= 1 && conv->dim <= conv->width);
    TDM_CHECK(conv->n_taps >= 1 && conv->n_taps <= TDM_CONV_TAPS_MAX);
    for (int32_t i = 0; i < n_spans; ++i) {
        const tdm_conv_span *s = &spans[i];
        TDM_CHECK(s->n >= 0 && conv->width <= s->ld_x && conv->width <= s->ld_out);
        TDM_CHECK(s->n == 0 || (s->x != NULL && s->out != NULL));
        TDM_CHECK(s->out != s->x || s->ld_out == s->ld_x);
        TDM_CHECK(conv->n_taps == 1 || s->tail != NULL);
        TDM_CHECK(s->n_keep >= 0 && s->n_keep <= conv->n_taps - 1 + s->n);
        TDM_CHECK(s->n_keep == 0 || (s->keep != NULL && s->keep != s->tail && s->keep != s->x));
    }
    if (n_spans > 0) {
        be->ops->conv(be, conv, spans, n_spans);
    }
}

void tdm_op_delta_scan(tdm_backend *be, const tdm_delta *delta, const tdm_delta_span *spans,
                       int32_t n_spans) {
    TDM_CHECK(n_spans >= 0 && delta->decay != NULL && delta->dt_bias != NULL);
    TDM_CHECK(delta->n_key_heads >= 1 && delta->n_value_heads >= 1);
    TDM_CHECK(delta->n_value_heads % delta->n_key_heads == 0);
    TDM_CHECK(delta->key_dim >= 1 && delta->key_dim <= TDM_HEAD_DIM_MAX);
    TDM_CHECK(delta->value_dim >= 1 && delta->value_dim <= TDM_HEAD_DIM_MAX);
    const int64_t values = (int64_t)delta->n_value_heads * delta->value_dim;
    const int64_t width = 2 * (int64_t)delta->n_key_heads * delta->key_dim + values +
                          2 * (int64_t)delta->n_value_heads;
    for (int32_t i = 0; i < n_spans; ++i) {
        const tdm_delta_span *s = &spans[i];
        TDM_CHECK(s->n >= 1 && s->from != NULL && s->to != NULL && s->x != NULL);
        TDM_CHECK(width <= s->ld_x && (s->out == NULL || values <= s->ld_out) && s->out != s->x);
    }
    if (n_spans > 0) {
        be->ops->delta_scan(be, delta, spans, n_spans);
    }
}

void tdm_op_softcap(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int64_t dim, float cap) {
    TDM_CHECK(n >= 0 && dim >= 1 && dim <= ld_x && cap > 0.0f);
    if (n > 0) {
        TDM_CHECK(x != NULL);
        be->ops->softcap(be, x, ld_x, n, dim, cap);
    }
}

void tdm_op_add(tdm_backend *be, float *x, int64_t ld_x, const float *y, int64_t ld_y, int64_t n,
                int64_t dim) {
    TDM_CHECK(n >= 0 && dim >= 1 && dim <= ld_x && dim <= ld_y);
    if (n > 0) {
        TDM_CHECK(x != NULL && y != NULL);
        be->ops->add(be, x, ld_x, y, ld_y, n, dim);
    }
}

void tdm_op_argmax(tdm_backend *be, int32_t *ids, const float *x, int64_t ld_x, int64_t n,
                   int64_t dim) {
    TDM_CHECK(n >= 0 && dim >= 1 && dim <= INT32_MAX && dim <= ld_x);
    if (n > 0) {
        TDM_CHECK(ids != NULL && x != NULL);
        be->ops->argmax(be, ids, x, ld_x, n, dim);
    }
}
