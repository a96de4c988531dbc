#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check: every rule finds its tiny violating tree, and a clean tree is left alone."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
CHECK = os.path.join(ROOT, "tools", "check")

# The tool has no ending in its name; it is loaded once here, because a process a case costs a minute.
_LOADER = importlib.machinery.SourceFileLoader("tdm_check", CHECK)
TOOL = importlib.util.module_from_spec(importlib.util.spec_from_loader("tdm_check", _LOADER))
_LOADER.exec_module(TOOL)
HAS_FORMAT = TOOL.formatting.find_tool("clang-format") is not None

HEAD = "/* SPDX-License-Identifier: Apache-2.0\n *\n * A room's file, small on purpose. */\n"

CLEAN = {
    "src/base/README.md": "# base\n",
    "src/base/thing.h": HEAD + "#ifndef TDM_BASE_THING_H\n#define TDM_BASE_THING_H\n\n"
    "int tdm_thing_get(void);\n\n#endif\n",
    "src/base/thing.c": HEAD + '#include "base/thing.h"\n\nstatic const int ANSWER = 42;\n\n'
    "int tdm_thing_get(void) {\n    return ANSWER;\n}\n",
    "src/text/README.md": "# text\n",
    "src/text/word.c": HEAD + '#include "base/thing.h"\n\nint tdm_word_get(void);\n\n'
    "int tdm_word_get(void) {\n    return tdm_thing_get();\n}\n",
    ".clang-format": open(os.path.join(ROOT, ".clang-format"), encoding="utf-8").read(),
}


def code(body):
    return HEAD + body


def header(guard, body=""):
    return HEAD + "#ifndef %s\n#define %s\n\n%s\n#endif\n" % (guard, guard, body)


def parser(body, top=""):
    """A source of src/formats with one function."""
    return code("#include <stddef.h>\n#include <stdint.h>\n\n%s\nint tdm_x_read(const uint8_t *p, "
                "size_t len);\n\nint tdm_x_read(const uint8_t *p, size_t len) {\n%s}\n"
                % (top, body))


