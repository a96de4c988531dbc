# SPDX-License-Identifier: Apache-2.0
"""Talks to `bench_tokenizer serve`: texts in, ids and nanoseconds out. Shared by
compare_tokenizers.py and tests/data/tokenizers/make_random.py."""
import array
import struct
import subprocess

ENCODE, DECODE, DECODE_SKIP = 0, 1, 2
ADDS_SPECIAL, SPECIAL_IS_TEXT = 16, 32


class Client:
    def __init__(self, binary, tokenizer):
        self.proc = subprocess.Popen([binary, "serve", tokenizer], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, op, data):
        """(status, nanoseconds, bytes)"""
        self.proc.stdin.write(struct.pack("<II", op, len(data)) + data)
        self.proc.stdin.flush()
        head = self.proc.stdout.read(16)
        if len(head) < 16:
            raise RuntimeError("bench_tokenizer ended with %s" % self.proc.wait())
        status, nanos, length = struct.unpack("<IQI", head)
        return status, nanos, self.proc.stdout.read(length)

    def encode(self, text, op=ENCODE):
        data = text if isinstance(text, bytes) else text.encode("utf-8")
        status, nanos, out = self.ask(op, data)
        if status:
            raise RuntimeError("encode answered %d" % status)
        ids = array.array("i")
        ids.frombytes(out)
        return ids.tolist(), nanos

    def decode(self, ids, op=DECODE):
        status, nanos, out = self.ask(op, array.array("i", ids).tobytes())
        if status:
            raise RuntimeError("decode answered %d" % status)
        return out.decode("utf-8"), nanos

    def close(self):
        self.proc.stdin.close()
        self.proc.wait()
