/* SPDX-License-Identifier: Apache-2.0
 *
 * What a template can do to us: run without end, grow without end, recurse without end, reach for
 * the host, come out mutated, run while memory fails. Each ends with an answer that names the
 * budget, the place or the cause, quickly and without a leak. */
#include "test_template_kit.h"

#include <time.h>

#define SOURCE_CAP ((size_t)1 << 20)

static const char DATA[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"MARKER one <|end|>\"},"
    "{\"role\": \"assistant\", \"content\": \"MARKER two\", \"tool_calls\": [{\"name\": \"MARKER\","
    "\"arguments\": {\"MARKER\": [1, 2.5, null, \"MARKER\"]}}]}],"
    "\"bos_token\": \"<s>\", \"text\": \"a MARKER b\", \"n\": 3, \"list\": [\"MARKER\", \"x\"]}";

typedef struct fixture {
    tdm_json_doc *doc;
    const tdm_json *variables;
    tdm_template_input input;
    tdm_template_output output;
    tdm_error err;
} fixture;

static void fixture_init(fixture *f) {
    memset(f, 0, sizeof *f);
    f->doc = kit_parse(DATA, sizeof DATA - 1, "data");
    f->variables = tdm_json_doc_root(f->doc);
    f->input =
        (tdm_template_input){.variables = &f->variables, .n_variables = 1, .now_unix_s = KIT_NOW};
    tdm_template_output_init(&f->output, NULL);
}

static void fixture_deinit(fixture *f) {
    tdm_template_output_deinit(&f->output);
    tdm_json_doc_destroy(f->doc);
}

static tdm_status run(fixture *f, const tdm_alloc *alloc, const char *source, size_t len) {
    tdm_template *tmpl = NULL;
    memset(&f->err, 0, sizeof f->err);
    tdm_status status = tdm_template_compile(&tmpl, alloc, source, len, "t", &f->err);
    if (status == TDM_OK) {
        status = tdm_template_render(tmpl, alloc, &f->input, &f->output, &f->err);
    }
    tdm_template_destroy(tmpl);
    return status;
}

static double seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void budgets_end_a_render_and_say_so(void **state) {
    static const struct {
        const char *source;
        const char *budget;
    } KILLERS[] = {
        {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps"},
        {"{% for a in range(99999) %}{% for b in range(9999) %}x{{ b }}{% endfor %}{% endfor %}",
         "steps"},
        {"{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for a in range(99) %}"
         "{% set ns.s = ns.s + ns.s %}{% endfor %}",
         "template"},
        {"{% set ns = namespace(l=[1]) %}{% for a in range(99) %}{% set ns.l = ns.l + ns.l %}"
         "{% endfor %}",
         "template"},
        {"{% set ns = namespace(l=[1]) %}{% for a in range(99999) %}{% set ns.l = [ns.l, ns.l] %}"
         "{% endfor %}{{ ns.l == ns.l|list }}{{ ns.l }}",
         "template"},
        {"{{ 'x' * 999999999999 }}", "string"},
        {"{{ [1] * 999999999 }}", "steps"},
        {"{{ 'x'|center(999999999) }}", "template"},
        {"{{ '%999999999d' % 1 }}", "width"},
        {"{{ range(1000000000) }}", "range"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "depth"},
        {"{% macro f(x) %}{% call f(x) %}{% endcall %}{% endmacro %}{{ f(1) }}", "depth"},
        {"{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}", "depth"},
        {"{% set s = 'y' * 4000 %}{% for a in range(99999) %}{{ s }}{% endfor %}", "output"},
        {"{% set s = 'y' * 4000 %}{% set x %}{% for a in range(99999) %}{{ s }}{% endfor %}"
         "{% endset %}",
         "output"},
    };
    fixture f;
    (void)state;
    fixture_init(&f);
    for (size_t i = 0; i < SUPPORT_LEN(KILLERS); i++) {
        const double begin = seconds();
        const tdm_status status = run(&f, NULL, KILLERS[i].source, strlen(KILLERS[i].source));
        const double took = seconds() - begin;
        if (status == TDM_E_FORMAT && i == 11) { /* f takes no caller: refused even earlier */
            continue;
        }
        if (status != TDM_E_LIMIT || strstr(f.err.limit, KILLERS[i].budget) == NULL || took > 20) {
            fail_msg("%s: %s, limit '%s', %.2f s", KILLERS[i].source, f.err.what, f.err.limit,
                     took);
        }
        assert_non_null(strstr(f.err.where, "line 1, column "));
        assert_int_equal(f.output.text.len, 0);
        (void)printf("%.3f s %s\n", took, f.err.limit);
    }
    f.input.steps_max = 10;
    assert_int_equal(run(&f, NULL, "{{ 1 }}{{ 2 }}{{ 3 }}{{ 4 }}", 28), TDM_OK);
    assert_int_equal(run(&f, NULL, "{{ 1 }}{{ 2 }}{{ 3 }}{{ 4 }}{{ 5 }}{{ 6 }}", 42), TDM_E_LIMIT);
    f.input.steps_max = 0;
    f.input.memory_max = 1 << 20;
    assert_int_equal(run(&f, NULL, "{{ ('x' * 999999)|length }}", 27), TDM_OK);
    assert_int_equal(run(&f, NULL, "{{ ('x' * 9999999)|length }}", 28), TDM_E_LIMIT);
    f.input.memory_max = 0;
    f.input.output_max = 4;
    assert_int_equal(run(&f, NULL, "abcd", 4), TDM_OK);
    assert_int_equal(run(&f, NULL, "abcde", 5), TDM_E_LIMIT);
    fixture_deinit(&f);
}

/* Bytes of text, put at source[at]. */
static size_t put(char *source, size_t at, const char *text) {
    const size_t n = strlen(text);
    assert_true(at + n <= SOURCE_CAP);
    memcpy(source + at, text, n);
    return n;
}

static void deep_nesting_needs_no_stack(void **state) {
    enum { N = 200, BIG = 20000 };
    static const char *const PAIRS[][3] = {
        {"{{ ", "(", ")"}, {"{{ ", "[", "]"}, {"{{ ", "{1:", "}"}, {"{{ ", "(1+", ")"}};
    fixture f;
    (void)state;
    fixture_init(&f);
    char *source = malloc(SOURCE_CAP);
    assert_non_null(source);
    for (size_t p = 0; p < SUPPORT_LEN(PAIRS); p++) {
        for (int n = N; n <= BIG; n += BIG - N) {
            size_t len = put(source, 0, PAIRS[p][0]);
            for (int i = 0; i < n; i++) {
                len += put(source, len, PAIRS[p][1]);
            }
            len += put(source, len, "7");
            for (int i = 0; i < n; i++) {
                len += put(source, len, PAIRS[p][2]);
            }
            len += put(source, len, " }}");
            assert_int_equal(run(&f, NULL, source, len), n == N ? TDM_OK : TDM_E_LIMIT);
        }
    }
    size_t len = 0;
    for (int i = 0; i < BIG; i++) {
        len += put(source, len, "{% if 1 %}");
    }
    assert_int_equal(run(&f, NULL, source, len), TDM_E_LIMIT);
    len = put(source, 0, "{{ ");
    for (int i = 0; i < BIG; i++) {
        len += put(source, len, "not -");
    }
    (void)run(&f, NULL, source, len); /* an error, whichever */
    len = put(source, 0, "{{ 1");
    for (int i = 0; i < BIG; i++) {
        len += put(source, len, " if 1 else 1");
    }
    len += put(source, len, " }}");
    assert_int_equal(run(&f, NULL, source, len), TDM_OK);
    free(source);
    fixture_deinit(&f);
}

static void the_host_is_out_of_reach(void **state) {
    static const char *const PAYLOADS[] = {
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ self.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ lipsum.__globals__['os'].system('id') }}",
        "{{ range.__class__.__base__.__subclasses__() }}",
        "{{ (()|attr('__class__')).__base__ }}",
        "{{ '{0.__class__.__init__}'.format(text) }}",
        "{{ '%(a)s'.__format__('x') }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{% extends 'x' %}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'system'}) }}",
        "{{ messages.pop() }}",
        "{{ namespace.__init__.__globals__ }}",
        "{{ config.items() }}",
        "{{ request.application.__globals__ }}",
    };
    fixture f;
    (void)state;
    fixture_init(&f);
    for (size_t i = 0; i < SUPPORT_LEN(PAYLOADS); i++) {
        const tdm_status status = run(&f, NULL, PAYLOADS[i], strlen(PAYLOADS[i]));
        if (status != TDM_E_FORMAT && status != TDM_E_UNSUPPORTED) {
            fail_msg("%s gave status %d", PAYLOADS[i], (int)status);
        }
        assert_false(f.output.was_raised);
    }
    fixture_deinit(&f);
}

