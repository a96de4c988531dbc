/* SPDX-License-Identifier: Apache-2.0
 *
 * The safetensors of a folder: model.safetensors, or the shards that
 * model.safetensors.index.json names. An index is held to its word in both directions: every tensor
 * that it lists lies in the shard that it says, and no shard holds one that it does not list; so a
 * truncated or swapped download can not pass as a model. Shard names stay inside the folder. */
#include "formats/checkpoint_priv.h"
#include "formats/words_priv.h"

#include <string.h>

static const char SINGLE[] = "model.safetensors";
static const char INDEX[] = "model.safetensors.index.json";

static tdm_status add_safetensors(tdm_checkpoint *checkpoint, const char *folder, const char *name,
                                  tdm_error *err) {
    tdm_checkpoint_part *part = NULL;
    tdm_safetensors_gaps gaps;
    TDM_TRY(tdm_checkpoint_add_part(checkpoint, folder, name, &part, err));
    TDM_TRY(tdm_safetensors_parse(&part->safetensors, checkpoint->alloc, part->blob.data,
                                  part->blob.bytes, part->name, err));
    gaps = tdm_safetensors_gaps_of(part->safetensors);
    TDM_TRY(tdm_checkpoint_warn_gaps(checkpoint, gaps.hole_bytes, gaps.hole_offset,
                                     gaps.trailing_bytes, err));
    for (size_t i = 0; i < tdm_safetensors_n_tensors(part->safetensors); i++) {
        TDM_TRY(
            tdm_checkpoint_add_tensor(checkpoint, tdm_safetensors_tensor_name(part->safetensors, i),
                                      tdm_safetensors_tensor_view(part->safetensors, i),
                                      tdm_safetensors_tensor_offset(part->safetensors, i), err));
    }
    return TDM_OK;
}

/* ---- the index ---- */

typedef struct shard_list {
    const char *names[TDM_CHECKPOINT_PARTS_MAX]; /* borrowed from the index, in byte order */
    size_t n;
} shard_list;

static tdm_status fail_entry(const tdm_json *entry, tdm_error *err, tdm_status status) {
    tdm_err_where(err, "%s: $.weight_map[\"%.*s\"]", INDEX,
                  tdm_text_cut(entry->key, entry->key_len, 100), entry->key);
    return status;
}

static tdm_status check_shard_name(const tdm_json *entry, tdm_error *err) {
    const char *name = NULL;
    if (!tdm_json_is(entry, TDM_JSON_STRING)) {
        (void)tdm_fail(err, TDM_E_FORMAT, "shard of a tensor is no string");
        return fail_entry(entry, err, TDM_E_FORMAT);
    }
    name = entry->u.text;
    if (strlen(name) != entry->len || strchr(name, '/') != NULL || strstr(name, "..") != NULL ||
        name[0] == '.' || !tdm_name_ends(name, ".safetensors")) {
        (void)tdm_fail(err, TDM_E_FORMAT, "shard name \"%.*s\" is not allowed",
                       tdm_text_cut(name, entry->len, 80), name);
        tdm_err_limit(err, "a .safetensors file in the folder of the index");
        return fail_entry(entry, err, TDM_E_FORMAT);
    }
    return TDM_OK;
}

/* Where name stands in the list, or where it would. */
static size_t find_shard(const shard_list *shards, const char *name, bool *out_is_there) {
    size_t low = 0;
    size_t high = shards->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(shards->names[middle], name) < 0) {
            low = middle + 1; /* bounded: at most n */
        } else {
            high = middle;
        }
    }
    *out_is_there = low < shards->n && strcmp(shards->names[low], name) == 0;
    return low;
}

static tdm_status list_shards(const tdm_json *map, shard_list *shards, tdm_error *err) {
    for (size_t i = 0; i < tdm_json_len(map); i++) {
        const tdm_json *entry = &map->u.items[i];
        bool is_there = false;
        size_t at = 0;
        TDM_TRY(check_shard_name(entry, err));
        at = find_shard(shards, entry->u.text, &is_there);
        if (is_there) {
            continue;
        }
        if (shards->n == TDM_CHECKPOINT_PARTS_MAX) {
            (void)tdm_fail(err, TDM_E_LIMIT, "index names too many shards");
            tdm_err_limit(err, "%d shards", TDM_CHECKPOINT_PARTS_MAX);
            return fail_entry(entry, err, TDM_E_LIMIT);
        }
        /* bounded: at <= n < TDM_CHECKPOINT_PARTS_MAX */
        memmove(&shards->names[at + 1], &shards->names[at],
                (shards->n - at) * sizeof shards->names[0]);
        shards->names[at] = entry->u.text;
        shards->n++;
    }
    return TDM_OK;
}

