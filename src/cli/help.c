/* SPDX-License-Identifier: Apache-2.0
 *
 * --help, the man page and the bash completion, written from the tables. */
#include "cli/options.h"

#include <string.h>

#define COLUMN 30
#define WIDTH 96

/* Appends text to out; the first failure stays in *status. */
static void put(tdm_buf *out, tdm_status *status, const char *text) {
    if (*status == TDM_OK) {
        *status = tdm_buf_append_text(out, text);
    }
}

static void put_spaces(tdm_buf *out, tdm_status *status, size_t n) {
    for (size_t i = 0; i < n; i++) {
        put(out, status, " ");
    }
}

/* text from column on, wrapped at WIDTH, later lines indented to column. */
static void put_wrapped(tdm_buf *out, tdm_status *status, const char *text, size_t column) {
    size_t at = column;
    const char *word = text;
    while (*word != '\0' && *status == TDM_OK) {
        const size_t len = strcspn(word, " \n");
        if (at > column && at + 1 + len > WIDTH) {
            put(out, status, "\n");
            put_spaces(out, status, column);
            at = column;
        } else if (at > column) {
            put(out, status, " ");
            at++;
        }
        *status = *status == TDM_OK ? tdm_buf_append(out, word, len) : *status;
        at += len;
        word += len;
        if (*word == '\n') {
            put(out, status, "\n");
            put_spaces(out, status, column);
            at = column;
        }
        word += *word != '\0' ? 1 : 0;
    }
    put(out, status, "\n");
}

/* "-n, --max-tokens N" */
static void option_head(const tdm_option_row *row, char *out, size_t bytes) {
    char letter[8] = "";
    if (row->letter != '\0') {
        (void)snprintf(letter, sizeof letter, "-%c, ", row->letter);
    }
    (void)snprintf(out, bytes, "%s--%s%s%s", letter, row->name, row->argument != NULL ? " " : "",
                   row->argument != NULL ? row->argument : "");
}

static void put_option(tdm_buf *out, tdm_status *status, const tdm_option_row *row) {
    char head[128];
    char text[512];
    size_t len = 0;
    option_head(row, head, sizeof head);
    (void)snprintf(text, sizeof text, "%s%s%s%s", row->help,
                   row->fallback != NULL ? " (default: " : "",
                   row->fallback != NULL ? row->fallback : "", row->fallback != NULL ? ")" : "");
    put(out, status, "  ");
    put(out, status, head);
    len = strlen(head) + 2;
    if (len >= COLUMN) {
        put(out, status, "\n");
        len = 0;
    }
    put_spaces(out, status, COLUMN - len);
    put_wrapped(out, status, text, COLUMN);
}

tdm_status tdm_help_all(tdm_buf *out) {
    tdm_status status = TDM_OK;
    put(out, &status,
        "Tandem runs language models on this machine.\n\nusage: tandem VERB [options]\n\n");
    for (int i = 0; i < TDM_VERB_COUNT; i++) {
        char head[64];
        (void)snprintf(head, sizeof head, "  %-12s", TDM_VERBS[i].name);
        put(out, &status, head);
        put(out, &status, TDM_VERBS[i].summary);
        put(out, &status, "\n");
    }
    put(out, &status, "\noptions of every verb\n");
    for (int i = 0; i < TDM_OPT_COUNT; i++) {
        if (TDM_OPTIONS[i].verbs == (1U << TDM_VERB_COUNT) - 1U) {
            put_option(out, &status, &TDM_OPTIONS[i]);
        }
    }
    put(out, &status,
        "\nMODEL is a .gguf file, a checkpoint folder, a Hugging Face id that is in the local "
        "cache,\nor a name in Tandem's own folder; tandem ls lists what is there.\n"
        "tandem VERB --help says the rest; tandem --version the version.\n");
    return status;
}

tdm_status tdm_help_verb(tdm_verb_id verb, tdm_buf *out) {
    const tdm_verb_row *row = &TDM_VERBS[verb];
    const uint32_t all = (1U << TDM_VERB_COUNT) - 1U;
    tdm_status status = TDM_OK;
    put(out, &status, "usage: tandem ");
    put(out, &status, row->name);
    put(out, &status, row->positional[0] != '\0' ? " " : "");
    put(out, &status, row->positional);
    put(out, &status, " [options]\n\n");
    put_wrapped(out, &status, row->about, 0);
    for (int pass = 0; pass < 2; pass++) {
        bool has_head = false;
        for (int i = 0; i < TDM_OPT_COUNT; i++) {
            const tdm_option_row *option = &TDM_OPTIONS[i];
            if ((option->verbs & (1U << verb)) != 0 && (option->verbs == all) == (pass == 1)) {
                put(out, &status, has_head ? "" : pass == 1 ? "\nevery verb\n" : "\noptions\n");
                has_head = true;
                put_option(out, &status, option);
            }
        }
    }
    return status;
}

/* Text for roff: a dash that is one, a backslash, and no control line by accident. */
static void put_roff(tdm_buf *out, tdm_status *status, const char *text) {
    bool is_line_start = out->len == 0 || out->data[out->len - 1] == '\n';
    for (const char *c = text; *c != '\0'; c++) {
        if (is_line_start && (*c == '.' || *c == '\'')) {
            put(out, status, "\\&");
        }
        if (*c == '-' || *c == '\\') {
            put(out, status, *c == '-' ? "\\-" : "\\e");
        } else if (*status == TDM_OK) {
            *status = tdm_buf_append_byte(out, *c);
        }
        is_line_start = *c == '\n';
    }
}

