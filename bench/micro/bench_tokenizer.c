/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizer bench: encodes and decodes a text and prints CSV, gates nothing. With `serve` it answers
 * framed texts on standard input with ids and nanoseconds, which is how bench/macro/
 * compare_tokenizers.py and tests/data/tokenizers/make_random.py compare it with the reference.
 *
 *   bench_tokenizer run   TOKENIZER TEXT [SECONDS]
 *   bench_tokenizer serve TOKENIZER   request: u32 op, u32 len, bytes
 *                                     op 0 encode (bytes: text), 1 decode (bytes: ids), 2 decode
 *                                     without special tokens; op + 16: with special tokens added,
 *                                     op + 32: special tokens stay text
 *                                     answer:  u32 status, u64 ns, u32 len, bytes (ids or text)
 *
 * TOKENIZER is a tokenizer.json, a GGUF file, or any other file that tdm_tokenizer_from_file takes. */
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "formats/gguf.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t now_ns(void) {
    const tdm_clock *clock = tdm_clock_system();
    return (uint64_t)clock->monotonic_ns(clock->ctx);
}

static bool ends_with(const char *text, const char *end) {
    const size_t len = strlen(text);
    const size_t end_len = strlen(end);
    return len >= end_len && memcmp(text + len - end_len, end, end_len) == 0;
}

static tdm_status open_tokenizer(tdm_tokenizer **out, const char *path, tdm_error *err) {
    tdm_blob blob;
    tdm_status status = TDM_OK;
    if (ends_with(path, ".gguf")) {
        tdm_gguf *gguf = NULL;
        TDM_TRY(tdm_blob_open(&blob, NULL, path, err));
        status = tdm_gguf_parse(&gguf, NULL, blob.data, blob.bytes, path, err);
        if (status == TDM_OK) {
            status = tdm_tokenizer_from_gguf(out, NULL, gguf, path, err);
        }
        tdm_gguf_destroy(gguf);
        tdm_blob_close(&blob);
        return status;
    }
    TDM_TRY(tdm_blob_open(&blob, NULL, path, err));
    status =
        tdm_tokenizer_from_json(out, NULL, (const char *)blob.data, blob.bytes, NULL, path, err);
    tdm_blob_close(&blob);
    return status;
}

static bool read_all(void *out, size_t n) {
    return n == 0 || fread(out, 1, n, stdin) == n;
}

static bool write_all(const void *bytes, size_t n) {
    return n == 0 || fwrite(bytes, 1, n, stdout) == n;
}

typedef struct answer {
    uint32_t status;
    uint64_t ns;
    const void *bytes;
    size_t len;
} answer;

static bool send_answer(const answer *a) {
    const uint32_t len = (uint32_t)a->len;
    return write_all(&a->status, 4) && write_all(&a->ns, 8) && write_all(&len, 4) &&
           write_all(a->bytes, a->len) && fflush(stdout) == 0;
}

static answer answer_one(const tdm_tokenizer *tokenizer, uint32_t op, const char *bytes, size_t len,
                         tdm_ids *ids, tdm_buf *out) {
    answer a = {0, 0, NULL, 0};
    const uint64_t begin = now_ns();
    if ((op & 15u) == 0) {
        const tdm_encode_options options = {(op & 16u) != 0, (op & 32u) == 0, false};
        ids->len = 0;
        a.status = (uint32_t)tdm_tokenizer_encode(tokenizer, bytes, len, &options, ids, NULL);
        a.bytes = ids->ids;
        a.len = ids->len * sizeof(ids->ids[0]);
    } else {
        tdm_buf_reset(out);
        a.status =
            (uint32_t)tdm_tokenizer_decode(tokenizer, (const int32_t *)(const void *)bytes,
                                           len / sizeof(int32_t), (op & 15u) == 2, out, NULL);
        a.bytes = out->data;
        a.len = out->len;
    }
    a.ns = now_ns() - begin;
    return a;
}

