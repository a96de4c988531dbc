/* SPDX-License-Identifier: Apache-2.0
 *
 * What verbs read: files and standard input, whole or by lines, texts and ids. read(2) directly, so
 * that pipes and terminals work as files do. Bytes from outside end in a typed error with an
 * offset. tdm:outside-numbers */
#include "base/utf8.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define INPUT_MAX ((size_t)256 << 20)
#define READ_BYTES ((size_t)64 << 10)

static bool is_stdin(const char *path) {
    return path == NULL || strcmp(path, "-") == 0;
}

const char *tdm_input_name(const char *path) {
    return is_stdin(path) ? "standard input" : path;
}

static tdm_status fail_read(const char *name, int error, tdm_error *err) {
    char text[96] = "";
    tdm_status code = error == ENOENT || error == ENOTDIR ? TDM_E_NOT_FOUND : TDM_E_IO;
    (void)strerror_r(error, text, sizeof text);
    (void)tdm_fail(err, code, "cannot read: %s", text);
    tdm_err_where(err, "%s", name);
    return code;
}

/* Appends what one read gives; *out_n 0 at the end. */
static tdm_status read_some(tdm_buf *buf, int fd, const char *name, size_t *out_n, tdm_error *err) {
    tdm_status status = tdm_buf_reserve(buf, READ_BYTES);
    ssize_t n = -1;
    *out_n = 0;
    if (status == TDM_E_LIMIT) {
        (void)tdm_fail(err, TDM_E_LIMIT, "the input is too long");
        tdm_err_where(err, "%s", name);
        tdm_err_limit(err, "%zu MiB", buf->limit_bytes >> 20);
        return status;
    }
    if (status != TDM_OK) {
        return tdm_fail_nomem(err, "the input");
    }
    do {
        n = read(fd, &buf->data[buf->len], READ_BYTES);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return fail_read(name, errno, err);
    }
    *out_n = (size_t)n;
    buf->len += (size_t)n; /* bounded: reserved above */
    return TDM_OK;
}

tdm_status tdm_input_read(tdm_buf *buf, const char *path, tdm_error *err) {
    tdm_status status = TDM_OK;
    const char *name = tdm_input_name(path);
    int fd = is_stdin(path) ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 1;
    if (fd < 0) {
        return fail_read(name, errno, err);
    }
    buf->limit_bytes = INPUT_MAX;
    while (n > 0 && status == TDM_OK) {
        status = read_some(buf, fd, name, &n, err);
    }
    if (fd != STDIN_FILENO) {
        (void)close(fd);
    }
    return status;
}

tdm_status tdm_input_check_utf8(const char *text, size_t len, const char *name, tdm_error *err) {
    size_t good = tdm_utf8_valid_prefix(text, len);
    if (good == len) {
        return TDM_OK;
    }
    (void)tdm_fail(err, TDM_E_FORMAT, "the text is not UTF-8: byte 0x%02x",
                   (unsigned)(unsigned char)text[good]);
    tdm_err_where(err, "%s, offset %zu", name, good);
    tdm_err_remedy(err, "convert it, for example with iconv -t UTF-8");
    return TDM_E_FORMAT;
}

tdm_status tdm_input_ids_of(const tdm_json *node, const char *name, tdm_ids *ids, tdm_error *err) {
    const tdm_json *list = tdm_json_is(node, TDM_JSON_OBJECT) ? tdm_json_get(node, "ids") : node;
    if (!tdm_json_is(list, TDM_JSON_ARRAY)) {
        (void)tdm_fail(err, TDM_E_ARG, "a JSON array of token ids is needed");
        tdm_err_where(err, "%s", name);
        return TDM_E_ARG;
    }
    for (size_t i = 0; i < tdm_json_len(list); i++) {
        int64_t id = 0;
        if (!tdm_json_as_i64(&list->u.items[i], &id) || id < 0 || id > INT32_MAX) {
            (void)tdm_fail(err, TDM_E_ARG, "a token id is a whole number from 0 on");
            tdm_err_where(err, "%s, $[%zu]", name, i);
            return TDM_E_ARG;
        }
        if (tdm_ids_append(ids, (int32_t)id, 0, 0) != TDM_OK) {
            return tdm_fail_nomem(err, "the ids");
        }
    }
    return TDM_OK;
}

tdm_status tdm_input_ids(const tdm_alloc *alloc, const char *path, tdm_ids *ids, tdm_error *err) {
    const char *name = tdm_input_name(path);
    tdm_status status = TDM_OK;
    tdm_json_doc *doc = NULL;
    tdm_buf buf;
    tdm_buf_init(&buf, alloc, 0);
    TDM_TRY_GOTO(status, tdm_input_read(&buf, path, err), done);
    TDM_TRY_GOTO(
        status,
        tdm_json_parse(&doc, alloc, buf.data, buf.len, &TDM_JSON_LIMITS_TOKENIZER, name, err),
        done);
    status = tdm_input_ids_of(tdm_json_doc_root(doc), name, ids, err);
done:
    tdm_json_doc_destroy(doc);
    tdm_buf_deinit(&buf);
    return status;
}

/* Hands over the whole lines of buf and keeps what is left at its front. */
static tdm_status take_lines(tdm_buf *buf, size_t *scanned, tdm_line_fn fn, void *arg,
                             tdm_error *err) {
    size_t begin = 0;
    for (;;) {
        const char *end = NULL;
        size_t from = *scanned > begin ? *scanned : begin;
        if (from < buf->len) {
            end = memchr(&buf->data[from], '\n', buf->len - from);
        }
        if (end == NULL) {
            break;
        }
        TDM_TRY(fn(arg, &buf->data[begin], (size_t)(end - buf->data) - begin, err));
        begin = (size_t)(end - buf->data) + 1; /* bounded: inside the buffer */
    }
    if (begin > 0) {
        memmove(buf->data, &buf->data[begin], buf->len - begin);
        buf->len -= begin;
    }
    *scanned = buf->len;
    return TDM_OK;
}

tdm_status tdm_input_lines(const tdm_alloc *alloc, tdm_line_fn fn, void *arg, tdm_error *err) {
    tdm_status status = TDM_OK;
    size_t n = 1;
    size_t scanned = 0;
    tdm_buf buf;
    tdm_buf_init(&buf, alloc, INPUT_MAX);
    while (n > 0 && status == TDM_OK) {
        status = read_some(&buf, STDIN_FILENO, "standard input", &n, err);
        if (status == TDM_OK) {
            status = take_lines(&buf, &scanned, fn, arg, err);
        }
    }
    if (status == TDM_OK && buf.len > 0) { /* a last line without its line feed */
        status = fn(arg, buf.data, buf.len, err);
    }
    tdm_buf_deinit(&buf);
    return status;
}
