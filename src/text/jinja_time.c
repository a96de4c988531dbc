/* SPDX-License-Identifier: Apache-2.0
 *
 * strftime_now: a moment without a zone, in English, whatever the locale of the process. The
 * calendar is the proleptic Gregorian one, years 1 to 9999 as Python's datetime has. */
#include "text/jinja_string.h"
#include "text/jinja_vm.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct moment {
    int year, month, day; /* month and day from 1 */
    int hour, minute, second;
    int week_day; /* Monday 0 */
    int year_day; /* from 0 */
    int64_t unix_s;
} moment;

static const char *const DAYS[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                   "Friday", "Saturday", "Sunday"};
static const char *const MONTHS[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

static bool is_leap(int year) {
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Days from 0000-03-01 in eras of 400 years, in which the leap day comes last. */
static moment moment_at(int64_t unix_s) {
    const int64_t first = INT64_C(-62135596800); /* 0001-01-01 */
    const int64_t last = INT64_C(253402300799);  /* 9999-12-31 */
    unix_s = unix_s < first ? first : unix_s > last ? last : unix_s;
    int64_t days = unix_s / 86400;
    int64_t rest = unix_s % 86400;
    if (rest < 0) {
        rest += 86400;
        days--;
    }
    const int64_t shifted = days + 719468;
    const int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    const int64_t of_era = shifted - era * 146097;
    const int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    const int64_t month = (5 * of_year + 2) / 153;
    moment m = {.unix_s = unix_s,
                .day = (int)(of_year - (153 * month + 2) / 5 + 1),
                .month = (int)(month < 10 ? month + 3 : month - 9),
                .hour = (int)(rest / 3600),
                .minute = (int)(rest / 60 % 60),
                .second = (int)(rest % 60),
                .week_day = (int)(((days + 3) % 7 + 7) % 7)};
    m.year = (int)(year + era * 400 + (m.month <= 2));
    static const int BEFORE[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    m.year_day = BEFORE[m.month - 1] + m.day - 1 + (m.month > 2 && is_leap(m.year));
    return m;
}

static int weeks_of(int year) {
    /* A year has 53 ISO weeks when it begins on a Thursday, or is leap and begins on Wednesday. */
    const int y = year - 1;
    const int first = (y * 365 + y / 4 - y / 100 + y / 400) % 7; /* Monday 0 */
    return first == 3 || (first == 2 && is_leap(year)) ? 53 : 52;
}

static void iso_week(const moment *m, int *out_year, int *out_week) {
    int week = (m->year_day - m->week_day + 10) / 7;
    int year = m->year;
    if (week < 1) {
        year--;
        week = weeks_of(year);
    } else if (week > weeks_of(year)) {
        year++;
        week = 1;
    }
    *out_year = year;
    *out_week = week;
}

/* The directives that stand for several others. */
static const char *longer_form(char directive) {
    switch (directive) {
    case 'c':
        return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x':
        return "%m/%d/%y";
    case 'F':
        return "%Y-%m-%d";
    case 'T':
    case 'X':
        return "%H:%M:%S";
    case 'R':
        return "%H:%M";
    case 'r':
        return "%I:%M:%S %p";
    default:
        return NULL;
    }
}

/* One directive; pads: no '-' flag. Returns the length, 0 also for an empty one, -1: unknown. */
static int directive_text(const moment *m, char directive, bool pads, char out[32]) {
    const int hour12 = m->hour % 12 == 0 ? 12 : m->hour % 12;
    const int two = pads ? 2 : 1;
    int iso_year = 0;
    int week = 0;
    iso_week(m, &iso_year, &week);
    switch (directive) {
    case 'Y':
        return snprintf(out, 32, "%d", m->year);
    case 'm':
        return snprintf(out, 32, "%0*d", two, m->month);
    case 'd':
        return snprintf(out, 32, "%0*d", two, m->day);
    case 'e':
        return snprintf(out, 32, "%*d", two, m->day);
    case 'B':
        return snprintf(out, 32, "%s", MONTHS[m->month - 1]);
    case 'b':
    case 'h':
        return snprintf(out, 32, "%.3s", MONTHS[m->month - 1]);
    case 'A':
        return snprintf(out, 32, "%s", DAYS[m->week_day]);
    case 'a':
        return snprintf(out, 32, "%.3s", DAYS[m->week_day]);
    case 'H':
        return snprintf(out, 32, "%0*d", two, m->hour);
    case 'k':
        return snprintf(out, 32, "%*d", two, m->hour);
    case 'I':
        return snprintf(out, 32, "%0*d", two, hour12);
    case 'l':
        return snprintf(out, 32, "%*d", two, hour12);
    case 'M':
        return snprintf(out, 32, "%0*d", two, m->minute);
    case 'S':
        return snprintf(out, 32, "%0*d", two, m->second);
    case 'p':
        return snprintf(out, 32, "%s", m->hour < 12 ? "AM" : "PM");
    case 'P':
        return snprintf(out, 32, "%s", m->hour < 12 ? "am" : "pm");
    case 'y':
        return snprintf(out, 32, "%0*d", two, m->year % 100);
    case 'C':
        return snprintf(out, 32, "%0*d", two, m->year / 100);
    case 'j':
        return snprintf(out, 32, "%0*d", pads ? 3 : 1, m->year_day + 1);
    case 'f':
        return snprintf(out, 32, "000000");
    case 'z':
    case 'Z':
        out[0] = 0;
        return 0;
    case 's':
        return snprintf(out, 32, "%" PRId64, m->unix_s);
    case 'u':
        return snprintf(out, 32, "%d", m->week_day + 1);
    case 'w':
        return snprintf(out, 32, "%d", (m->week_day + 1) % 7);
    case 'U':
        return snprintf(out, 32, "%0*d", two, (m->year_day + 7 - (m->week_day + 1) % 7) / 7);
    case 'W':
        return snprintf(out, 32, "%0*d", two, (m->year_day + 7 - m->week_day) / 7);
    case 'G':
        return snprintf(out, 32, "%d", iso_year);
    case 'V':
        return snprintf(out, 32, "%0*d", two, week);
    case 'n':
        return snprintf(out, 32, "\n");
    case 't':
        return snprintf(out, 32, "\t");
    case '%':
        return snprintf(out, 32, "%%");
    default:
        return -1;
    }
}

static tdm_status add_directives(jbuild *b, const moment *m, const char *fmt, size_t len,
                                 bool is_untrusted) {
    char text[32];
    for (size_t i = 0; i < len; i++) {
        if (fmt[i] != '%' || i + 1 == len) {
            TDM_TRY(tdm_jinja_build_add(b, fmt + i, 1, is_untrusted));
            continue;
        }
        const size_t begin = i++;
        const bool pads = fmt[i] != '-' || i + 1 == len;
        i += !pads;
        int n = directive_text(m, fmt[i], pads, text);
        const char *s = text;
        if (n < 0) { /* an unknown directive stays as it is, as in the C library */
            s = fmt + begin;
            n = (int)(i - begin + 1);
        }
        TDM_TRY(tdm_jinja_build_add(b, s, (size_t)n, is_untrusted));
    }
    return TDM_OK;
}

tdm_status tdm_jinja_strftime(jinja_vm *vm, const jval *fmt, int64_t unix_s, jval *out) {
    const moment m = moment_at(unix_s);
    const bool is_untrusted = tdm_jinja_is_untrusted(fmt);
    jbuild b = {.vm = vm};
    TDM_TRY(tdm_jinja_charge(vm, fmt->len / 4));
    for (size_t i = 0; i < fmt->len; i++) {
        const char *longer =
            fmt->u.s[i] == '%' && i + 1 < fmt->len ? longer_form(fmt->u.s[i + 1]) : NULL;
        if (longer != NULL) {
            TDM_TRY(add_directives(&b, &m, longer, strlen(longer), is_untrusted));
            i++;
            continue;
        }
        size_t n = 1;
        if (fmt->u.s[i] == '%' && i + 1 < fmt->len) {
            n = fmt->u.s[i + 1] == '-' && i + 2 < fmt->len ? 3 : 2;
        }
        TDM_TRY(add_directives(&b, &m, fmt->u.s + i, n, is_untrusted));
        i += n - 1;
    }
    return tdm_jinja_build_end(&b, out);
}
