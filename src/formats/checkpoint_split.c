/* SPDX-License-Identifier: Apache-2.0
 *
 * A GGUF file, or the parts of a split one. Part i of n (from 0) says so under split.no and
 * split.count; the first carries all other keys and is the one to open; the rest lie beside it
 * under names that differ in the number only. */
#include "formats/checkpoint_priv.h"
#include "formats/words_priv.h"

#include <stdio.h>
#include <string.h>

typedef struct split_facts {
    uint64_t no;
    uint64_t count; /* 0, 1: not split */
    uint64_t n_tensors;
    bool has_n_tensors;
} split_facts;

static tdm_status read_split_key(const tdm_checkpoint_part *part, const char *key, uint64_t *out,
                                 tdm_error *err) {
    if (tdm_gguf_has(part->gguf, key) && !tdm_gguf_get_u64(part->gguf, key, out)) {
        (void)tdm_fail(err, TDM_E_FORMAT, "%s is no whole number", key);
        tdm_err_where(err, "%s", part->name);
        return TDM_E_FORMAT;
    }
    return TDM_OK;
}

static tdm_status read_split_facts(const tdm_checkpoint_part *part, split_facts *out,
                                   tdm_error *err) {
    memset(out, 0, sizeof *out);
    TDM_TRY(read_split_key(part, "split.no", &out->no, err));
    TDM_TRY(read_split_key(part, "split.count", &out->count, err));
    out->has_n_tensors = tdm_gguf_has(part->gguf, "split.tensors.count");
    return read_split_key(part, "split.tensors.count", &out->n_tensors, err);
}

/* For people, parts count from 1. */
static unsigned long long ordinal(uint64_t no) {
    return no < UINT64_MAX ? no + 1 : no; /* bounded: by the test */
}

static tdm_status add_gguf(tdm_checkpoint *checkpoint, const char *folder, const char *name,
                           tdm_checkpoint_part **out, tdm_error *err) {
    tdm_checkpoint_part *part = NULL;
    tdm_gguf_gaps gaps;
    TDM_TRY(tdm_checkpoint_add_part(checkpoint, folder, name, &part, err));
    TDM_TRY(tdm_gguf_parse(&part->gguf, checkpoint->alloc, part->blob.data, part->blob.bytes,
                           part->name, err));
    gaps = tdm_gguf_gaps_of(part->gguf);
    TDM_TRY(tdm_checkpoint_warn_gaps(checkpoint, gaps.hole_bytes, gaps.hole_offset,
                                     gaps.trailing_bytes, err));
    for (size_t i = 0; i < tdm_gguf_n_tensors(part->gguf); i++) {
        TDM_TRY(tdm_checkpoint_add_tensor(checkpoint, tdm_gguf_tensor_name(part->gguf, i),
                                          tdm_gguf_tensor_view(part->gguf, i),
                                          tdm_gguf_tensor_offset(part->gguf, i), err));
    }
    *out = part;
    return TDM_OK;
}

/* The first part must be the one that was asked for, and be named so that the others can be. */
static tdm_status check_first(const split_facts *facts, const char *name, size_t *out_prefix_len,
                              tdm_error *err) {
    uint32_t number = 0;
    uint32_t count = 0;
    size_t prefix_len = 0;
    const bool is_named = tdm_split_name_parse(name, &number, &count, &prefix_len);
    if (facts->no != 0) {
        (void)tdm_fail(err, TDM_E_FORMAT, "file is part %llu of %llu of a split model",
                       ordinal(facts->no), (unsigned long long)facts->count);
        tdm_err_where(err, "%s: split.no", name);
        if (is_named) {
            tdm_err_remedy(err, "open the first part, %.*s-00001-of-%05u.gguf",
                           tdm_text_cut(name, prefix_len, 100), name, count);
        } else {
            tdm_err_remedy(err, "open the first part");
        }
        return TDM_E_FORMAT;
    }
    if (facts->count > TDM_CHECKPOINT_PARTS_MAX) {
        (void)tdm_fail(err, TDM_E_LIMIT, "split model has %llu parts",
                       (unsigned long long)facts->count);
        tdm_err_where(err, "%s: split.count", name);
        tdm_err_limit(err, "%d parts", TDM_CHECKPOINT_PARTS_MAX);
        return TDM_E_LIMIT;
    }
    if (!is_named || number != 1 || count != facts->count) {
        (void)tdm_fail(err, TDM_E_FORMAT, "first of %llu parts is not named like one",
                       (unsigned long long)facts->count);
        tdm_err_where(err, "%s", name);
        tdm_err_remedy(err, "name the parts NAME-00001-of-%05llu.gguf and so on",
                       (unsigned long long)facts->count);
        return TDM_E_FORMAT;
    }
    *out_prefix_len = prefix_len;
    return TDM_OK;
}

