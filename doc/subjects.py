# SPDX-License-Identifier: Apache-2.0
"""What pages by subject say of bench/results. TABLES are the tables that doc/generate.py writes into them, and sentences() the
sentences and cells with figures that must stand there: doc/check.py recomputes them. Other figures of these pages stand in a
section that says that no file of results has them."""
import json
import math
import re
import statistics
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / "bench/results"
SUBJECTS = ("functions", "serving", "pytorch", "gpus", "first-call", "ggml", "scaling")
# Blocks with a figure: a decimal number, or one with a unit. Versions of software and names of devices are none.
FIGURE = re.compile(r"\b\d+\.\d+\b|\b\d[\d,]* ?(?:%|ms|us|ns|s|[KMG]B|[GT]B/s|[GT]FLOP/s|times)(?!\w)")
NO_FIGURE = re.compile(r"`[^`]*`|\]\([^)]*\)|(?:PoCL|PyTorch|SMPI|Open MPI|ONNX Runtime|ggml|OpenCL|CUDA|clang|driver|V|\() ?\(?\d+(?:\.\d+)+")


def text(name):
    return (RESULTS / name).read_text(encoding="utf-8")


class Run:
    """A file of clattn-bench run: its problems by their texts, without the batch of one."""

    def __init__(self, name):
        self.device = json.loads(text(f"{name}.json"))["devices"][0]
        self.peaks = {key: value["median"] for key, value in (self.device["peaks"] or {}).items() if isinstance(value, dict)}
        self.results = {}
        for result in self.device["results"]:  # a problem of several workloads: the last counts
            self.results[result["problem"].replace(" b1 ", " ")] = result

    def of(self, problem, name="clattn"):
        return next((i for i in self.results[problem]["implementations"] if i["implementation"] == name and i["milliseconds"]), None)

    def ms(self, problem, name="clattn"):
        return self.of(problem, name)["milliseconds"]["median"]

    def tflops(self, problem, name="clattn"):
        return self.of(problem, name)["gflops"] / 1000

    def ratio(self, problem, name="PyTorch"):
        return self.of(problem, name)["ratio"]["median"]

    def share(self, problem):
        return 100 * self.results[problem]["roof_share"]["median"]