# rule, files over the clean tree, file and line of the finding
VIOLATIONS = [
    ("room", {"src/attic/x.c": code("int tdm_x;\n")}, "src/attic/x.c:1"),
    ("floor", {"src/base/up.c": code('#include "text/word.h"\n'),
               "src/text/word.h": header("TDM_TEXT_WORD_H")}, "src/base/up.c:4"),
    ("floor", {"src/text/side.c": code('\n#include "cache/page.h"\n'),
               "src/cache/page.h": header("TDM_CACHE_PAGE_H"),
               "src/cache/README.md": "# cache\n"}, "src/text/side.c:5"),
    ("floor", {"src/backend/cpu/x.c": code('#include "backend/cuda/y.h"\n'),
               "src/backend/cuda/y.h": header("TDM_BACKEND_CUDA_Y_H")}, "src/backend/cpu/x.c:4"),
    ("public-header", {"include/tandem/tandem.h": header("TANDEM_TANDEM_H",
                                                         '#include "base/thing.h"\n')},
     "include/tandem/tandem.h:7"),
    ("public-header", {"examples/one.c": code('#include "base/thing.h"\n')}, "examples/one.c:4"),
    ("backend-door", {"src/engine/x.c": code('#include "backend/cpu/cpu.h"\n'),
                      "src/backend/cpu/cpu.h": header("TDM_BACKEND_CPU_H")}, "src/engine/x.c:4"),
    ("private", {"src/base/thing_priv.h": header("TDM_BASE_THING_PRIV_H"),
                 "src/text/peek.c": code('#include "base/thing_priv.h"\n')}, "src/text/peek.c:4"),
    ("include-form", {"src/base/x.c": code('#include "thing.h"\n')}, "src/base/x.c:4"),
    ("include-form", {"src/base/x.c": code('#include <base/thing.h>\n')}, "src/base/x.c:4"),
    ("include-form", {"tests/unit/test_x.c": code('#include "base/thing.c"\n')},
     "tests/unit/test_x.c:4"),
    ("include-circle", {"src/base/a.h": header("TDM_BASE_A_H", '#include "base/b.h"\n'),
                        "src/base/b.h": header("TDM_BASE_B_H", '#include "base/a.h"\n')},
     "src/base/a.h:1"),
    ("guard", {"src/base/bad.h": header("TDM_BAD_H")}, "src/base/bad.h:4"),
    ("guard", {"src/base/bad.h": code("int tdm_bad(void);\n")}, "src/base/bad.h:1"),
    ("guard", {"tests/unit/a.h": header("TDM_TESTS_A_H"), "tests/unit/b.h": header("TDM_TESTS_A_H")},
     "tests/unit/b.h:4"),
    ("header-alone", {"src/base/needy.h": header("TDM_BASE_NEEDY_H",
                                                 "size_t tdm_needy_bytes(void);\n")},
     "src/base/needy.h:1"),
    ("header-alone", {"src/base/once.h": code("#ifndef TDM_BASE_ONCE_H\n#define TDM_BASE_ONCE_HH\n"
                                              "struct once {\n    int a;\n};\n#endif\n")},
     "src/base/once.h:1"),
    ("recursion", {"src/base/deep.c": code("static int down(int n) {\n    return n == 0 ? 0 : "
                                           "down(n - 1);\n}\n")}, "src/base/deep.c:4"),
    ("recursion", {"src/text/ab.c": code("static int b(int n);\n\nstatic int a(int n) {\n    "
                                         "return b(n);\n}\n\nstatic int b(int n) {\n    return "
                                         "a(n);\n}\n")}, "src/text/ab.c:6"),
    ("recursion", {"src/text/one.c": code("void tdm_one_go(void) {\n    tdm_two_go();\n}\n"),
                   "src/text/two.c": code("void tdm_two_go(void) {\n    tdm_one_go();\n}\n")},
     "src/text/one.c:4"),
    ("raw-arith", {"src/formats/x.c": parser("    return (int)(len * 4);\n")}, "src/formats/x.c:11"),
    ("raw-arith", {"src/formats/x.c": parser("    size_t n = 0;\n    n += len;\n    return (int)n;"
                                             "\n")}, "src/formats/x.c:12"),
    ("raw-arith", {"src/formats/x.c": parser("    size_t n = len;\n    return (int)(n << 2);\n")},
     "src/formats/x.c:12"),
    ("raw-arith", {"src/formats/x.c": parser("    return (int)(8 + read_u64(p, len));\n")},
     "src/formats/x.c:11"),
    ("raw-arith", {"src/formats/x.c": parser("    uint64_t n;\n    tdm_take(p, &n);\n    return "
                                             "(int)(n + 1);\n")}, "src/formats/x.c:13"),
    ("raw-arith", {"src/formats/x.c": parser(
        "    const struct dim *d = (const void *)p;\n    return (int)(d->rows * d->cols);\n",
        "struct dim {\n    uint32_t rows, cols;\n};\n")}, "src/formats/x.c:15"),
    ("raw-arith", {"src/formats/x.c": parser(
        "    const uint64_t *dims = (const void *)p;\n    size_t n = dims[0];\n    return (int)(n "
        "* dims[1]);\n")}, "src/formats/x.c:13"),
    ("raw-arith", {"src/text/x.c": "/* SPDX-License-Identifier: Apache-2.0\n * Reads ids of a "
                   "file. tdm:outside-numbers */\n" + parser("    return (int)(len + 3);\n")},
     "src/text/x.c:13"),
    ("raw-arith", {"src/formats/x.c": parser(
        "    /* bounded: this one */\n    size_t n = len + 1;\n    return (int)(n + 1);\n")},
     "src/formats/x.c:13"),
    ("outside-abort", {"src/formats/x.c": parser("    TDM_CHECK(len > 3);\n    return p[0];\n")},
     "src/formats/x.c:11"),
    ("banned-header", {"src/base/x.c": code("#include <assert.h>\n")}, "src/base/x.c:4"),
    ("banned-header", {"src/engine/x.c": code("#include <sys/socket.h>\n")}, "src/engine/x.c:4"),
    ("banned-header", {"src/engine/x.c": code("#include <cuda_runtime.h>\n")}, "src/engine/x.c:4"),
    ("names", {"src/base/x.c": code("int thing_go(void) {\n    return 1;\n}\n")}, "src/base/x.c:4"),
    ("names", {"src/base/x.c": code("static int tdm_go(void) {\n    return 1;\n}\n")},
     "src/base/x.c:4"),
    ("global", {"src/base/x.c": code("static int n_calls;\n")}, "src/base/x.c:4"),
    ("global", {"src/base/x.c": code("static const char *names[] = {\"a\"};\n")}, "src/base/x.c:4"),
    ("file-size", {"src/base/x.c": code("/* line */\n" * 900)}, "src/base/x.c:800"),
    ("room-readme", {"src/cache/x.h": header("TDM_CACHE_X_H")}, "src/cache/x.h:1"),
    ("licence", {"src/base/x.c": "/* Some file that has a purpose. */\n"}, "src/base/x.c:1"),
    ("licence", {"scripts/go": "#!/bin/sh\necho go\n"}, "scripts/go:2"),
    ("opening", {"src/base/x.c": "/* SPDX-License-Identifier: Apache-2.0 */\n"}, "src/base/x.c:1"),
    ("machine-path", {"README.md": "Look at /wo" + "rk/main for it.\n"}, "README.md:1"),
    ("machine-path", {"scripts/x.sh": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\ncurl "
                      "https://py" + "pi.org/simple\n"}, "scripts/x.sh:3"),
    ("loose-end", {"src/base/x.c": code("/* TO" + "DO: later */\n")}, "src/base/x.c:4"),
    ("dead-code", {"src/base/x.c": code("#if 0\nint tdm_x(void);\n#endif\n")}, "src/base/x.c:4"),
    ("dead-code", {"src/base/x.c": code("int tdm_x(int a) {\n    if (0 && a) {\n        return 1;"
                                        "\n    }\n    return 0;\n}\n")}, "src/base/x.c:5"),
    ("export-map", {"include/tandem/tandem.h": header(
        "TANDEM_TANDEM_H", "TDM_API const char *tdm_name(int a);\n"),
                    "cmake/libtandem.map": "TANDEM_0 {\nglobal:\nlocal:\n    *;\n};\n"},
     "include/tandem/tandem.h:7"),
    ("export-map", {"include/tandem/tandem.h": header("TANDEM_TANDEM_H"),
                    "cmake/libtandem.map": "TANDEM_0 {\nglobal:\n    tdm_gone;\n};\n"},
     "cmake/libtandem.map:3"),
    ("limits-doc", {"docs/limits.md": "| of things | 4 MiB | `THINGS_MAX` in `src/base/x.c` | `limit` |\n",
                    "src/base/x.c": code("#define THINGS_MAX ((size_t)3 << 20)\n")},
     "docs/limits.md:1"),
    ("limits-doc", {"docs/limits.md": "\n| of things | 4 | `THINGS_MAX` in `src/base/x.c` | `limit` |\n"},
     "docs/limits.md:2"),
    ("errors-doc", {"docs/errors.md": "| `ok` | 1 | 200 | fine |\n",
                    "include/tandem/tandem.h": header("TANDEM_TANDEM_H", '#define L(X) X(OK, "ok", "fine", 200, 0)\n')},
     "docs/errors.md:1"),
    ("format", {"src/base/x.c": code("int tdm_x( int a );\n")}, "src/base/x.c:4"),
]

