/* SPDX-License-Identifier: Apache-2.0
 *
 * Many texts at once on a thread team. Each text is encoded by one member, which takes the next one
 * when it is done; ids are those of one call a text, whatever the team. */
#include "text/tokenizer_priv.h"

#include "base/thread.h"

#include <stdatomic.h>
#include <string.h>

typedef struct batch {
    const tdm_tokenizer *tokenizer;
    const tdm_batch_text *texts;
    size_t n;
    const tdm_encode_options *options;
    tdm_ids *ids;
    atomic_size_t next;
    atomic_size_t failed; /* the first text that failed; n: none */
} batch;

/* Keeps the least index. */
static void note_failure(batch *b, size_t idx) {
    size_t seen = atomic_load(&b->failed);
    while (idx < seen && !atomic_compare_exchange_weak(&b->failed, &seen, idx)) {
    }
}

static void run_member(void *arg, int32_t idx, int32_t n) {
    batch *b = arg;
    (void)idx;
    (void)n;
    for (size_t i = atomic_fetch_add(&b->next, 1); i < b->n; i = atomic_fetch_add(&b->next, 1)) {
        if (i < atomic_load(&b->failed) &&
            tdm_tokenizer_encode(b->tokenizer, b->texts[i].text, b->texts[i].len, b->options,
                                 &b->ids[i], NULL) != TDM_OK) {
            note_failure(b, i);
        }
    }
}

tdm_status tdm_tokenizer_encode_batch(const tdm_tokenizer *tokenizer, tdm_team *team,
                                      const tdm_batch_text *texts, size_t n,
                                      const tdm_encode_options *options, tdm_ids *ids,
                                      tdm_error *err) {
    batch b = {.tokenizer = tokenizer, .texts = texts, .n = n, .options = options, .ids = ids};
    atomic_init(&b.next, 0);
    atomic_init(&b.failed, n);
    if (team != NULL && n > 1) {
        tdm_team_run(team, run_member, &b);
    } else {
        run_member(&b, 0, 1);
    }
    const size_t failed = atomic_load(&b.failed);
    if (failed == n) {
        return TDM_OK;
    }
    for (size_t i = failed + 1; i < n; i++) { /* which of the later ones ran is chance */
        ids[i].len = 0;
    }
    /* Once more for its words: what a text is refused for does not depend on the thread. */
    const tdm_status status = tdm_tokenizer_encode(tokenizer, texts[failed].text, texts[failed].len,
                                                   options, &ids[failed], err);
    if (status != TDM_OK) {
        tdm_err_note(err, "text %zu of %zu", failed, n);
        return status;
    }
    return tdm_fail_nomem(err, "token ids"); /* memory was short then and is not now */
}
