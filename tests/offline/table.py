#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads what compilers made of the programs that offline_cases listed: table.py FOLDER [OLD | --loops [PATTERN]].

FOLDER/N.s is AMD's assembly of case N; N.sass NVIDIA's machine code as text, N.ptx what it was made of, N.ptxas what
ptxas said; N.xe Intel's machine code as text. Prints a table, a line for each kernel, and what breaks a rule; fails if
something does. Of OLD, a table of before, it says which families have changed, and a default may not spill more. With --loops it prints instead, for each
case whose line in FOLDER/cases PATTERN matches, how many instructions of each kind the loops have that multiply.
"""
import collections
import dataclasses
import os
import re
import sys

import inline_assembly

WIDTHS = (16, 8, 4, 2, 1)  # bytes that an item gets of a load
LEAST_SHARE = {"tgllp": 72}  # of arithmetic in a product's loop: Xe-LP adds up every address
LEAST_GROUPS = 2
MOST_ARRAY = 16  # bytes of a work-item's arrays in memory: frames have multiples of 8
# Kernels that index arrays at run time, once a row or a call, or as their source says.
HAVE_ARRAYS = ("attention_parts", "backward_loads", "mean_weights", "scores", "softmax")
LEAST_KEPT = {"item": 64, "mma": 4, "warpgroup": 4}  # spilled words of NVIDIA's kernels that no table has, by the unit


@dataclasses.dataclass
class Target:
    """One compute unit: a CU of AMD's, half of RDNA's work-group processor; NVIDIA's multiprocessor; Intel's Xe core or
    dual subslice."""
    vendor: str
    wave: int  # work-items that go together; Intel: the most
    simds: int  # register files
    most_waves: int  # on each of them
    registers: int  # of one file for each lane; Intel: for all
    granule: int  # registers are given in such steps
    most_groups: int
    local_bytes: int
    group_bytes: int = 0  # local memory that a group costs beside its own

    def occupancy(self, registers, local_bytes, items, lanes):
        """How many groups are resident, and how many waves that makes on each register file."""
        wave = lanes or self.wave
        taken = -(-registers // self.granule) * self.granule * (wave if self.vendor == "Intel" else 1)
        waves = min(self.registers // taken if taken else self.most_waves, self.most_waves)
        group_waves = -(-items // wave)
        groups = min(waves * self.simds // group_waves, self.most_groups)
        if local_bytes + self.group_bytes:
            groups = min(groups, self.local_bytes // (local_bytes + self.group_bytes))
        return groups, groups * group_waves / self.simds


# NVIDIA: CUDA's programming guide, table of technical specifications per compute capability; a multiprocessor has four
# register files, and from 8.0 on a group takes 1 KB of the system's.
# AMD: LLVM's AMDGPUUsage and instruction set manuals of CDNA2, CDNA3, RDNA2 and RDNA3.
# Intel: oneAPI GPU optimization guide, Xe architecture: 16 vector engines of 7 threads (Xe-LP) or 8 (Xe-HPG) share
# 128 KB; a thread has 128 registers of 32 bytes, or half as many threads 256.
TARGETS = {
    "sm_75": Target("NVIDIA", 32, 4, 8, 512, 8, 16, 65536),
    "sm_80": Target("NVIDIA", 32, 4, 16, 512, 8, 32, 167936, 1024),
    "sm_86": Target("NVIDIA", 32, 4, 12, 512, 8, 16, 102400, 1024),
    "sm_89": Target("NVIDIA", 32, 4, 12, 512, 8, 24, 102400, 1024),
    "sm_90": Target("NVIDIA", 32, 4, 16, 512, 8, 32, 233472, 1024),
    "sm_100": Target("NVIDIA", 32, 4, 16, 512, 8, 32, 233472, 1024),
    "sm_120": Target("NVIDIA", 32, 4, 12, 512, 8, 24, 102400, 1024),
    "gfx90a": Target("AMD", 64, 4, 8, 512, 8, 32, 65536),
    "gfx942": Target("AMD", 64, 4, 8, 512, 8, 32, 65536),
    "gfx1030": Target("AMD", 32, 2, 16, 1024, 16, 32, 65536),
    "gfx1100": Target("AMD", 32, 2, 16, 1536, 24, 32, 65536),
    "tgllp": Target("Intel", 32, 16, 7, 7168, 1, 64, 131072),
    "dg2": Target("Intel", 32, 16, 8, 8192, 1, 64, 131072),
}

# ---- instructions: each is a list of what it counts as; loads are (memory, bytes) ----------------------------------


def width_of(text, parts, otherwise):
    """The bytes of the first part that occurs in the first word."""
    word = re.match(r"[^ \t;]*", text)[0]
    return next((size for part, size in parts if part in word), otherwise)


def load(memory, size):
    return memory, next((width for width in WIDTHS if width <= size), 1)


def loads(text, local, global_, size):
    return ([load("local", size)] if text.startswith(local) else []) + (
        [load("global", size)] if text.startswith(global_) else [])


def kinds(text, exponentials, stores, waits):
    """What else a loop's instructions are: exponentials, stores to local memory, waiting for other waves."""
    return [kind for kind, begins in (("exp", exponentials), ("store", stores), ("wait", waits)) if text.startswith(begins)]