CALLS = [
    ("src/base/x.c", "strcpy(a, b)"), ("tests/unit/x.c", "strcpy(a, b)"),
    ("src/base/x.c", "sprintf(a, b)"), ("src/base/x.c", "strtok(a, b)"),
    ("src/base/x.c", "atoi(a)"), ("src/base/x.c", "gets(a)"), ("src/base/x.c", "alloca(3)"),
    ("src/cli/x.c", "system(a)"), ("src/cli/x.c", "popen(a, b)"), ("src/base/x.c", "getenv(a)"),
    ("src/engine/x.c", "printf(a)"), ("src/engine/x.c", "fprintf(stderr, a)"),
    ("src/base/x.c", "malloc(3)"), ("src/text/x.c", "free(a)"), ("src/text/x.c", "exit(1)"),
    ("src/text/x.c", "abort()"), ("src/engine/x.c", "socket(1, 2, 3)"),
    ("src/engine/x.c", "dlopen(a, 1)"), ("src/text/x.c", "assert(a)"), ("src/text/x.c", "rand()"),
    ("src/text/x.c", "fopen(a, b)"), ("src/engine/x.c", "time(a)"),
    ("src/engine/x.c", "longjmp(a, 1)"), ("src/text/x.c", "take(a, free)"),
]

# Bodies of a src/formats function that raw-arith must leave alone.
ARITHMETIC_OK = [
    "    return (int)(len + 1); /* bounded: len is below 2^20, checked by the caller */\n",
    "    /* bounded: len is below 2^20 */\n    return (int)(len + 1);\n",
    "    /* bounded: len is below 2^20 */\n    return (int)(p[0] +\n                 len);\n",
    "    size_t n = 3;\n    return (int)(n * 2);\n",
    "    for (size_t i = 0; i < len; i++) {\n        if (p[i + 1] == 0) {\n            return 1;\n"
    "        }\n    }\n    return 0;\n",
    "    return (int)((double)len * 0.5);\n",
    "    return (int)((len + 1) & 63);\n",
    "    const uint8_t *q = &p[len];\n    return *q;\n",
    "    tdm_mem_free(NULL, (void *)p, len * sizeof(int));\n    return 0;\n",
    "    float x = 2.0F * 3.0F;\n    return (int)x;\n",
]


