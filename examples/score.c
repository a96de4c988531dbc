/* SPDX-License-Identifier: Apache-2.0
 *
 * How likely does a model find a sequence of tokens, and what would it have expected instead?
 *
 *   example_score MODEL ID ID ... */
#include <tandem/tandem.h>

#include <stdio.h>
#include <stdlib.h>

#define IDS_MAX 256

int main(int argc, char **argv) {
    tdm_error error = {.code = TDM_OK};
    tdm_model *model = NULL;
    int32_t ids[IDS_MAX];
    float logprobs[IDS_MAX];
    tdm_top best[IDS_MAX];
    size_t n = 0;
    double sum = 0.0;
    tdm_status status = TDM_OK;
    if (argc < 4 || argc - 2 > IDS_MAX) {
        (void)fprintf(stderr, "usage: %s MODEL ID ID ... (2 to %d ids)\n", argv[0], IDS_MAX);
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        ids[n++] = (int32_t)strtol(argv[i], NULL, 10);
    }
    status = tdm_model_open(&model, argv[1], NULL, &error);
    if (status == TDM_OK) {
        status = tdm_model_score(model, ids, n, 0, logprobs, 1, best, &error);
    }
    tdm_model_close(model);
    if (status != TDM_OK) {
        (void)fprintf(stderr, "%s: %s\n", error.where, error.what);
        return tdm_status_exit_code(status);
    }
    for (size_t i = 1; i < n; i++) {
        (void)printf("%6d  log-probability %9.4f   likeliest %6d  %9.4f\n", (int)ids[i],
                     (double)logprobs[i], (int)best[i].id, (double)best[i].logprob);
        sum += (double)logprobs[i];
    }
    (void)printf("mean %.4f nats\n", -sum / (double)(n - 1));
    return 0;
}
