/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks of experts: names of single ones taken apart, all of one matrix of a layer put under each
 * other. What is no whole set of equal matrices is refused. */
#include "engine/quantize/experts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPERTS_MAX 4096
#define NAME_MAX_BYTES 1300

bool tdm_experts_parse(const tdm_expert_names *names, const char *name, tdm_expert_at *out) {
    const char *at = names->before != NULL ? strstr(name, names->before) : NULL;
    char *end = NULL;
    if (at == NULL || at[strlen(names->before)] != '.') {
        return false;
    }
    out->stem = (size_t)(at - name);
    at += strlen(names->before) + 1;
    out->expert = strtol(at, &end, 10);
    if (end == at || *end != '.' || out->expert < 0 || out->expert >= EXPERTS_MAX) {
        return false;
    }
    for (int i = 0; i < 3; i++) {
        const size_t len = strlen(names->name[i]);
        if (strncmp(end + 1, names->name[i], len) == 0 && strcmp(end + 1 + len, ".weight") == 0) {
            out->which = i;
            return true;
        }
    }
    return false;
}

/* The name of expert number `expert` that stands beside `like`. */
static void spell(const tdm_expert_names *names, const char *like, const tdm_expert_at *at,
                  long expert, char out[NAME_MAX_BYTES]) {
    (void)snprintf(out, NAME_MAX_BYTES, "%.*s%s.%ld.%s.weight", (int)at->stem, like, names->before,
                   expert, names->name[at->which]);
}

static long count(const tdm_quantize_job *job, const tdm_expert_names *names, const char *first,
                  const tdm_expert_at *at) {
    char name[NAME_MAX_BYTES];
    long n = 0;
    for (; n < EXPERTS_MAX; n++) {
        spell(names, first, at, n, name);
        if (tdm_checkpoint_find(job->checkpoint, name) == NULL) {
            break;
        }
    }
    return n;
}

tdm_status tdm_experts_stack(tdm_quantize_job *job, const tdm_quant_config *quant,
                             const tdm_expert_names *names, const char *first,
                             const tdm_expert_at *at, tdm_item **out, tdm_error *err) {
    char name[NAME_MAX_BYTES];
    const long n = count(job, names, first, at);
    tdm_weight *parts = tdm_arena_calloc(&job->arena, (size_t)n, sizeof *parts);
    tdm_item *item = tdm_quantize_add_item(job);
    if (parts == NULL || item == NULL) {
        return tdm_fail_nomem(err, "the plan of a conversion");
    }
    for (long e = 0; e < n; e++) {
        spell(names, first, at, e, name);
        const tdm_checkpoint_tensor *tensor = tdm_checkpoint_find(job->checkpoint, name);
        TDM_TRY(tdm_quantize_describe(job, quant, tensor, &parts[e], err));
        if (parts[e].n_out != parts[0].n_out || parts[e].n_in != parts[0].n_in ||
            parts[e].mode != parts[0].mode || parts[e].dtype != parts[0].dtype) {
            return tdm_fail(err, TDM_E_SHAPE, "experts of one layer differ: \"%.150s\"", name);
        }
    }
    item->name = first;
    item->parts = parts;
    item->n_parts = (size_t)n;
    item->n_rows = n * parts[0].n_out; /* n is small, n_out was checked against the file */
    item->n_in = parts[0].n_in;
    *out = item;
    return TDM_OK;
}

tdm_status tdm_experts_check(const tdm_quantize_job *job, const tdm_expert_names *names,
                             const char *name, const tdm_expert_at *at, tdm_error *err) {
    char before[NAME_MAX_BYTES];
    spell(names, name, at, at->expert - 1, before);
    if (tdm_checkpoint_find(job->checkpoint, before) != NULL) {
        return TDM_OK;
    }
    (void)tdm_fail(err, TDM_E_FORMAT, "tensor \"%.150s\" is missing", before);
    tdm_err_where(err, "%s", job->src);
    tdm_err_remedy(err, "the checkpoint is incomplete; fetch it again");
    return TDM_E_FORMAT;
}
