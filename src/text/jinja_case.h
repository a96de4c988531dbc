/* SPDX-License-Identifier: Apache-2.0
 *
 * The case table of jinja_case.c. Floor 4, private to the template engine. */
#ifndef TDM_TEXT_JINJA_CASE_H
#define TDM_TEXT_JINJA_CASE_H

#include <stddef.h>
#include <stdint.h>

typedef struct jcase_row {
    uint32_t cp;
    uint16_t upper[3]; /* ended by 0 */
    uint16_t title[3];
} jcase_row;

extern const jcase_row TDM_JINJA_CASE_ROWS[];
extern const size_t TDM_JINJA_N_CASE_ROWS;

#endif
