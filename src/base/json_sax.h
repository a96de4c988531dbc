/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON as events, for readers that want no tree. Floor 0. yajl underneath, made safe for a full
 * memory: yajl does not look at what its allocator returns, so all its memory comes from one arena,
 * and a failure leaves yajl by longjmp and drops the arena. Callbacks must therefore hold no lock
 * and own nothing that only their return would free. */
#ifndef TDM_BASE_JSON_SAX_H
#define TDM_BASE_JSON_SAX_H

#include "base/alloc.h"

#include <yajl/yajl_parse.h>

/* Parses the whole text; trailing bytes other than white space and invalid UTF-8 are errors. A
 * callback that returns 0 stops the parse: the call then returns *stop_status, whose error the
 * callback has filled in. Errors: TDM_E_FORMAT (line and offset in where), TDM_E_NOMEM, or
 * *stop_status. */
TDM_NODISCARD tdm_status tdm_json_sax(const tdm_alloc *alloc, const yajl_callbacks *callbacks,
                                      void *ctx, const tdm_status *stop_status, const char *text,
                                      size_t len, const char *name, tdm_error *err);

#endif
