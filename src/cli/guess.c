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

/* Insertions, deletions, changes and swaps of neighbours between two names shorter than GUESS_MAX,
 * letters' case left out. */
static size_t edit_distance(const char *a, const char *b) {
    size_t rows[3][GUESS_MAX]; /* of the letter before, this one, and the one before that */
    const size_t n = strlen(b);
    for (size_t j = 0; j <= n; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 0; a[i] != '\0'; i++) {
        const size_t *before = rows[i % 3];
        const size_t *older = rows[(i + 2) % 3];
        size_t *row = rows[(i + 1) % 3];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            const size_t change = before[j] + (lower(a[i]) == lower(b[j]) ? 0U : 1U);
            row[j + 1] = least(change, least(row[j], before[j + 1]) + 1);
            if (i > 0 && j > 0 && lower(a[i]) == lower(b[j - 1]) &&
                lower(a[i - 1]) == lower(b[j])) {
                row[j + 1] = least(row[j + 1], older[j - 1] + 1);
            }
        }
    }
    return rows[strlen(a) % 3][n];
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
