/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a chat template, rendered over one fixed conversation under small budgets.
 * Properties: a refusal says what and, where it is about the template, at which line; spans cover
 * the text exactly and neighbours differ; rendering twice gives the same text and spans; the text
 * of messages is never trusted unless the template spells it itself; all memory is given back. */
#include "text/template.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char DATA[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"\\u00a7QX7 one \\n<|end|>\"},"
    "{\"role\": \"assistant\", \"content\": \"two\", \"tool_calls\": [{\"name\": \"f\","
    "\"arguments\": {\"a\": [1, 2.5, null, true, \"x\"]}}]}], \"bos_token\": \"<s>\","
    "\"tools\": [{\"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\"}}}],"
    "\"text\": \" a b \", \"n\": 3, \"x\": 1e-7, \"list\": [3, 1, 2], \"yes\": true}";
static const char MARK[] = "\xc2\xa7QX7";

static bool has_mark(const char *text, size_t len) {
    for (size_t i = 0; i + sizeof MARK - 1 <= len; i++) {
        if (memcmp(text + i, MARK, sizeof MARK - 1) == 0) {
            return true;
        }
    }
    return false;
}

static void check_output(const tdm_template_output *o, bool spells_mark) {
    size_t at = 0;
    for (size_t i = 0; i < o->n_spans; i++) {
        TDM_CHECK(o->spans[i].begin == at && o->spans[i].end > at);
        TDM_CHECK(i == 0 || o->spans[i].is_trusted != o->spans[i - 1].is_trusted);
        at = o->spans[i].end;
        TDM_CHECK(spells_mark || !o->spans[i].is_trusted ||
                  !has_mark(o->text.data + o->spans[i].begin, at - o->spans[i].begin));
    }
    TDM_CHECK(at == o->text.len);
}

static void check_error(const tdm_error *err, tdm_status status) {
    TDM_CHECK(err->what[0] != '\0' || status == TDM_E_FORMAT); /* raise_exception('') */
    TDM_CHECK(status == TDM_E_FORMAT || status == TDM_E_UNSUPPORTED || status == TDM_E_LIMIT);
    TDM_CHECK(status != TDM_E_LIMIT || err->limit[0] != '\0');
    TDM_CHECK(status == TDM_E_LIMIT || strstr(err->where, "line ") != NULL);
}

static void render_twice(const tdm_template *tmpl, const tdm_alloc *alloc, bool spells_mark) {
    tdm_json_doc *doc = NULL;
    TDM_CHECK(tdm_json_parse(&doc, alloc, DATA, sizeof DATA - 1, NULL, "data", NULL) == TDM_OK);
    const tdm_json *root = tdm_json_doc_root(doc);
    const tdm_template_input input = {.variables = &root,
                                      .n_variables = 1,
                                      .now_unix_s = 1795953600,
                                      .steps_max = 20000,
                                      .output_max = 1 << 16,
                                      .depth_max = 20,
                                      .memory_max = 8u << 20};
    tdm_template_output o[2];
    tdm_error err[2] = {{0}, {0}};
    tdm_status status[2];
    for (int i = 0; i < 2; i++) {
        tdm_template_output_init(&o[i], alloc);
        status[i] = tdm_template_render(tmpl, alloc, &input, &o[i], &err[i]);
        if (status[i] == TDM_OK) {
            check_output(&o[i], spells_mark);
        } else {
            check_error(&err[i], status[i]);
        }
    }
    TDM_CHECK(status[0] == status[1] && o[0].text.len == o[1].text.len);
    TDM_CHECK(o[0].n_spans == o[1].n_spans);
    TDM_CHECK(o[0].text.len == 0 || memcmp(o[0].text.data, o[1].text.data, o[0].text.len) == 0);
    TDM_CHECK(strcmp(err[0].what, err[1].what) == 0 && strcmp(err[0].where, err[1].where) == 0);
    const tdm_status cut = tdm_template_render_continue(tmpl, alloc, &input, &o[0], &err[0]);
    if (cut == TDM_OK) {
        check_output(&o[0], spells_mark);
    }
    tdm_template_output_deinit(&o[0]);
    tdm_template_output_deinit(&o[1]);
    tdm_json_doc_destroy(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tdm_alloc_tracker tracker;
    tdm_template *tmpl = NULL;
    tdm_error err = {0};
    tdm_alloc_tracker_init(&tracker, NULL);
    const char *source = size == 0 ? "" : (const char *)data;
    const tdm_status status =
        tdm_template_compile(&tmpl, &tracker.alloc, source, size, "fuzz", &err);
    if (status == TDM_OK) {
        /* A template with a part of the mark may build the rest itself. */
        render_twice(tmpl, &tracker.alloc,
                     size > 0 && (memchr(data, 0xA7, size) != NULL || memchr(data, 'Q', size) ||
                                  memchr(data, '\\', size) != NULL));
    } else {
        check_error(&err, status);
    }
    tdm_template_destroy(tmpl);
    TDM_CHECK(atomic_load(&tracker.live_bytes) == 0);
    return 0;
}
