"""python accuracy.py: what half precision costs, as doc/performance.md shows it. Attention and its gradients in float16
and bfloat16 by PyTorch and by clattn, standard and strict, beside PyTorch in float64 on the same rounded inputs: the root
mean square of the errors as a share of that of the result, in units of the dtype's unit roundoff, and the largest error
as a share of the largest element, likewise."""
import clattn
import torch
import torch.nn.functional as F

PROBLEMS = [  # name, heads, kv_heads, queries, keys, dim, causal
    ("8 heads, 1024 x 1024, dim 64", 8, 8, 1024, 1024, 64, False),
    ("32 heads over 8, 512 x 512, dim 128, causal", 32, 8, 512, 512, 128, True),
    ("32 heads over 8, 4 x 4096, dim 128", 32, 8, 4, 4096, 128, False),
]
NAMES = "o", "dq", "dk", "dv"


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


def main():
    torch.manual_seed(0)
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
                cells = ("{:.2f}, {:.2f}".format(*errors(g, e, dtype)) for g, e in zip(results, exact))
                print(f"| {name} | {str(dtype)[6:]} | {who} | {' | '.join(cells)} |", flush=True)
                name = "..."


if __name__ == "__main__":
    main()
