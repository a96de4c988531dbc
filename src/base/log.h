/* SPDX-License-Identifier: Apache-2.0
 *
 * Logging into a sink that the embedder installs. Floor 0. Lower rooms log warnings and progress;
 * errors are returned, never logged. A NULL log drops everything. */
#ifndef TDM_BASE_LOG_H
#define TDM_BASE_LOG_H

#include "tandem/tandem.h"

typedef enum tdm_log_level { TDM_LOG_DEBUG, TDM_LOG_INFO, TDM_LOG_WARN } tdm_log_level;

typedef struct tdm_log {
    void *ctx;
    tdm_log_level level_min;
    void (*write)(void *ctx, tdm_log_level level,
                  const char *text); /* one line, no newline, at most 511 bytes */
} tdm_log;

void tdm_log_printf(const tdm_log *log, tdm_log_level level, const char *fmt, ...) TDM_PRINTF(3, 4);

#endif
