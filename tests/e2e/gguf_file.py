# SPDX-License-Identifier: Apache-2.0
"""GGUF read in Python, apart from the reader under test: keys, and tensors as bytes in the file's own
order of axes (slowest first). And safetensors written, enough for a checkpoint of BF16 and F32."""
import json
import struct

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
TEXT, ARRAY = 8, 9
TYPE_NAMES = {0: ("F32", 4), 1: ("F16", 2), 30: ("BF16", 2)}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        value = struct.unpack_from(form, self.data, self.at)[0]
        self.at += struct.calcsize(form)
        return value

    def text(self):
        n = self.take("<Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == TEXT:
            return self.text()
        if kind == ARRAY:
            inner, n = self.take("<I"), self.take("<Q")
            return [self.value(inner) for _ in range(n)]
        return self.take(SCALARS[kind])


def read(path):
    """({key: value}, {name: (type, [dims], bytes)})"""
    with open(path, "rb") as f:
        reader = Reader(f.read())
    assert reader.data[:4] == b"GGUF"
    reader.at = 8
    n_tensors, n_keys = reader.take("<Q"), reader.take("<Q")
    keys = {}
    for _ in range(n_keys):
        name = reader.text()
        keys[name] = reader.value(reader.take("<I"))
    found = []
    for _ in range(n_tensors):
        name = reader.text()
        dims = [reader.take("<Q") for _ in range(reader.take("<I"))][::-1]
        found.append((name, dims, reader.take("<I"), reader.take("<Q")))
    align = keys.get("general.alignment", 32)
    base = (reader.at + align - 1) // align * align
    tensors = {}
    for name, dims, kind, offset in found:
        label, size = TYPE_NAMES[kind]
        for n in dims:
            size *= n
        tensors[name] = (label, dims, reader.data[base + offset:base + offset + size])
    return keys, tensors


def write_safetensors(path, tensors):
    """tensors: {name: (type, [dims], bytes)}"""
    header, at = {}, 0
    for name, (label, dims, data) in tensors.items():
        header[name] = {"dtype": label, "shape": dims, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            f.write(data)
