# SPDX-License-Identifier: Apache-2.0
"""Packed weights from their file: the same bits as packed now, and a folder that is in the way, damaged
or not ours costs nothing but time."""
import os
import shutil
import sys
import tempfile

import command
from command import STARTER, CommandCase, needs_starter


@needs_starter
class Panels(CommandCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.env = {"XDG_CACHE_HOME": self.folder.name}
        self.ids = os.path.join(self.folder.name, "ids")
        with open(self.ids, "w", encoding="utf-8") as f:
            f.write("[504, 3575, 338, 260, 5765, 1535]")
        self.panels = os.path.join(self.folder.name, "tandem", "panels")

    def tearDown(self):
        self.folder.cleanup()

    def predictions(self, *arguments, model=STARTER):
        """What every position predicts, to the last digit."""
        done = self.ok("score", model, "--ids", self.ids, "--top", "3", "--json", *arguments,
                       env=self.env)
        return [done.json[key] for key in ("nll", "logprobs", "top")]

    def files(self):
        """Of packed weights; tables() of the tokenizer's."""
        return [name for name in self.all_files() if ".text-1." not in name]

    def tables(self):
        return [name for name in self.all_files() if ".text-1." in name]

    def all_files(self):
        return sorted(os.listdir(self.panels)) if os.path.isdir(self.panels) else []

    def test_cold_warm_and_none_have_the_same_bits(self):
        none = self.predictions("--panel-cache", "0")
        self.assertEqual(self.files(), [])
        self.assertEqual(self.predictions(), none)
        self.assertEqual(len(self.files()), 1)
        path = os.path.join(self.panels, self.files()[0])
        before = os.stat(path)
        self.assertEqual(self.predictions(), none)
        after = os.stat(path)
        self.assertEqual((after.st_ino, after.st_size), (before.st_ino, before.st_size))
        # damaged in every panel: the one that is looked at in each weight is not what it packs to
        with open(path, "r+b") as f:
            f.seek(1 << 20)
            f.write(bytes(before.st_size - (1 << 20)))
        self.assertEqual(self.predictions(), none)
        self.assertNotEqual(os.stat(path).st_ino, before.st_ino)
        self.assertEqual(self.predictions(), none)
        os.truncate(path, before.st_size - 1)
        self.assertEqual(self.predictions(), none)
        self.assertEqual(os.stat(path).st_size, before.st_size)

    def test_another_model_under_the_same_path_replaces_the_file(self):
        model = os.path.join(self.folder.name, "m.gguf")
        shutil.copyfile(STARTER, model)
        first = self.predictions(model=model)
        name = self.files()
        size = os.path.getsize(model)
        with open(model, "r+b") as f:  # other weights, same length
            f.seek(size - 4096)
            f.write(bytes(range(64)) * 16)
        second = self.predictions(model=model)
        self.assertEqual(self.files(), name)
        self.assertEqual(self.predictions("--panel-cache", "0", model=model), second)
        self.assertEqual(self.predictions(model=model), second)
        self.assertEqual(len(first), len(second))

    def test_a_folder_that_cannot_be_used_costs_time_only(self):
        os.makedirs(os.path.dirname(self.panels))
        with open(self.panels, "w", encoding="utf-8") as f:
            f.write("a file in the way")
        done = self.ok("score", STARTER, "--ids", self.ids, "--json", "-v", env=self.env)
        self.assertEqual(done.err.decode().count("packed weights: not saved"), 2)

    def test_the_tokenizer_is_the_same_from_its_tables(self):
        text = "Hello  w\u00f6rld 123\n<|im_start|>user \u4f60\u597d"

        def answer(*arguments):
            done = self.ok("generate", STARTER, "--prompt", text, "-n", "8", "--temp", "0", "--json", *arguments,
                           env=self.env)
            return [done.json[key] for key in ("prompt_ids", "ids", "text")]

        none = answer("--panel-cache", "0")
        self.assertEqual(self.tables(), [])
        self.assertEqual(answer(), none)
        self.assertEqual(len(self.tables()), 1)
        path = os.path.join(self.panels, self.tables()[0])
        before = os.stat(path)
        self.assertEqual(answer(), none)
        self.assertEqual(os.stat(path).st_ino, before.st_ino)  # it was used, not written
        for at in (4096 + 8, before.st_size // 2):  # the name of the build; numbers
            inode = os.stat(path).st_ino
            with open(path, "r+b") as f:
                f.seek(at)
                byte = f.read(1)[0]
                f.seek(at)
                f.write(bytes([byte ^ 1]))
            self.assertEqual(answer(), none)
            self.assertNotEqual(os.stat(path).st_ino, inode)
        os.truncate(path, 5000)
        self.assertEqual(answer(), none)
        self.assertEqual(os.stat(path).st_size, before.st_size)


if __name__ == "__main__":
    sys.exit(command.main(sys.modules[__name__]))
