/* SPDX-License-Identifier: Apache-2.0
 *
 * A chat request through a template. The request's own members become variables, on top of the
 * special tokens, on top of what the reference always defines (tools and documents as None). */
#include "engine/engine.h"

#include <string.h>
#include <time.h>

#define TEXT_KEY(name) .key = (name), .key_len = sizeof(name) - 1

static const tdm_json ALWAYS_ITEMS[] = {
    {.kind = TDM_JSON_NULL, TEXT_KEY("tools")},
    {.kind = TDM_JSON_NULL, TEXT_KEY("documents")},
    {.kind = TDM_JSON_BOOL, .boolean = true, TEXT_KEY("add_generation_prompt")},
};
static const tdm_json ALWAYS = {
    .kind = TDM_JSON_OBJECT,
    .len = sizeof ALWAYS_ITEMS / sizeof ALWAYS_ITEMS[0],
    .u.items = ALWAYS_ITEMS,
};

/* Days from 1970-01-01 of a date of the Gregorian calendar. Source: H. Hinnant, "chrono-compatible
 * low-level date algorithms", days_from_civil. */
static int64_t days_from_civil(int64_t year, int64_t month, int64_t day) {
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t yoe = y - era * 400;
    int64_t doy = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146097 + doe - 719468;
}

/* Two or four digits at text + at, or -1. */
static int64_t digits_at(const char *text, size_t len, size_t at, size_t n) {
    int64_t value = 0;
    if (at + n > len) {
        return -1;
    }
    for (size_t i = at; i < at + n; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return -1;
        }
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

/* "2026-11-29", or with "T12:00:00" behind it; what follows the seconds is ignored. */
static bool parse_iso(const char *text, size_t len, int64_t *out_unix_s) {
    int64_t year = digits_at(text, len, 0, 4);
    int64_t month = digits_at(text, len, 5, 2);
    int64_t day = digits_at(text, len, 8, 2);
    int64_t hour = len > 10 ? digits_at(text, len, 11, 2) : 0;
    int64_t minute = len > 10 ? digits_at(text, len, 14, 2) : 0;
    int64_t second = len > 16 ? digits_at(text, len, 17, 2) : 0;
    if (year < 1 || month < 1 || month > 12 || day < 1 || day > 31 || text[4] != '-' ||
        text[7] != '-') {
        return false;
    }
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) {
        return false;
    }
    *out_unix_s = days_from_civil(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
    return true;
}

static tdm_status read_now(const tdm_json *now, int64_t *out_unix_s, tdm_error *err) {
    if (!tdm_json_is(now, TDM_JSON_STRING) || !parse_iso(now->u.text, now->len, out_unix_s)) {
        (void)tdm_fail(err, TDM_E_ARG, "\"now\" is no ISO 8601 time");
        tdm_err_where(err, "$.now");
        tdm_err_remedy(err, "write it as 2026-11-29T12:00:00");
        return TDM_E_ARG;
    }
    return TDM_OK;
}

static tdm_status check_request(const tdm_json *request, tdm_error *err) {
    if (!tdm_json_is(request, TDM_JSON_OBJECT)) {
        (void)tdm_fail(err, TDM_E_ARG, "a chat request is a JSON object");
        tdm_err_where(err, "$");
        return TDM_E_ARG;
    }
    if (!tdm_json_is(tdm_json_get(request, "messages"), TDM_JSON_ARRAY)) {
        (void)tdm_fail(err, TDM_E_ARG, "a chat request needs a list of messages");
        tdm_err_where(err, "$.messages");
        return TDM_E_ARG;
    }
    return TDM_OK;
}

tdm_status tdm_chat_render(const tdm_template *tmpl, const tdm_alloc *alloc,
                           const tdm_json *request, const tdm_json *special_tokens,
                           int64_t now_unix_s, tdm_template_output *output, tdm_error *err) {
    const tdm_json *variables[3] = {&ALWAYS, NULL, NULL};
    const tdm_json *now = tdm_json_get(request, "now");
    tdm_template_input input = {.variables = variables, .n_variables = 1, .now_unix_s = now_unix_s};
    bool is_continued = false;
    TDM_TRY(check_request(request, err));
    if (now != NULL && now->kind != TDM_JSON_NULL) {
        TDM_TRY(read_now(now, &input.now_unix_s, err));
    }
    if (special_tokens != NULL) {
        variables[input.n_variables++] = special_tokens;
    }
    variables[input.n_variables++] = request;
    (void)tdm_json_as_bool(tdm_json_get(request, "continue_final_message"), &is_continued);
    tdm_status status = is_continued
                            ? tdm_template_render_continue(tmpl, alloc, &input, output, err)
                            : tdm_template_render(tmpl, alloc, &input, output, err);
    if (status == TDM_E_FORMAT && output->was_raised) {
        status = TDM_E_ARG; /* the conversation is at fault, not the file */
        if (err != NULL) {
            err->code = status;
        }
    }
    return status;
}