static void man_verb(tdm_buf *out, tdm_status *status, tdm_verb_id verb) {
    const tdm_verb_row *row = &TDM_VERBS[verb];
    const uint32_t all = (1U << TDM_VERB_COUNT) - 1U;
    put(out, status, ".SS tandem ");
    put_roff(out, status, row->name);
    put(out, status, " ");
    put_roff(out, status, row->positional);
    put(out, status, "\n");
    put_roff(out, status, row->about);
    put(out, status, "\n");
    for (int i = 0; i < TDM_OPT_COUNT; i++) {
        const tdm_option_row *option = &TDM_OPTIONS[i];
        char head[128];
        if ((option->verbs & (1U << verb)) == 0 || option->verbs == all) {
            continue;
        }
        option_head(option, head, sizeof head);
        put(out, status, ".TP\n.B ");
        put_roff(out, status, head);
        put(out, status, "\n");
        put_roff(out, status, option->help);
        if (option->fallback != NULL) {
            put(out, status, " (default: ");
            put_roff(out, status, option->fallback);
            put(out, status, ")");
        }
        put(out, status, "\n");
    }
}

static void man_common(tdm_buf *out, tdm_status *status) {
    put(out, status, ".SH COMMON OPTIONS\n");
    for (int i = 0; i < TDM_OPT_COUNT; i++) {
        char head[128];
        if (TDM_OPTIONS[i].verbs == (1U << TDM_VERB_COUNT) - 1U) {
            option_head(&TDM_OPTIONS[i], head, sizeof head);
            put(out, status, ".TP\n.B ");
            put_roff(out, status, head);
            put(out, status, "\n");
            put_roff(out, status, TDM_OPTIONS[i].help);
            put(out, status, "\n");
        }
    }
}

tdm_status tdm_help_man(tdm_buf *out) {
    tdm_status status = TDM_OK;
    put(out, &status,
        ".\\\" generated by tandem, src/cli/help.c: do not edit\n.TH TANDEM 1 \"\" \"");
    put_roff(out, &status, "tandem ");
    put_roff(out, &status, tdm_version());
    put(out, &status,
        "\"\n.SH NAME\ntandem \\- runs language models on this machine\n"
        ".SH SYNOPSIS\n.B tandem\n.I VERB\n[options]\n.SH DESCRIPTION\n"
        "MODEL is a .gguf file, a checkpoint folder (config.json and safetensors), a Hugging Face "
        "id\nthat is in the local cache, or a name in Tandem's own folder.\n.SH VERBS\n");
    for (int i = 0; i < TDM_VERB_COUNT; i++) {
        man_verb(out, &status, (tdm_verb_id)i);
    }
    man_common(out, &status);
    put(out, &status,
        ".SH EXIT STATUS\n"
        ".TP\n.B 0\nall went well\n.TP\n.B 1\nan error while running\n"
        ".TP\n.B 2\na command line or input that is wrong\n"
        ".TP\n.B 3\nsomething named was not found\n.TP\n.B 4\nit does not fit\n"
        ".TP\n.B 5\nthe network\n.TP\n.B 6\na corrupt file\n.TP\n.B 130\ninterrupted\n"
        ".SH FILES\n.TP\n.I ~/.cache/tandem/models\nTandem's own folder of models; under "
        "XDG_CACHE_HOME where that is set.\n.TP\n.I ~/.cache/tandem/panels\nWeights as the "
        "processor's kernels read them, and tables of tokenizers, written by the first load of a "
        "model and mapped by later ones; files for each model, found by its path, replaced when "
        "the model changes, tables also when Tandem does. Everything in it can be removed at any "
        "time; the next load makes it again. --panel-cache says how much it may hold.\n.TP\n.I "
        "~/.cache/huggingface/hub\nThe Hugging Face "
        "cache; HF_HUB_CACHE and HF_HOME move it.\n.TP\n.I ~/.local/state/tandem/chat_history\n"
        "Lines typed to chat; under XDG_STATE_HOME where that is set.\n");
    return status;
}

tdm_status tdm_help_bash(tdm_buf *out) {
    tdm_status status = TDM_OK;
    put(out, &status,
        "# generated by tandem, src/cli/help.c: do not edit\n"
        "_tandem() {\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} words=\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "        COMPREPLY=($(compgen -W \"");
    for (int i = 0; i < TDM_VERB_COUNT; i++) {
        put(out, &status, TDM_VERBS[i].name);
        put(out, &status, " ");
    }
    put(out, &status,
        "--help --version\" -- \"$word\"))\n"
        "        return\n"
        "    fi\n"
        "    case $verb in\n");
    for (int v = 0; v < TDM_VERB_COUNT; v++) {
        put(out, &status, "    ");
        put(out, &status, TDM_VERBS[v].name);
        put(out, &status, ") words=\"");
        for (int i = 0, n = 0; i < TDM_OPT_COUNT; i++) {
            if ((TDM_OPTIONS[i].verbs & (1U << v)) != 0) {
                put(out, &status, n++ > 0 ? " --" : "--");
                put(out, &status, TDM_OPTIONS[i].name);
            }
        }
        put(out, &status, "\" ;;\n");
    }
    put(out, &status,
        "    esac\n"
        "    case $word in\n"
        "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
        "    *) COMPREPLY=($(compgen -f -- \"$word\")\n"
        "        $(compgen -W \"$(tandem ls --names --quiet 2>/dev/null)\" -- \"$word\")) ;;\n"
        "    esac\n"
        "}\n"
        "complete -o filenames -F _tandem tandem\n");
    return status;
}
