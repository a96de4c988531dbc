/* SPDX-License-Identifier: Apache-2.0
 *
 * A prompt's insides, for the files of this room. */
#ifndef TDM_ENGINE_PROMPT_PRIV_H
#define TDM_ENGINE_PROMPT_PRIV_H

#include "base/buf.h"
#include "engine/chat_tools.h"
#include "text/answer.h"
#include "text/tokenizer.h"

struct tdm_prompt {
    const tdm_alloc *alloc;
    tdm_ids ids; /* at least one, all inside the vocabulary */
    tdm_buf text;
    bool has_text;
    tdm_text_segment *segments; /* [n_segments] of text; NULL for ids */
    size_t n_segments;
    const tdm_dialect *dialect; /* of the answer; NULL without a tokenizer */
    bool opens_in_reasoning;    /* the text ends inside a thought that it opened */
    tdm_chat_tools *tools;      /* of the chat request; NULL: none */
};

#endif
