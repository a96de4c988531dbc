#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench --formats: a line for each storage format, and what it refuses."""
import sys

from command import CommandCase, main


class BenchFormats(CommandCase):
    def test_lines_have_the_same_results_again(self):
        hashes = set()
        for threads in (1, 2):
            found = self.ok("bench", "--formats", "--format", "IQ1_M", "--weight-mb", 1, "-r", 2,
                            "-t", threads, "--json").json
            self.assertEqual((found["format"], found["rounds"], found["n_threads"]),
                             ("IQ1_M", 2, threads))
            self.assertEqual(found["n_in"] * found["n_out"] * 56, found["file_bytes"] * 256)
            for key in ("gbs", "read_gbs", "share_of_limit", "share_of_q4_0"):
                self.assertGreater(found[key], 0)
            hashes.add(found["hash"])
        self.assertEqual(len(hashes), 1)

    def test_for_a_person(self):
        text = self.ok("bench", "--formats", "--format", "mxfp8", "--weight-mb", 1, "-r", 1, "-t", 1).text
        self.assertIn("of limit", text)
        self.assertIn("mxfp8", text)

    def test_no_model_and_no_formats(self):
        self.assertIn(b"MODEL", self.fails(2, "bench").err)
        self.assertIn(b"--formats", self.fails(2, "bench", "--format", "Q4_0").err)
        self.assertIn(b"no format", self.fails(2, "bench", "--formats", "--format", "Q4_O").err)


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
