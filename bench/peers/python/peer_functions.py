# SPDX-License-Identifier: Apache-2.0
"""The library's functions of scores and masks (cl/functions) as PyTorch's flex_attention takes them, with the values of parameters
that the sources have. Each takes the function's operands, flat, and gives a score_mod or a mask_mod."""
from peer_refusal import Refusal, Unsupported


def thresholds(torch, distance, most, limits):
    return sum(((distance >= limit).int() for limit in limits), torch.clamp(distance, max=most))


def t5(torch, problem, table):
    def score(s, b, h, i, j):
        bucket = thresholds(torch, (j - i).abs(), 8, (12, 16, 23, 32, 46, 64, 91))
        return s + table[h * 32 + bucket + (j > i).int() * 16]
    return score


def t5_decoder(torch, problem, table):
    def score(s, b, h, i, j):
        return s + table[h * 32 + thresholds(
            torch, torch.clamp(i - j, min=0), 16,
            (19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113))]
    return score


def swin(torch, problem, table):
    def score(s, b, h, i, j):
        dy = torch.clamp(i // 7 - j // 7 + 6, 0, 12)
        dx = torch.clamp(i % 7 - j % 7 + 6, 0, 12)
        return s + table[(h * 13 + dy) * 13 + dx]
    return score


def sam(torch, problem, rows, columns):
    heads, queries = problem.heads, problem.seq_q

    def score(s, b, h, i, j):
        first = ((b * heads + h) * queries + i) * 64
        return s + rows[first + j // 64 % 64] + columns[first + j % 64]
    return score


def alibi(torch, problem, slopes):
    return lambda s, b, h, i, j: s + slopes[h] * (j - i)


def softcap(torch, problem):
    return lambda s, b, h, i, j: 50 * torch.tanh(s / 50)


def temperature(torch, problem, factors):
    return lambda s, b, h, i, j: s * factors[h]


def prefix_lm(torch, problem, prefix):
    return lambda b, h, i, j: (j <= i) | (j < prefix[b])


def documents(torch, problem, document):
    keys = problem.seq_kv
    return lambda b, h, i, j: (document[b * keys + i] == document[b * keys + j]) & (j <= i)


def sliding_window(torch, problem):
    return lambda b, h, i, j: (j <= i) & (i - j < 512)


def dilated(torch, problem):
    return lambda b, h, i, j: (i >= j) & (i - j < 256) & ((i - j) % 2 == 0)


def neighborhood(torch, problem):
    def visible(b, h, i, j):
        x, y = torch.clamp(i % 56, 3, 52), torch.clamp(i // 56, 3, 52)
        return ((j % 56 - x).abs() <= 3) & ((j // 56 - y).abs() <= 3)
    return visible


def draft_tree(torch, problem, ancestors):
    prefix, queries = problem.seq_kv - problem.seq_q, problem.seq_q

    def visible(b, h, i, j):
        seen = ancestors[i * queries + torch.clamp(j - prefix, min=0)] != 0
        return (j < prefix) | seen
    return visible


SCORES = {f.__name__: f for f in (t5, t5_decoder, swin, sam, alibi, softcap, temperature)}
MASKS = {f.__name__: f for f in (prefix_lm, documents, sliding_window, dilated, neighborhood, draft_tree)}


class Functions:
    """Those of a problem: `score` and `mask`, None where it has none, and which dimensions the mask has."""

    def __init__(self, peer, fields, tensors):
        self.torch, self.problem = peer.torch, peer.problem
        with self.torch.inference_mode(False):  # row() takes derivatives.
            operands = [peer.on_device(tensors[name]) for name in sorted(tensors)
                        if name.startswith("function_")]
        self.score, operands = self.find(SCORES, fields["score_function"], operands)
        self.mask, _ = self.find(MASKS, fields["mask_function"], operands)
        self.of_batch = fields["mask_function"] in ("prefix_lm", "documents")

    def find(self, functions, name, operands):
        if not name:
            return None, operands
        if name not in functions:
            raise Unsupported(f"It is not told what '{name}' computes.")
        function = functions[name]
        count = function.__code__.co_argcount - 2
        if count > len(operands):
            raise Refusal(f"The data lack operands of '{name}'.")
        return function(self.torch, self.problem, *operands[:count]), operands[count:]

    def grid(self):
        """The numbers of batch, head, query and key of all pairs, to broadcast."""
        def numbers(size, dimension):
            shape = [1] * 4
            shape[dimension] = size
            return self.torch.arange(size).view(shape)
        problem = self.problem
        return [numbers(size, n) for n, size in enumerate(
            (problem.batch, problem.heads, problem.seq_q, problem.seq_kv))]

    def row(self, scores, b, h, i):
        """Of a row of scores in NumPy: its scores, their derivative by them, and which keys are visible."""
        torch = self.torch
        with torch.inference_mode(False), torch.enable_grad():
            s = torch.tensor(scores, requires_grad=True)
            pair = [torch.tensor(n) for n in (b, h, i)] + [torch.arange(len(scores))]
            mapped = self.score(s, *pair) if self.score else s * 1
            slope, = torch.autograd.grad(mapped.sum(), s)
            seen = self.mask(*pair) if self.mask else torch.ones(len(scores), dtype=torch.bool)
        return mapped.detach().numpy(), slope.numpy(), seen.numpy()
