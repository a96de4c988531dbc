/* SPDX-License-Identifier: Apache-2.0
 *
 * continue_final_message: the rendering up to the end of the last message's content. As the
 * reference does, a tag is put behind the content, the template is rendered, and the text is cut
 * where the tag came out; so the template may do what it likes with the message.
 * The caller's JSON is not changed: the nodes on the way to the content are copied. */
#include "text/template.h"

#include "text/jinja_string.h"

#include "base/utf8.h"

#include <string.h>

static const char TAG[] = "CONTINUE_FINAL_MESSAGE_TAG ";
#define TAG_LEN (sizeof TAG - 1)
#define TAG_BARE (TAG_LEN - 1)

/* A copy of a container whose item idx is replaced; the key stays. NULL when memory is out. */
static tdm_json *with_item(tdm_arena *arena, const tdm_json *node, size_t idx,
                           const tdm_json *item) {
    tdm_json *items = tdm_arena_calloc(arena, node->len, sizeof *items);
    tdm_json *copy = tdm_arena_calloc(arena, 1, sizeof *copy);
    if (items == NULL || copy == NULL) {
        return NULL;
    }
    memcpy(items, node->u.items, node->len * sizeof *items);
    const char *key = items[idx].key;
    const uint32_t key_len = items[idx].key_len;
    items[idx] = *item;
    items[idx].key = key;
    items[idx].key_len = key_len;
    *copy = *node;
    copy->u.items = items;
    return copy;
}

static size_t index_of(const tdm_json *object, const tdm_json *member) {
    return (size_t)(member - object->u.items);
}

static tdm_status refuse(tdm_error *err, const char *what) {
    return tdm_fail(err, TDM_E_FORMAT, "the final message cannot be continued: %s", what);
}

/* The last message with the tag behind its text. Sets *out_text to the text without it. */
static tdm_status tag_message(tdm_arena *arena, const tdm_json *message, const tdm_json **out,
                              const tdm_json **out_text, tdm_error *err) {
    const tdm_json *content = tdm_json_get(message, "content");
    const tdm_json *part = NULL;
    const tdm_json *text = content;
    if (tdm_json_is(content, TDM_JSON_ARRAY)) {
        text = NULL;
        for (size_t i = content->len; i > 0 && text == NULL; i--) {
            part = &content->u.items[i - 1];
            text = tdm_json_get(part, "text");
        }
    }
    if (!tdm_json_is(text, TDM_JSON_STRING)) {
        return refuse(err, "its content is no text");
    }
    char *tagged = tdm_arena_alloc(arena, (size_t)text->len + TAG_LEN + 1, 1);
    if (tagged == NULL) {
        return tdm_fail_nomem(err, "final message");
    }
    memcpy(tagged, text->u.text, text->len);
    memcpy(tagged + text->len, TAG, sizeof TAG);
    tdm_json fresh = *text;
    fresh.u.text = tagged;
    fresh.len = text->len + (uint32_t)TAG_LEN;
    const tdm_json *node = &fresh;
    if (part != NULL) {
        node = with_item(arena, part, index_of(part, text), node);
        node = node == NULL ? NULL : with_item(arena, content, index_of(content, part), node);
    }
    node = node == NULL ? NULL : with_item(arena, message, index_of(message, content), node);
    if (node == NULL) {
        return tdm_fail_nomem(err, "final message");
    }
    *out = node;
    *out_text = text;
    return TDM_OK;
}

/* The variables with the last message tagged. */
static tdm_status tag_variables(tdm_arena *arena, const tdm_template_input *input,
                                const tdm_json ***out, const tdm_json **out_text, tdm_error *err) {
    const tdm_json **variables = tdm_arena_calloc(arena, input->n_variables, sizeof *variables);
    if (variables == NULL) {
        return tdm_fail_nomem(err, "final message");
    }
    const tdm_json *messages = NULL;
    size_t at = 0;
    for (size_t i = 0; i < input->n_variables; i++) {
        variables[i] = input->variables[i];
        const tdm_json *found = tdm_json_get(variables[i], "messages");
        messages = found == NULL ? messages : found;
        at = found == NULL ? at : i;
    }
    if (!tdm_json_is(messages, TDM_JSON_ARRAY) || messages->len == 0) {
        return refuse(err, "there are no messages");
    }
    const tdm_json *node = NULL;
    TDM_TRY(tag_message(arena, &messages->u.items[messages->len - 1], &node, out_text, err));
    node = with_item(arena, messages, messages->len - 1u, node);
    node = node == NULL ? NULL
                        : with_item(arena, variables[at], index_of(variables[at], messages), node);
    if (node == NULL) {
        return tdm_fail_nomem(err, "final message");
    }
    variables[at] = node;
    *out = variables;
    return TDM_OK;
}