/* --- where text came from
 * -------------------------------------------------------------------------- */

static bool is_untrusted(const tdm_template_output *o, size_t begin, size_t end) {
    for (size_t i = 0; i < o->n_spans; i++) {
        if (o->spans[i].begin < end && begin < o->spans[i].end && o->spans[i].is_trusted) {
            return false;
        }
    }
    return true;
}

static size_t check_marker(const tdm_template_output *o, const char *marker, const char *what) {
    const size_t n = strlen(marker);
    size_t n_found = 0;
    for (size_t i = 0; i + n <= o->text.len; i++) {
        if (memcmp(o->text.data + i, marker, n) == 0) {
            n_found++;
            if (!is_untrusted(o, i, i + n)) {
                fail_msg("%s: content at byte %zu is trusted", what, i);
            }
        }
    }
    return n_found;
}

static void content_is_never_trusted(void **state) {
    static const char *const SOURCES[] = {
        "<a>{{ text }}</a>",
        "{{ '<a>' + text + '</a>' }}",
        "{{ ('<a>' ~ text ~ '</a>').replace('a', 'b')[2:] }}",
        "{{ ('<' + text + '>').split('b')|join('<|x|>') }}",
        "{{ ('<' + text)|trim('<a ')|title|upper|replace('Q', 'R') }}",
        "{{ text|tojson }}{{ messages|tojson(indent=2) }}{{ {'k': text}|tojson }}",
        "{{ messages }}{{ [text] }}{{ ('a', text)|string }}{{ {'k': list} }}",
        "{% set x %}[{{ text }}]{% endset %}<{{ x|upper }}>",
        "{% filter upper %}a{{ text }}{% endfilter %}",
        "{% macro m(t) %}<{{ t }}>{{ caller() }}{% endmacro %}{% call m(text) %}|{{ text }}{% "
        "endcall %}",
        "{{ '%s-%10s' % (text, text) }}{{ '{}:{x}'.format(text, x=text) }}{{ '%s'|format(text) }}",
        "{{ text|indent(2, true) }}{{ text|center(40) }}{{ (text + '\\n')*3 }}{{ text[::1] }}",
        "{{ list|join(text) }}{{ text.join(['<', '>']) }}{{ list|map('upper')|join }}",
        "{{ text|e }}{{ ('<'|safe) + text }}{{ text|string|list|join }}{{ text|truncate(9, true) "
        "}}",
        "{% for k, v in messages[1].tool_calls[0].arguments|items %}{{ k }}={{ v }}{% endfor %}",
        "{% for m in messages %}<|{{ m.role }}|>{{ m['content'] }}<|end|>{% endfor %}",
        "{{ messages|map(attribute='content')|list|last }}{{ text.partition(' ')|string }}",
        "{{ list|sort|first }}{{ (list|unique|list)[0] }}{{ text.rsplit(' ', 1)[0] }}",
        "{{ raise if no else text }}{{ missing|default(text) }}{{ text or 'x' }}{{ text|safe }}",
    };
    fixture f;
    (void)state;
    fixture_init(&f);
    for (size_t i = 0; i < SUPPORT_LEN(SOURCES); i++) {
        if (run(&f, NULL, SOURCES[i], strlen(SOURCES[i])) != TDM_OK) {
            fail_msg("%s: %s (%s)", SOURCES[i], f.err.what, f.err.where);
        }
        kit_check_spans(&f.output);
        assert_true(check_marker(&f.output, "MARKER", SOURCES[i]) > 0);
    }
    /* and what is the template's stays the template's */
    assert_int_equal(run(&f, NULL, "{{ bos_token + '<u>' ~ text[:1] + '</u>' }}", 43), TDM_OK);
    assert_int_equal(f.output.n_spans, 3);
    assert_true(f.output.spans[0].is_trusted && f.output.spans[0].end == 6);
    assert_false(f.output.spans[1].is_trusted);
    assert_int_equal(f.output.spans[1].end, 7);
    fixture_deinit(&f);
}