static tdm_status add_later_part(tdm_checkpoint *checkpoint, const char *folder, const char *name,
                                 uint64_t no, uint64_t count, tdm_error *err) {
    tdm_checkpoint_part *part = NULL;
    split_facts facts;
    const tdm_status status = add_gguf(checkpoint, folder, name, &part, err);
    if (status == TDM_E_NOT_FOUND) {
        (void)tdm_fail(err, TDM_E_NOT_FOUND, "part %llu of %llu of the split model is missing",
                       ordinal(no), (unsigned long long)count);
        tdm_err_where(err, "%s", name);
        tdm_err_remedy(err, "put %.100s beside the first part", name);
    }
    TDM_TRY(status);
    TDM_TRY(read_split_facts(part, &facts, err));
    if (facts.no != no || facts.count != count) {
        (void)tdm_fail(err, TDM_E_FORMAT,
                       "file says that it is part %llu of %llu; its name says %llu of %llu",
                       ordinal(facts.no), (unsigned long long)facts.count, ordinal(no),
                       (unsigned long long)count);
        tdm_err_where(err, "%s: split.no, split.count", name);
        tdm_err_remedy(err, "fetch all parts of the split again");
        return TDM_E_FORMAT;
    }
    return TDM_OK;
}

static tdm_status add_later_parts(tdm_checkpoint *checkpoint, const char *folder, const char *first,
                                  const split_facts *facts, tdm_error *err) {
    size_t prefix_len = 0;
    TDM_TRY(check_first(facts, first, &prefix_len, err));
    for (uint64_t no = 1; no < facts->count; no++) {
        char name[TDM_PATH_MAX];
        const int n = snprintf(name, sizeof name, "%.*s-%05u-of-%05u.gguf", (int)prefix_len, first,
                               (unsigned)ordinal(no), (unsigned)facts->count);
        if (n < 0 || (size_t)n >= sizeof name) {
            return tdm_fail(err, TDM_E_LIMIT, "name of a part is too long");
        }
        TDM_TRY(add_later_part(checkpoint, folder, name, no, facts->count, err));
    }
    if (facts->has_n_tensors && facts->n_tensors != checkpoint->n_tensors) {
        (void)tdm_fail(err, TDM_E_FORMAT,
                       "split model should have %llu tensors; its parts have %zu",
                       (unsigned long long)facts->n_tensors, checkpoint->n_tensors);
        tdm_err_where(err, "%s: split.tensors.count", first);
        tdm_err_remedy(err, "fetch all parts of the split again");
        return TDM_E_FORMAT;
    }
    return TDM_OK;
}

tdm_status tdm_checkpoint_open_gguf(tdm_checkpoint *checkpoint, const char *path, tdm_error *err) {
    char folder[TDM_PATH_MAX] = "";
    const char *name = tdm_path_name(path);
    const size_t folder_len = (size_t)(name - path);
    tdm_checkpoint_part *part = NULL;
    const char *first = NULL;
    split_facts facts;
    if (folder_len >= sizeof folder) {
        return tdm_fail(err, TDM_E_LIMIT, "path is too long");
    }
    if (folder_len > 0) {
        memcpy(folder, path, folder_len);
        folder[folder_len > 1 ? folder_len - 1 : folder_len] = '\0';
    }
    checkpoint->container = TDM_CONTAINER_GGUF;
    TDM_TRY(add_gguf(checkpoint, folder, name, &part, err));
    TDM_TRY(read_split_facts(part, &facts, err));
    first = part->name;
    return facts.count > 1 ? add_later_parts(checkpoint, folder, first, &facts, err) : TDM_OK;
}