# What reads from two places gets half from each.
AMD_WIDTHS = (("read2st64_b64", 8), ("read2_b64", 8), ("2addr_stride64_b64", 8), ("2addr_b64", 8), ("read2", 4),
              ("2addr", 4), ("x4", 16), ("x3", 8), ("x2", 8), ("b128", 16), ("b96", 8), ("b64", 8), ("b32", 4),
              ("dword", 4), ("short", 2), ("16", 2), ("byte", 1), ("8", 1))


def count_amd(text):
    """Two operations that go together, packed or dual, count as two. Hints to the scheduler are not counted: NVIDIA's
    are a part of the instructions."""
    if text.startswith(("s_delay_alu", "s_clause")):
        return []
    operations = 2 if text.startswith("v_pk_") and "f16" not in text else 1
    counts = ["all"] * operations
    if text.startswith(("v_fma", "v_pk_fma", "v_dual_fma", "v_mac_f", "v_mad_f", "v_dot4")):
        counts += ["fma"] * operations
    if text.startswith(("v_wmma", "v_mfma")):
        counts.append("matrix")
    counts += kinds(text, ("v_exp",), ("ds_write", "ds_store"), ("s_barrier",))
    counts += loads(text, ("ds_read", "ds_load"), ("global_load", "flat_load"), width_of(text, AMD_WIDTHS, 4))
    together = text.find(" :: ")
    return counts + (count_amd(text[together + 4:]) if together >= 0 else [])


def count_sass(text):
    sizes = ((".128", 16), (".64", 8), (".U16", 2), (".S16", 2), (".U8", 1), (".S8", 1))
    counts = ["all"]
    if text.startswith(("FFMA", "HFMA2", "IDP")):
        counts.append("fma")
    if text.startswith(("HMMA", "IMMA", "HGMMA")):
        counts.append("matrix")
    size = 16 if text.startswith("LDSM") else width_of(text, sizes, 4)
    counts += kinds(text, ("MUFU.EX2",), ("STS", "LDGSTS"), ("BAR", "SYNCS"))
    return counts + loads(text, "LDS", ("LDG", "LD."), size)


def count_ptx(text):
    size = width_of(text, ((".v4", 4), (".v2", 2)), 1) * width_of(text, (("64", 8), ("32", 4), ("16", 2), ("8", 1)), 4)
    counts = ["all"]
    if text.startswith(("fma.rn.f32", "mad.f32", "dp4a")):
        counts.append("fma")
    if text.startswith("mma.sync"):
        counts.append("matrix")
    counts += kinds(text, ("ex2.",), ("st.shared", "cp.async.c"), ("bar.", "barrier", "mbarrier"))
    counts += loads(text, ("ld.shared", "ld.volatile.shared"), "ld.global", size)
    return counts + loads(text, "ldmatrix", "cp.async.c", 16)  # the latter to local memory, 16 bytes each