static size_t find_text(const char *text, size_t len, const char *needle, size_t n) {
    const jval hay = {.kind = JK_STR, .len = (uint32_t)len, .u.s = text};
    const jval want = {.kind = JK_STR, .len = (uint32_t)n, .u.s = needle};
    return tdm_jinja_find(&hay, &want, 0);
}

/* Whether text shows the content without the white space at its ends. */
static bool shows(const tdm_buf *text, const tdm_json *content) {
    const char *begin = content->u.text;
    const char *end = begin + content->len;
    uint32_t cp = 0;
    while (begin < end) {
        const size_t n = tdm_utf8_decode(begin, (size_t)(end - begin), &cp, NULL);
        if (!tdm_jinja_is_space(cp)) {
            break;
        }
        begin += n;
    }
    while (end > begin) {
        const char *at = end - 1;
        while (at > begin && ((unsigned char)*at & 0xC0u) == 0x80u) {
            at--;
        }
        (void)tdm_utf8_decode(at, (size_t)(end - at), &cp, NULL);
        if (!tdm_jinja_is_space(cp)) {
            break;
        }
        end = at;
    }
    return find_text(text->data, text->len, begin, (size_t)(end - begin)) != SIZE_MAX;
}

static void cut(tdm_template_output *output, size_t len) {
    output->text.len = len;
    while (output->n_spans > 0 && output->spans[output->n_spans - 1].begin >= len) {
        output->n_spans--;
    }
    if (output->n_spans > 0) {
        output->spans[output->n_spans - 1].end = len;
    }
}

/* Without white space at the end. */
static size_t stripped_len(const char *text, size_t len) {
    while (len > 0) {
        size_t at = len - 1;
        uint32_t cp = 0;
        while (at > 0 && ((unsigned char)text[at] & 0xC0u) == 0x80u) {
            at--;
        }
        (void)tdm_utf8_decode(text + at, len - at, &cp, NULL);
        if (!tdm_jinja_is_space(cp)) {
            break;
        }
        len = at;
    }
    return len;
}

static tdm_status cut_at_tag(tdm_template_output *output, const tdm_json *content, tdm_error *err) {
    const tdm_buf *text = &output->text;
    size_t at = SIZE_MAX;
    for (size_t i = 0; i + TAG_BARE <= text->len;) {
        const size_t next = find_text(text->data + i, text->len - i, TAG, TAG_BARE);
        if (next == SIZE_MAX) {
            break;
        }
        at = i + next;
        i = at + TAG_BARE;
    }
    if (at == SIZE_MAX || !shows(text, content)) {
        return refuse(err, "the template does not show it");
    }
    const bool is_whole = text->len - at >= TAG_LEN && memcmp(text->data + at, TAG, TAG_LEN) == 0;
    cut(output, is_whole ? at : stripped_len(text->data, at));
    return TDM_OK;
}

tdm_status tdm_template_render_continue(const tdm_template *tmpl, const tdm_alloc *alloc,
                                        const tdm_template_input *input,
                                        tdm_template_output *output, tdm_error *err) {
    tdm_arena arena;
    const tdm_json **variables = NULL;
    const tdm_json *content = NULL;
    tdm_template_input tagged = *input;
    tdm_arena_init(&arena, alloc);
    tdm_buf_reset(&output->text);
    output->n_spans = 0;
    output->was_raised = false;
    tdm_status status = tag_variables(&arena, input, &variables, &content, err);
    if (status == TDM_OK) {
        tagged.variables = variables;
        status = tdm_template_render(tmpl, alloc, &tagged, output, err);
    }
    if (status == TDM_OK) {
        status = cut_at_tag(output, content, err);
    }
    if (status != TDM_OK) {
        tdm_buf_reset(&output->text);
        output->n_spans = 0;
    }
    tdm_arena_deinit(&arena);
    return status;
}