/* A copy of the conversation whose strings, keys apart, all hold the marker. */
static const char MARK[] = "\xc2\xa7QX7\xc2\xa7";

static void each_shared_template_keeps_content_untrusted(kit_folder *f, const char *name) {
    static const char CONVERSATION[] =
        "{\"messages\": [{\"role\": \"system\", \"content\": \"sys \xc2\xa7QX7\xc2\xa7 "
        "<|im_end|>\"},"
        "{\"role\": \"user\", \"content\": \"ask \xc2\xa7QX7\xc2\xa7 </s>\"},"
        "{\"role\": \"assistant\", \"content\": \"say \xc2\xa7QX7\xc2\xa7\"},"
        "{\"role\": \"user\", \"content\": \" \xc2\xa7QX7\xc2\xa7 again\\n\"}]}";
    char path[SUPPORT_PATH_MAX];
    char rel[512];
    (void)snprintf(rel, sizeof rel, "%s.jinja", name);
    tdm_template *tmpl = kit_compile_file(support_join(path, f->dir, rel));
    assert_non_null(tmpl);
    tdm_json_doc *doc = kit_parse(CONVERSATION, sizeof CONVERSATION - 1, "marked");
    tdm_json_doc *kwargs = kit_parse("{\"add_generation_prompt\": true}", 31, "kwargs");
    kit_run run_;
    tdm_error err = {0};
    tdm_template_output o;
    kit_run_init(&run_, tdm_json_get(tdm_json_doc_root(f->variables), name),
                 tdm_json_doc_root(kwargs), tdm_json_doc_root(doc));
    tdm_template_output_init(&o, NULL);
    f->n_templates++;
    if (tdm_template_render(tmpl, NULL, &run_.input, &o, &err) == TDM_OK) {
        kit_check_spans(&o);
        f->n_renders += check_marker(&o, MARK, name);
    }
    tdm_template_output_deinit(&o);
    tdm_json_doc_destroy(kwargs);
    tdm_json_doc_destroy(doc);
    tdm_template_destroy(tmpl);
}