def message_bytes(comment):
    """Bytes that an item gets, by what the compiler says a message does: "untyped surface read with xyzw", a letter for
    four bytes, or "byte gathering read 16b"."""
    surface = re.search("read with ([xyzw]*)", comment)
    if surface:
        return 4 * len(surface[1])
    gathered = re.search("gathering read *([0-9]*)", comment)
    return int(gathered[1] or 0) // 8 if gathered else 0


def count_xe(text):
    """Messages with the last byte 0xfe go to local memory. What waits for others is no operation."""
    if text.startswith(("sync.", "nop", "join")):
        return []
    code, _, comment = text.partition("//")
    counts = ["all"]
    if text.startswith("mad ") and ":f" in code or text.startswith("dp4a"):
        counts.append("fma")
    if text.startswith("dpas"):
        counts.append("matrix")
    counts += kinds(text, ("math.exp",), (), ())
    size = message_bytes(comment) if text.startswith("send") else 0
    is_local = re.search(r"FE\s*\{", code) is not None
    return counts + ([load("local" if is_local else "global", size)] if size else [])


def last_label(text):
    """Of "goto (8|M0) _0_12 _0_11" the last: where those go who do not go on here."""
    return ([word for word in text.partition("//")[0].split()[1:] if word[0] in "L_"] or [""])[-1]


def branch_to(pattern):
    return lambda text: (re.search(pattern, text) or [""])[0]


# How an instruction is counted, what branches begin with, and where one goes to.
DIALECTS = {
    "s": (count_amd, ("s_cbranch", "s_branch"), branch_to(r"\.LBB[\w.$]*")),
    "sass": (count_sass, ("BRA",), branch_to(r"\.L_[\w.$]*")),
    "ptx": (count_ptx, ("bra",), branch_to(r"\$L_[\w.$]*")),
    "xe": (count_xe, ("goto", "jmpi", "while"), lambda text: re.match(r"[\w.$]*", last_label(text))[0]),
}

# ---- kernels -----------------------------------------------------------------------------------------------------


def total(counts, memory, widths=WIDTHS):
    return sum(counts[memory, width] for width in widths)


def is_product(counts):
    """Whether a loop multiplies what was staged, each load at least once. Loads of the next stage may be among it."""
    multiplies = counts["matrix"] > 0 or counts["fma"] >= max(16, total(counts, "local"))
    return total(counts, "local") > 0 and multiplies and (
        total(counts, "global") == 0 or 2 * counts["fma"] > counts["all"] or counts["matrix"] > 0)


def share(loop):
    """Multiply-adds, in percent of all operations."""
    return 100 * (loop["fma"] + loop["matrix"]) // loop["all"]


def is_innermost(span, spans):
    """Whether no other loop lies in this one."""
    return not any(other != span and other[0] >= span[0] and other[1] <= span[1] for other in spans)


