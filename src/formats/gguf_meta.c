/* SPDX-License-Identifier: Apache-2.0
 *
 * Typed questions to a parsed GGUF file. A getter answers only for the type that it is named for,
 * integers of any width apart, and reads with the width that the file states; so an array of bytes
 * can never be read as one of words. */
#include "formats/gguf_priv.h"

#include <math.h>
#include <string.h>

static const tdm_gguf_value *find(const tdm_gguf *gguf, const char *key) {
    uint32_t idx = 0;
    return tdm_names_find(&gguf->by_key, key, strlen(key), &idx) ? &gguf->kvs[idx].value : NULL;
}

/* An integer of any width and sign: *out holds the bits, *out_is_negative says how to read them. */
static bool load_int(tdm_gguf_type type, const uint8_t *at, uint64_t *out, bool *out_is_negative) {
    int64_t value = 0;
    switch (type) {
    case TDM_GGUF_U8:
        value = at[0];
        break;
    case TDM_GGUF_I8:
        value = (int8_t)at[0];
        break;
    case TDM_GGUF_U16:
        value = (uint16_t)(at[0] | at[1] << 8);
        break;
    case TDM_GGUF_I16:
        value = (int16_t)(uint16_t)(at[0] | at[1] << 8);
        break;
    case TDM_GGUF_U32:
        value = (int64_t)tdm_gguf_load_u32(at);
        break;
    case TDM_GGUF_I32:
        value = (int32_t)tdm_gguf_load_u32(at);
        break;
    case TDM_GGUF_I64:
        value = (int64_t)tdm_gguf_load_u64(at);
        break;
    case TDM_GGUF_U64:
        *out = tdm_gguf_load_u64(at);
        *out_is_negative = false;
        return true;
    case TDM_GGUF_F32:
    case TDM_GGUF_BOOL:
    case TDM_GGUF_STRING:
    case TDM_GGUF_ARRAY:
    case TDM_GGUF_F64:
        return false;
    }
    *out = (uint64_t)value;
    *out_is_negative = value < 0;
    return true;
}

static bool load_i64(tdm_gguf_type type, const uint8_t *at, int64_t *out) {
    uint64_t bits = 0;
    bool is_negative = false;
    if (!load_int(type, at, &bits, &is_negative) || (!is_negative && bits > INT64_MAX)) {
        return false;
    }
    *out = (int64_t)bits;
    return true;
}

static bool load_f64(tdm_gguf_type type, const uint8_t *at, double *out) {
    double value = 0.0;
    if (type == TDM_GGUF_F32) {
        const uint32_t bits = tdm_gguf_load_u32(at);
        float narrow = 0.0F;
        memcpy(&narrow, &bits, sizeof narrow);
        value = (double)narrow;
    } else if (type == TDM_GGUF_F64) {
        const uint64_t bits = tdm_gguf_load_u64(at);
        memcpy(&value, &bits, sizeof value);
    } else {
        return false;
    }
    if (!isfinite(value)) {
        return false;
    }
    *out = value;
    return true;
}

/* ---- tensors ---- */

size_t tdm_gguf_n_tensors(const tdm_gguf *gguf) {
    return gguf->n_tensors;
}

const char *tdm_gguf_tensor_name(const tdm_gguf *gguf, size_t idx) {
    return idx < gguf->n_tensors ? gguf->tensors[idx].name : NULL;
}

const tdm_tensor_view *tdm_gguf_tensor_view(const tdm_gguf *gguf, size_t idx) {
    return idx < gguf->n_tensors ? &gguf->tensors[idx].view : NULL;
}

uint64_t tdm_gguf_tensor_offset(const tdm_gguf *gguf, size_t idx) {
    return idx < gguf->n_tensors ? gguf->tensors[idx].offset : 0;
}

bool tdm_gguf_find_tensor(const tdm_gguf *gguf, const char *name, size_t *out_idx) {
    uint32_t idx = 0;
    if (!tdm_names_find(&gguf->by_name, name, strlen(name), &idx)) {
        return false;
    }
    *out_idx = idx;
    return true;
}

uint32_t tdm_gguf_version(const tdm_gguf *gguf) {
    return gguf->version;
}

const char *tdm_gguf_architecture(const tdm_gguf *gguf) {
    return gguf->architecture;
}

tdm_gguf_gaps tdm_gguf_gaps_of(const tdm_gguf *gguf) {
    return gguf->gaps;
}

/* ---- metadata ---- */

size_t tdm_gguf_n_keys(const tdm_gguf *gguf) {
    return gguf->n_kvs;
}

const char *tdm_gguf_key_at(const tdm_gguf *gguf, size_t idx, tdm_gguf_type *out_type) {
    if (idx >= gguf->n_kvs) {
        return NULL;
    }
    *out_type = gguf->kvs[idx].value.type;
    return gguf->kvs[idx].key;
}

