# SPDX-License-Identifier: Apache-2.0
"""Calls that the house bans, each with where it is allowed and what to call instead.

One call that must stand all the same says why beside it: `/* allowed: libc's own block */`.
"""
import re
from typing import NamedTuple

from .ctoken import macro_bodies
from .rule import Rule


class Ban(NamedTuple):
    names: str  # whole names, space-separated
    allowed: tuple  # path prefixes under which the call stands
    instead: str


# Everywhere, tests and examples included.
_UNSAFE = [
    Ban("strcpy strcat stpcpy strncpy strncat sprintf vsprintf gets", (),
        "snprintf with the size of the target and its result looked at, or base/buf.h"),
    Ban("strtok strtok_r", (), "walk the text with an index; strtok writes into its input"),
    Ban("atoi atol atoll atof scanf sscanf fscanf", (),
        "a parser that says where it stopped: base/json.h, strtoll / strtod with end and errno"),
    Ban("alloca __builtin_alloca", (), "an arena (base/alloc.h): the stack has no answer for full"),
    Ban("system popen", (), "posix_spawn with an argument list; no shell ever sees outside text"),
    # yajl takes an allocator but does not look at its answer: the one place that jumps out of it.
    # The proof of an instruction set jumps out of SIGILL.
    Ban("setjmp longjmp sigsetjmp siglongjmp", ("src/base/json_sax.c", "src/backend/cpu/proof.c"),
        "tdm_status and one done: label"),
    Ban("tmpnam tempnam mktemp", (), "mkstemp or mkdtemp"),
]

# Inside src/.
_HOUSE = [
    Ban("malloc calloc realloc free aligned_alloc posix_memalign memalign valloc strdup strndup "
        "reallocarray asprintf vasprintf getline", ("src/base/alloc",),
        "the const tdm_alloc * that was passed: tdm_mem_alloc, tdm_arena_alloc (base/alloc.h)"),
    Ban("exit _exit _Exit quick_exit abort atexit", ("src/base/status.c", "src/cli/"),
        "return a tdm_status; a broken precondition of our own is TDM_CHECK"),
    Ban("assert", (), "TDM_CHECK, or TDM_DCHECK in hot code (base/status.h)"),
    Ban("getenv secure_getenv setenv putenv unsetenv", ("src/cli/",),
        "an options struct that src/cli fills; behaviour never hangs on invisible switches"),
    Ban("printf vprintf puts putchar putc fputs fputc fprintf vfprintf fwrite perror dprintf",
        ("src/cli/", "src/base/status.c"),
        "return an error, or log through tdm_log (base/log.h); only src/cli prints"),
    Ban("fopen freopen fdopen fread mmap munmap mremap opendir",
        ("src/base/", "src/cli/"), "tdm_fs and tdm_blob (base/file.h), so that faults can be "
        "rehearsed"),
    Ban("socket bind listen accept accept4 connect getaddrinfo gethostbyname recv recvfrom recvmsg "
        "send sendto sendmsg setsockopt getsockopt shutdown socketpair", ("src/server/",),
        "nothing: sockets live in src/server only"),
    Ban("dlopen dlsym dlclose", ("src/cli/boot.c", "src/backend/cuda/"),
        "the tables that src/cli/boot.c fills"),
    Ban("fork vfork execl execlp execle execv execvp execve posix_spawn posix_spawnp",
        ("src/media/",), "nothing: only the confined decoder of src/media starts a process"),
    Ban("rand srand random srandom drand48 rand_r", (), "base/random.h: a stream from a seed"),
    Ban("time gettimeofday clock_gettime clock", ("src/base/", "src/cli/"),
        "tdm_clock (base/clock.h), so that time can be simulated"),
    Ban("sleep usleep nanosleep", ("src/base/", "src/cli/"), "a queue or condition with a deadline"),
    Ban("localtime gmtime ctime asctime strerror", (),
        "the _r form with your own buffer; this one shares static storage between threads"),
    Ban("setlocale", ("src/cli/",), "nothing: the library never changes the process's locale"),
    Ban("signal sigaction", ("src/cli/", "src/backend/cpu/proof.c"), "nothing: signals belong to the command"),
]

_HEADERS = [
    Ban("assert.h", (), "base/status.h"),
    Ban("alloca.h", (), "base/alloc.h"),
    Ban("setjmp.h", ("src/base/json_sax.c", "src/backend/cpu/proof.c"), "base/status.h"),
    Ban("sys/socket.h netinet/in.h netinet/tcp.h arpa/inet.h netdb.h sys/un.h", ("src/server/",),
        "nothing: sockets live in src/server only"),
    Ban("dlfcn.h", ("src/cli/boot.c", "src/backend/cuda/"), "the tables of src/cli/boot.c"),
    Ban("sys/mman.h", ("src/base/",), "tdm_blob (base/file.h)"),
]

# Also found where they are passed on; other banned names are words that a variable may bear.
_BY_VALUE = {"malloc", "calloc", "realloc", "free", "exit", "abort"}
_DECLARATORS = {"return", "else", "do", "case", "sizeof"}


def _table(bans):
    return {name: ban for ban in bans for name in ban.names.split()}


def _calls(code, table):
    """(token, ban) of every call or taken address of a banned function."""
    for i, token in enumerate(code):
        if token.kind != "name" or token.text not in table:
            continue
        before = code[i - 1] if i > 0 else None
        after = code[i + 1].text if i + 1 < len(code) else ""
        if before is not None and before.text in (".", "->"):
            continue
        if after == "(":
            # `int send(...)` declares; `return send(...)` calls.
            if before is not None and before.kind == "name" and before.text not in _DECLARATORS:
                continue
            yield token, table[token.text]
        elif token.text in _BY_VALUE and before is not None \
                and before.text in ("=", "&", ",", "(") and after in (",", ")", ";", "}"):
            yield token, table[token.text]


def _findings(source, table):
    own = {f.name for f in source.top[0]}
    for code in [source.code] + macro_bodies(source.tokens):
        for token, ban in _calls(code, table):
            if token.text not in own and not source.path.startswith(ban.allowed or ("\0",)) \
                    and not source.has_mark(token.line, "allowed"):
                yield source.path, token.line, "%s is banned here" % token.text, ban.instead


def check_calls(tree):
    unsafe, house = _table(_UNSAFE), _table(_UNSAFE + _HOUSE)
    for source in tree.under("src/", ends=(".c", ".h", ".cu")):
        yield from _findings(source, house)
    for source in tree.under("tests/", "examples/", "bench/"):
        yield from _findings(source, unsafe)


def check_headers(tree):
    table = _table(_HEADERS)
    for source in tree.under("src/", ends=(".c", ".h", ".cu")):
        for include in source.includes:
            ban = table.get(include.path)
            if ban is not None and not source.path.startswith(ban.allowed or ("\0",)):
                yield source.path, include.line, "<%s> is banned here" % include.path, ban.instead
            if re.match(r"(cuda|cublas|nccl|nvml)\w*\.h$", include.path) \
                    and source.room != "backend/cuda":
                yield (source.path, include.line, "<%s> outside backend/cuda" % include.path,
                       "nothing: CUDA types stay in src/backend/cuda")


RULES = [
    Rule("banned-call", "Calls that are unsafe, or that belong to one room, stay out.",
         "see the table in tools/checks/calls.py", check_calls),
    Rule("banned-header", "System headers that belong to one room stay there.",
         "see the table in tools/checks/calls.py", check_headers),
]