class Kernel:
    """A kernel and its resources, None if they are not known. An item is one of a work-group's."""

    def __init__(self, name):
        self.name = name
        self.registers = self.spills = self.local_bytes = None
        self.arrays = 0  # bytes in memory beside spilled registers
        self.lanes = 0  # items that go together, where the compiler chooses
        self.instructions, self.labels, self.jumps = [], collections.defaultdict(list), []

    def count(self, begin, end):
        return collections.Counter(what for counts in self.instructions[begin:end] for what in counts)

    def shortest(self, begin, end):
        """The instructions of the shortest way through a loop that has as many products and exponentials as any: of
        a tile without masks whose sums keep their scale."""
        jumps = {at: (self.labels[label], always) for label, at, always in self.jumps}
        best = {end: (0, 0)}
        for at in range(end - 1, begin - 1, -1):
            places, always = jumps.get(at, ((), False))
            ways = [best[place] for place in places if at < place < end]
            if not (always and ways):
                ways.append(best[at + 1])
            missing, least = min(ways)
            here = self.instructions[at]
            best[at] = missing - here.count("matrix") - here.count("exp"), least + here.count("all")
        return best[begin][1]

    def finish(self):
        """Counts all of it, and the innermost loops that multiply what was staged in local memory. A jump back makes a
        loop; those to the same place make one."""
        loops = {}
        for label, at, _ in self.jumps:
            for begin in self.labels[label]:
                if begin <= at:
                    loops[begin] = max(loops.get(begin, 0), at + 1)
        products = {span: counts for span in loops.items() if is_product(counts := self.count(*span))}
        self.products = [counts for span, counts in products.items() if is_innermost(span, products)]
        multiplying = {span: counts for span in loops.items()
                       if (counts := self.count(*span))["matrix"] or counts["fma"] >= 16}
        self.loops = [counts | collections.Counter(least=self.shortest(*span)) for span, counts in sorted(multiplying.items())
                      if is_innermost(span, multiplying)]
        self.counts = self.count(0, None)
        self.instructions = None


def trimmed(line, dialect):
    """Without the blanks, braces, comments and conditions before it, and the end of the line."""
    text = re.sub(r"^[ \t{]*(/\*.*?\*/[ \t{]*)*", "", line.rstrip("\r\n"))
    if dialect == "xe":
        text = re.sub(r"^\([^)]*\)[ \t]*", "", text)  # which lanes do it
    return text


def begins(text, dialect):
    """The name of a kernel that begins here; "" if one ends; None."""
    if dialect == "xe":
        found = re.match(r"//\.kernel +(\S+)", text)
    elif dialect == "ptx":
        found = re.search(r"\.entry ([^( ]+)", text)
    elif dialect == "sass":
        if not text.startswith(".section\t"):
            return None
        found = re.match(r"\.section\s+\.text\.([^, ]+)", text)
        return found[1] if found else ""
    else:
        if text.startswith(".amdhsa_kernel"):
            return ""
        found = re.match(r"(\w+):", text)
    return found[1] if found else None


