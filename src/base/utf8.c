/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict UTF-8. Source: The Unicode Standard, table 3-7 (well-formed byte sequences) and
 * section 3.9 (maximal subpart). */
#include "base/utf8.h"

#include <string.h>

/* What may follow a lead byte: how many continuation bytes, and the range of the first of them. */
typedef struct lead_rule {
    uint8_t n_more; /* 0: the byte starts no sequence */
    uint8_t lo, hi;
} lead_rule;

static lead_rule rule_of(unsigned char lead) {
    if (lead >= 0xC2 && lead <= 0xDF) {
        return (lead_rule){1, 0x80, 0xBF};
    }
    if (lead == 0xE0) {
        return (lead_rule){2, 0xA0, 0xBF};
    }
    if (lead == 0xED) {
        return (lead_rule){2, 0x80, 0x9F};
    }
    if (lead >= 0xE1 && lead <= 0xEF) {
        return (lead_rule){2, 0x80, 0xBF};
    }
    if (lead == 0xF0) {
        return (lead_rule){3, 0x90, 0xBF};
    }
    if (lead >= 0xF1 && lead <= 0xF3) {
        return (lead_rule){3, 0x80, 0xBF};
    }
    if (lead == 0xF4) {
        return (lead_rule){3, 0x80, 0x8F};
    }
    return (lead_rule){0, 0, 0};
}

/* Bytes of the maximal subpart at text, and whether it is a whole character. */
static size_t subpart(const char *text, size_t len, bool *out_whole) {
    lead_rule rule = rule_of((unsigned char)text[0]);
    size_t n = 1;
    if ((unsigned char)text[0] < 0x80) {
        *out_whole = true;
        return 1;
    }
    *out_whole = false;
    while (n <= rule.n_more && n < len) {
        unsigned char byte = (unsigned char)text[n];
        unsigned char lo = n == 1 ? rule.lo : 0x80;
        unsigned char hi = n == 1 ? rule.hi : 0xBF;
        if (byte < lo || byte > hi) {
            return n;
        }
        n++;
    }
    *out_whole = rule.n_more > 0 && n == (size_t)rule.n_more + 1;
    return n;
}

size_t tdm_utf8_decode(const char *text, size_t len, uint32_t *out_cp, bool *out_ok) {
    bool whole = false;
    size_t n = subpart(text, len, &whole);
    uint32_t cp = TDM_UTF8_REPLACEMENT;
    if (whole) {
        static const uint8_t LEAD_MASK[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
        cp = (unsigned char)text[0] & LEAD_MASK[n];
        for (size_t i = 1; i < n; i++) {
            cp = (cp << 6) | ((unsigned char)text[i] & 0x3Fu);
        }
    }
    *out_cp = cp;
    if (out_ok != NULL) {
        *out_ok = whole;
    }
    return n;
}

size_t tdm_utf8_encode(uint32_t cp, char out[4]) {
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0u | (cp >> 6));
        out[1] = (char)(0x80u | (cp & 0x3Fu));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0u | (cp >> 12));
        out[1] = (char)(0x80u | ((cp >> 6) & 0x3Fu));
        out[2] = (char)(0x80u | (cp & 0x3Fu));
        return 3;
    }
    out[0] = (char)(0xF0u | (cp >> 18));
    out[1] = (char)(0x80u | ((cp >> 12) & 0x3Fu));
    out[2] = (char)(0x80u | ((cp >> 6) & 0x3Fu));
    out[3] = (char)(0x80u | (cp & 0x3Fu));
    return 4;
}

size_t tdm_utf8_valid_prefix(const char *text, size_t len) {
    size_t i = 0;
    while (i < len) {
        uint64_t eight = 0;
        bool whole = false;
        if (len - i >= sizeof eight) { /* most text is ASCII: eight bytes at a time */
            memcpy(&eight, text + i, sizeof eight);
            if ((eight & UINT64_C(0x8080808080808080)) == 0) {
                i += sizeof eight;
                continue;
            }
        }
        size_t n = subpart(text + i, len - i, &whole);
        if (!whole) {
            break;
        }
        i += n;
    }
    return i;
}

size_t tdm_utf8_incomplete_tail(const char *text, size_t len) {
    size_t back_max = len < 3 ? len : 3;
    for (size_t back = 1; back <= back_max; back++) {
        unsigned char byte = (unsigned char)text[len - back];
        if ((byte & 0xC0u) != 0x80u) {
            bool whole = false;
            size_t n = subpart(text + len - back, back, &whole);
            return !whole && n == back && rule_of(byte).n_more >= back ? back : 0;
        }
    }
    return 0;
}

size_t tdm_utf8_count(const char *text, size_t len) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        n += ((unsigned char)text[i] & 0xC0u) != 0x80u;
    }
    return n;
}
