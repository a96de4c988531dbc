/* SPDX-License-Identifier: Apache-2.0
 *
 * Character classes out of utf8proc. Owns nothing; the basic plane is tabled once for each
 * tokenizer, because a call into the library for every character costs more than the scan itself.
 */
#include "text/unicode.h"

#include <utf8proc.h>

bool tdm_unicode_is_space(uint32_t cp) {
    return (cp >= 0x09 && cp <= 0x0D) || cp == 0x20 || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F ||
           cp == 0x205F || cp == 0x3000;
}

uint8_t tdm_unicode_class(uint32_t cp) {
    uint8_t cls = (uint8_t)utf8proc_category((utf8proc_int32_t)cp);
    if (cls == 0) {
        cls = tdm_unicode_newer_category(cp);
    }
    if (tdm_unicode_is_space(cp)) {
        cls |= 0x20;
    }
    if (cp == '\n' || cp == '\r') {
        cls |= 0x40;
    }
    return cls;
}

void tdm_unicode_init(tdm_unicode *unicode) {
    for (uint32_t cp = 0; cp < TDM_UNICODE_BMP; cp++) {
        unicode->bmp[cp] = tdm_unicode_class(cp);
    }
    for (uint32_t cp = 0; cp < 128; cp++) {
        unicode->ascii[cp] = tdm_unicode_bits_of(unicode->bmp[cp]);
    }
}

uint32_t tdm_unicode_lower(uint32_t cp) {
    /* Pairs younger than utf8proc's tables. */
    static const struct {
        uint32_t first, last, lower;
    } NEWER[] = {
        {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x0264}, {0xA7CC, 0xA7CC, 0xA7CD},
        {0xA7CE, 0xA7CE, 0xA7CF},    {0xA7D2, 0xA7D2, 0xA7D3}, {0xA7D4, 0xA7D4, 0xA7D5},
        {0xA7DA, 0xA7DA, 0xA7DB},    {0xA7DC, 0xA7DC, 0x019B}, {0x10D50, 0x10D65, 0x10D70},
        {0x16EA0, 0x16EB8, 0x16EBB},
    };
    const utf8proc_int32_t lower = utf8proc_tolower((utf8proc_int32_t)cp);
    if (lower != (utf8proc_int32_t)cp || cp < 0x1C89) {
        return (uint32_t)lower;
    }
    for (size_t i = 0; i < sizeof(NEWER) / sizeof(NEWER[0]); i++) {
        if (cp >= NEWER[i].first && cp <= NEWER[i].last) {
            return NEWER[i].lower + (cp - NEWER[i].first);
        }
    }
    return cp;
}

bool tdm_unicode_is_expr_word(uint32_t cp) {
    const uint32_t bits = tdm_unicode_bits_of(tdm_unicode_class(cp));
    return (bits & (TDM_UC_L | TDM_UC_M | TDM_UC_ND | TDM_UC_NL | TDM_UC_PC)) != 0 || cp == 0xB2 ||
           cp == 0xB3 || cp == 0xB9 || (cp >= 0xBC && cp <= 0xBE) ||
           (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) ||
           (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189);
}

bool tdm_unicode_is_word(uint32_t cp) {
    const uint32_t bits = tdm_unicode_bits_of(tdm_unicode_class(cp));
    if ((bits & (TDM_UC_L | TDM_UC_M | TDM_UC_ND | TDM_UC_NL | TDM_UC_PC)) != 0) {
        return true;
    }
    /* Join_Control, and the symbols that are Alphabetic (Other_Alphabetic outside M). */
    return cp == 0x200C || cp == 0x200D || (cp >= 0x24B6 && cp <= 0x24E9) ||
           (cp >= 0x1F130 && cp <= 0x1F149) || (cp >= 0x1F150 && cp <= 0x1F169) ||
           (cp >= 0x1F170 && cp <= 0x1F189);
}

const char *tdm_unicode_library(void) {
    return utf8proc_version();
}