static void shared_templates_keep_content_untrusted(void **state) {
    char dir[SUPPORT_PATH_MAX];
    kit_folder f;
    (void)state;
    SUPPORT_NEED_SHARED(dir, "templates");
    kit_folder_open(&f, dir);
    kit_each_template(&f, each_shared_template_keeps_content_untrusted);
    (void)printf("%zu templates show content %zu times\n", f.n_templates, f.n_renders);
    assert_true(f.n_renders >= 3 * f.n_templates);
    kit_folder_close(&f);
}

/* --- mutants
 * ---------------------------------------------------------------------------------------- */

static uint32_t next_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static const char *const OWN[] = {
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>\n{{ m.content|trim }}<|end|>\n{% "
    "endfor %}",
    "{%- macro f(a, b=2) -%}[{{ a }}{{ b }}{{ caller() if caller }}]{%- endmacro -%}"
    "{% set ns = namespace(x=0) %}{% for i in range(n) if i != 1 %}{% set ns.x = ns.x + i %}"
    "{{ f(i, b=loop.index) }}{% else %}none{% endfor %}{% call f(1) %}{{ ns.x }}{% endcall %}",
    "{% set t %}{% filter upper %}{{ text[1:-1] }}{% endfilter %}{% endset %}{{ t ~ (1 + 2 * 3 // "
    "4) "
    "}}"
    "{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|join(', ') }}"
    "{% if n is defined and n > 2 and not n in [1, 2] %}{{ {'a': [n, text]}|tojson(indent=2) }}"
    "{% elif n %}{% raw %}{{ x }}{% endraw %}{% else %}{{ '%s' % n }}{% endif %}",
    "{% with a = list %}{% for k, v in messages[1].items() %}{{ k if loop.first else '-' }}"
    "{% if loop.last %}{% break %}{% endif %}{% endfor %}{% generation %}{{ a }}{% endgeneration %}"
    "{% endwith %}{{ strftime_now('%d %b %Y') }}{{ text.split(' ', 1)[-1].strip('b')|default('x') "
    "}}",
};

static void mutate(char *text, size_t *len, size_t cap, uint64_t *random) {
    static const char *const PIECES[] = {"{{",
                                         "}}",
                                         "{%",
                                         "%}",
                                         "{#",
                                         "#}",
                                         "-",
                                         "|",
                                         "(",
                                         ")",
                                         "[",
                                         "]",
                                         "{",
                                         "}",
                                         "'",
                                         "\"",
                                         ".",
                                         ",",
                                         ":",
                                         " if ",
                                         " for ",
                                         " in ",
                                         " else ",
                                         " not ",
                                         " is ",
                                         "loop",
                                         "text",
                                         "messages",
                                         "{% endfor %}",
                                         "{% endif %}",
                                         "|tojson",
                                         "|list",
                                         "[::-1]",
                                         " ~ ",
                                         " + ",
                                         "9999999999",
                                         "\\",
                                         "\xc3\xa9"};
    const uint32_t what = next_random(random) % 4;
    const size_t at = *len == 0 ? 0 : next_random(random) % *len;
    const size_t n = 1 + next_random(random) % 8;
    if (what == 0 && *len > n && at + n < *len) { /* cut */
        memmove(text + at, text + at + n, *len - at - n);
        *len -= n;
    } else if (what == 1 && *len > 0) { /* another byte */
        text[at] = (char)(next_random(random) & 0x7F);
    } else if (what == 2 && at + n < *len && *len + n < cap) { /* twice */
        memmove(text + at + n, text + at, *len - at);
        *len += n;
    } else {
        const char *piece = PIECES[next_random(random) % SUPPORT_LEN(PIECES)];
        const size_t m = strlen(piece);
        if (*len + m < cap) {
            memmove(text + at + m, text + at, *len - at);
            memcpy(text + at, piece, m);
            *len += m;
        }
    }
}

typedef struct mutants {
    fixture f;
    uint64_t random;
    size_t n, n_ok, n_format, n_unsupported, n_limit;
} mutants;

static void run_mutants(mutants *m, const char *source, size_t len, size_t count) {
    const size_t cap = len + 4096;
    char *text = malloc(cap);
    assert_non_null(text);
    for (size_t i = 0; i < count; i++) {
        size_t n = len;
        memcpy(text, source, len);
        for (uint32_t k = 1 + next_random(&m->random) % 4; k > 0; k--) {
            mutate(text, &n, cap, &m->random);
        }
        const tdm_status status = run(&m->f, NULL, text, n);
        m->n++;
        m->n_ok += status == TDM_OK;
        m->n_format += status == TDM_E_FORMAT;
        m->n_unsupported += status == TDM_E_UNSUPPORTED;
        m->n_limit += status == TDM_E_LIMIT;
        if (status == TDM_OK) {
            kit_check_spans(&m->f.output);
        } else {
            assert_true(status == TDM_E_FORMAT || status == TDM_E_UNSUPPORTED ||
                        status == TDM_E_LIMIT);
            assert_true(m->f.err.what[0] != '\0');
            assert_true(status != TDM_E_LIMIT || m->f.err.limit[0] != '\0');
        }
    }
    free(text);
}

static mutants *shared_mutants;

static void mutate_shared(kit_folder *f, const char *name) {
    char path[SUPPORT_PATH_MAX];
    char rel[512];
    size_t len = 0;
    (void)snprintf(rel, sizeof rel, "%s.jinja", name);
    char *source = support_read_file(support_join(path, f->dir, rel), &len);
    run_mutants(shared_mutants, source, len, 30);
    free(source);
}

static void mutants_end_in_text_or_a_typed_error(void **state) {
    mutants m = {.random = 20261129};
    char dir[SUPPORT_PATH_MAX];
    (void)state;
    fixture_init(&m.f);
    m.f.input.steps_max = 300000;
    for (size_t i = 0; i < SUPPORT_LEN(OWN); i++) {
        run_mutants(&m, OWN[i], strlen(OWN[i]), 400);
    }
    if (support_exists(support_shared_path(dir, "templates"))) {
        kit_folder f = {.dir = dir};
        shared_mutants = &m;
        kit_each_template(&f, mutate_shared);
        shared_mutants = NULL;
    } else if (!support_note_skip("mutants of shared templates: shared data absent")) {
        fail();
    }
    (void)printf("%zu mutants: %zu ok, %zu errors, %zu unsupported, %zu limits\n", m.n, m.n_ok,
                 m.n_format, m.n_unsupported, m.n_limit);
    assert_true(m.n >= 1500);
    assert_true(m.n_ok > 0 && m.n_format > 0);
    fixture_deinit(&m.f);
}

/* --- failing memory
 * ---------------------------------------------------------------------------------- */

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(OWN); i++) {
        size_t fail_at = 1;
        for (;; fail_at++) {
            tdm_alloc_tracker tracker;
            fixture f;
            fixture_init(&f);
            tdm_alloc_tracker_init(&tracker, NULL);
            tracker.fail_at = fail_at;
            tdm_template_output_deinit(&f.output);
            tdm_template_output_init(&f.output, &tracker.alloc);
            tdm_status status = run(&f, &tracker.alloc, OWN[i], strlen(OWN[i]));
            if (status == TDM_OK) {
                tdm_template *tmpl = NULL;
                status = tdm_template_compile(&tmpl, &tracker.alloc, OWN[0], strlen(OWN[0]), "t",
                                              &f.err);
                if (status == TDM_OK) {
                    status = tdm_template_render_continue(tmpl, &tracker.alloc, &f.input, &f.output,
                                                          &f.err);
                }
                tdm_template_destroy(tmpl);
            }
            tdm_template_output_deinit(&f.output);
            assert_int_equal(atomic_load(&tracker.live_bytes), 0);
            assert_int_equal(atomic_load(&tracker.n_live), 0);
            tdm_template_output_init(&f.output, NULL);
            fixture_deinit(&f);
            if (status == TDM_OK) {
                break;
            }
            assert_int_equal(status, TDM_E_NOMEM);
        }
        assert_true(fail_at > 5);
    }
}

