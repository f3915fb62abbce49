"""Compile the .proto files into the descriptor set that the package ships; `--check` compares."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

PROTO = Path(__file__).parents[1] / "src" / "onward" / "wire" / "proto"
COMPILED = PROTO / "onward.binpb"


def compiled() -> bytes:
    """Return the descriptor set of all .proto files, without comments."""
    files = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set.binpb"
        status = protoc.main(["protoc", f"-I{PROTO}", f"--descriptor_set_out={out}", *files])
        if status:
            raise SystemExit(status)
        return out.read_bytes()


def main() -> int:
    if "--check" not in sys.argv:
        COMPILED.write_bytes(compiled())
        return 0
    if COMPILED.read_bytes() == compiled():
        return 0
    print(f"{COMPILED.name} does not match the .proto files. Run: python tools/compile_protos.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
