"""A GGUF file taken apart, changed and put together again, for the tests."""
import pathlib
import struct

U32, F32, BOOL, STR, ARR = 4, 6, 7, 8, 9
SIZE = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def text(s):
    b = s.encode() if isinstance(s, str) else s
    return struct.pack("<Q", len(b)) + b


def array(kind, values):
    """The value of an array of whole numbers or booleans."""
    f = {4: "I", 5: "i", 7: "?"}[kind]
    return (struct.pack("<IQ", kind, len(values)) +
            struct.pack(f"<{len(values)}{f}", *values))


class Tensor:
    def __init__(self, name, dims, type_id, data):
        self.name, self.dims, self.type, self.data = name, dims, type_id, data

    def retype(self, type_id, block, size, scales, rng):
        """Random blocks of another type; `scales` are the places of f16
        numbers, which stay small and finite."""
        n = 1
        for d in self.dims:
            n *= d
        n //= block
        b = bytearray(rng.randbytes(n * size))
        for k in scales:
            half = [struct.pack("<e", rng.uniform(-.01, .01)) for _ in range(n)]
            b[k::size] = bytes(h[0] for h in half)
            b[k + 1::size] = bytes(h[1] for h in half)
        self.type, self.data = type_id, bytes(b)


class Gguf:
    """kv: key -> (kind, bytes of the value); tensors: in the order of the
    file."""

    def __init__(self, path):
        d = pathlib.Path(path).read_bytes()
        n_ten, n_kv = struct.unpack_from("<QQ", d, 8)
        self.version, at = 3, 24
        self.kv, self.tensors = {}, []

        def string(i):
            n, = struct.unpack_from("<Q", d, i)
            return d[i + 8:i + 8 + n].decode(), i + 8 + n

        def skip(kind, i):
            if kind == STR:
                return string(i)[1]
            if kind != ARR:
                return i + SIZE[kind]
            of, n = struct.unpack_from("<IQ", d, i)
            i += 12
            if of != STR:
                return i + n * SIZE[of]
            for _ in range(n):
                i += 8 + struct.unpack_from("<Q", d, i)[0]
            return i

        for _ in range(n_kv):
            key, at = string(at)
            kind, = struct.unpack_from("<I", d, at)
            end = skip(kind, at + 4)
            self.kv[key] = kind, d[at + 4:end]
            at = end
        infos = []
        for _ in range(n_ten):
            name, at = string(at)
            nd, = struct.unpack_from("<I", d, at)
            dims = list(struct.unpack_from(f"<{nd}Q", d, at + 4))
            infos.append((name, dims,
                          *struct.unpack_from("<IQ", d, at + 4 + 8 * nd)))
            at += 16 + 8 * nd
        start = (at + 31) // 32 * 32
        ends = sorted(i[3] for i in infos) + [len(d) - start]
        for name, dims, kind, off in infos:
            end = ends[ends.index(off) + 1]
            self.tensors.append(Tensor(name, dims, kind,
                                       d[start + off:start + end]))

    def tensor(self, name):
        return next(t for t in self.tensors if t.name == name)

    def u32(self, key, v):
        self.kv[key] = U32, struct.pack("<I", v)

    def save(self, path):
        head = b"GGUF" + struct.pack("<IQQ", self.version, len(self.tensors),
                                     len(self.kv))
        for key, (kind, value) in self.kv.items():
            head += text(key) + struct.pack("<I", kind) + value
        data, off = [], 0
        for t in self.tensors:
            head += (text(t.name) + struct.pack(
                f"<I{len(t.dims)}QIQ", len(t.dims), *t.dims, t.type, off))
            data.append(t.data + bytes(-len(t.data) % 32))
            off += len(data[-1])
        head += bytes(-len(head) % 32)
        pathlib.Path(path).write_bytes(head + b"".join(data))
        return path
