/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem bench --phases. An observer of the backend tells every operation; the step's tap tells
 * where a layer ends. Layers that run the same operations on the same sizes are one kind and are
 * counted together, so that the list of a step of thirty layers has a dozen lines. Times are sums
 * over steps: with the time outside of operations (copies, bookkeeping, the owner's own loops) they
 * add up to the step. The norm that a graph computes for its tap alone is left out of both. */
#include "cli/verbs/bench_phases.h"

#include "cli/load.h"

#include <string.h>

#define SLOTS_MAX 128
#define BLOCKS_MAX 16

typedef enum place { BEFORE, LAYER, AFTER } place;

static const char *const PLACES[] = {"before", "layer", "after"};

typedef struct slot {
    tdm_op_record first; /* what a phase is; its sums are below */
    uint64_t n_calls;
    uint64_t read_bytes;
    uint64_t n_runs;
    int64_t ns;
} slot;

/* One kind of layer, or what lies before and after the layers. */
typedef struct block {
    place where;
    uint64_t n_seen;
    size_t n_slots;
    slot slots[SLOTS_MAX];
} block;

struct tdm_phases {
    tdm_cli *cli;
    tdm_backend *backend;
    tdm_op_observer observer;
    int32_t n_layers;
    bool is_counting;
    bool is_own; /* what runs now runs for the tap */
    bool is_full;
    int32_t layer; /* whose operations come in */
    uint64_t n_steps;
    int64_t step_start;
    int64_t own_start;
    int64_t own_ns; /* of this step */
    int64_t ns;     /* of all steps */
    block now;
    size_t n_blocks;
    block blocks[BLOCKS_MAX];
};

static int64_t now_ns(const tdm_phases *p) {
    return p->cli->clock->monotonic_ns(p->cli->clock->ctx);
}

static bool is_alike(const tdm_op_record *a, const tdm_op_record *b) {
    /* an indexer's outputs are as many as there are positions */
    return a->kind == b->kind && a->n == b->n && a->width_in == b->width_in &&
           (a->width_out == b->width_out || a->kind == TDM_OP_INDEX_SCORES);
}

static void see(void *arg, const tdm_op_record *record) {
    tdm_phases *p = arg;
    block *now = &p->now;
    if (!p->is_counting || p->is_own) {
        return;
    }
    if (now->n_slots == 0 || !is_alike(&now->slots[now->n_slots - 1].first, record)) {
        if (now->n_slots == SLOTS_MAX) {
            p->is_full = true;
            return;
        }
        now->slots[now->n_slots++] = (slot){.first = *record};
    }
    slot *s = &now->slots[now->n_slots - 1];
    s->n_calls++;
    s->read_bytes += record->read_bytes;
    s->n_runs += record->n_runs;
    s->ns += record->ns;
}

static bool is_same_kind(const block *a, const block *b) {
    bool is_same = a->where == b->where && a->n_slots == b->n_slots;
    for (size_t i = 0; is_same && i < a->n_slots; i++) {
        is_same = is_alike(&a->slots[i].first, &b->slots[i].first);
    }
    return is_same;
}

/* The operations since the last boundary become one more of their kind. */
static void close_block(tdm_phases *p, place where) {
    size_t i = 0;
    p->now.where = where;
    while (i < p->n_blocks && !is_same_kind(&p->blocks[i], &p->now)) {
        i++;
    }
    if (i == BLOCKS_MAX) {
        p->is_full = true;
    } else if (i == p->n_blocks) {
        p->blocks[p->n_blocks++] = p->now;
        p->blocks[i].n_seen = 1;
    } else {
        p->blocks[i].n_seen++;
        for (size_t j = 0; j < p->now.n_slots; j++) {
            slot *to = &p->blocks[i].slots[j];
            const slot *from = &p->now.slots[j];
            to->n_calls += from->n_calls;
            to->read_bytes += from->read_bytes;
            to->n_runs += from->n_runs;
            to->ns += from->ns;
        }
    }
    p->now.n_slots = 0;
}

/* What comes before the layers ends where the first operation of a layer begins: at the first norm
 * or product. */
static void see_in_place(void *arg, const tdm_op_record *record) {
    tdm_phases *p = arg;
    const bool is_before = record->kind == TDM_OP_EMBED || record->kind == TDM_OP_ROPE_TABLE;
    if (p->layer < 0 && !is_before) {
        close_block(p, BEFORE);
        p->layer = 0;
    }
    see(arg, record);
}

void tdm_phases_tap(void *arg, int32_t layer, const float *hidden, int64_t n_tokens,
                    int64_t width) {
    tdm_phases *p = arg;
    (void)hidden;
    (void)n_tokens;
    (void)width;
    if (layer < p->n_layers) {
        close_block(p, LAYER);
        p->layer = layer + 1;
    }
    if (layer == p->n_layers - 1) {
        p->is_own = true;
        p->own_start = now_ns(p);
    } else if (layer == p->n_layers) {
        p->is_own = false;
        p->own_ns += now_ns(p) - p->own_start;
    }
}

void tdm_phases_start(tdm_phases *p) {
    p->n_blocks = 0;
    p->n_steps = 0;
    p->ns = 0;
    p->is_full = false;
}

void tdm_phases_step_begin(tdm_phases *p) {
    p->now.n_slots = 0;
    p->layer = -1;
    p->own_ns = 0;
    p->is_own = false;
    p->is_counting = true;
    p->step_start = now_ns(p);
}

void tdm_phases_step_end(tdm_phases *p) {
    p->ns += now_ns(p) - p->step_start - p->own_ns;
    p->is_counting = false;
    p->n_steps++;
    close_block(p, AFTER);
}

tdm_status tdm_phases_create(tdm_phases **out, tdm_cli *cli, tdm_backend *backend, int32_t n_layers,
                             tdm_error *err) {
    *out = tdm_mem_calloc(cli->alloc, 1, sizeof **out);
    if (*out == NULL) {
        return tdm_fail_nomem(err, "a list of phases");
    }
    (*out)->cli = cli;
    (*out)->backend = backend;
    (*out)->n_layers = n_layers;
    tdm_op_observe(&(*out)->observer, backend, cli->clock, see_in_place, *out);
    return TDM_OK;
}

void tdm_phases_destroy(tdm_phases *p) {
    if (p != NULL) {
        tdm_op_observe_end(&p->observer, p->backend);
        tdm_mem_free(p->cli->alloc, p, sizeof *p);
    }
}

/* ---- telling ---- */

typedef struct totals {
    int64_t ns; /* inside operations */
    uint64_t n_runs;
    uint64_t n_layer_runs; /* of them, in layers */
} totals;

static totals add_up(const tdm_phases *p) {
    totals t = {0};
    for (size_t i = 0; i < p->n_blocks; i++) {
        for (size_t j = 0; j < p->blocks[i].n_slots; j++) {
            const slot *s = &p->blocks[i].slots[j];
            t.ns += s->ns;
            t.n_runs += s->n_runs;
            t.n_layer_runs += p->blocks[i].where == LAYER ? s->n_runs : 0;
        }
    }
    return t;
}

static double per(uint64_t sum, uint64_t n) {
    return n > 0 ? (double)sum / (double)n : 0.0;
}

static void put_f64(tdm_json_writer *w, const char *key, double value) {
    tdm_json_write_key(w, key);
    tdm_json_write_f64(w, value, 9);
}

static void put_i64(tdm_json_writer *w, const char *key, int64_t value) {
    tdm_json_write_key(w, key);
    tdm_json_write_i64(w, value);
}

static void json_slot(tdm_json_writer *w, const tdm_phases *p, const block *b, const slot *s) {
    tdm_json_write_begin_object(w);
    tdm_json_write_key(w, "op");
    tdm_json_write_cstr(w, TDM_OP_NAMES[s->first.kind]);
    put_i64(w, "rows", s->first.n);
    put_i64(w, "width_in", s->first.width_in);
    put_i64(w, "width_out", s->first.width_out);
    put_i64(w, "parts", s->first.n_parts);
    put_f64(w, "a_layer", per(s->n_calls, b->n_seen));
    put_f64(w, "a_step", per(s->n_calls, p->n_steps));
    put_f64(w, "runs_a_step", per(s->n_runs, p->n_steps));
    put_f64(w, "read_bytes_a_step", per(s->read_bytes, p->n_steps));
    put_f64(w, "ns_a_step", per((uint64_t)s->ns, p->n_steps));
    put_f64(w, "share", (double)s->ns / (double)p->ns);
    tdm_json_write_end_object(w);
}

static tdm_status put_json(const tdm_phases *p, const tdm_phases_test *test, const totals *t,
                           tdm_error *err) {
    tdm_buf buf;
    tdm_json_writer w;
    tdm_buf_init(&buf, p->cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "phases_of");
    tdm_json_write_cstr(&w, test->name);
    put_i64(&w, "n_prompt", test->n_prompt);
    put_i64(&w, "n_gen", test->n_gen);
    put_i64(&w, "n_depth", test->n_depth);
    put_i64(&w, "n_seq", test->n_seq);
    put_i64(&w, "n_threads", test->n_threads);
    put_i64(&w, "n_steps", (int64_t)p->n_steps);
    put_i64(&w, "n_layers", p->n_layers);
    put_f64(&w, "ns_a_step", per((uint64_t)p->ns, p->n_steps));
    put_f64(&w, "outside_ns_a_step", per((uint64_t)(p->ns - t->ns), p->n_steps));
    put_f64(&w, "runs_a_step", per(t->n_runs, p->n_steps));
    put_f64(&w, "runs_a_layer", per(t->n_layer_runs, p->n_steps * (uint64_t)p->n_layers));
    tdm_json_write_key(&w, "sections");
    tdm_json_write_begin_array(&w);
    for (size_t i = 0; i < p->n_blocks; i++) {
        const block *b = &p->blocks[i];
        tdm_json_write_begin_object(&w);
        tdm_json_write_key(&w, "where");
        tdm_json_write_cstr(&w, PLACES[b->where]);
        put_f64(&w, "a_step", per(b->n_seen, p->n_steps));
        tdm_json_write_key(&w, "phases");
        tdm_json_write_begin_array(&w);
        for (size_t j = 0; j < b->n_slots; j++) {
            json_slot(&w, p, b, &b->slots[j]);
        }
        tdm_json_write_end_array(&w);
        tdm_json_write_end_object(&w);
    }
    tdm_json_write_end_array(&w);
    tdm_status status = tdm_cli_finish_json(p->cli, &w, err);
    tdm_buf_deinit(&buf);
    return status;
}

static tdm_status say(const tdm_phases *p, const char *line, tdm_error *err) {
    return tdm_out_text(&p->cli->out, line, strlen(line), err);
}

static tdm_status text_block(const tdm_phases *p, const block *b, tdm_error *err) {
    char line[256];
    char sizes[48];
    if (b->n_slots == 0) {
        return TDM_OK;
    }
    if (b->where == LAYER) {
        (void)snprintf(line, sizeof line, "layer, %.0f of %d\n", per(b->n_seen, p->n_steps),
                       (int)p->n_layers);
    } else {
        (void)snprintf(line, sizeof line, "%s the layers\n", PLACES[b->where]);
    }
    TDM_TRY(say(p, line, err));
    for (size_t j = 0; j < b->n_slots; j++) {
        const slot *s = &b->slots[j];
        (void)snprintf(sizes, sizeof sizes, "%lld > %lld", (long long)s->first.width_in,
                       (long long)s->first.width_out);
        (void)snprintf(
            line, sizeof line,
            "  %-13s %5lld %16s %5d %7.4g %7.4g %6.4g %9.3f %10.2f %9.3f %5.1f %%\n",
            TDM_OP_NAMES[s->first.kind], (long long)s->first.n, sizes, (int)s->first.n_parts,
            per(s->n_calls, b->n_seen), per(s->n_calls, p->n_steps), per(s->n_runs, s->n_calls),
            per(s->read_bytes, s->n_calls) * 1e-6, per((uint64_t)s->ns, s->n_calls) * 1e-3,
            per((uint64_t)s->ns, p->n_steps) * 1e-6, 100.0 * (double)s->ns / (double)p->ns);
        TDM_TRY(say(p, line, err));
    }
    return TDM_OK;
}

static tdm_status put_text(const tdm_phases *p, const tdm_phases_test *test, const totals *t,
                           tdm_error *err) {
    const int64_t outside = p->ns - t->ns;
    char line[256];
    (void)snprintf(
        line, sizeof line,
        "%s, %d threads: %.3f ms a step, the team is sent %.4g times a layer, %.4g a step\n"
        "  %-13s %5s %16s %5s %7s %7s %6s %9s %10s %9s %7s\n",
        test->name, (int)test->n_threads, per((uint64_t)p->ns, p->n_steps) * 1e-6,
        per(t->n_layer_runs, p->n_steps * (uint64_t)p->n_layers), per(t->n_runs, p->n_steps),
        "operation", "rows", "in > out", "parts", "a layer", "a step", "sent", "MB read", "us each",
        "ms a step", "share");
    TDM_TRY(say(p, line, err));
    for (size_t i = 0; i < p->n_blocks; i++) {
        TDM_TRY(text_block(p, &p->blocks[i], err));
    }
    (void)snprintf(line, sizeof line, "outside of operations %*s %.3f ms a step %.1f %%\n", 61, "",
                   per((uint64_t)outside, p->n_steps) * 1e-6,
                   100.0 * (double)outside / (double)p->ns);
    return say(p, line, err);
}

tdm_status tdm_phases_put(tdm_phases *p, const tdm_phases_test *test, tdm_error *err) {
    if (p->is_full) {
        (void)tdm_fail(err, TDM_E_LIMIT, "the steps have more phases than a list holds");
        tdm_err_limit(err, "%d phases a layer, %d kinds of layers", SLOTS_MAX, BLOCKS_MAX - 2);
        return TDM_E_LIMIT;
    }
    const totals t = add_up(p);
    return p->cli->is_json ? put_json(p, test, &t, err) : put_text(p, test, &t, err);
}
