/* SPDX-License-Identifier: Apache-2.0
 *
 * Tandem's public face: the only header that an embedder needs.
 * Errors come first because every other call reports through them. */
#ifndef TANDEM_TANDEM_H
#define TANDEM_TANDEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TDM_API __attribute__((visibility("default")))
#define TDM_NODISCARD __attribute__((warn_unused_result))
#define TDM_PRINTF(fmt_idx, first_idx) __attribute__((format(printf, fmt_idx, first_idx)))
#else
#define TDM_API
#define TDM_NODISCARD
#define TDM_PRINTF(fmt_idx, first_idx)
#endif

/* One list gives each status its code, name, sentence, HTTP answer and exit code of the command. */
#define TDM_STATUS_LIST(X)                                                                         \
    X(OK, "ok", "no error", 200, 0)                                                                \
    X(E_ARG, "bad_argument", "an argument is outside what the call accepts", 400, 2)               \
    X(E_NOT_FOUND, "not_found", "a named thing does not exist", 404, 3)                            \
    X(E_NO_FIT, "does_not_fit", "memory or context is too small for the request", 413, 4)          \
    X(E_NETWORK, "network", "a transfer failed", 502, 5)                                           \
    X(E_FORMAT, "corrupt", "bytes from outside break their format", 422, 6)                        \
    X(E_NOMEM, "out_of_memory", "an allocation failed", 503, 1)                                    \
    X(E_IO, "io", "the operating system refused a read or a write", 500, 1)                        \
    X(E_UNSUPPORTED, "unsupported", "well formed, but this build does not run it", 501, 1)         \
    X(E_SHAPE, "shape", "dimensions do not agree", 422, 6)                                         \
    X(E_LIMIT, "limit", "a stated limit was crossed", 413, 1)                                      \
    X(E_STATE, "state", "the call is not legal in this state", 409, 1)                             \
    X(E_DEVICE, "device", "the accelerator failed", 500, 1)                                        \
    X(E_BUSY, "busy", "the resource is in use", 503, 1)                                            \
    X(E_CANCELLED, "cancelled", "the caller cancelled the work", 499, 130)                         \
    X(E_INTERNAL, "internal", "an invariant of Tandem itself failed", 500, 1)

typedef enum tdm_status {
#define TDM_STATUS_ENUM(name, text, sentence, http, exit_code) TDM_##name,
    TDM_STATUS_LIST(TDM_STATUS_ENUM)
#undef TDM_STATUS_ENUM
        TDM_STATUS_COUNT
} tdm_status;

/* What went wrong, in the caller's storage. Every text is NUL-terminated and may be empty.
 * Threads: a plain value; it may be copied and passed between threads. */
typedef struct tdm_error {
    tdm_status code;
    char what[256];   /* the fact, one sentence */
    char where[192];  /* file and offset, or JSON path, or parameter */
    char limit[96];   /* the limit that was crossed */
    char remedy[192]; /* what the reader can do about it */
} tdm_error;

/* Short machine-readable name of a status ("corrupt"), never NULL. Threads: any. */
TDM_API const char *tdm_status_name(tdm_status status);
/* One sentence about a status, never NULL. Threads: any. */
TDM_API const char *tdm_status_sentence(tdm_status status);
/* The HTTP status with which a server answers it. Threads: any. */
TDM_API int tdm_status_http(tdm_status status);
/* The exit code with which the command answers it. Threads: any. */
TDM_API int tdm_status_exit_code(tdm_status status);

#ifdef __cplusplus
}
#endif
#endif