static int serve(const tdm_tokenizer *tokenizer) {
    uint32_t head[2];
    char *bytes = NULL;
    size_t cap = 0;
    tdm_ids ids;
    tdm_buf out;
    bool is_ok = true;
    tdm_ids_init(&ids, NULL);
    tdm_buf_init(&out, NULL, 0);
    while (is_ok && read_all(head, sizeof(head))) {
        if (head[1] > cap) {
            free(bytes);
            cap = (size_t)head[1] * 2;
            bytes = malloc(cap);
        }
        is_ok = (bytes != NULL || head[1] == 0) && read_all(bytes, head[1]);
        if (is_ok) {
            const answer a = answer_one(tokenizer, head[0], bytes, head[1], &ids, &out);
            is_ok = send_answer(&a);
        }
    }
    free(bytes);
    tdm_ids_deinit(&ids);
    tdm_buf_deinit(&out);
    return is_ok ? 0 : 1;
}

static int run(const tdm_tokenizer *tokenizer, const char *path, double seconds) {
    tdm_blob blob;
    tdm_error err = {TDM_OK, "", "", "", ""};
    const tdm_encode_options options = {false, false, false};
    tdm_ids ids;
    tdm_buf out;
    uint64_t best[2] = {UINT64_MAX, UINT64_MAX};
    uint64_t spent = 0;
    if (tdm_blob_open(&blob, NULL, path, &err) != TDM_OK) {
        (void)fprintf(stderr, "%s\n", err.what);
        return 1;
    }
    tdm_ids_init(&ids, NULL);
    tdm_buf_init(&out, NULL, 0);
    for (int n = 0; n < 3 || (double)spent < seconds * 1e9; n++) {
        const uint64_t begin = now_ns();
        ids.len = 0;
        if (tdm_tokenizer_encode(tokenizer, (const char *)blob.data, blob.bytes, &options, &ids,
                                 &err) != TDM_OK) {
            (void)fprintf(stderr, "%s\n", err.what);
            return 1;
        }
        const uint64_t middle = now_ns();
        tdm_buf_reset(&out);
        if (tdm_tokenizer_decode(tokenizer, ids.ids, ids.len, false, &out, &err) != TDM_OK) {
            return 1;
        }
        const uint64_t end = now_ns();
        best[0] = middle - begin < best[0] ? middle - begin : best[0];
        best[1] = end - middle < best[1] ? end - middle : best[1];
        spent += end - begin;
    }
    (void)printf("tokenizer,text,bytes,ids,encode_mb_s,decode_mb_s,hash\n");
    (void)printf("\"%s\",\"%s\",%zu,%zu,%.1f,%.1f,%016llx\n", tdm_tokenizer_describe(tokenizer),
                 path, blob.bytes, ids.len, (double)blob.bytes * 1e3 / (double)best[0],
                 (double)blob.bytes * 1e3 / (double)best[1],
                 (unsigned long long)tdm_hash64(ids.ids, ids.len * sizeof(ids.ids[0])));
    tdm_ids_deinit(&ids);
    tdm_buf_deinit(&out);
    tdm_blob_close(&blob);
    return 0;
}

int main(int argc, char **argv) {
    tdm_tokenizer *tokenizer = NULL;
    tdm_error err = {TDM_OK, "", "", "", ""};
    int rc = 2;
    if (argc < 3) {
        (void)fprintf(stderr, "usage: bench_tokenizer run|serve TOKENIZER [TEXT [SECONDS]]\n");
        return rc;
    }
    if (open_tokenizer(&tokenizer, argv[2], &err) != TDM_OK) {
        (void)fprintf(stderr, "%s: %s (%s)\n", argv[2], err.what, err.where);
        return 1;
    }
    if (strcmp(argv[1], "serve") == 0) {
        rc = serve(tokenizer);
    } else if (argc >= 4) {
        rc = run(tokenizer, argv[3], argc >= 5 ? strtod(argv[4], NULL) : 1.0);
    }
    tdm_tokenizer_destroy(tokenizer);
    return rc;
}
