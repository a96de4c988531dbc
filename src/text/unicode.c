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
