/* SPDX-License-Identifier: Apache-2.0
 *
 * One call: its name, its arguments as they grow, its beginning and end. Values of parameters that
 * a dialect writes as plain text get their types here, by the tool's schema or by how they look. A
 * call ends only when a real JSON parser took its arguments; whatever the steps before it believed,
 * nothing else is ever told as whole. */
#include "text/answer_priv.h"

#include <string.h>

bool tdm_call_name_is_good(const tdm_answer_parser *p, bool must_be_known) {
    if (p->name.len == 0 || p->name.len > TDM_ANSWER_NAME_MAX) {
        return false;
    }
    for (size_t i = 0; i < p->name.len; i++) {
        const unsigned char c = (unsigned char)p->name.data[i];
        if (c <= ' ' || c == 0x7f) {
            return false;
        }
    }
    return !must_be_known || p->tools == NULL || tdm_call_has_tool(p);
}

bool tdm_call_name_from_id(tdm_answer_parser *p) {
    static const char PREFIX[] = "functions.";
    size_t from = 0;
    while (p->id.len > 0 && tdm_literal_is_space(p->id.data[p->id.len - 1])) {
        p->id.len--;
    }
    size_t to = p->id.len;
    if (to > sizeof PREFIX - 1 && memcmp(p->id.data, PREFIX, sizeof PREFIX - 1) == 0) {
        from = sizeof PREFIX - 1;
    }
    size_t colon = to;
    while (colon > from && p->id.data[colon - 1] >= '0' && p->id.data[colon - 1] <= '9') {
        colon--;
    }
    if (colon > from + 1 && colon < to && p->id.data[colon - 1] == ':') {
        to = colon - 1;
    }
    tdm_buf_reset(&p->name);
    return to > from && tdm_answer_note(p, tdm_buf_append(&p->name, p->id.data + from, to - from));
}

static const tdm_json *tool_function(const tdm_json *tool) {
    const tdm_json *function = tdm_json_get(tool, "function");
    return function != NULL ? function : tool;
}

static bool text_is(const tdm_json *node, const char *text, size_t len) {
    return tdm_json_is(node, TDM_JSON_STRING) && node->len == len &&
           (len == 0 || memcmp(node->u.text, text, len) == 0);
}

static const tdm_json *find_tool(const tdm_answer_parser *p) {
    for (size_t i = 0; i < tdm_json_len(p->tools); i++) {
        const tdm_json *function = tool_function(&p->tools->u.items[i]);
        if (text_is(tdm_json_get(function, "name"), p->name.data, p->name.len)) {
            return function;
        }
    }
    return NULL;
}

bool tdm_call_has_tool(const tdm_answer_parser *p) {
    return find_tool(p) != NULL;
}

static uint8_t type_bit(const tdm_json *name) {
    static const struct {
        const char *name;
        uint8_t bit;
    } TYPES[] = {{"string", TDM_TYPE_STRING}, {"integer", TDM_TYPE_NUMBER},
                 {"number", TDM_TYPE_NUMBER}, {"boolean", TDM_TYPE_BOOLEAN},
                 {"null", TDM_TYPE_NULL},     {"array", TDM_TYPE_ARRAY},
                 {"object", TDM_TYPE_OBJECT}};
    for (size_t i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++) {
        if (tdm_json_text_is(name, TYPES[i].name)) {
            return TYPES[i].bit;
        }
    }
    return 0;
}

static uint8_t kind_bit(const tdm_json *value) {
    switch (value->kind) {
    case TDM_JSON_STRING:
        return TDM_TYPE_STRING;
    case TDM_JSON_INT:
    case TDM_JSON_REAL:
        return TDM_TYPE_NUMBER;
    case TDM_JSON_BOOL:
        return TDM_TYPE_BOOLEAN;
    case TDM_JSON_NULL:
        return TDM_TYPE_NULL;
    case TDM_JSON_ARRAY:
        return TDM_TYPE_ARRAY;
    case TDM_JSON_OBJECT:
        return TDM_TYPE_OBJECT;
    }
    return 0;
}

