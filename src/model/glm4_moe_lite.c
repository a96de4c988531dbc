/* SPDX-License-Identifier: Apache-2.0
 *
 * GLM-4.7-Flash: DeepSeek V3's parts in other sizes, one group of experts. Its GGUF files call
 * themselves deepseek2. Source: transformers 5.17, models/glm4_moe_lite. */
#include "model/family.h"

const tdm_family TDM_FAMILY_GLM4_MOE_LITE = {"glm4_moe_lite", NULL, NULL, tdm_deepseek_spec_init};