def write_tree(folder, files):
    for path, text in files.items():
        full = os.path.join(folder, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as f:
            f.write(text)


def run_check(files, *arguments):
    """(exit status, output) over the clean tree with these files added."""
    with tempfile.TemporaryDirectory() as folder:
        write_tree(folder, {**CLEAN, **files})
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = TOOL.main(["--root", folder] + list(arguments))
        return status, output.getvalue()


class Check(unittest.TestCase):
    def test_as_a_command(self):
        with tempfile.TemporaryDirectory() as folder:
            write_tree(folder, {**CLEAN, "src/base/x.c": code("static int n;\n")})
            done = subprocess.run([CHECK, "--root", folder], capture_output=True, text=True,
                                  check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("src/base/x.c:4: [global]", done.stdout)
        self.assertEqual(done.stderr, "")

    def test_clean_tree_has_no_finding(self):
        rules = [] if HAS_FORMAT else [a for r in TOOL.RULES if r.name != "format"
                                       for a in ("--rule", r.name)]
        status, output = run_check({}, *rules)
        self.assertEqual(status, 0, output)
        self.assertIn("0 findings", output)

    def test_each_rule_finds_its_violation(self):
        for rule, files, where in VIOLATIONS:
            if rule == "format" and not HAS_FORMAT:
                continue
            with self.subTest(rule=rule, where=where):
                status, output = run_check(files, "--rule", rule)
                self.assertEqual(status, 1, output)
                self.assertIn("%s: [%s] " % (where, rule), output)
                self.assertRegex(output, r"(?m)^    instead: \S")

    def test_banned_calls(self):
        for path, call in CALLS:
            with self.subTest(path=path, call=call):
                body = "void tdm_x(char *a, char *b) {\n    %s;\n}\n" % call
                status, output = run_check({path: code(body)}, "--rule", "banned-call")
                self.assertEqual(status, 1, output)
                self.assertIn("%s:5: [banned-call]" % path, output)

    def test_banned_call_in_a_macro(self):
        status, output = run_check({"src/base/x.c": code("#define GRAB(n) malloc(n)\n")},
                                   "--rule", "banned-call")
        self.assertEqual(status, 1, output)

    def test_calls_that_only_look_banned(self):
        body = ("static int accept(int t) {\n    return t;\n}\n\nvoid tdm_x(const struct table *t) "
                "{\n    int socket = 3;\n    (void)accept(socket);\n    t->free(t);\n}\n/* malloc(3) in words */\n"
                "static const char *const TEXT = \"exit(1)\";\n")
        status, output = run_check({"src/text/x.c": code(body)}, "--rule", "banned-call")
        self.assertEqual(status, 0, output)

    def test_arithmetic_that_is_free(self):
        for body in ARITHMETIC_OK:
            with self.subTest(body=body):
                status, output = run_check({"src/formats/x.c": parser(body)}, "--rule", "raw-arith")
                self.assertEqual(status, 0, output)

    def test_arithmetic_elsewhere_is_free(self):
        status, output = run_check({"src/text/x.c": parser("    return (int)(len * 4);\n")},
                                   "--rule", "raw-arith")
        self.assertEqual(status, 0, output)

    def test_globals_that_are_none(self):
        body = ("typedef struct tdm_a tdm_a;\nstruct tdm_a {\n    int n;\n};\nenum { TDM_B = 3 };\n"
                "extern const int TDM_C;\nint tdm_d(void);\nstatic const char *const E[] = {\"a\"};\n"
                "static int hits; /* global: counts for the whole process */\n")
        status, output = run_check({"src/base/x.c": code(body)}, "--rule", "global")
        self.assertEqual(status, 0, output)

    def test_every_rule_has_a_violation_here(self):
        done = subprocess.run([sys.executable, CHECK, "--list"], capture_output=True, text=True,
                              check=True)
        rules = set(re.findall(r"(?m)^([a-z][\w-]+) ", done.stdout))
        self.assertGreater(len(rules), 20)
        self.assertEqual(rules - {"banned-call"}, {v[0] for v in VIOLATIONS})

    def test_documents_that_tell_the_truth(self):
        row = "| of things | %s | `THINGS_MAX` in `src/base/x.c` | `limit` |\n"
        for told, value in (("3 MiB", "((size_t)3 << 20)"), ("1 048 576", "1048576"),
                            ("5 000 000", "5000000u"), ("16", "16.0 /* 2^4 */")):
            with self.subTest(told=told):
                files = {"docs/limits.md": row % told,
                         "src/base/x.c": code("#define THINGS_MAX %s\n" % value)}
                status, output = run_check(files, "--rule", "limits-doc")
                self.assertEqual(status, 0, output)

    def test_static_by_macro_and_headers_of_an_instruction_set(self):
        body = ("#include <immintrin.h>\n\n#define TDM_INLINE static inline\n\nTDM_INLINE __m256 "
                "twice(__m256 v) {\n    return _mm256_add_ps(v, v);\n}\n")
        files = {"src/backend/cpu/avx2/x_inl.h": header("TDM_BACKEND_CPU_AVX2_X_INL_H", body)}
        status, output = run_check(files, "--rule", "names", "--rule", "header-alone")
        self.assertEqual(status, 0, output)

    def test_paths_narrow_the_findings(self):
        bad = {"src/base/x.c": code("static int n_calls;\n")}
        self.assertEqual(run_check(bad, "--rule", "global")[0], 1)
        with tempfile.TemporaryDirectory() as folder:
            write_tree(folder, {**CLEAN, **bad})
            done = subprocess.run(
                [sys.executable, CHECK, "--root", folder, "--rule", "global",
                 os.path.join(folder, "src/text")], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    if not HAS_FORMAT:
        print("SKIP: the format rule needs clang-format 14 (scripts/deps --dev)", flush=True)
    unittest.main()
