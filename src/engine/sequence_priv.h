/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a sequence of so many positions fits, for the files of this room. */
#ifndef TDM_ENGINE_SEQUENCE_PRIV_H
#define TDM_ENGINE_SEQUENCE_PRIV_H

#include "engine/model_priv.h"

/* TDM_E_NO_FIT when n positions exceed the context, or their keys and values exceed free memory;
 * says both sizes. */
TDM_NODISCARD tdm_status tdm_sequence_check_fit(const tdm_model *model, size_t n_positions,
                                                tdm_error *err);

#endif