bool tdm_gguf_has(const tdm_gguf *gguf, const char *key) {
    return find(gguf, key) != NULL;
}

bool tdm_gguf_get_u64(const tdm_gguf *gguf, const char *key, uint64_t *out) {
    const tdm_gguf_value *value = find(gguf, key);
    uint64_t bits = 0;
    bool is_negative = false;
    if (value == NULL || !load_int(value->type, value->data, &bits, &is_negative) || is_negative) {
        return false;
    }
    *out = bits;
    return true;
}

bool tdm_gguf_get_i64(const tdm_gguf *gguf, const char *key, int64_t *out) {
    const tdm_gguf_value *value = find(gguf, key);
    return value != NULL && load_i64(value->type, value->data, out);
}

bool tdm_gguf_get_f64(const tdm_gguf *gguf, const char *key, double *out) {
    const tdm_gguf_value *value = find(gguf, key);
    return value != NULL && load_f64(value->type, value->data, out);
}

bool tdm_gguf_get_bool(const tdm_gguf *gguf, const char *key, bool *out) {
    const tdm_gguf_value *value = find(gguf, key);
    if (value == NULL || value->type != TDM_GGUF_BOOL) {
        return false;
    }
    *out = value->data[0] != 0;
    return true;
}

bool tdm_gguf_get_text(const tdm_gguf *gguf, const char *key, tdm_gguf_text *out) {
    const tdm_gguf_value *value = find(gguf, key);
    if (value == NULL || value->type != TDM_GGUF_STRING) {
        return false;
    }
    out->data = (const char *)value->data;
    out->len = (size_t)value->n;
    return true;
}

/* ---- arrays ---- */

bool tdm_gguf_array_find(const tdm_gguf *gguf, const char *key, tdm_gguf_array_ref *out) {
    const tdm_gguf_value *value = find(gguf, key);
    if (value == NULL || value->type != TDM_GGUF_ARRAY) {
        return false;
    }
    *out = (tdm_gguf_array_ref){value, value->item_type, (size_t)value->n, 0, value->data};
    return true;
}

bool tdm_gguf_array(const tdm_gguf *gguf, const char *key, tdm_gguf_type *out_type, size_t *out_n) {
    tdm_gguf_array_ref ref;
    if (!tdm_gguf_array_find(gguf, key, &ref)) {
        return false;
    }
    *out_type = ref.type;
    *out_n = ref.n;
    return true;
}

/* The parser has walked over all of them, so that each is inside the file. */
bool tdm_gguf_ref_text(tdm_gguf_array_ref *ref, size_t idx, tdm_gguf_text *out) {
    if (ref->type != TDM_GGUF_STRING || idx >= ref->n) {
        return false;
    }
    if (idx < ref->next) {
        ref->next = 0;
        ref->next_at = ref->value->data;
    }
    for (; ref->next <= idx; ref->next++) {
        out->data = (const char *)ref->next_at + 8;
        out->len = (size_t)tdm_gguf_load_u64(ref->next_at);
        ref->next_at += 8 + out->len; /* bounded: see above */
    }
    return true;
}

/* Where element idx of an array of scalars lies, or NULL. */
static const uint8_t *item_at(const tdm_gguf_array_ref *ref, size_t idx) {
    const uint32_t elem_bytes = tdm_gguf_type_bytes(ref->type);
    /* bounded: the parser has seen n * elem_bytes bytes of the file */
    return elem_bytes != 0 && idx < ref->n ? &ref->value->data[idx * elem_bytes] : NULL;
}

bool tdm_gguf_ref_i64(const tdm_gguf_array_ref *ref, size_t idx, int64_t *out) {
    const uint8_t *at = item_at(ref, idx);
    if (at != NULL && ref->type == TDM_GGUF_BOOL) {
        *out = at[0] != 0;
        return true;
    }
    return at != NULL && load_i64(ref->type, at, out);
}

bool tdm_gguf_ref_f64(const tdm_gguf_array_ref *ref, size_t idx, double *out) {
    const uint8_t *at = item_at(ref, idx);
    return at != NULL && load_f64(ref->type, at, out);
}

bool tdm_gguf_array_text(const tdm_gguf *gguf, const char *key, size_t idx, tdm_gguf_text *out) {
    tdm_gguf_array_ref ref;
    return tdm_gguf_array_find(gguf, key, &ref) && tdm_gguf_ref_text(&ref, idx, out);
}

bool tdm_gguf_array_i64(const tdm_gguf *gguf, const char *key, size_t idx, int64_t *out) {
    tdm_gguf_array_ref ref;
    return tdm_gguf_array_find(gguf, key, &ref) && tdm_gguf_ref_i64(&ref, idx, out);
}

bool tdm_gguf_array_f64(const tdm_gguf *gguf, const char *key, size_t idx, double *out) {
    tdm_gguf_array_ref ref;
    return tdm_gguf_array_find(gguf, key, &ref) && tdm_gguf_ref_f64(&ref, idx, out);
}
