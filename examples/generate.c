/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest whole program over the library: open a model, ask, print the answer as it comes.
 *
 *   example_generate MODEL "a question"     a model with a chat template
 *   example_generate MODEL --ids 5 17 42    token ids, for a model without a tokenizer */
#include <tandem/tandem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDS_MAX 64

static int fail(const tdm_error *error) {
    (void)fprintf(stderr, "%s: %s\n", error->where, error->what);
    return tdm_status_exit_code(error->code);
}

/* The prompt from the command line. */
static tdm_status make_prompt(tdm_model *model, int argc, char **argv, tdm_prompt **out,
                              tdm_error *error) {
    if (strcmp(argv[2], "--ids") == 0) {
        int32_t ids[IDS_MAX];
        size_t n = 0;
        for (int i = 3; i < argc && n < IDS_MAX; i++) {
            ids[n++] = (int32_t)strtol(argv[i], NULL, 10);
        }
        return tdm_prompt_from_ids(out, model, ids, n, error);
    }
    const tdm_message message = {"user", argv[2]};
    return tdm_prompt_from_chat(out, model, &message, 1, error);
}

/* One token a turn; the text of an event is final and never half a character. */
static tdm_status answer(tdm_model *model, tdm_generation *generation, tdm_error *error) {
    tdm_event event;
    tdm_model_facts facts;
    tdm_model_describe(model, &facts);
    do {
        tdm_status status = tdm_generation_next(generation, &event, error);
        if (status != TDM_OK) {
            return status;
        }
        if (facts.tokenizer != NULL) {
            (void)fwrite(event.text, 1, event.text_len, stdout);
        } else if (event.is_content) {
            (void)printf("%d ", (int)event.id);
        }
        (void)fflush(stdout);
    } while (event.finish == TDM_FINISH_NONE);
    (void)printf("\n");
    return TDM_OK;
}

int main(int argc, char **argv) {
    tdm_error error = {.code = TDM_OK};
    tdm_model *model = NULL;
    tdm_prompt *prompt = NULL;
    tdm_generation *generation = NULL;
    tdm_generation_options options;
    tdm_status status = TDM_OK;
    if (argc < 3) {
        (void)fprintf(stderr, "usage: %s MODEL QUESTION | MODEL --ids ID...\n", argv[0]);
        return 2;
    }
    status = tdm_model_open(&model, argv[1], NULL, &error);
    if (status == TDM_OK) {
        status = make_prompt(model, argc, argv, &prompt, &error);
    }
    if (status == TDM_OK) {
        tdm_generation_options_init(&options, model);
        options.max_tokens = 64;
        status = tdm_generation_create(&generation, model, prompt, &options, &error);
    }
    if (status == TDM_OK) {
        status = answer(model, generation, &error);
    }
    tdm_generation_destroy(generation);
    tdm_prompt_destroy(prompt);
    tdm_model_close(model);
    return status == TDM_OK ? 0 : fail(&error);
}
