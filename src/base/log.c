/* SPDX-License-Identifier: Apache-2.0
 *
 * One line into the embedder's sink. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void tdm_log_printf(const tdm_log *log, tdm_log_level level, const char *fmt, ...) {
    char line[512];
    va_list args;
    if (log == NULL || log->write == NULL || level < log->level_min) {
        return;
    }
    va_start(args, fmt);
    (void)vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    log->write(log->ctx, level, line);
}
