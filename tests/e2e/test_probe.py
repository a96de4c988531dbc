#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench --probe: the machine's limits, told as text and as JSON. No figure is judged."""
import sys

from command import GOLDENS, CommandCase, main


def has_bf16():
    """AMX's own tiles of BF16 come with AVX-512's dot on every processor so far."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        return " avx512_bf16" in file.read()


class Probe(CommandCase):
    def test_json_has_reads_waits_and_sets(self):
        found = self.ok("bench", "--probe", "-t", "1", "--json").json
        self.assertGreater(len(found["processor"]), 0)
        limits = found["limits"]
        self.assertEqual({line["threads"] for line in limits}, {1})
        reads = [line for line in limits if "read_gbs" in line]
        self.assertEqual([line["bytes"] >> 20 for line in reads], [1, 4, 16, 64, 512])
        self.assertTrue(all(line["read_gbs"] > 0 for line in reads))
        self.assertEqual(len([line for line in limits if "barrier_us" in line]), 1)
        for line in limits:
            if "isa" in line:
                self.assertGreater(line["int8_gops"], 0)
                self.assertEqual("bf16_gops" in line, line["isa"] in ("avx512", "amx") and has_bf16())
                self.assertGreater(line.get("bf16_gops", 1), 0)

    def test_a_model_and_the_probe_exclude_each_other(self):
        self.assertEqual(self.fails(2, "bench", GOLDENS + "/llama", "--probe", "--json").error["where"], "bench")
        self.assertEqual(self.fails(2, "bench", "--json").error["where"], "bench")


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