/* The types that one schema names itself: "type" as a word or a list, or the kinds of its enum. */
static uint8_t own_types(const tdm_json *schema) {
    const tdm_json *type = tdm_json_get(schema, "type");
    const tdm_json *values = tdm_json_get(schema, "enum");
    uint8_t types = type_bit(type);
    if (tdm_json_is(type, TDM_JSON_ARRAY)) {
        for (size_t i = 0; i < tdm_json_len(type); i++) {
            types |= type_bit(&type->u.items[i]);
        }
    }
    if (types == 0 && tdm_json_is(values, TDM_JSON_ARRAY)) {
        for (size_t i = 0; i < tdm_json_len(values); i++) {
            types |= kind_bit(&values->u.items[i]);
        }
    }
    return types;
}

uint8_t tdm_call_types(const tdm_answer_parser *p, const char *key, size_t len) {
    const tdm_json *tool = find_tool(p);
    const tdm_json *parameters = tdm_json_get(tool, "parameters");
    if (parameters == NULL) {
        parameters = tdm_json_get(tool, "input_schema");
    }
    const tdm_json *schema =
        tdm_json_get_n(tdm_json_get(parameters, "properties"), key == NULL ? "" : key, len);
    uint8_t types = own_types(schema);
    static const char *const LISTS[] = {"anyOf", "oneOf", "allOf"};
    for (size_t l = 0; l < sizeof LISTS / sizeof LISTS[0]; l++) {
        const tdm_json *list = tdm_json_get(schema, LISTS[l]);
        for (size_t i = 0; tdm_json_is(list, TDM_JSON_ARRAY) && i < tdm_json_len(list); i++) {
            types |= own_types(&list->u.items[i]);
        }
    }
    return types == 0 ? TDM_TYPE_UNKNOWN : types;
}

void tdm_call_begin(tdm_answer_parser *p) {
    if (p->streams && p->is_open && p->has_name && !p->is_told && p->arguments.len > 0) {
        tdm_answer_emit(p, TDM_ANSWER_CALL_BEGIN, p->name.data, p->name.len);
        p->is_told = true;
    }
}

void tdm_call_tell(tdm_answer_parser *p) {
    if (p->is_open && p->is_told && p->arguments_safe > p->arguments_told) {
        tdm_answer_emit(p, TDM_ANSWER_CALL_ARGUMENTS, p->arguments.data + p->arguments_told,
                        p->arguments_safe - p->arguments_told);
        p->arguments_told = p->arguments_safe;
    }
}

static void reset_call(tdm_answer_parser *p) {
    p->is_open = p->is_told = p->has_name = p->has_arguments = false;
    p->arguments_told = p->arguments_safe = 0;
    p->level = 0;
    tdm_buf_reset(&p->name);
    tdm_buf_reset(&p->id);
    tdm_buf_reset(&p->key);
    tdm_buf_reset(&p->value);
    tdm_buf_reset(&p->arguments);
}

bool tdm_call_end(tdm_answer_parser *p) {
    static const tdm_json_limits LIMITS = {TDM_ANSWER_ARGUMENTS_MAX + 1, TDM_LITERAL_DEPTH_MAX,
                                           1u << 21};
    tdm_json_doc *doc = NULL;
    const tdm_status status = tdm_json_parse(&doc, p->alloc, p->arguments.data, p->arguments.len,
                                             &LIMITS, "arguments", NULL);
    const bool is_object = status == TDM_OK && tdm_json_is(tdm_json_doc_root(doc), TDM_JSON_OBJECT);
    tdm_json_doc_destroy(doc);
    if (status == TDM_E_NOMEM || !is_object) {
        (void)tdm_answer_note(p, status == TDM_E_NOMEM ? status : TDM_OK);
        return false;
    }
    p->arguments_safe = p->arguments.len;
    if (!p->is_told) {
        tdm_answer_emit(p, TDM_ANSWER_CALL_BEGIN, p->name.data, p->name.len);
        p->is_told = true;
    }
    tdm_call_tell(p);
    tdm_answer_emit(p, TDM_ANSWER_CALL_END, "", 0);
    p->n_calls++;
    reset_call(p);
    p->is_settled = true;
    p->drops_space = true;
    p->raw_at = p->pos;
    return true;
}

