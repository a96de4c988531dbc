#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/ see the public header alone, and give what the command gives."""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

from command import BUILD, GOLDENS, IS_SANITIZED, ROOT, STARTER, main, tandem

IDS = ["5", "17", "42", "99", "7"]
LLAMA = os.path.join(GOLDENS, "llama")


@unittest.skipIf(IS_SANITIZED, "the shared library is tested without sanitizers")
class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.programs = {}
        for source in sorted(glob.glob(os.path.join(ROOT, "examples", "*.c"))):
            name = os.path.basename(source)[:-2]
            cls.programs[name] = os.path.join(cls.folder.name, name)
            subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror",
                            "-I", os.path.join(ROOT, "include"), source, "-o", cls.programs[name],
                            "-L", BUILD, "-ltandem", "-Wl,-rpath," + BUILD], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_program(self, name, *arguments):
        done = subprocess.run([self.programs[name], *arguments], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=280)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def ids_file(self):
        path = os.path.join(self.folder.name, "ids.json")
        with open(path, "w", encoding="utf-8") as f:
            f.write("[%s]" % ",".join(IDS))
        return path

    def test_generate_by_ids(self):
        ours = self.run_program("generate", LLAMA, "--ids", *IDS).split()
        theirs = tandem("generate", LLAMA, "--ids", self.ids_file(), "-n", "64", "--json").json
        self.assertEqual([int(x) for x in ours], theirs["ids"])
        self.assertGreater(len(ours), 0)

    def test_score(self):
        lines = self.run_program("score", LLAMA, *IDS).strip().split("\n")
        theirs = tandem("score", LLAMA, "--ids", self.ids_file(), "--json").json
        self.assertEqual(len(lines), len(IDS))
        self.assertAlmostEqual(float(lines[-1].split()[1]), theirs["nll"], places=3)

    @unittest.skipUnless(os.path.isfile(STARTER),
                         "the starter model is absent (scripts/fetch-model)")
    def test_generate_a_real_answer(self):
        answer = self.run_program("generate", STARTER, "Why is the sky blue?")
        theirs = tandem("generate", STARTER, "-p", "Why is the sky blue?", "-n", "64",
                        "--json").json
        self.assertEqual(answer, theirs["text"] + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
