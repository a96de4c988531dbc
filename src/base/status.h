/* SPDX-License-Identifier: Apache-2.0
 *
 * Filling a tdm_error, passing a status up, and the checks for programmer errors. Floor 0. */
#ifndef TDM_BASE_STATUS_H
#define TDM_BASE_STATUS_H

#include "tandem/tandem.h"

/* Fills code and what, clears where, limit and remedy. err may be NULL. Returns code. */
tdm_status tdm_fail(tdm_error *err, tdm_status code, const char *fmt, ...) TDM_PRINTF(3, 4);
/* Out of memory while making `noun`; fills the remedy too. Returns TDM_E_NOMEM. */
tdm_status tdm_fail_nomem(tdm_error *err, const char *noun);
/* Set one field each; err may be NULL; text that is too long is cut with "...". */
void tdm_err_where(tdm_error *err, const char *fmt, ...) TDM_PRINTF(2, 3);
void tdm_err_limit(tdm_error *err, const char *fmt, ...) TDM_PRINTF(2, 3);
void tdm_err_remedy(tdm_error *err, const char *fmt, ...) TDM_PRINTF(2, 3);
/* Puts context in front of what while an error rises: "layer 3: <what>". */
void tdm_err_note(tdm_error *err, const char *fmt, ...) TDM_PRINTF(2, 3);
/* Back to TDM_OK with empty texts. */
void tdm_err_clear(tdm_error *err);

/* Returns the status from the enclosing function when it is not TDM_OK. */
#define TDM_TRY(expr)                                                                              \
    do {                                                                                           \
        tdm_status try_status_ = (expr);                                                           \
        if (try_status_ != TDM_OK) {                                                               \
            return try_status_;                                                                    \
        }                                                                                          \
    } while (0)

/* Stores the status and jumps to label when it is not TDM_OK. */
#define TDM_TRY_GOTO(status, expr, label)                                                          \
    do {                                                                                           \
        (status) = (expr);                                                                         \
        if ((status) != TDM_OK) {                                                                  \
            goto label;                                                                            \
        }                                                                                          \
    } while (0)

/* Aborts with file, line and expression. For broken preconditions of our own code only: bytes from
 * outside can never reach one. */
_Noreturn void tdm_check_failed(const char *file, int line, const char *expr);
#define TDM_CHECK(cond) ((cond) ? (void)0 : tdm_check_failed(__FILE__, __LINE__, #cond))
#ifdef NDEBUG
#define TDM_DCHECK(cond) ((void)sizeof(cond))
#else
#define TDM_DCHECK(cond) TDM_CHECK(cond)
#endif

#endif