void tdm_call_drop(tdm_answer_parser *p) {
    if (p->is_told) {
        tdm_call_tell(p);
        tdm_answer_emit(p, TDM_ANSWER_CALL_DROPPED, tdm_answer_bytes(p) + p->raw_at,
                        p->pos - p->raw_at);
        p->n_calls++;
        p->has_text = true;
        p->drops_space = false;
    } else {
        tdm_answer_text(p, p->raw_at, p->pos);
    }
    p->raw_at = p->pos;
    reset_call(p);
}

bool tdm_call_open_key(tdm_answer_parser *p, unsigned alt_flags) {
    const bool is_first = p->arguments.len <= 1;
    if (p->key.len == 0) {
        return false;
    }
    p->types = (alt_flags & TDM_ALT_KEY_STRING) != 0 ? TDM_TYPE_STRING
               : (alt_flags & TDM_ALT_KEY_LITERAL) != 0
                   ? TDM_TYPE_OBJECT
                   : tdm_call_types(p, p->key.data, p->key.len);
    tdm_buf_reset(&p->value);
    const bool ok =
        tdm_answer_note(p, tdm_buf_append_text(&p->arguments, is_first ? "\"" : ", \"")) &&
        tdm_answer_note(p, tdm_literal_escape(&p->arguments, p->key.data, p->key.len)) &&
        tdm_answer_note(p, tdm_buf_append_text(&p->arguments, "\": ")) &&
        (p->types != TDM_TYPE_STRING ||
         tdm_answer_note(p, tdm_buf_append_byte(&p->arguments, '"')));
    p->arguments_safe = p->arguments.len;
    return ok || p->status != TDM_OK;
}

void tdm_call_value(tdm_answer_parser *p, const char *bytes, size_t len) {
    if (p->types == TDM_TYPE_STRING) {
        (void)tdm_answer_note(p, tdm_literal_escape(&p->arguments, bytes, len));
        p->arguments_safe = p->arguments.len;
    } else {
        (void)tdm_answer_note(p, tdm_buf_append(&p->value, bytes, len));
    }
}

/* The kind of a JSON text by its first byte. */
static uint8_t literal_bit(char first) {
    switch (first) {
    case '"':
        return TDM_TYPE_STRING;
    case '{':
        return TDM_TYPE_OBJECT;
    case '[':
        return TDM_TYPE_ARRAY;
    case 't':
    case 'f':
        return TDM_TYPE_BOOLEAN;
    case 'n':
        return TDM_TYPE_NULL;
    default:
        return TDM_TYPE_NUMBER;
    }
}

void tdm_call_put_typed(tdm_answer_parser *p) {
    const size_t before = p->arguments.len;
    bool is_literal = false;
    if (!tdm_answer_note(
            p, tdm_literal_convert(&p->arguments, p->value.data, p->value.len, &is_literal))) {
        return;
    }
    if (is_literal) {
        /* Quotes of its own belong to a text, unless no text is wanted. What the schema does not
         * name is still better than a text where it wants none. */
        const uint8_t kind = literal_bit(p->arguments.data[before]);
        const bool may_be_text = (p->types & (TDM_TYPE_STRING | TDM_TYPE_UNKNOWN)) != 0;
        is_literal = !may_be_text || (p->types & kind & (uint8_t)~TDM_TYPE_STRING) != 0 ||
                     ((p->types & TDM_TYPE_UNKNOWN) != 0 && kind != TDM_TYPE_STRING);
        p->arguments.len = is_literal ? p->arguments.len : before;
    }
    if (!is_literal) {
        (void)(tdm_answer_note(p, tdm_buf_append_byte(&p->arguments, '"')) &&
               tdm_answer_note(p, tdm_literal_escape(&p->arguments, p->value.data, p->value.len)) &&
               tdm_answer_note(p, tdm_buf_append_byte(&p->arguments, '"')));
    }
}

void tdm_call_value_end(tdm_answer_parser *p) {
    if (p->types == TDM_TYPE_STRING) {
        (void)tdm_answer_note(p, tdm_buf_append_byte(&p->arguments, '"'));
    } else {
        tdm_call_put_typed(p);
    }
    p->arguments_safe = p->arguments.len;
}
