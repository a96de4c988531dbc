/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that waits for SIGINT. SIGUSR1 is its sign to end. */
#include "cli/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define EXIT_INTERRUPTED 130

typedef enum interrupt_mode { MODE_EXIT, MODE_CANCEL, MODE_TELL } interrupt_mode;

struct tdm_interrupt {
    const tdm_alloc *alloc;
    pthread_t thread;
    pthread_mutex_t mutex;
    interrupt_mode mode; /* the four under mutex */
    tdm_generation *generation;
    bool is_raised, is_patient;
    int tell[2]; /* pipe */
    sigset_t signals;
};

static void raise_once(tdm_interrupt *interrupt) {
    (void)pthread_mutex_lock(&interrupt->mutex);
    if (interrupt->mode == MODE_TELL) {
        ssize_t n = write(interrupt->tell[1], "", 1);
        (void)n; /* a full pipe has told it already */
    } else if (interrupt->mode == MODE_EXIT || (interrupt->is_raised && !interrupt->is_patient)) {
        _exit(EXIT_INTERRUPTED);
    } else if (interrupt->generation != NULL) {
        tdm_generation_cancel(interrupt->generation);
    }
    interrupt->is_raised = true;
    (void)pthread_mutex_unlock(&interrupt->mutex);
}

static void *watch(void *arg) {
    tdm_interrupt *interrupt = arg;
    int signal_no = 0;
    while (sigwait(&interrupt->signals, &signal_no) == 0 && signal_no == SIGINT) {
        raise_once(interrupt);
    }
    return NULL;
}

tdm_status tdm_interrupt_create(tdm_interrupt **out, const tdm_alloc *alloc, tdm_error *err) {
    tdm_interrupt *interrupt = tdm_mem_calloc(alloc, 1, sizeof *interrupt);
    *out = NULL;
    if (interrupt == NULL) {
        return tdm_fail_nomem(err, "the interrupt's state");
    }
    interrupt->alloc = alloc;
    (void)pthread_mutex_init(&interrupt->mutex, NULL);
    (void)sigemptyset(&interrupt->signals);
    (void)sigaddset(&interrupt->signals, SIGINT);
    (void)sigaddset(&interrupt->signals, SIGUSR1);
    if (pipe(interrupt->tell) != 0) {
        tdm_mem_free(alloc, interrupt, sizeof *interrupt);
        return tdm_fail(err, TDM_E_IO, "no pipe for interrupts");
    }
    (void)pthread_sigmask(SIG_BLOCK, &interrupt->signals, NULL);
    if (pthread_create(&interrupt->thread, NULL, watch, interrupt) != 0) {
        (void)pthread_sigmask(SIG_UNBLOCK, &interrupt->signals, NULL);
        (void)close(interrupt->tell[0]);
        (void)close(interrupt->tell[1]);
        tdm_mem_free(alloc, interrupt, sizeof *interrupt);
        return tdm_fail(err, TDM_E_IO, "no thread for interrupts");
    }
    *out = interrupt;
    return TDM_OK;
}

void tdm_interrupt_destroy(tdm_interrupt *interrupt) {
    if (interrupt != NULL) {
        (void)pthread_kill(interrupt->thread, SIGUSR1);
        (void)pthread_join(interrupt->thread, NULL);
        (void)pthread_mutex_destroy(&interrupt->mutex);
        (void)close(interrupt->tell[0]);
        (void)close(interrupt->tell[1]);
        (void)pthread_sigmask(SIG_UNBLOCK, &interrupt->signals, NULL);
        tdm_mem_free(interrupt->alloc, interrupt, sizeof *interrupt);
    }
}

static bool set_mode(tdm_interrupt *interrupt, interrupt_mode mode, tdm_generation *generation) {
    bool was_raised = false;
    (void)pthread_mutex_lock(&interrupt->mutex);
    was_raised = interrupt->is_raised;
    interrupt->mode = mode;
    interrupt->generation = generation;
    interrupt->is_raised = false;
    (void)pthread_mutex_unlock(&interrupt->mutex);
    return was_raised;
}

void tdm_interrupt_arm(tdm_interrupt *interrupt, tdm_generation *generation, bool is_patient) {
    if (interrupt == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&interrupt->mutex);
    if (interrupt->mode != MODE_CANCEL) {
        interrupt->is_raised = false;
    } else if (interrupt->is_raised && generation != NULL) {
        tdm_generation_cancel(generation);
    }
    interrupt->mode = MODE_CANCEL;
    interrupt->generation = generation;
    interrupt->is_patient = is_patient;
    (void)pthread_mutex_unlock(&interrupt->mutex);
}

bool tdm_interrupt_disarm(tdm_interrupt *interrupt) {
    return interrupt != NULL && set_mode(interrupt, MODE_EXIT, NULL);
}

bool tdm_interrupt_is_raised(tdm_interrupt *interrupt) {
    bool is_raised = false;
    if (interrupt != NULL) {
        (void)pthread_mutex_lock(&interrupt->mutex);
        is_raised = interrupt->is_raised;
        (void)pthread_mutex_unlock(&interrupt->mutex);
    }
    return is_raised;
}

int tdm_interrupt_fd(tdm_interrupt *interrupt) {
    if (interrupt == NULL) {
        return -1;
    }
    (void)set_mode(interrupt, MODE_TELL, NULL);
    return interrupt->tell[0];
}
