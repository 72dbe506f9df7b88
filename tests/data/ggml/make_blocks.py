# SPDX-License-Identifier: Apache-2.0
"""Writes blocks.h: blocks that the package gguf (pip install gguf numpy) makes of 32 values each. Run by hand:

    python3 tests/data/ggml/make_blocks.py > tests/data/ggml/blocks.h
"""
import importlib.metadata
import re

import gguf
import numpy as np

FORMATS = ("Q8_0", "Q4_0", "Q5_0", "Q4_1", "Q5_1")
rng = np.random.default_rng(20261128)
values = np.concatenate([
    rng.standard_normal((3, 32)), 1000 * rng.standard_normal((1, 32)), 0.01 * rng.uniform(-1, 1, (1, 32)),
    np.arange(-16, 16)[None] * 0.5, np.arange(-15, 17)[None] * 0.5, np.arange(32)[None] % 3 - 1.0]).astype(np.float32)

print(f"""/* SPDX-License-Identifier: Apache-2.0 */
/* What gguf {importlib.metadata.version("gguf")} makes of 32 values each; README.md says more. */
#ifndef GGML_BLOCKS_H
#define GGML_BLOCKS_H

#include <clattn/problem.h>

enum {{ GGML_BLOCKS = {len(values)}, GGML_BLOCK_BYTES = 34 }};

static const float ggml_values[GGML_BLOCKS][32] = {{""")
for row in values:
    print("    {" + ", ".join(re.sub(r"\.?0+p", "p", float(x).hex()) + "f" for x in row) + "},")
print("};\n\nstatic const struct {\n    clattn_cache format;\n    unsigned char blocks[GGML_BLOCKS][GGML_BLOCK_BYTES];\n} ggml_blocks[] = {")
for name in FORMATS:
    print(f"    {{CLATTN_CACHE_{name}, {{")
    for block in gguf.quantize(values, gguf.GGMLQuantizationType[name]):
        print("        {" + ", ".join(str(byte) for byte in block) + "},")
    print("    }},")
print("};\n\n#endif")
