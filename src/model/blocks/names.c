/* SPDX-License-Identifier: Apache-2.0
 *
 * Which spelling of a role a family uses. Blocks ask for the usual one; a family of other names has
 * rows here, and rows of its own in the loader's table. */
#include "model/blocks/names.h"

static const struct {
    tdm_naming naming;
    tdm_role usual, own;
} OWN[] = {
    {TDM_NAMING_DEEPSEEK, TDM_ROLE_SHARED_GATE, TDM_ROLE_DEEPSEEK_SHARED_GATE},
    {TDM_NAMING_DEEPSEEK, TDM_ROLE_SHARED_UP, TDM_ROLE_DEEPSEEK_SHARED_UP},
    {TDM_NAMING_DEEPSEEK, TDM_ROLE_SHARED_DOWN, TDM_ROLE_DEEPSEEK_SHARED_DOWN},
    {TDM_NAMING_GLM4, TDM_ROLE_ATTENTION_POST_NORM, TDM_ROLE_GLM4_ATTENTION_POST_NORM},
    {TDM_NAMING_GLM4, TDM_ROLE_MLP_PRE_NORM, TDM_ROLE_MLP_NORM},
    {TDM_NAMING_GLM4, TDM_ROLE_MLP_POST_NORM, TDM_ROLE_GLM4_MLP_POST_NORM},
    {TDM_NAMING_GPT_OSS, TDM_ROLE_MLP_NORM, TDM_ROLE_ATTENTION_POST_NORM}, /* by place in GGUF */
    {TDM_NAMING_STARCODER2, TDM_ROLE_UP, TDM_ROLE_STARCODER2_UP},
    {TDM_NAMING_STARCODER2, TDM_ROLE_DOWN, TDM_ROLE_STARCODER2_DOWN},
    {TDM_NAMING_QWEN_LINEAR, TDM_ROLE_MLP_NORM, TDM_ROLE_ATTENTION_POST_NORM},
    {TDM_NAMING_LFM2, TDM_ROLE_FINAL_NORM, TDM_ROLE_LFM2_FINAL_NORM},
    {TDM_NAMING_LFM2, TDM_ROLE_ATTENTION_NORM, TDM_ROLE_LFM2_OPERATOR_NORM},
    {TDM_NAMING_LFM2, TDM_ROLE_MLP_NORM, TDM_ROLE_LFM2_FFN_NORM},
    {TDM_NAMING_LFM2, TDM_ROLE_Q_NORM, TDM_ROLE_LFM2_Q_NORM},
    {TDM_NAMING_LFM2, TDM_ROLE_K_NORM, TDM_ROLE_LFM2_K_NORM},
    {TDM_NAMING_LFM2, TDM_ROLE_O, TDM_ROLE_LFM2_O},
    {TDM_NAMING_LFM2, TDM_ROLE_GATE, TDM_ROLE_LFM2_GATE},
    {TDM_NAMING_LFM2, TDM_ROLE_UP, TDM_ROLE_LFM2_UP},
    {TDM_NAMING_LFM2, TDM_ROLE_DOWN, TDM_ROLE_LFM2_DOWN},
};

tdm_role tdm_role_of(const tdm_decoder_spec *spec, tdm_role role) {
    for (size_t i = 0; i < sizeof OWN / sizeof OWN[0]; i++) {
        if (OWN[i].naming == spec->naming && OWN[i].usual == role) {
            return OWN[i].own;
        }
    }
    return role;
}
