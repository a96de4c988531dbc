/* SPDX-License-Identifier: Apache-2.0
 *
 * Backends by name. Floor 10. */
#ifndef TDM_CLI_BOOT_H
#define TDM_CLI_BOOT_H

#include "base/alloc.h"
#include "contract/backend.h"

/* The backend that options ask for. Owns: caller destroys. Errors: TDM_E_ARG, TDM_E_UNSUPPORTED,
 * TDM_E_NOMEM, TDM_E_IO. */
TDM_NODISCARD tdm_status tdm_boot_backend(tdm_backend **out, const tdm_alloc *alloc,
                                          const tdm_model_options *options, tdm_error *err);
/* tdm_model_open over an allocator. */
TDM_NODISCARD tdm_status tdm_boot_model(tdm_model **out_model, const tdm_alloc *alloc,
                                        const char *path, const tdm_model_options *options,
                                        tdm_error *err);

#endif