/* --- errors and raising
 * ------------------------------------------------------------------------------ */

static void errors_say_where(void **state) {
    fixture f;
    (void)state;
    fixture_init(&f);
    assert_int_equal(run(&f, NULL, "a\n{{ n }}\n  {{ n + text }}", 26), TDM_E_FORMAT);
    assert_non_null(strstr(f.err.where, "line 3, column 8"));
    assert_int_equal(run(&f, NULL, "a\n{% if n %}\nb", 14), TDM_E_FORMAT);
    assert_non_null(strstr(f.err.where, "line 2, column 7"));
    assert_int_equal(run(&f, NULL, "{{ n \n ~ }}", 11), TDM_E_FORMAT);
    assert_non_null(strstr(f.err.where, "line 2, column 4"));
    assert_int_equal(run(&f, NULL, "\xc3\xa9\xc3\xa9{{ missing.x }}", 19), TDM_E_FORMAT);
    assert_non_null(strstr(f.err.where, "line 1, column 14"));
    assert_string_equal(f.err.what, "'missing' is undefined");
    assert_false(f.output.was_raised);
    char source[700];
    char message[601];
    memset(message, 'm', 600);
    message[600] = '\0';
    const int n = snprintf(source, sizeof source, "x{{ raise_exception('%s') }}", message);
    assert_int_equal(run(&f, NULL, source, (size_t)n), TDM_E_FORMAT);
    assert_true(f.output.was_raised);
    assert_int_equal(f.output.raised.len, 600);
    assert_memory_equal(f.output.raised.data, message, 600);
    assert_int_equal(strncmp(f.err.what, message, 200), 0);
    assert_int_equal(run(&f, NULL, "fine", 4), TDM_OK);
    assert_false(f.output.was_raised);
    fixture_deinit(&f);
}

