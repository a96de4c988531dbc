/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8, strictly: no surrogates, no overlong forms, nothing above U+10FFFF. Floor 0. */
#ifndef TDM_BASE_UTF8_H
#define TDM_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TDM_UTF8_REPLACEMENT 0xFFFDu

/* Decodes one scalar value from text[0..len), len >= 1. Returns the bytes it took (1 to 4) and sets
 * *out_cp. Bytes that are no UTF-8 give U+FFFD and take the maximal subpart (1 to 3 bytes), as
 * Unicode's recommended practice and Python's "replace" handler do; *out_ok tells the two cases
 * apart (may be NULL). */
size_t tdm_utf8_decode(const char *text, size_t len, uint32_t *out_cp, bool *out_ok);
/* Writes 1 to 4 bytes and returns how many. cp must be a scalar value. */
size_t tdm_utf8_encode(uint32_t cp, char out[4]);
/* Bytes of the longest valid prefix; equal to len when all is valid. */
size_t tdm_utf8_valid_prefix(const char *text, size_t len);
/* 0 when text ends between characters; else the length (1 to 3) of a tail that could still become
 * one valid character. */
size_t tdm_utf8_incomplete_tail(const char *text, size_t len);
/* Number of scalar values in valid text. */
size_t tdm_utf8_count(const char *text, size_t len);

#endif