def number(value):
    """Three digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def variants(name):
    """{problem: [(ms, ratio, TFLOP/s, error over bound, variant)]} of a text of variants, the untuned choice with its name."""
    found, problem = {}, None
    for line in text(name).split("\n"):
        row = re.match(r" +(\d+\.\d+) +(\d[\d.]*)(?: \([^)]*\))? +(\d+\.\d+) +(\d[\d.e-]*)  (.*)", line)
        if row:
            found[problem].append((*map(float, row.groups()[:4]), row[5]))
        elif re.match(r"(fwd|bwd|proj) ", line):
            problem = line.split("   ")[0].replace(" b1 ", " ")
            found.setdefault(problem, [])
    return found


def best(rows, words, without="\0"):
    """TFLOP/s of those variants whose text has the words, the fastest first."""
    return sorted((row[2] for row in rows if words in row[4] and without not in row[4]), reverse=True)


# pytorch.md ------------------------------------------------------------------------------------------------------------------

FUNCTION = {"bert-base 512": "bert-base 512: 12 heads, 512 x 512, dim 64", "gpt2 1024": "gpt2 1024: 12 heads, 1024 x 1024, dim 64, causal",
            "llama3-8b 512": "llama3-8b 512: 32 heads over 8, 512 x 512, dim 128, causal",
            "vit-b16, 8 images": "vit-b16: 8 x 12 heads, 197 x 197, dim 64", "sd15 4096": "sd15 4096: 2 x 8 heads, 4096 x 4096, dim 40"}


def pytorch_function():
    ratios = {row[1].strip() + row[2] + row[3]: row[4] for row in
              re.finditer(r"^(.{20}) (forward|forward and backward), (\w+) .* (\S+)$", text("pytorch-epyc-zen5-2026-11-25.txt"), re.M)}
    yield "| | forward f32 | f16 | bf16 | forward and backward f32 | f16 | bf16 |"
    yield "|---|" + "--:|" * 6
    for name, shown in FUNCTION.items():
        yield f"| {shown} | " + " | ".join(ratios[name + ways + dtype] for ways in ("forward", "forward and backward")
                                           for dtype in ("float32", "float16", "bfloat16")) + " |"


def pytorch_small():
    rows = {}
    for row in re.finditer(r"^\| ([^|]+) \| (\w+) \| \d+ \| \d+ \| (\S+) \|$", text("pytorch-small-epyc-zen4-2026-11-27.txt"), re.M):
        rows.setdefault(row[1], []).append(row[3])
    yield "| | f32 | bf16 |"
    yield "|---|--:|--:|"
    yield from (f"| {name} | {' | '.join(ratios)} |" for name, ratios in rows.items())


def pytorch_sentences():
    said = text("pytorch-epyc-zen5-2026-11-25.txt")
    step = re.search(r"a step of training +(\S+) +(\S+) +(\S+)$", said, re.M)
    share, most = re.search(r"is (\d+) % of PyTorch's step.* were (\S+)$", said, re.M).groups()
    yield (f"A step took {float(step[2]) / 1000:.2f} s with clattn and {float(step[1]) / 1000:.2f} s without, {step[3]} times as long. "
           f"Attention is {share} % of PyTorch's step, so that no library could gain more than {most} times.")
    least = re.search(r"^\| 4 heads, 8 x 8, dim 16 \| float32 \| (\d+) \| (\d+) \|", text("pytorch-small-epyc-zen4-2026-11-27.txt"), re.M)
    yield f"The smallest call takes clattn {least[2]} us and PyTorch {least[1]} us"


# ggml.md ---------------------------------------------------------------------------------------------------------------------


def cells(row):
    return [cell.strip() for cell in row.strip("|").split("|")]


def ggml_rows(heading):
    """Rows of the table of a text of tests/ggml.sh whose first line begins so."""
    table = re.search(rf"^\| {re.escape(heading)}.*\n\|[-:|]+\n((?:\|.*\n?)+)", text("llama-epyc-zen5-2026-11-25.txt"), re.M)[1]
    return [cells(row) for row in table.strip().split("\n")]


def ggml_operations():
    yield "| FLASH_ATTN_EXT | ggml's CPU backend, ms | clattn, ms | times |"
    yield "|---|--:|--:|--:|"
    for name, *times in ggml_rows("FLASH_ATTN_EXT"):
        dim_qk, dim_v, kv_heads, rows, keys, queries, dtype = re.match(
            r"hsk=(\d+),hsv=(\d+),nh=(\d+),nr23=\[(\d+),1\],kv=(\d+),nb=(\d+) (\w+)", name).groups()
        heads = f"{int(kv_heads) * int(rows)} heads" + (f" over {kv_heads}" if rows != "1" else "")
        dims = dim_qk if dim_qk == dim_v else f"{dim_qk}/{dim_v}"
        yield f"| dim {dims}, {heads}, {keys} keys, {queries} {'queries' if queries != '1' else 'query'}, {dtype} | {' | '.join(times)} |"


def ggml_models():
    yield "| prompt | cache | prompt, ms | with clattn | times | at most | a token, ms | with clattn | times | at most |"
    yield "|--:|---|" + "--:|" * 8
    for row in ggml_rows("prompt |"):
        yield f"| {' | '.join(row[:5] + row[6:7] + [f'{float(ms):.2f}' for ms in row[7:9]] + row[9:10] + row[11:12])} |"


def ggml_sentences():
    run = Run("ggml-prompts-epyc-zen5-2026-11-25")
    shares = {name: [100 * run.of(problem, name)["gflops"] / run.peaks["fma_gflops"] for problem in run.results] for name in ("clattn", "ggml")}
    of, other = [[f"{x:.0f}" for x in shares[name]] for name in ("clattn", "ggml")]
    yield f"these are the shares of their peak, {run.peaks['fma_gflops']:.1f} GFLOP/s:"
    yield f"| the table's first row, f16, dim 72 | {of[0]} % | {other[0]} % |"
    yield f"| 512 queries, dim 64: f16; q8_0; q4_0 | {'; '.join(of[1:])} % | {'; '.join(other[1:])} % |"
    tokens = ggml_rows("one token")
    row = next(row for row in tokens if row[0] == "1024")
    nothing = sorted(float(row[4]) for row in tokens)
    yield (f"one token's attention to 1024 keys took {row[1]} us through ggml and {row[2]} by a plan alone. PoCL takes "
           f"{nothing[0]:.0f} to {nothing[-1]:.0f} us of it, as for a kernel that does nothing.")


# gpus.md ---------------------------------------------------------------------------------------------------------------------


def gpus():
    return Run("h200-2026-11-28"), Run("h200-options-2026-11-28"), variants("h200-variants-2026-11-28.txt")


F32 = [("fwd f32 h16 q4096 d128", "fwd f32 h16 q4096 k4096 d128"), ("fwd f32 h16 q4096 d64", "fwd f32 h16 q4096 k4096 d64"),
       ("bwd f32 h16 q2048 d64", "bwd f32 h8 q2048 k2048 d64"), ("proj f32 q4096 d4096 w=oi", "proj f32 h1 q4096 d4096 w=oi")]


def gpus_f32():
    run, _, tried = gpus()
    yield "| f32 | matrix units, TFLOP/s | multiply-adds | PyTorch | ratio | error, of the bound |"
    yield "|---|--:|--:|--:|--:|--:|"
    for problem, other in F32:
        rows = best(tried[problem], "UNIT=warpgroup")
        error = next(row[3] for row in tried[problem] if row[2] == rows[0])
        item, torch = run.tflops(other), run.tflops(other, "PyTorch")
        heads = " (h8)" if "h16" in problem and " h8 " in other else ""
        yield f"| `{problem}` | {rows[0]:.0f} | {item:.1f} | {torch:.1f}{heads} | {rows[0] / torch:.1f} | {error:.3f} |"


OPTIONS = ["fwd f16 h16 q4096 k4096 d128 dropout=0.1", "fwd f16 h16 q4096 k4096 d128 softcap=50",
           "fwd f16 h16 q4096 k4096 d128 causal=tl alibi", "fwd f16 b16 h8 q4096 k4096 d128 causal=br totalq=16384 totalkv=16384",
           "fwd f16 h8 q4096 k4096 d80"]


def gpus_options():
    _, run, tried = gpus()
    yield "| problem | before, ms | now | times as fast |"
    yield "|---|--:|--:|--:|"
    for problem in OPTIONS:
        before = run.ms(problem.replace("dropout=0.1", "dropout=0.100000001"))
        now = next(row[0] for row in tried[problem] if row[4].startswith("untuned"))
        yield f"| `{problem}` | {before:.3f} | {now:.3f} | {before / now:.1f} |"


def reading(cache, block):
    """GB/s of the blocks of a cache on an H200, of so many bytes for 32 values."""
    rows = variants("h200-mma-variants-2026-11-27.txt")[f"fwd f16 b8 h32/8 q1 k16384 d128 kcache={cache} vcache={cache}"]
    ms = min(row[0] for row in rows if row[4].startswith("split_mma"))
    return f"{2 * 8 * 8 * 16384 * 128 * block / 32 / ms / 1e6:,.0f}"


def gpus_mma():
    _, _, tried = gpus()
    older = variants("h200-mma-variants-2026-11-27.txt")

    yield "| problem | fastest, TFLOP/s | family |"
    yield "|---|--:|---|"
    yield f"| `fwd f16 h16 q8192 d128` | {best(older['fwd f16 h16 q8192 d128'], 'fused_mma')[0]:.0f} | `fused_gpu UNIT=mma` |"
    yield (f"| f32 forward of 16 heads and 4096 queries, dims 128 and 64 | {best(tried['fwd f32 h16 q4096 d128'], 'UNIT=mma')[0]:.0f}; "
           f"{best(tried['fwd f32 h16 q4096 d64'], 'UNIT=mma')[0]:.0f} | `fused_gpu UNIT=mma` |")
    yield f"| `bwd f32 h16 q2048 d64` | {best(tried['bwd f32 h16 q2048 d64'], 'UNIT=mma')[0]:.0f} | `backward_gpu UNIT=mma` |"
    yield f"| `proj f32 q4096 d4096 w=oi` | {best(tried['proj f32 q4096 d4096 w=oi'], 'UNIT=mma')[0]:.0f} | `projection_gpu UNIT=mma` |"
    yield f"| `bwd f16 h16 q4096 d128` | {best(older['bwd f16 h16 q4096 d128'], 'backward_mma')[0]:.0f} | `backward_gpu UNIT=mma` |"
    yield f"| `proj f16 q8192 d4096 w=oi` | {best(older['proj f16 q8192 d4096 w=oi'], 'projection_mma')[0]:.0f} | `projection_gpu UNIT=mma` |"
    yield f"| decoding 16384 keys, batch 8: q8_0; q4_0 | {reading('q8_0', 34)} GB/s; {reading('q4_0', 18)} GB/s | `split_gpu UNIT=mma` |"


def gpus_sentences():
    _, run, tried = gpus()
    stored = next(row[2] for row in tried["bwd f32 h8 q2048 d64"] if row[4].startswith("untuned"))
    anew = next(row[2] for row in tried["bwd f32 h8 q2048 d64"] if "STORE_DS=0" in row[4])
    yield (f"`UNIT=item` computes gradients of `bwd f32 h8 q2048 d64` at {stored:.1f} TFLOP/s since it stores the scores' gradients, "
           f"and at {anew:.1f} without.")
    fma = max(best(tried["fwd f32 h16 q4096 d128"], "UNIT=item")[0], Run("h200-2026-11-28").tflops("fwd f32 h16 q4096 k4096 d128"))
    f16 = Run("h200-2026-11-28")
    yield f"| f32 by multiply-adds: forward; gradients; projections | 40; 34; 45 | {fma:.1f}; {stored:.1f}; {f16.tflops(F32[3][1]):.1f} |"
    yield (f"| f32 by matrix units, likewise | 80; 60; 100 | {best(tried[F32[0][0]], 'UNIT=warpgroup')[0]:.0f}; "
           f"{best(tried[F32[2][0]], 'UNIT=warpgroup')[0]:.0f} (dim 64); {best(tried[F32[3][0]], 'UNIT=warpgroup')[0]:.0f} |")
    older = variants("h200-mma-variants-2026-11-27.txt")
    yield (f"| f16 by `mma.sync`, likewise | 350; 280; 350 | {best(older['fwd f16 h16 q8192 d128'], 'fused_mma')[0]:.0f}; "
           f"{best(older['bwd f16 h16 q4096 d128'], 'backward_mma')[0]:.0f}; {best(older['proj f16 q8192 d4096 w=oi'], 'projection_mma')[0]:.0f}")
    hopper = ["fwd f16 h16 q8192 k8192 d128", "fwd f16 h16 q8192 k8192 d128 causal=tl", "fwd f16 h32 q4096 k4096 d64",
              "bwd f16 h16 q4096 k4096 d128", "proj f16 h1 q8192 d4096 w=oi"]
    rates = [f"{f16.tflops(problem):.0f}" for problem in hopper]
    yield (f"| f16 on Hopper: forward of dim 128, causal, of dim 64; gradients; projections | 620, 540, 440; 450; 600 | "
           f"{', '.join(rates[:3])}; {rates[3]}; {rates[4]} |")
    plain = {"": f16.tflops(hopper[0]), "causal": f16.tflops(hopper[1])}
    now = {problem: next(row[2] for row in tried[problem] if row[4].startswith("untuned")) for problem in OPTIONS}
    yield (f"| options, of plain speed | 0.85 | softcap {now[OPTIONS[1]] / plain['']:.2f}, ALiBi {now[OPTIONS[2]] / plain['causal']:.2f}, "
           f"dim 80 {now[OPTIONS[4]] / plain['']:.2f}, dropout {now[OPTIONS[0]] / plain['']:.2f} |")
    yield f"| decoding from q8_0; q4_0, GB/s of their bytes | 3000; 2200 | {reading('q8_0', 34)}; {reading('q4_0', 18)} |"
    blocks = run.ms("fwd f32 h12 q4096 k4096 d64 blocks=64x64:640") / run.ms("fwd f32 h12 q4096 k4096 d64")
    yield f"| block lists of 10 %, of dense time | 0.12 | {blocks:.2f} with lists of 16 %, before tiles computed listed blocks alone |"
    gains = {problem: 1 / min(row[1] for row in rows) for problem, rows in tried.items() if rows}
    at = max(gains, key=gains.get)
    rest = max(gain for problem, gain in gains.items() if problem != at)
    yield (f"| the fastest variant, over the default | 1.05 | at most {rest:.2f} in {len(gains) - 1} of {len(gains)} problems; "
           f"the other's, {gains[at]:.2f} times as fast, is the default now |")
    yield f"The H100 reached {Run('h100-2026-11-26').tflops(hopper[0]):.0f} TFLOP/s"


# functions.md ----------------------------------------------------------------------------------------------------------------

FLEX = [("dense score functions", "fwd", r"score=(t5|t5_decoder|alibi|softcap|temperature|swin|sam)$"),
        ("`prefix_lm`, `dilated`", "fwd", r"visible=(prefix_lm|dilated)$"), ("`documents`", "fwd", r"visible=documents$"),
        ("`sliding_window`", "fwd", r"visible=sliding_window$"), ("`neighborhood`", "fwd", r"visible=neighborhood$"),
        ("gradients of dense score functions", "bwd", r"score=\w+$"), ("gradients of `documents`", "bwd", r"visible=documents$"),
        ("gradients of `sliding_window`", "bwd", r"visible=sliding_window$")]
FLEX_FILES = {"Zen 4": ("functions-pytorch-epyc-zen4-2026-11-28", "functions-pytorch-more-epyc-zen4-2026-11-28"),
              "Zen 3": ("functions-pytorch-epyc-zen3-2026-11-30",)}


def flex(machine, verb, pattern):
    """PyTorch's times over clattn's on a machine."""
    return [run.ratio(problem) for run in map(Run, FLEX_FILES[machine]) for problem in run.results
            if problem.startswith(verb) and re.search(pattern, problem) and run.of(problem, "PyTorch")]


def functions_flex():
    yield "| | Zen 4 | Zen 3 |"
    yield "|---|--:|--:|"
    for name, verb, pattern in FLEX:
        shown = []
        for machine in FLEX_FILES:
            ratios = sorted(flex(machine, verb, pattern))
            shown.append("" if not ratios else f"{ratios[0]:.1f}" if len(ratios) == 1 else f"{ratios[0]:.1f} to {ratios[-1]:.1f}")
        yield f"| {name} | {' | '.join(shown)} |"


HEADS = "f32 h8 q1024 k1024 d64"
# What a function costs: what is told, of what it is a share, the second problems of paired.sh, the goal.
FUNCTION_COSTS = [
    ("a score that changes nothing, forward; backward", "plain attention", [f"{verb} {HEADS} score=unchanged.cl" for verb in ("fwd", "bwd")], "0.97"),
    ("`t5`", "plain attention", [f"fwd {HEADS} score=t5"], "0.85"),
    ("gradients of `t5` with the table's; without", "plain gradients", [f"bwd {HEADS} score=t5{more}" for more in (" dfunction", "")], "0.75"),
    *[(f"{of}`{name}`; the option", f"plain {what}", [f"{verb} {HEADS} score={name}", f"{verb} {HEADS} {option}"], "")
      for name, option, verb, of, what in (("alibi", "alibi", "fwd", "", "attention"), ("softcap", "softcap=50", "fwd", "", "attention"),
                                           ("softcap", "softcap=50", "bwd", "gradients of ", "gradients"))],
    ("`t5_decoder`; `temperature`", "plain attention", [f"fwd {HEADS} score={name}" for name in ("t5_decoder", "temperature")], ""),
    ("`swin`, 49 tokens, dim 32; `sam`, which loads two elements for each pair", "plain attention",
     ["fwd f32 b64 h8 q49 k49 d32 score=swin", "fwd f32 h1 q4096 k4096 d64 score=sam"], ""),
    ("`sliding_window`, 512 of 8192 keys; its gradients, of 4096 keys", "the option",
     [f"{verb} f32 h2 q{keys} k{keys} d64 visible=sliding_window" for verb, keys in (("fwd", 8192), ("bwd", 4096))], "0.95"),
    ("`documents`, eight of 128 tokens; its gradients", "a causal batch of eight", [f"{verb} {HEADS} visible=documents" for verb in ("fwd", "bwd")], "0.9"),
]


def pairs(name):
    """{second problem: time over the first problem's} of a text of paired.sh that compares problems."""
    return {row[2]: float(row[1]) for row in re.finditer(r"^(\d\.\d+) \(.*?\)  .*? => (.*?)  ", text(name), re.M)}


def functions_costs():
    ratios = pairs("paired-functions-epyc-zen3-2026-11-30.txt")
    yield "| | share | of the speed of | goal |"
    yield "|---|--:|---|--:|"
    for name, of, problems, goal in FUNCTION_COSTS:
        yield f"| {name} | {'; '.join(f'{1 / ratios[problem]:.2f}' for problem in problems)} | {of} | {goal} |"


def functions_sentences():
    means = [mean(flex("Zen 3", verb, r"(score|visible)=\w+$")) for verb in ("fwd", "bwd")]
    plain = flex("Zen 3", "fwd", r" d64$")
    yield (f"On the Zen 3 the geometric mean is {means[0]:.1f} forward and {means[1]:.1f} backward; the goal was 5. For plain attention "
           f"PyTorch takes {plain[0]:.1f} times clattn's time there")
    noise = [100 * Run(FLEX_FILES[machine][0]).device["noise"] for machine in FLEX_FILES]
    run = Run(FLEX_FILES["Zen 3"][0])
    slower = {}
    for verb in ("fwd", "bwd"):
        plain = run.of(f"{verb} {HEADS}")["first_milliseconds"]["source"]
        for word in ("score=", "visible="):
            ratios = sorted(run.of(problem)["first_milliseconds"]["source"] / plain for problem in run.results if problem.startswith(f"{verb} {HEADS} {word}"))
            slower[verb, word] = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
    yield (f"With a score function the first result from source takes {slower['fwd', 'score=']} times as long as plain attention's, and that of gradients "
           f"{slower['bwd', 'score=']} times. A mask function adds a kernel: {slower['fwd', 'visible=']} and {slower['bwd', 'visible=']} times; the goal was 1.1.")
    yield f"A time is known to ±{noise[0]:.0f} % on the Zen 4 and ±{noise[1]:.0f} % on the Zen 3."


# serving.md ------------------------------------------------------------------------------------------------------------------

DECODE = "fwd f16 h32/8 q1 k{} d128"
# What is told; its problem, and the problem that it is compared with or None for a share of the roof; whether it is a time over the
# other's ("time"), the other's over it ("speed"), or a rate over the other's; the goal.
SERVING = [
    ("packed batch of 64 sequences, 17 to 4096 tokens, f32: rate over that of equal lengths",
     [("fwd f32 b64 h2 q4096 k4096 d128 causal=br totalq=131072 totalkv=131072", "fwd f32 b64 h2 q2048 k2048 d128 causal=br", "rate")], "0.95"),
    *[(f"decoding f16, {keys} keys in pages of 16; 64; 256: time of a contiguous cache over it",
       [(f"{DECODE.format(keys)} page={page} pages={keys // page}", DECODE.format(keys), "speed") for page in (16, 64, 256)], "0.95")
      for keys in (4096, 32768)],
    ("decoding f16, 32768 keys: share of reading", [(DECODE.format(32768), None, "share")], ""),
    ("decoding q8_0, 32768 keys: time of f16 over it", [(f"{DECODE.format(32768)} kcache=q8_0 vcache=q8_0", DECODE.format(32768), "speed")], ""),
    ("10 % of blocks of 64 x 64, f32, 8192 keys: time over dense; of gradients",
     [(f"{verb} f32 h2 q8192 k8192 d64 blocks=64x64:1638", f"{verb} f32 h2 q8192 k8192 d64", "time") for verb in ("fwd", "bwd")], "0.115; 0.13"),
    ("Longformer's blocks, 15 %, f32, 4096 keys: time over dense; of gradients",
     [(f"{verb} f32 h12 q4096 k4096 d64 blocks=64x64:640", f"{verb} f32 h12 q4096 k4096 d64", "time") for verb in ("fwd", "bwd")], ""),
    ("four; eight drafts behind 32768 keys, f16: time over one query's",
     [(f"fwd f16 h32/8 q{n} k32768 d128 mask=bqk maskkeys={n}", DECODE.format(32768), "time") for n in (4, 8)], "1.1; 1.2"),
    ("MLA, 128 heads, bf16, 4096; 32768 keys: share of multiply-adds",
     [(f"fwd bf16 h128/1 q1 k{keys} d576/512", None, "share") for keys in (4096, 32768)], ""),
    ("prompts of 512 behind 4096 keys, f16, contiguous; in pages of 16: share of multiply-adds",
     [("fwd f16 h32/8 q512 k4096 d128 causal=br", None, "share"), ("fwd f16 h32/8 q512 k4096 d128 page=16 pages=256 causal=br", None, "share")], ""),
]
SERVING_FILES = {"Zen 3": ("serving-epyc-zen3-2026-11-27",),
                 "Zen 5": ("serving-peers-epyc-zen5-2026-11-26", "pages-epyc-zen5-2026-11-26", "serving-f32-epyc-zen5-2026-11-25")}


def serving_cell(files, pairs):
    """Of the first of these runs that has the problem and what it is compared with."""
    shown = []
    for problem, other, how in pairs:
        run = next((run for run in map(Run, files) if problem in run.results and (not other or other in run.results)), None)
        if not run:
            return "-"
        shown.append(f"{run.share(problem):.0f} %" if how == "share" else
                     f"{run.of(problem)['gflops'] / run.of(other)['gflops']:.2f}" if how == "rate" else
                     f"{run.ms(other) / run.ms(problem):.2f}" if how == "speed" else
                     f"{run.ms(problem) / run.ms(other):.{1 if run.ms(problem) > run.ms(other) else 2}f}")
    return "; ".join(shown)


def serving_options():
    yield "| | Zen 3 | Zen 5 | goal |"
    yield "|---|--:|--:|--:|"
    for name, pairs, goal in SERVING:
        yield f"| {name} | {' | '.join(serving_cell(files, pairs) for files in SERVING_FILES.values())} | {goal} |"


def serving_invariant():
    ratios = pairs("paired-invariant-epyc-zen3-2026-11-30.txt")
    yield "| | f32 | f16 | bf16 | goal |"
    yield "|---|--:|--:|--:|--:|"
    for name, problem, goal in (("prompt", "h8/2 q1024 k1024 d128 causal=br", "1.05"), ("decoding", "h32/8 q1 k4096 d128", "1.15"),
                                ("decoding", "h32/8 q1 k32768 d128", "1.15")):
        shown = [f"{ratios[f'fwd {dtype} {problem} invariant']:.2f}" for dtype in ("f32", "f16", "bf16")]
        yield f"| {name}, `{problem}` | {' | '.join(shown)} | {goal} |"


def serving_topk():
    said = text("sparse-xeon-2026-11-28.txt")
    rows = re.findall(r"^(\d+) (\d+) clattn (\S+) ms torch \w+ \S+ ms ratio (\S+) ", said, re.M)
    yield "| chosen keys | clattn, ms | PyTorch over clattn | goal |"
    yield "|---|--:|--:|--:|"
    for queries, keys, ms, times in rows:
        yield f"| {queries} {'query' if queries == '1' else 'queries'}, 2048 of {keys} keys | {float(ms):.0f} | {float(times):.0f} | 5 |"


def serving_sentences():
    zen3, cascade = Run("serving-epyc-zen3-2026-11-27"), list(Run("shared-prefix-epyc-2026-11-23").results.values())
    yield f"a time is known to ±{100 * zen3.device['noise']:.0f} % on the Zen 3"
    anew, *parts = [result["implementations"][0]["milliseconds"]["median"] for result in cascade]
    yield (f"16 requests over a shared prefix take {sum(parts):.0f} ms as a cascade and {anew:.0f} ms from pages, "
           f"{anew / sum(parts):.1f} times as long")
    said = text("sparse-xeon-2026-11-28.txt")
    apart, shared = re.search(r"k and v apart \d+ ms, (\S+) times .* chosen keys \d+ ms, (\S+) times", said).groups()
    yield f"128 queries with 2048 of 32768 keys took {shared} times as long as dense attention to 2048 keys, and {apart} times where k and v lie apart."
    yield "The goal was 1.5."
    after = {row[1]: float(row[2]) for row in re.finditer(r"^(\w+) +(?:\d\.\d+ +){3}(\d\.\d+) +\d\.\d+$", text("formats-epyc-zen3-2026-11-29.txt"), re.M)}
    peak = re.search(r"take (\d\.\d+) ns at the peak", text("formats-epyc-zen3-2026-11-29.txt"))[1]
    least, most = min(after, key=after.get), max(after, key=after.get)
    yield (f"8 values and their products with four query heads take {after[least]:.1f} ns in {least} and {after[most]:.1f} ns in {most}. "
           f"The multiply-adds alone take {peak} ns at the peak")
    read = {row[1]: row[2] for row in re.finditer(r"^(\w+(?:\+s)?) +\S+ GB per second of processor time, (\S+) of read", text("formats-xeon-2026-11-30.txt"), re.M)}
    yield f"decode f16 at {read['f16']} of the rate at which NumPy sums an array, int8 at {read['int8+s']}, q8_0 at {read['q8_0']} and iq4_nl at {read['iq4_nl']}"
    now = dict((shape, float(ratio)) for ratio, shape in re.findall(r"^(\d\.\d+) .*fwd (.*?)  ", text("paired-formats-xeon-2026-11-30.txt"), re.M))
    long, causal = "f16 b1 h32/8 q1 k32768 d128 ", "causal=br"
    of_format = {name: now[f"{long}kcache={name} vcache={name} {causal}"] for name in ("q8_0", "e4m3", "q4_0")}
    yield f"takes {now[long + causal]:.2f} of their time from f16, {of_format['q8_0']:.2f} from q8_0 and e4m3, {of_format['q4_0']:.2f} from q4_0"
    yield f"and {now['f16 b8 h8 q1 k4096 d256 kcache=q8_0 vcache=q8_0 causal=br']:.2f} from q8_0 with dim 256"
    huge = dict((shape, float(ratio)) for ratio, shape in re.findall(r"^(\d\.\d+) .*fwd (.*?)  ", text("huge-pages-xeon-2026-11-30.txt"), re.M))
    yield f"takes {huge[long + 'page=16 pages=2048 ' + causal]:.2f} of the processor time with pages of 16, and {huge[long + causal]:.2f} without pages"
    append = text("appends-xeon-2026-11-25.txt")
    medians = re.findall(r"^(?:before|after) +ms .* median (\S+)$", append, re.M)
    yield f"f16 takes {medians[1]} ms instead of {medians[0]}, q8_0 {medians[3]} instead of {medians[2]}"
    made = {name: float(ratio) for ratio, name in re.findall(r"^(\d\.\d+) .* kcache=(\S+)", text("paired-appends-xeon-2026-11-30.txt"), re.M)}
    yield f"q4_0 takes {made['q4_0']:.2f} of the time of a scalar search. q5_0 takes {made['q5_0']:.2f}, iq4_nl {made['iq4_nl']:.2f}"
    ratios = [float(row) for row in re.findall(r"^(\d\.\d+)  fwd f16 .* k=bshd v=bshd", text("paired-epyc-2026-11-27.txt"), re.M)]
    yield f"which takes {min(ratios):.2f} to {max(ratios):.2f} of the time"
    of = {}
    for ratio, shape in re.findall(r"^(\d\.\d+) .*fwd bf16 (\S+ \S+)", text("paired-bytes-xeon-2026-11-29.txt"), re.M):
        of.setdefault(shape, []).append(float(ratio))
    prompts, latent, heads = of["h8/2 q512"], of["h128/1 q1"], of["h32/2 q1"]
    yield f"On a Xeon with AMX prompts of 512 take {max(prompts):.2f} of the time that they took in f32."
    yield f"Latent attention of 128 heads takes {latent[0]:.2f}, decoding with 16 query heads for each kv head {min(heads):.2f} to {max(heads):.2f}"
    parts = dict((shape, float(ratio)) for ratio, shape in re.findall(r"^(\d\.\d+) .*fwd (.*?)  ", text("paired-parts-xeon-2026-11-30.txt"), re.M))
    prompt, head = "h8/2 q512 k2048 d128 causal=br", "h128/1 q1 k4096 d576/512"
    plain = [ratio for shape, ratio in parts.items() if re.fullmatch(r"f16 h\S+ q\d{3,} k\d+ d(?!40)\d+( causal=tl)?", shape)]
    yield f"prompts took {parts[f'f16 {prompt} kcache=e4m3 vcache=e4m3']:.2f} of the time with f16 queries and an e4m3 cache, and {parts[f'bf16 {prompt} kcache=q8_0 vcache=q8_0']:.2f} with bf16 queries and q8_0"
    yield f"f16 alone took {min(plain):.2f} to {max(plain):.1f}"
    yield f"took {parts[f'f16 {head}']:.2f} in f16, and {parts[f'bf16 {head} kcache=q8_0 vcache=q8_0']:.2f} with bf16 queries and q8_0"
    lists = dict((shape, float(ratio)) for ratio, shape in re.findall(r"^(\d\.\d+) .*bwd (\S+ \S+ \S+ k\d+)", text("paired-topk-gradients-xeon-2026-11-29.txt"), re.M))
    yield f"Gradients for 2048 of 32768 keys take {lists['bf16 h128/1 q64 k32768']:.2f} of the time of dense gradients with a mask in bf16."
    yield f"For 2048 of 8192 keys they take {lists['bf16 h128/1 q64 k8192']:.2f}, in f32 {lists['f32 h128/1 q16 k8192']:.2f}"
    yield f"128 of 8192 keys take {lists['f32 h32/8 q256 k8192']:.2f} of the time in f32"


# scaling.md ------------------------------------------------------------------------------------------------------------------

TOKENS = {131072: "128k tokens", 1048576: "1M", 4194304: "4M", 16777216: "16M"}


def simulated():
    lines = text("scaling-simulated-2026-11-26.tsv").strip("\n").split("\n")
    names = lines[0].split("\t")
    rows = {}
    for row in (dict(zip(names, line.split("\t"))) for line in lines[1:]):
        at = row["cluster"], row["problem"], row["ranks"], row["mode"]
        if row["mode"] != "all-gather" and (at not in rows or float(row["ms simulated"])):  # a mode that went since
            rows[at] = row
    return list(rows.values())


def tokens(row):
    return int(re.search(r" q(\d+) ", row["problem"])[1])


def efficiency(cluster):
    """The two fastest modes of each problem and number of ranks, in percent, "*" where only the cost model says so."""
    rows = [row for row in simulated() if row["cluster"] == cluster]
    ranks = sorted({int(row["ranks"]) for row in rows})
    yield "| tokens | direction |" + "".join(f" {n} ranks |" for n in ranks)
    yield "|---|---|" + "---|" * len(ranks)
    for problem in dict.fromkeys(row["problem"] for row in sorted(rows, key=lambda row: (tokens(row), row["problem"][:3] == "bwd"))):
        made = []
        for n in ranks:
            modes = []
            for row in rows:
                if row["problem"] == problem and int(row["ranks"]) == n:
                    measured = float(row["efficiency simulated"])
                    share = measured or float(row["efficiency predicted"])
                    modes.append((-share, f"{row['mode']} {share:.0f}{'' if measured else '*'}"))
            made.append(", ".join(shown for _, shown in sorted(modes)[:2]))
        row = next(row for row in rows if row["problem"] == problem)
        yield f"| {TOKENS[tokens(row)]} | {problem[:3]} | {' | '.join(made)} |"


def milliseconds(name, problem, mode=None):
    """Of a run of several ranks: the mode's time, or that of rank 0 alone."""
    run = json.loads(text(f"{name}.json"))["devices"][0]["results"]
    result = next(result for result in run if result["problem"].startswith(problem))
    return next(i["milliseconds"]["median"] for i in result["implementations"] if i["implementation"] == ("clattn " + mode if mode else "clattn"))


def scaling_ranks():
    yield "| | one rank | ring | heads |"
    yield "|---|--:|--:|--:|"
    for verb, name in (("fwd", "forward"), ("bwd", "backward")):
        one = milliseconds("mpi-1rank-2cores-epyc-2026-11-26", verb, "ring")
        two = [milliseconds("mpi-2ranks-epyc-2026-11-26", verb, mode) for mode in ("ring", "heads")]
        yield f"| {name} | {one:.1f} | " + " | ".join(f"{ms:.1f} ({100 * one / ms:.0f} %)" for ms in two) + " |"


def scaling_model():
    yield "| | ring | heads | heads-ring:2 |"
    yield "|---|--:|--:|--:|"
    for ranks in (2, 4):
        rows = json.loads(text(f"mpi-{ranks}ranks-xeon-2026-11-25.json"))["rows"]
        for verb, name in (("fwd", "forward"), ("bwd", "backward")):
            made = []
            for mode in ("ring", "heads", "heads-ring:2"):
                row = next((row for row in rows if row["problem"].startswith(verb) and row["mode"] == mode), None)
                made.append(f"{statistics.median(row['milliseconds']):.1f}, {row['predicted']:.1f}" if row else "")
            yield f"| {name}, {ranks} ranks{' on 2 cores' if ranks > 2 else ''} | {' | '.join(made)} |"


def scaling_sentences():
    rows = [row for row in simulated() if float(row["ms simulated"])]
    near = [abs(float(row["ms predicted"]) / float(row["ms simulated"]) - 1) <= 0.1 for row in rows]
    yield f"The prediction is within 10 % in {sum(near)} of the {len(near)} simulated rows."

    def shares(cluster, ranks, mode, least=0, verb=""):
        return [float(row["efficiency simulated"]) or float(row["efficiency predicted"]) for row in simulated()
                if (row["cluster"], int(row["ranks"])) == (cluster, ranks) and re.fullmatch(mode, row["mode"]) and tokens(row) >= least
                and row["problem"].startswith(verb)]

    million = min(shares("gpus-400", 8, "ring|heads", 1048576) + shares("gpus-100", 8, "ring|heads", 1048576))
    yield f"From a million tokens on both reach {million:.0f} % and more."
    ring = [shares("gpus-400", 1024, "ring", 16777216, verb)[0] for verb in ("fwd", "bwd")]
    yield f"{ring[0]:.0f} % forward and {ring[1]:.0f} % backward at 1024 ranks and 16 million tokens on gpus-400"
    small = max(share for cluster in ("gpus-400", "gpus-100") for row in simulated() for share in [float(row["efficiency simulated"])]
                if (row["cluster"], tokens(row), row["ranks"]) == (cluster, 131072, "512"))
    yield f"128k tokens on 512 ranks are 256 tokens a rank, at {small:.0f} % and less"
    yield f"{min(shares('office', 64, 'ring|heads-ring:8')):.0f} % and more on 64 PCs"
    row = next(row for row in rows if row["cluster"] == "gpus-400" and row["problem"].startswith("bwd") and tokens(row) == 1048576
               and row["ranks"] == "64" and row["mode"] == "ring")
    yield (f"In backward on 64 GPUs (1M tokens, gpus-400, {float(row['ms simulated']) / 1000:.1f} s) the ring copies for "
           f"{float(row['ms staging']) / 1000:.2f} s and waits for messages for {float(row['ms waiting']):.0f} ms")
    least, most = (f([1 - row["predicted"] / statistics.median(row["milliseconds"]) for ranks in (2, 4) for row in
                      json.loads(text(f"mpi-{ranks}ranks-xeon-2026-11-25.json"))["rows"] if row["mode"] in ("ring", "heads", "heads-ring:2")])
                   for f in (min, max))
    yield f"which the model leaves out: it is {100 * least:.0f} to {100 * most:.0f} % below"
    one = milliseconds("mpi-1rank-1core-epyc-2026-11-26", "bwd", "ring")
    yield f"One rank on one core takes {one:.0f} ms for the whole of backward, so two could take {one / 2:.0f}."
    step = [milliseconds("mpi-step-epyc-2026-11-26", verb, "ring") for verb in ("fwd", "bwd")]
    yield f"a ring of two steps takes {step[0]:.2f} ms forward and {step[1]:.2f} ms backward"
    uneven = []
    for verb, name in (("fwd", "forward"), ("bwd", "backward")):
        ms, alone = milliseconds("mpi-uneven-epyc-2026-11-26", verb, "ring"), milliseconds("mpi-1rank-1core-epyc-2026-11-26", verb, "ring")
        uneven.append(f"{ms:.0f} ms {name} where {alone / 1.5:.0f} ms are ideal")
    yield f"The ring took {uneven[0]}, and {uneven[1]}."
    held = {}
    for row in simulated():
        if row["cluster"] == "gpus-400" and row["mode"] in ("ring", "heads", "heads-ring:8"):
            gigabytes = float(row["GB held"]) or float(row["GB held predicted"])
            held.setdefault((tokens(row), int(row["ranks"]), "ring" if row["mode"] == "ring" else "heads"), []).append(gigabytes)
    for at in ((1048576, 8), (1048576, 64), (16777216, 512), (16777216, 1024)):
        both = [", ".join(f"{x:.1f}" if x >= 0.95 else f"{x:.2f}" for x in held[(*at, mode)]) for mode in ("ring", "heads")]
        yield f"| {TOKENS[at[0]]}, {at[1]} | {both[0]} GB | {both[1]} GB |"


# numerics.md -------------------------------------------------------------------------------------------------------------------


def numerics_precision():
    """Of the heights of accuracy.svg's bars, which bindings/python/tests/frameworks/accuracy.py drew."""
    panels, title = {}, None
    for line in text("accuracy.svg").split("\n"):
        found = re.search(r'font-weight="bold">(\w+): (.*)</text>', line)
        title = (found[2], found[1]) if found else title
        panels.setdefault(title, []).extend(float(height) / 75 for height in re.findall(r'<rect x="[\d.]+" y="[\d.]+" width="14" height="([\d.]+)"', line))
    yield "| | dtype | | o | dq | dk | dv |"
    yield "|---|---|---|--:|--:|--:|--:|"
    for problem in ("8 heads, 1024 x 1024, dim 64", "32 heads over 8, 512 x 512, dim 128, causal"):
        for dtype, short in (("float16", "f16"), ("bfloat16", "bf16")):
            bars = panels[problem, dtype]
            for n, name in enumerate(("PyTorch", "clattn, standard", "clattn, strict")):
                if dtype == "float16" and n == 2:
                    continue  # the same as standard
                cells = " | ".join(f"{value:.2f}" for value in bars[n::3])
                yield (f"| {problem if (short, n) == ('f16', 0) else ''} | {short if n == 0 else ''} | "
                       f"{'clattn' if dtype == 'float16' and n else name} | {cells} |")


def numerics_sentences():
    run = Run("int8-xeon-2026-11-29")
    parts = [run.ms(f"{problem} precision=int8") / run.ms(problem) for problem in ("fwd f32 h8 q2048 k2048 d64", "fwd f32 h8 q2048 k2048 d128",
                                                                               "fwd f16 h8 q2048 k2048 d128")]
    yield (f"the option took {parts[0]:.2f} of the time with dim 64 in f32, {parts[1]:.2f} with dim 128, and {parts[2]:.2f} with dim 128 in f16. "
           f"A time is known to ±{100 * run.device['noise']:.0f} % there")
    by_amx = {}
    for problem, *times in re.findall(r"^fwd (\S+) \S+ q2048 k2048 (\S+) precision=int8" + r"\s+([\d. ]{24})" * 3, text("int8-amx-xeon-2026-11-30.txt"), re.M):
        dim, *columns = times
        option, _, plain = (sorted(map(float, column.split()))[2] for column in columns)
        by_amx[problem, dim] = option / plain
    yield f"the option took {by_amx['f16', 'd128']:.2f} of the time in f16 with dim 128 and {by_amx['f16', 'd64']:.2f} with dim 64"
    assert abs(by_amx["bf16", "d128"] - 1.0) < 0.05


# first-call.md and README.md ---------------------------------------------------------------------------------------------------


def first_call_sentences():
    spent = [one["compiling"]["front_end"] / 1000 for one in
             json.loads(text("first-second-pocl3-epyc-zen5-2026-11-26.json"))["builds"]["now"]["source"] if one["programs_compiled"] == 1]
    yield f"PoCL's front end takes {min(spent):.1f} to {max(spent):.1f} s of each first time with PoCL 3.1 on the Zen 5"
    more = [result["overhead_microseconds"] for result in Run("h200-2026-11-28").device["results"] if result["overhead_microseconds"]]
    yield f"On the H200 executing a plan cost {min(more):.0f} to {max(more):.0f} us more than the driver's bare calls"


def readme_sentences():
    tried, wgmma = variants("h200-variants-2026-11-28.txt"), text("h200-wgmma-2026-11-27.txt")
    f16 = [float(row) for row in re.findall(r"(\d+\.\d+) +0\.0423  ", wgmma.split("proj f16")[0])]
    untuned = float(re.search(r"(\d+\.\d+) +0\.0423  untuned", wgmma)[1])
    f32 = tried["bwd f32 h16 q2048 d64"]
    yield (f"On an H200 other configurations raised f16 forward from {untuned:.0f} to {max(f16):.0f} TFLOP/s (`bench/results/h200-wgmma-2026-11-27.txt`) and "
           f"f32 gradients from {next(row[2] for row in f32 if row[4].startswith('untuned')):.0f} to {best(f32, '')[0]:.0f} "
           f"(`bench/results/h200-variants-2026-11-28.txt`)")
    alibi = min(row[1] for row in tried[OPTIONS[2]])
    vit = Run("short-xeon-2026-11-22").ratio("fwd f32 h12 q197 k197 d64", "clattn untuned")
    yield (f"{100 * (1 - alibi):.0f} % for ALiBi on the H200, {100 * (vit - 1):.0f} % for ViT's shape on a Xeon "
           f"(`bench/results/short-xeon-2026-11-22.json`)")
    ratios = [best(tried[problem], "UNIT=warpgroup")[0] / Run("h200-2026-11-28").tflops(other, "PyTorch") for problem, other in F32]
    yield f"f32 by matrix units was measured at {min(ratios):.1f} to {max(ratios):.1f} times PyTorch's speed"
    limits = Run("limits-epyc-zen5-2026-11-25")
    shares = [limits.share(problem) for problem in limits.results if re.search(r"q128|q197|window|bias|mask", problem)]
    yield f"Windows, masks, biases and short sequences reach {min(shares):.0f} to {max(shares):.0f} % of the multiply-adds' peak in f32 on a Zen 5"
    drafts = [serving_cell(SERVING_FILES[name], SERVING[7][1][:1]) for name in SERVING_FILES]
    yield f"four take {drafts[0]} times as long with AVX2, and {drafts[1]} times with AVX-512"


TABLES = {
    "doc/guide/numerics.md": {"precision": numerics_precision},
    "doc/results/pytorch.md": {"the function": pytorch_function, "small problems": pytorch_small},
    "doc/results/ggml.md": {"operations": ggml_operations, "models": ggml_models},
    "doc/results/gpus.md": {"f32": gpus_f32, "options": gpus_options, "mma": gpus_mma},
    "doc/results/functions.md": {"flex_attention": functions_flex, "costs": functions_costs},
    "doc/results/serving.md": {"options": serving_options, "chosen keys": serving_topk, "invariant": serving_invariant},
    "doc/results/scaling.md": {**{cluster: lambda cluster=cluster: efficiency(cluster) for cluster in ("office", "gpus-400", "gpus-100")},
                               "the model": scaling_model, "two ranks": scaling_ranks},
}
SENTENCES = {"doc/guide/numerics.md": numerics_sentences, "doc/results/pytorch.md": pytorch_sentences, "doc/results/ggml.md": ggml_sentences, "doc/results/gpus.md": gpus_sentences,
             "doc/results/functions.md": functions_sentences, "doc/results/serving.md": serving_sentences,
             "doc/results/scaling.md": scaling_sentences, "doc/results/first-call.md": first_call_sentences, "README.md": readme_sentences}


def plain(words):
    """As it is compared: without the breaks of lines and the marks of lists."""
    return " ".join(re.sub(r"^ *[*-] ", "", line) for line in words.split("\n")).replace("  ", " ")


def complaints(texts, blocks):
    """What pages say otherwise than the files do, and figures that stand on nothing."""
    for page, sentences in SENTENCES.items():
        page_text = " ".join(plain(texts.get(page, "")).split())
        for sentence in sentences():
            if sentence not in page_text:
                yield f"{page} does not say, as bench/results does: {sentence}"
    said = "".join(texts.values()) + "".join((RESULTS.parents[1] / path).read_text(encoding="utf-8") for path in
                                             ("doc/subjects.py", "doc/generate.py", "tests/report/test_report.py"))
    for path in RESULTS.iterdir():  # paired-*: what a commit measured; first-second-*, mpi-*: named in parts
        if path.suffix in (".json", ".txt", ".tsv") and not re.match("paired-|mpi-", path.name) and path.stem.replace("first-second-", "") not in said:
            yield f"no page has anything of bench/results/{path.name}"
    for name in SUBJECTS:
        page = f"doc/results/{name}.md"
        if page not in texts:
            continue
        recomputed = [*SENTENCES[page]()] if page in SENTENCES else []
        generated, unkept, told = False, False, 0
        lines = texts[page].split("\n")
        section = "\n".join(lines)
        for number_of_line, kind, block in blocks(texts[page]):
            if kind == "heading":
                rest = section.split(f"# {block}\n", 1)[-1]
                unkept = "no file of results" in " ".join(re.split(r"^#", rest, maxsplit=1, flags=re.M)[0].split()).lower()
            if "<!-- doc/generate.py" in block:
                generated = True
            if kind in ("prose", "cell") and not generated and not unkept:
                left = " ".join((lines[number_of_line - 1] if kind == "cell" else block).split())
                for sentence in recomputed:
                    left = left.replace(sentence, "")
                found = FIGURE.search(NO_FIGURE.sub(" ", left))
                if found and told != number_of_line:
                    told = number_of_line
                    yield f"{page}:{number_of_line}: no check recomputes \"{found[0]}\" (doc/subjects.py), and the section does not say that no file of results has it"
            if "<!-- end of" in block:
                generated = False
