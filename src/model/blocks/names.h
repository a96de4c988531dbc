/* SPDX-License-Identifier: Apache-2.0
 *
 * Families that spell a role in their own way. Floor 5. */
#ifndef TDM_MODEL_BLOCKS_NAMES_H
#define TDM_MODEL_BLOCKS_NAMES_H

#include "model/blocks/loader.h"

/* The role whose names the family's files use for what blocks call role. */
tdm_role tdm_role_of(const tdm_decoder_spec *spec, tdm_role role);

#endif
