/* SPDX-License-Identifier: Apache-2.0
 *
 * A unit of the double array is 32 bits: bits 0 to 7 and 31 label, 8 has a value, 9 scales the
 * offset, 10 to 30 offset; where the one before says that it has a value, bits 0 to 30 are it.
 * Layout of the blob: size of the array in bytes (32 bits, little-endian), array, texts. */
#include "text/charsmap.h"

#include "base/arith.h"

#include <string.h>

#define LABEL_MASK 0x800000FFu
#define VALUE_MASK 0x7FFFFFFFu

static uint32_t read_u32(const char *bytes) {
    const unsigned char *b = (const unsigned char *)bytes;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

tdm_status tdm_charsmap_init(tdm_charsmap *map, tdm_arena *arena, const char *blob, size_t len,
                             bool is_longest, tdm_error *err) {
    memset(map, 0, sizeof(*map));
    map->is_longest = is_longest;
    if (len == 0) {
        return TDM_OK;
    }
    const size_t array_bytes = len >= 4 ? read_u32(blob) : 0;
    if (len < 4 || array_bytes > len - 4 || array_bytes % 4 != 0) {
        return tdm_fail(err, TDM_E_FORMAT, "a character map of %zu bytes says its array has %zu",
                        len, array_bytes);
    }
    map->n_units = array_bytes / 4;
    map->texts_len = len - 4 - array_bytes;
    if (map->n_units == 0 || map->texts_len == 0 || blob[len - 1] != '\0') {
        return tdm_fail(err, TDM_E_FORMAT, "a character map without array, or texts without end");
    }
    uint32_t *units = tdm_arena_calloc(arena, map->n_units, sizeof(*units));
    map->texts = tdm_arena_copy_text(arena, blob + 4 + array_bytes, map->texts_len);
    if (units == NULL || map->texts == NULL) {
        return tdm_fail_nomem(err, "a character map");
    }
    for (size_t i = 0; i < map->n_units; i++) {
        units[i] = read_u32(blob + 4 + 4 * i);
    }
    map->units = units;
    return TDM_OK;
}

static uint32_t offset_of(uint32_t unit) {
    return unit >> 10 << ((unit & 0x200u) >> 6);
}

size_t tdm_charsmap_find(const tdm_charsmap *map, const char *text, size_t len, bool is_longest,
                         const char **out, size_t *out_len) {
    size_t found = 0;
    size_t text_at = 0;
    if (map->n_units == 0) {
        return 0;
    }
    size_t node = offset_of(map->units[0]);
    for (size_t i = 0; i < len; i++) {
        const uint8_t byte = (uint8_t)text[i];
        node ^= byte;
        if (byte == 0 || node >= map->n_units || (map->units[node] & LABEL_MASK) != byte) {
            break;
        }
        const uint32_t unit = map->units[node];
        node ^= offset_of(unit);
        if ((unit & 0x100u) == 0) {
            continue;
        }
        if (node >= map->n_units || (map->units[node] & VALUE_MASK) >= map->texts_len) {
            break;
        }
        text_at = map->units[node] & VALUE_MASK;
        found = i + 1;
        if (!is_longest) {
            break;
        }
    }
    if (found > 0) {
        *out = map->texts + text_at;
        *out_len = strlen(*out);
    }
    return found;
}
