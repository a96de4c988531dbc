/* SPDX-License-Identifier: Apache-2.0
 *
 * "Did you mean": the candidate with the fewest edits, if it is near at all. Names longer than the
 * table are not guessed at. */
#include "cli/options.h"

#include <string.h>

#define GUESS_MAX 96

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Insertions, deletions and changes between two names shorter than GUESS_MAX, letters' case left
 * out. */
static size_t edit_distance(const char *a, const char *b) {
    size_t row[GUESS_MAX];
    const size_t n = strlen(b);
    for (size_t j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            size_t change = diagonal + (lower(a[i]) == lower(b[j]) ? 0U : 1U);
            diagonal = row[j + 1];
            row[j + 1] = least(change, least(row[j], row[j + 1]) + 1);
        }
    }
    return row[n];
}

void tdm_guess_init(tdm_guess *guess, const char *wanted) {
    memset(guess, 0, sizeof *guess);
    guess->wanted = wanted;
    guess->distance = strlen(wanted) / 3 + 1; /* as far as a guess may be */
}

void tdm_guess_offer(tdm_guess *guess, const char *candidate) {
    size_t distance = 0;
    const size_t wanted_len = strlen(guess->wanted);
    const size_t len = strlen(candidate);
    if (wanted_len == 0 || wanted_len >= GUESS_MAX || len >= GUESS_MAX) {
        return;
    }
    distance = edit_distance(guess->wanted, candidate);
    if (wanted_len >= 3 && wanted_len < len && distance == len - wanted_len) {
        distance = 1; /* letters left out: an abbreviation */
    }
    if (distance < guess->distance || (distance == guess->distance && guess->best[0] == '\0')) {
        guess->distance = distance;
        memcpy(guess->best, candidate, len + 1);
    }
}
