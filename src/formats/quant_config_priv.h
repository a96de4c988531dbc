/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside formats: the settings of tool chains that name themselves in quant_method. */
#ifndef TDM_FORMATS_QUANT_CONFIG_PRIV_H
#define TDM_FORMATS_QUANT_CONFIG_PRIV_H

#include "formats/quant_config.h"

/* Fills method and what follows it from out->object, whose quant_method is there. Errors:
 * TDM_E_FORMAT (kinds, ranges), TDM_E_UNSUPPORTED (a method or a setting without a reader). */
TDM_NODISCARD tdm_status tdm_quant_method_read(tdm_quant_config *out, tdm_error *err);

#endif
