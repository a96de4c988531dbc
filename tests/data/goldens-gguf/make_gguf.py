#!/usr/bin/env python3
"""Converts a golden checkpoint to GGUF with llama.cpp's own converter.

Usage: make_gguf.py LLAMA_CPP CASE OUT.gguf
LLAMA_CPP is the source tree of llama.cpp (its folders `conversion` and `gguf-py`), CASE a folder that make_goldens.py
wrote. The goldens have no tokenizer, so the file says that it has none.
"""
import pathlib
import sys

tree, case, out = (pathlib.Path(a) for a in sys.argv[1:])
sys.path[:0] = [str(tree), str(tree / "gguf-py")]
import gguf
import torch
import conversion
from conversion.base import ModelBase


def set_vocab(self):
    self.gguf_writer.add_tokenizer_model("none")
    self.gguf_writer.add_vocab_size(self.hparams["vocab_size"])


model_class = conversion.get_model_class(ModelBase.load_hparams(case, False)["architectures"][0])
model_class.set_vocab = set_vocab
with torch.inference_mode():
    model = model_class(case, gguf.LlamaFileType.MOSTLY_BF16, out, use_temp_file=False, eager=True, model_name="tiny")
    model.hparams.setdefault("rotary_pct", 1.0)  # hub files of cohere2 have it, transformers 5 writes it no more
    model.write()
