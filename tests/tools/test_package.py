#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The installed package: what lies where, which symbols the library shows, and whether programs
that know only the public header build against it, through pkg-config and through CMake."""
import glob
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BUILD = os.environ.get("TDM_BINARY_DIR", os.path.join(ROOT, "build", "release"))
CC = os.environ.get("CC", "cc")
EXAMPLES = sorted(glob.glob(os.path.join(ROOT, "examples", "*.c")))

LLAMA = os.path.join(ROOT, "tests", "data", "goldens", "llama")
IDS = [3, 4, 5, 6]

PROGRAM = """
#include <stdio.h>
#include <string.h>
#include <tandem/tandem.h>
int main(void) {
    tdm_error err;
    tdm_model *model = NULL;
    tdm_status status = tdm_model_open(&model, "/nowhere/at/all.gguf", NULL, &err);
    printf("%s %s\\n", tdm_version(), tdm_status_name(status));
    tdm_model_close(model);
    return status == TDM_E_NOT_FOUND && strlen(err.what) > 0 ? 0 : 1;
}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(mine LANGUAGES C)
find_package(tandem 0.1 REQUIRED)
add_executable(mine mine.c)
target_link_libraries(mine PRIVATE tandem::tandem)
"""


def run(*command, **environment):
    done = subprocess.run(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError("%s: exit %d\n%s%s" % (
            shlex.join(command), done.returncode, done.stdout, done.stderr))
    return done.stdout


def only(pattern):
    found = glob.glob(pattern, recursive=True)
    if len(found) != 1:
        raise AssertionError("%s: %s" % (pattern, found))
    return found[0]


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = os.path.join(cls.folder.name, "first")
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        # An installed tree can be moved as a whole.
        moved = os.path.join(cls.folder.name, "moved")
        os.rename(cls.prefix, moved)
        cls.prefix = moved
        cls.library = only(os.path.join(moved, "**", "libtandem.so.0"))
        cls.pkg_config = os.path.dirname(only(os.path.join(moved, "**", "tandem.pc")))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def flags(self):
        return shlex.split(run("pkg-config", "--cflags", "--libs", "tandem",
                               PKG_CONFIG_PATH=self.pkg_config))

    def build(self, source, out):
        run(CC, "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", source,
            "-o", out, *self.flags(), "-Wl,-rpath," + os.path.dirname(self.library))

    def test_files(self):
        for path in ("bin/tandem", "include/tandem/tandem.h"):
            self.assertTrue(os.path.isfile(os.path.join(self.prefix, path)), path)
        headers = glob.glob(os.path.join(self.prefix, "include", "**", "*.h"), recursive=True)
        self.assertEqual(len(headers), 1)

    def test_man_page_and_completion_are_what_the_command_writes(self):
        command = os.path.join(self.prefix, "bin", "tandem")
        for verb, place in (("help-man", "tandem.1"), ("help-bash", "completions/tandem")):
            with self.subTest(verb=verb):
                path = only(os.path.join(self.prefix, "**", place))
                with open(path, encoding="utf-8") as f:
                    installed = f.read()
                self.assertEqual(installed, run(command, verb),
                                 "write it again: build/release/tandem %s > docs/..." % verb)
                self.assertIn("generate", installed)
        run("bash", "-n", only(os.path.join(self.prefix, "**", "completions", "tandem")))

    def test_exports_are_the_public_header(self):
        with open(os.path.join(self.prefix, "include/tandem/tandem.h"), encoding="utf-8") as f:
            public = set(re.findall(r"TDM_API[^;(]*?\b(tdm_\w+)\(", f.read()))
        shown = set()
        for line in run("nm", "-D", "--defined-only", self.library).split("\n"):
            fields = line.split()
            if len(fields) == 3 and fields[1] != "A":
                name, _, version = fields[2].partition("@@")
                self.assertTrue(version.startswith("TANDEM_"), line)
                shown.add(name)
        self.assertGreater(len(public), 4)
        self.assertEqual(shown, public)

    def test_library_needs_no_terminal_and_no_network(self):
        needed = re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", self.library))
        self.assertIn("libc.so.6", needed)
        for name in needed:
            self.assertNotRegex(name, r"edit|readline|curses|tinfo|curl|ssl|cuda")

    def test_pkg_config_program(self):
        source = os.path.join(self.folder.name, "mine.c")
        with open(source, "w", encoding="utf-8") as f:
            f.write(PROGRAM)
        program = os.path.join(self.folder.name, "mine")
        self.build(source, program)
        self.assertRegex(run(program), r"^\d+\.\d+\.\d+ not_found\n$")

    def test_cmake_program(self):
        project = os.path.join(self.folder.name, "project")
        os.makedirs(project)
        for name, text in (("mine.c", PROGRAM), ("CMakeLists.txt", PROJECT)):
            with open(os.path.join(project, name), "w", encoding="utf-8") as f:
                f.write(text)
        build = os.path.join(project, "build")
        run("cmake", "-G", "Ninja", "-S", project, "-B", build, "-DCMAKE_PREFIX_PATH=" + self.prefix,
            "-DCMAKE_C_COMPILER=" + CC)
        run("cmake", "--build", build)
        self.assertRegex(run(os.path.join(build, "mine")), r"^\d+\.\d+\.\d+ not_found\n$")

    def example(self, name):
        program = os.path.join(self.folder.name, "example_" + name)
        self.build(os.path.join(ROOT, "examples", name + ".c"), program)
        return program

    def command(self, *arguments):
        return json.loads(run(os.path.join(self.prefix, "bin", "tandem"), *arguments, "--json"))

    def ids_file(self):
        path = os.path.join(self.folder.name, "ids.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(IDS, f)
        return path

    def test_example_generate_says_what_the_command_says(self):
        told = run(self.example("generate"), LLAMA, "--ids", *map(str, IDS)).split()
        found = self.command("generate", LLAMA, "--ids", self.ids_file(), "-n", str(len(told)))
        self.assertGreater(len(told), 0)
        self.assertEqual([int(word) for word in told], found["ids"])

    def test_example_score_says_what_the_command_says(self):
        told = run(self.example("score"), LLAMA, *map(str, IDS))
        mean = re.search(r"(?m)^mean ([\d.]+) nats$", told)
        self.assertIsNotNone(mean, told)
        found = self.command("score", LLAMA, "--ids", self.ids_file())
        self.assertAlmostEqual(float(mean.group(1)), found["nll"], places=3)

    def test_examples_explain_what_went_wrong(self):
        self.assertGreaterEqual(len(EXAMPLES), 2)
        for source in EXAMPLES:
            with self.subTest(example=os.path.basename(source)):
                program = self.example(os.path.basename(source)[:-2])
                done = subprocess.run([program, "/nowhere/at/all.gguf", "3", "4"],
                                      stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                      check=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("/nowhere/at/all.gguf", done.stderr)


if __name__ == "__main__":
    unittest.main()