/* Every listed tensor is in its shard; is_listed[i] is set for each that was found. */
static tdm_status check_listed(const tdm_checkpoint *checkpoint, const tdm_json *map,
                               uint8_t *is_listed, tdm_error *err) {
    for (size_t i = 0; i < tdm_json_len(map); i++) {
        const tdm_json *entry = &map->u.items[i];
        uint32_t idx = 0;
        const char *shard = NULL;
        if (!tdm_names_find(&checkpoint->by_name, entry->key, entry->key_len, &idx)) {
            (void)tdm_fail(err, TDM_E_FORMAT, "shard %.80s lacks a tensor that the index lists",
                           entry->u.text);
            tdm_err_remedy(err, "fetch %.100s again", entry->u.text);
            return fail_entry(entry, err, TDM_E_FORMAT);
        }
        shard = checkpoint->parts[checkpoint->tensors[idx].file_idx].name;
        if (strcmp(shard, entry->u.text) != 0) {
            (void)tdm_fail(err, TDM_E_FORMAT, "tensor lies in %.80s, not in %.80s", shard,
                           entry->u.text);
            tdm_err_remedy(err, "fetch both shards and the index again");
            return fail_entry(entry, err, TDM_E_FORMAT);
        }
        is_listed[idx] = 1;
    }
    return TDM_OK;
}

static tdm_status check_sets(const tdm_checkpoint *checkpoint, const tdm_json *map,
                             tdm_error *err) {
    const size_t n = checkpoint->n_tensors;
    tdm_status status = TDM_OK;
    uint8_t *is_listed = tdm_mem_calloc(checkpoint->alloc, n, 1);
    if (is_listed == NULL) {
        return tdm_fail_nomem(err, "a check of the index");
    }
    TDM_TRY_GOTO(status, check_listed(checkpoint, map, is_listed, err), done);
    for (size_t i = 0; i < n; i++) {
        if (is_listed[i] == 0) {
            const tdm_checkpoint_tensor *tensor = &checkpoint->tensors[i];
            status = tdm_fail(err, TDM_E_FORMAT, "tensor is not listed in the index");
            tdm_err_where(err, "%.80s: tensor \"%.90s\"", checkpoint->parts[tensor->file_idx].name,
                          tensor->name);
            tdm_err_remedy(err, "fetch the index again");
            goto done;
        }
    }
done:
    tdm_mem_free(checkpoint->alloc, is_listed, n);
    return status;
}

static tdm_status open_listed(tdm_checkpoint *checkpoint, const char *folder, const tdm_json *map,
                              const shard_list *shards, tdm_error *err) {
    for (size_t i = 0; i < shards->n; i++) {
        const tdm_status status = add_safetensors(checkpoint, folder, shards->names[i], err);
        if (status == TDM_E_NOT_FOUND) {
            (void)tdm_fail(err, TDM_E_NOT_FOUND, "shard %zu of %zu that the index names is missing",
                           i + 1, shards->n);
            tdm_err_where(err, "%.150s", shards->names[i]);
            tdm_err_remedy(err, "fetch the missing shard");
        }
        TDM_TRY(status);
    }
    return check_sets(checkpoint, map, err);
}

static tdm_status open_indexed(tdm_checkpoint *checkpoint, const char *folder, bool has_single,
                               tdm_error *err) {
    shard_list shards = {0};
    tdm_json_doc *doc = NULL;
    const tdm_json *map = NULL;
    tdm_status status = TDM_OK;
    TDM_TRY(tdm_checkpoint_read_json(checkpoint, folder, INDEX, &doc, err));
    map = tdm_json_get(tdm_json_doc_root(doc), "weight_map");
    if (!tdm_json_is(map, TDM_JSON_OBJECT) || tdm_json_len(map) == 0) {
        status = tdm_fail(err, TDM_E_FORMAT, "index has no weight_map, or an empty one");
        tdm_err_where(err, "%s: $.weight_map", INDEX);
        goto done;
    }
    TDM_TRY_GOTO(status, list_shards(map, &shards, err), done);
    if (has_single && (shards.n != 1 || strcmp(shards.names[0], SINGLE) != 0)) {
        /* Consolidated after sharding; transformers prefers the single file too. */
        TDM_TRY_GOTO(status,
                     tdm_checkpoint_warn(checkpoint, err, "%s names other files than %s: ignored",
                                         INDEX, SINGLE),
                     done);
        status = add_safetensors(checkpoint, folder, SINGLE, err);
        goto done;
    }
    status = open_listed(checkpoint, folder, map, &shards, err);
done:
    tdm_json_doc_destroy(doc);
    return status;
}

tdm_status tdm_checkpoint_open_shards(tdm_checkpoint *checkpoint, const char *folder,
                                      const tdm_folder_facts *facts, tdm_error *err) {
    checkpoint->container = TDM_CONTAINER_SAFETENSORS;
    return facts->has_index ? open_indexed(checkpoint, folder, facts->has_single, err)
                            : add_safetensors(checkpoint, folder, SINGLE, err);
}
