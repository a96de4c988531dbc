/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of mixers. */
#include "model/blocks/mixer.h"

const tdm_mixer_ops *tdm_mixer_ops_of(tdm_mixer mixer) {
    static const tdm_mixer_ops *const MIXERS[TDM_MIXER_COUNT] = {
        [TDM_MIXER_ATTENTION] = &TDM_MIXER_ATTENTION_OPS,
        [TDM_MIXER_CONV] = &TDM_MIXER_CONV_OPS,
        [TDM_MIXER_DELTA] = &TDM_MIXER_DELTA_OPS,
        [TDM_MIXER_LATENT] = &TDM_MIXER_LATENT_OPS,
    };
    TDM_CHECK(mixer < TDM_MIXER_COUNT); /* a family file's constant */
    return MIXERS[mixer];
}
