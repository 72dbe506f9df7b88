# SPDX-License-Identifier: Apache-2.0
"""python accuracy.py [OUT.svg]: what half precision costs, as doc/guide/numerics.md shows it. Attention and its gradients in float16
and bfloat16 by PyTorch and by clattn, standard and strict, beside PyTorch in float64 on the same rounded inputs: the root
mean square of the errors as a share of that of the result, in units of the dtype's unit roundoff, and the largest error
as a share of the largest element, likewise. Draws the former into OUT.svg."""
import sys

import clattn
import torch
import torch.nn.functional as F

PROBLEMS = [  # name, heads, kv_heads, queries, keys, dim, causal
    ("8 heads, 1024 x 1024, dim 64", 8, 8, 1024, 1024, 64, False),
    ("32 heads over 8, 512 x 512, dim 128, causal", 32, 8, 512, 512, 128, True),
    ("32 heads over 8, 4 x 4096, dim 128", 32, 8, 4, 4096, 128, False),
]
NAMES = "o", "dq", "dk", "dv"
COLORS = {"PyTorch": "#d55e00", "clattn, standard": "#0072b2", "clattn, strict": "#56b4e9"}
WIDTH, HEIGHT, HIGHEST = 320, 150, 2.0  # of a panel, whose axis ends there


def by_pytorch(d_o, q, k, v, **options):
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    o = F.scaled_dot_product_attention(q, k, v, **options)
    return (o.detach(), *torch.autograd.grad(o, (q, k, v), d_o))


def by_clattn(d_o, q, k, v, *, is_causal, enable_gqa, strict):
    options = dict(causal=is_causal or None, strict=strict)
    o, lse = torch.empty_like(q), torch.empty(q.shape[:-1])
    out = tuple(torch.empty_like(x) for x in (q, k, v))
    clattn.attention(q, k, v, out=o, lse=lse, **options)
    clattn.attention_backward(d_o, q, k, v, o, lse, out=out, **options)
    return (o, *out)


def errors(got, exact, dtype):
    """Root mean square and largest, relative, in units of the unit roundoff."""
    off, unit = got.double() - exact, torch.finfo(dtype).eps / 2
    return (off.square().mean().sqrt() / exact.square().mean().sqrt() / unit).item(), \
        (off.abs().max() / exact.abs().max() / unit).item()


def draw(panels, path):
    """A row of panels for each dtype, groups of bars for o and the gradients."""
    step_x, step_y = WIDTH + 60, HEIGHT + 70
    width, height = step_x * len(PROBLEMS) + 20, 2 * step_y + 60
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for n, ((problem, dtype), bars) in enumerate(panels.items()):
        x0, y0 = 50 + n // 2 * step_x, 50 + n % 2 * step_y
        y = lambda error: y0 + HEIGHT * (1 - min(error, HIGHEST) / HIGHEST)
        out.append(f'<text x="{x0}" y="{y0 - 12}" font-weight="bold">{dtype}: {problem}</text>')
        for tick in (0, 0.5, 1, 1.5, 2):
            out.append(f'<line x1="{x0}" x2="{x0 + WIDTH}" y1="{y(tick)}" y2="{y(tick)}" stroke="#ddd"/>'
                       f'<text x="{x0 - 6}" y="{y(tick) + 4}" text-anchor="end">{tick:g}</text>')
        for m, name in enumerate(NAMES):
            for i, (who, errors_of) in enumerate(bars.items()):
                x, top = x0 + 8 + m * WIDTH / len(NAMES) + i * 16, y(errors_of[m])
                out.append(f'<rect x="{x:.1f}" y="{top:.1f}" width="14" height="{y(0) - top:.1f}" fill="{COLORS[who]}"/>')
            out.append(f'<text x="{x0 + 31 + m * WIDTH / len(NAMES):.1f}" y="{y0 + HEIGHT + 16}" text-anchor="middle">{name}</text>')
    for n, (who, color) in enumerate(COLORS.items()):
        out.append(f'<text x="{50 + 130 * n}" y="{height - 40}" fill="{color}" font-weight="bold">{who}</text>')
    out.append(f'<text x="50" y="{height - 18}">Root mean square of the errors over that of the exact result, in units of the '
               "dtype's unit roundoff; an exact result that is rounded has 0.42.</text></svg>")
    with open(path, "w") as file:
        file.write("\n".join(out) + "\n")


def main():
    torch.manual_seed(0)
    panels = {}
    print(f"PyTorch {torch.__version__}; {clattn.default_context().device.name.decode()}")
    print("| | dtype | | " + " | ".join(NAMES) + " |\n|---|---|---|" + "--:|" * len(NAMES))
    for name, heads, kv_heads, queries, keys, dim, causal in PROBLEMS:
        for dtype in (torch.float16, torch.bfloat16):
            q, d_o = (torch.randn(1, heads, queries, dim).to(dtype) for _ in range(2))
            k, v = (torch.randn(1, kv_heads, keys, dim).to(dtype) for _ in range(2))
            options = dict(is_causal=causal, enable_gqa=heads != kv_heads)
            exact = by_pytorch(*(x.double() for x in (d_o, q, k, v)), **options)
            for who, results in (("PyTorch", by_pytorch(d_o, q, k, v, **options)),
                                 ("clattn, standard", by_clattn(d_o, q, k, v, **options, strict=False)),
                                 ("clattn, strict", by_clattn(d_o, q, k, v, **options, strict=True))):
                off = [errors(g, e, dtype) for g, e in zip(results, exact)]
                cells = ("{:.2f}, {:.2f}".format(*two) for two in off)
                print(f"| {name} | {str(dtype)[6:]} | {who} | {' | '.join(cells)} |", flush=True)
                panels.setdefault((name, str(dtype)[6:]), {})[who] = [rms for rms, _ in off]
    if len(sys.argv) > 1:
        draw(panels, sys.argv[1])


if __name__ == "__main__":
    main()
