# SPDX-License-Identifier: Apache-2.0
"""Runs the built command as a script would, without a shell, and the skip protocol of the tests.

TDM_BINARY_DIR names the build folder; TANDEM_MODELS and TANDEM_SHARED say where data lies that the
repository does not hold.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BUILD = os.environ.get("TDM_BINARY_DIR", os.path.join(ROOT, "build", "release"))
IS_SANITIZED = bool(os.environ.get("TDM_SANITIZE"))
TANDEM = os.path.join(BUILD, "tandem")
# What runs a command that was built for another processor, with its arguments.
EMULATOR = os.environ.get("TDM_EMULATOR", "").split()
GOLDENS = os.path.join(ROOT, "tests", "data", "goldens")
STARTER = os.path.join(
    os.environ.get("TANDEM_MODELS") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tandem", "models"),
    "SmolLM2-135M-Instruct.Q4_1.gguf")
SHARED = os.environ.get("TANDEM_SHARED") or os.path.join(ROOT, "..", "shared")
SECONDS_MAX = 280


class Result:
    def __init__(self, code, out, err, seconds):
        self.code = code  # exit code, negative: killed by that signal
        self.out = out  # bytes
        self.err = err
        self.seconds = seconds

    @property
    def text(self):
        return self.out.decode("utf-8")

    @property
    def json(self):
        """Standard output as one JSON object, with nothing else there."""
        value = json.loads(self.text)
        assert isinstance(value, dict), value
        return value

    @property
    def lines(self):
        """Standard output as JSON Lines."""
        return [json.loads(line) for line in self.text.split("\n") if line]

    @property
    def error(self):
        """The error object: the last line of standard error."""
        return json.loads(self.err.decode("utf-8").strip().split("\n")[-1])["error"]


# What the command keeps between runs is no business of the user's own folder.
CACHE = tempfile.TemporaryDirectory(prefix="tandem-test-")


def tandem(*arguments, stdin=b"", env=None):
    """Runs the command to its end."""
    start = time.monotonic()
    done = subprocess.run(EMULATOR + [TANDEM] + [str(a) for a in arguments], input=stdin, check=False,
                          capture_output=True, timeout=SECONDS_MAX,
                          env={**os.environ, "XDG_CACHE_HOME": CACHE.name, **(env or {})})
    return Result(done.returncode, done.stdout, done.stderr, time.monotonic() - start)


def tandem_interrupted(*arguments, after_seconds=None):
    """Sends SIGINT while the command is at work: after that many seconds, or when the first byte of
    its output is there. The caller asks for far more work than is done in the meantime."""
    start = time.monotonic()
    first = b""
    with subprocess.Popen([TANDEM] + [str(a) for a in arguments], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        if after_seconds is None:
            first = os.read(child.stdout.fileno(), 1)
        else:
            time.sleep(after_seconds)
        child.send_signal(signal.SIGINT)
        try:
            out, err = child.communicate(timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            child.kill()
            raise
    return Result(child.returncode, first + out, err, time.monotonic() - start)


class CommandCase(unittest.TestCase):
    """Asserts that say what the command printed."""

    def ok(self, *arguments, **options):
        result = tandem(*arguments, **options)
        self.assertEqual(result.code, 0, result.err.decode("utf-8", "replace")[-2000:])
        return result

    def fails(self, code, *arguments, **options):
        """Exit `code` with a typed error, nothing on standard output, and no sanitizer report."""
        result = tandem(*arguments, **options)
        words = result.err.decode("utf-8", "replace")
        self.assertEqual(result.code, code, words[-2000:])
        self.assertNotIn("Sanitizer", words)
        self.assertNotIn("runtime error", words)
        self.assertGreater(len(words.strip()), 0)
        return result

    def error(self, code, *arguments, **options):
        """The same with --json: the error object, whole."""
        result = self.fails(code, *arguments, "--json", **options)
        self.assertEqual(result.out, b"")
        error = result.error
        for field in ("code", "message", "where", "limit", "remedy"):
            self.assertIn(field, error)
        self.assertGreater(len(error["message"]), 0)
        return error


def main(module):
    """Runs the module's tests; 77 when all were skipped, 1 when a skip is not allowed."""
    loader = unittest.defaultTestLoader
    suite = (loader.loadTestsFromNames(sys.argv[1:], module) if sys.argv[1:]
             else loader.loadTestsFromModule(module))
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    for reason in sorted({reason for _, reason in result.skipped}):
        print("SKIP: %s" % reason, flush=True)
    if not result.wasSuccessful() or result.testsRun + len(result.skipped) == 0:
        return 1
    if result.skipped and "TANDEM_NO_SKIP" in os.environ:
        return 1
    return 77 if len(result.skipped) >= result.testsRun else 0


def needs_starter(case):
    """Skips a test class where the starter model has not been fetched."""
    return unittest.skipUnless(
        os.path.isfile(STARTER), "the starter model is absent (scripts/fetch-model)")(case)