/* --- continuing the final message
 * ---------------------------------------------------------------------- */

static tdm_status run_continue(const char *data, const char *source, tdm_template_output *o) {
    tdm_json_doc *doc = kit_parse(data, strlen(data), "data");
    const tdm_json *root = tdm_json_doc_root(doc);
    const tdm_template_input input = {.variables = &root, .n_variables = 1, .now_unix_s = KIT_NOW};
    tdm_template *tmpl = NULL;
    tdm_error err = {0};
    assert_int_equal(tdm_template_compile(&tmpl, NULL, source, strlen(source), "t", &err), TDM_OK);
    const tdm_status status = tdm_template_render_continue(tmpl, NULL, &input, o, &err);
    assert_true(status == TDM_OK || err.what[0] != '\0');
    tdm_template_destroy(tmpl);
    tdm_json_doc_destroy(doc);
    return status;
}

static void the_final_message_is_cut_where_it_ends(void **state) {
    static const char TEMPLATE[] =
        "{% for m in messages %}<{{ m.role }}>{{ (m.content if m.content is string else "
        "m.content|map(attribute='text')|join)|trim }}</{{ m.role }}>{% endfor %}";
    static const struct {
        const char *data, *source, *want;
    } CASES[] = {
        {"{\"messages\": [{\"role\": \"a\", \"content\": \"x\"}]}", TEMPLATE, "<a>x"},
        {"{\"messages\": [{\"role\": \"a\", \"content\": \" x \"}]}", TEMPLATE, "<a>x"},
        {"{\"messages\": [{\"role\": \"a\", \"content\": [{\"text\": \"x\"}, {\"text\": \"y\"}, "
         "{\"image\": 1}]}]}",
         TEMPLATE, "<a>xy"},
        {"{\"messages\": [{\"role\": \"a\", \"content\": \"x\"}]}", "{{ messages|length }}", NULL},
        {"{\"messages\": [{\"role\": \"a\", \"content\": null}]}", "x", NULL},
        {"{\"messages\": [{\"role\": \"a\"}]}", "x", NULL},
        {"{\"messages\": []}", "x", NULL},
        {"{\"x\": 1}", "x", NULL},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        tdm_template_output o;
        tdm_template_output_init(&o, NULL);
        const tdm_status status = run_continue(CASES[i].data, CASES[i].source, &o);
        if (CASES[i].want == NULL) {
            assert_int_equal(status, TDM_E_FORMAT);
        } else {
            assert_int_equal(status, TDM_OK);
            assert_int_equal(o.text.len, strlen(CASES[i].want));
            assert_memory_equal(o.text.data, CASES[i].want, o.text.len);
            kit_check_spans(&o);
        }
        tdm_template_output_deinit(&o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_end_a_render_and_say_so),
        cmocka_unit_test(deep_nesting_needs_no_stack),
        cmocka_unit_test(the_host_is_out_of_reach),
        cmocka_unit_test(content_is_never_trusted),
        cmocka_unit_test(shared_templates_keep_content_untrusted),
        cmocka_unit_test(mutants_end_in_text_or_a_typed_error),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(errors_say_where),
        cmocka_unit_test(the_final_message_is_cut_where_it_ends),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
