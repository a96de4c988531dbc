/* SPDX-License-Identifier: Apache-2.0
 *
 * A prompt's insides, for the files of this room. */
#ifndef TDM_ENGINE_PROMPT_PRIV_H
#define TDM_ENGINE_PROMPT_PRIV_H

#include "base/buf.h"
#include "text/tokenizer.h"

struct tdm_prompt {
    const tdm_alloc *alloc;
    tdm_ids ids; /* at least one, all inside the vocabulary */
    tdm_buf text;
    bool has_text;
};

#endif