def read_comment(kernel, text):
    """What Intel's compiler says of a kernel stands in comments before its instructions; the number of lanes and
    the bytes of arrays our script has added. Registers are vectors of 8 words, and spilled bytes those of all lanes."""
    found = re.match(r"//\.(lanes |arrays |thread_config numGRF=|spill size )(\d+)", text)
    if not found:
        return
    number = int(found[2])
    if found[1] == "lanes ":
        kernel.lanes, kernel.spills = number, 0
    elif found[1] == "arrays ":
        kernel.arrays = number
    elif kernel.lanes and found[1] == "spill size ":
        kernel.spills = -(-(number // 4) // kernel.lanes)
    elif kernel.lanes:
        kernel.registers = number * 8 // kernel.lanes


def read_metadata(kernels, metadata, line):
    """AMD's of a kernel, at the end of the file. Deeper lines are of arguments."""
    found = re.match(r"    \.([a-z_]+): +(\S+)", line)
    if not found:
        return
    metadata[found[1]] = found[2]
    for kernel in kernels if found[1] == "vgpr_spill_count" else []:  # the last of a kernel's
        if kernel.name == metadata["name"]:
            kernel.registers = int(metadata["vgpr_count"])
            kernel.spills = int(metadata["vgpr_spill_count"])
            kernel.arrays = int(metadata["private_segment_fixed_size"]) - 4 * kernel.spills
            kernel.local_bytes = int(metadata["group_segment_fixed_size"])


def read_assembly(path, dialect):
    """The kernels of a file; none if it cannot be read."""
    count, branches, target = DIALECTS[dialect]
    kernels, metadata, kernel = [], {}, None
    if not os.path.exists(path):
        return kernels
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if dialect == "s":
                read_metadata(kernels, metadata, line)
            text = trimmed(line, dialect)
            name = begins(text, dialect)
            if name is not None:
                kernel = Kernel(name) if name else None
                kernels += [kernel] if name else []
            elif kernel is None or not text:
                continue
            elif text.startswith("//."):
                read_comment(kernel, text)
            elif re.match(r"[^ \t:;]+:(?!:)", text):
                kernel.labels[text.partition(":")[0]].append(len(kernel.instructions))
            elif text[0] not in ".;#/}()":
                always = re.match(r"(BRA|bra(\.uni)?|s_branch)\s+[`.$]", text) is not None
                if dialect in ("sass", "ptx"):
                    text = re.sub(r"^@\S*\s*", "", text)  # the predicate
                label = target(text) if text.startswith(branches) else ""
                if label:
                    kernel.jumps.append((label, len(kernel.instructions), always))
                kernel.instructions.append(count(text))
    for kernel in kernels:
        kernel.finish()
    return kernels


def read_ptxas(path, kernels):
    """Adds what ptxas -v printed to the kernels that it names."""
    kernel = None
    for line in open(path, encoding="utf-8") if os.path.exists(path) else []:
        entry = re.search("entry function '([^']+)", line)
        if entry:
            kernel = next((k for k in kernels if k.name == entry[1]), None)
        spilled = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line)
        if kernel and spilled:
            kernel.spills = (int(spilled[2]) + int(spilled[3]) + 3) // 4
            kernel.arrays = int(spilled[1]) - int(spilled[2])
        used = re.search(r"Used (\d+) registers", line)
        if kernel and used:
            kernel.registers = int(used[1])
            kernel.local_bytes = int((re.search(r"(\d+) bytes smem", line) or [0, 0])[1])


def read_kernels(at, vendor):
    if vendor != "NVIDIA":
        dialect = "s" if vendor == "AMD" else "xe"
        return read_assembly(f"{at}.{dialect}", dialect), dialect
    for dialect in ("sass", "ptx"):
        kernels = read_assembly(f"{at}.{dialect}", dialect)
        if kernels:
            break
    read_ptxas(f"{at}.ptxas", kernels)
    return kernels, dialect


# ---- rules ---------------------------------------------------------------------------------------------------------


def most_spills(kept, case):
    """The spilled words that a default may have: those of the table that is kept. What is new there has at most one, or
    on NVIDIA's what LLVM's code comes to: NVIDIA's own compiler, whose code runs there, places registers otherwise (of a
    kernel of which LLVM's code spilled 40, an H200 said that it spilled none)."""
    return kept.spills if kept else LEAST_KEPT.get(case.family.partition(".")[2], 1) if case.target.startswith("sm_") else 1


def broken_products(case, kernel, dialect):
    """Two products whose loops are nearly all arithmetic, with loads of 16 bytes; ptxas makes wide loads of narrow ones
    that lie beside each other, so PTX does not tell."""
    for loop in kernel.products:
        if share(loop) < LEAST_SHARE.get(case.target, 75):
            yield "too little of a product's loop is arithmetic"
        if dialect != "ptx" and total(loop, "local", WIDTHS[1:]):
            yield "a product's loop has narrow loads of local memory"
    if len(kernel.products) < 2:
        yield "the loops of the two products were not found"
    if kernel.counts["global", 16] == 0:
        yield "no loads of 16 bytes of global memory"


def broken_rules(case, kernel, target, dialect, groups, kept):
    is_default = case.kind == "default"
    # AMD's compiler moves arrays of a work-item to local memory where there is room.
    if (kernel.local_bytes or 0) > max(int(case.local), kept.local_bytes if kept else 0) and not (
            target.vendor == "AMD" and not is_default):
        yield "more local memory than the family counts on"
    if groups == 0:
        yield "no group is resident"
    if is_default and (target.vendor != "Intel" or kept) and (kernel.spills or 0) > most_spills(kept, case):
        yield "registers are spilled"
    if is_default and target.vendor != "Intel" and kernel.arrays > MOST_ARRAY and kernel.name not in HAVE_ARRAYS:
        yield f"{kernel.arrays} bytes of arrays of a work-item lie in memory"
    few_groups = groups is not None and groups < LEAST_GROUPS
    # Few queries against many keys: four keys and their values, by wide loads; tiles of them are filled by loops, which
    # need not be unrolled.
    if kernel.name == "split" and is_default and " q1 k32768 d128" in case.problem:
        least = 2 if case.family == "split_gpu.mma" else 8
        if target.vendor != "Intel" and total(kernel.counts, "global", (16, 8)) < least:
            yield "keys or values come by loads of less than 8 bytes"
        if few_groups:
            yield "fewer than two groups are resident"
    if case.family == "fused_gpu.item" and is_default and case.problem in (
            "fwd f32 b1 h16 q2048 k2048 d64", "fwd f32 b1 h16 q2048 k2048 d128"):
        yield from broken_products(case, kernel, dialect)
        if few_groups:
            yield "fewer than two groups are resident"


# ---- the table -----------------------------------------------------------------------------------------------------

# A line of the list that offline_cases wrote. kind: "default", or "sample": some tunables drawn at random. local: bytes of
# local memory that the family counts on. kernels: "NAME=work-items ..." of those that the problem needs.
Case = collections.namedtuple("Case", "number target family kind problem tunables local kernels options")

HEADING = ("family", "source", "kernel", "target", "values", "items", "regs", "spills", "local", "groups", "waves",
           "share", "local loads", "global loads", "problem | tunables")
FORMAT = "{:<16} {:<8} {:<16} {:<8} {:<7} {:>5} {:>7} {:>7} {:>7} {:>6} {:>5}  {:<12} {:<18} {:<24} {}"


def listed(counts, memory):
    """ "16x4,4x2": loads of 16 bytes in four places, of 4 in two."""
    return ",".join(f"{width}x{counts[memory, width]}" for width in WIDTHS if counts[memory, width]) or "-"


def known(number):
    return "-" if number is None else number


def print_row(case, source, kernel, items, groups, waves):
    print(FORMAT.format(
        case.family, source, kernel.name, case.target, case.kind, items, known(kernel.registers), known(kernel.spills),
        known(kernel.local_bytes), known(groups), "-" if waves is None else f"{waves:.1f}",
        ",".join(str(share(loop)) for loop in kernel.products) or "-",
        listed(sum(kernel.products, collections.Counter()), "local"), listed(kernel.counts, "global"),
        f"{case.problem} | {case.tunables}"))


# What the table that is kept says of a kernel.
Kept = collections.namedtuple("Kept", "spills local_bytes")


def read_kept(path):
    """The kept rows of defaults, by family, kernel, target, problem and tunables."""
    rows = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if " | " in line and len(words) > 14 and words[4] == "default":
                key = (words[0], words[2], words[3], " ".join(words[14:]))
                rows[key] = Kept(*(int(word) if word != "-" else 0 for word in words[7:9]))
    return rows


def read_case(folder, case, source, totals, kept):
    """Prints the rows of a case, and the rules that it breaks."""
    target = TARGETS[case.target]
    kernels, dialect = read_kernels(os.path.join(folder, case.number), target.vendor)
    items_of = dict(word.split("=") for word in case.kernels.split())
    totals["programs"] += 1
    where = f"on {case.target}: {case.problem} | {case.tunables}"
    if not kernels:
        totals["broken"] += 1
        print(f"BROKEN it does not compile: case {case.number}, {case.family} {where}", file=sys.stderr)
    ptx = os.path.join(folder, f"{case.number}.ptx")
    for statement, mistake in inline_assembly.mistakes_of(ptx) if os.path.exists(ptx) else []:
        totals["broken"] += 1
        print(f"BROKEN inline assembly, {mistake}: {' '.join(statement.split())[:200]}: case {case.number}, "
              f"{case.family} {where}", file=sys.stderr)
    for kernel in kernels:
        items = int(items_of.get(kernel.name, 0))
        if not items:
            continue
        if kernel.local_bytes is None and target.vendor == "Intel":  # it does not say
            kernel.local_bytes = int(case.local)
        groups = waves = None
        if kernel.registers is not None:
            groups, waves = target.occupancy(kernel.registers, kernel.local_bytes or 0, items, kernel.lanes)
        totals["kernels"] += 1
        if kernel.spills and target.vendor == "Intel":
            totals["intel"] += 1
        elif kernel.spills and case.kind != "default":
            totals["samples"] += 1
        print_row(case, source, kernel, items, groups, waves)
        if kernel.arrays and target.vendor == "Intel":
            totals["arrays"] += 1
            print(f"arrays: {kernel.arrays} bytes of a work-item of {kernel.name} lie in memory on {case.target}: "
                  f"{case.problem}")
        row = kept.get((case.family, kernel.name, case.target, f"{case.problem} | {case.tunables}"))
        for rule in broken_rules(case, kernel, target, dialect, groups, row):
            totals["broken"] += 1
            print(f"BROKEN {rule}: case {case.number}, {kernel.name} of {case.family} {where}", file=sys.stderr)


def print_loops(folder, cases):
    """A line for each loop: the instructions of its code, and on the shortest way through it. Which pass is a tile, the
    kernel's source says."""
    form = "{:<19} {:<16} {:<8} {:>5} {:>5} {:>6} {:>6} {:>5} {:>5} {:>5} {:>5} {:>5} {:>6}  {}"
    print(form.format("family", "kernel", "target", "all", "least", "matrix", "fma", "load", "store", "copy", "exp", "wait",
                      "other", "problem | tunables"))
    for case in cases:
        items = dict(word.split("=") for word in case.kernels.split())
        for kernel in read_kernels(os.path.join(folder, case.number), TARGETS[case.target].vendor)[0]:
            for loop in kernel.loops if kernel.name in items else []:
                parts = [loop["matrix"], loop["fma"], total(loop, "local"), loop["store"], total(loop, "global"),
                         loop["exp"], loop["wait"]]
                print(form.format(case.family, kernel.name, case.target, loop["all"], loop["least"], *parts,
                                  loop["all"] - sum(parts),
                                  f"{case.problem} | {case.tunables}"))


def compare_sources(path, sources):
    """Says of which families the table's kernels are others than those here."""
    with open(path, encoding="utf-8") as lines:
        rows = [line.split()[:2] for line in lines]
    changed = dict.fromkeys(row[0] for row in rows if len(row) == 2 and sources.get(row[0], row[1]) != row[1])
    print(path, "is of other sources of" if changed else "is of these sources", *changed)


def main():
    loops = sys.argv[2:3] == ["--loops"]
    if not 2 <= len(sys.argv) <= 3 + loops:
        sys.exit(__doc__)
    folder = sys.argv[1]
    with open(os.path.join(folder, "sources"), encoding="utf-8") as lines:
        sources = dict(line.split() for line in lines)
    pattern = re.compile(sys.argv[3] if loops and len(sys.argv) == 4 else "")
    with open(os.path.join(folder, "cases"), encoding="utf-8") as lines:
        cases = [Case(*line.rstrip("\n").split("\t")) for line in lines if pattern.search(line)]
    if loops:
        print_loops(folder, cases)
        return
    totals = collections.Counter()
    kept = read_kept(sys.argv[2]) if len(sys.argv) == 3 else {}
    print(FORMAT.format(*HEADING))
    for case in cases:
        read_case(folder, case, sources[case.family], totals, kept)
    print(f"{totals['programs']} programs, {totals['kernels']} kernels; {totals['samples']} with tunables at random "
          f"spill, and {totals['intel']} of Intel's; {totals['arrays']} of Intel's have arrays in memory; "
          f"{totals['broken']} rules broken")
    if len(sys.argv) == 3:
        compare_sources(sys.argv[2], sources)
    sys.exit(totals["broken"] > 0 or not cases)


if __name__ == "__main__":
    main()
