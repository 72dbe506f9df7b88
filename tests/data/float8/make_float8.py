# SPDX-License-Identifier: Apache-2.0
"""Writes float8.h: what PyTorch (pip install torch) makes of floats and of codes. Run by hand:

    python3 tests/data/float8/make_float8.py > tests/data/float8/float8.h
"""
import textwrap

import torch

FORMATS = (("E4M3", torch.float8_e4m3fn), ("E5M2", torch.float8_e5m2))
torch.manual_seed(20261128)


def literal(x):
    if x != x:
        return "NAN"
    if abs(x) == float("inf"):
        return ("-" if x < 0 else "") + "INFINITY"
    text = f"{x:.9g}"
    return text + ("f" if "." in text or "e" in text else ".0f")


def lines(texts):
    return textwrap.fill(", ".join(texts), 120, initial_indent="    ", subsequent_indent="    ")


codes = torch.arange(256, dtype=torch.uint8)
numbers = torch.cat([codes.view(t).float() for _, t in FORMATS])
finite = torch.unique(numbers[torch.isfinite(numbers)])
ties = (finite[1:] + finite[:-1]) / 2
beyond = torch.tensor([449.0, 464.0, 465.0, 480.0, 512.0, 57345.0, 61439.0, 61440.0, 65536.0, 1e9, 3e38, 1e-40])
special = torch.tensor([float("inf"), float("nan"), 0.0])
x = torch.cat([finite[::7], ties[::3], torch.nextafter(ties[::3], finite[1::3]), torch.randn(64), torch.randn(64) * 1e-3,
               beyond, -beyond, special, -special[::2]])
x = torch.cat([x, torch.zeros(-len(x) % 32)])

print(f"""/* SPDX-License-Identifier: Apache-2.0 */
/* What PyTorch {torch.__version__} makes of floats and of codes of eight bits; README.md says more. */
#ifndef FLOAT8_H
#define FLOAT8_H

#include <clattn/problem.h>
#include <math.h>

enum {{ FLOAT8_VALUES = {len(x)} }};

/* clang-format off */
static const float float8_values[FLOAT8_VALUES] = {{
{lines(map(literal, x.tolist()))}}};

static const struct {{
    clattn_cache format;
    unsigned char codes[FLOAT8_VALUES]; /* of the values */
    float numbers[256];                 /* of all codes */
}} float8_formats[] = {{""")
for name, dtype in FORMATS:
    print(f"    {{CLATTN_CACHE_{name}, {{")
    print(lines(map(str, x.to(dtype).view(torch.uint8).tolist())) + "}, {")
    print(lines(map(literal, codes.view(dtype).float().tolist())) + "}},")
print("};\n/* clang-format on */\n\n#endif")
