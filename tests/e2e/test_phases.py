#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench --phases: every operation of a step, in order, by kinds of layers, and a whole that adds up."""
import json
import os
import sys

from command import GOLDENS, CommandCase, main

PRE_NORM = ["rms_norm", "linear", "rope", "rope", "kv_write", "attention", "linear",
            "rms_norm", "linear", "glu_mul", "linear"]


def layers_of(name):
    with open(os.path.join(GOLDENS, name, "config.json"), encoding="utf-8") as file:
        return json.load(file)["num_hidden_layers"]


class Phases(CommandCase):
    def lists(self, name, *arguments):
        return self.ok("bench", os.path.join(GOLDENS, name), "--phases", "--json", "-t", "1",
                       *arguments).lines

    def test_one_row_a_batch_and_a_prompt(self):
        told = self.lists("llama", "-p", "20", "-n", "3", "-d", "5")
        self.assertEqual([line["phases_of"] for line in told],
                         ["pp20 @ d5", "tg3 @ d5", "tg3 x 8 @ d5"])
        self.assertEqual([line["n_steps"] for line in told], [1, 3, 3])
        for line, rows in zip(told, (20, 1, 8)):
            self.assertEqual(line["n_layers"], layers_of("llama"))
            self.assertEqual([part["where"] for part in line["sections"]], ["before", "layer", "after"])
            before, layer, after = line["sections"]
            self.assertEqual([p["op"] for p in before["phases"]], ["embed", "rope_table"])
            self.assertEqual([p["op"] for p in layer["phases"]], PRE_NORM)
            self.assertEqual(layer["a_step"], line["n_layers"])
            tail = ["rms_norm", "linear"] + (["argmax"] if line["n_gen"] else [])
            self.assertEqual([p["op"] for p in after["phases"]], tail)
            for phase in layer["phases"]:
                self.assertEqual(phase["rows"], rows)
                self.assertEqual(phase["a_layer"], 1)
                self.assertEqual(phase["a_step"], line["n_layers"])
                self.assertGreater(phase["read_bytes_a_step"], 0)
            inside = sum(p["ns_a_step"] for part in line["sections"] for p in part["phases"])
            self.assertAlmostEqual(inside + line["outside_ns_a_step"], line["ns_a_step"], delta=3)
            shares = sum(p["share"] for part in line["sections"] for p in part["phases"])
            self.assertAlmostEqual(shares, inside / line["ns_a_step"], places=5)
            self.assertGreaterEqual(line["outside_ns_a_step"], 0)
            self.assertGreater(line["runs_a_layer"], 0)

    def test_layers_of_two_kinds_are_two_lists(self):
        line = self.lists("qwen3-next", "-p", "0", "-n", "2", "-b", "1")[0]
        layers = [part for part in line["sections"] if part["where"] == "layer"]
        self.assertEqual(len(layers), 2)
        self.assertEqual(sum(part["a_step"] for part in layers), layers_of("qwen3-next"))
        has = [{p["op"] for p in part["phases"]} for part in layers]
        self.assertEqual(sorted("delta_scan" in ops for ops in has), [False, True])
        self.assertEqual(sorted("attention" in ops for ops in has), [False, True])

    def test_text_and_what_is_refused(self):
        text = self.ok("bench", os.path.join(GOLDENS, "llama"), "--phases", "-t", "1", "-p", "0",
                       "-n", "2", "-b", "1").text
        self.assertIn("the team is sent", text)
        self.assertIn("outside of operations", text)
        self.assertEqual(text.count("attention"), 1)
        self.assertEqual(self.fails(2, "bench", "--phases", "--json").error["where"], "bench")


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
