#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the inline assembly of kernels where no assembler of NVIDIA's is there: inline_assembly.py FILE.ptx...

Compilers copy inline assembly to PTX without reading it, so that ptxas alone would tell a mistake in it. This reads
statement by statement what stands between the compiler's comments: names of instructions, the number and kind of their
operands, registers that the function declares, braces, and how many registers a matrix instruction takes. Prints each
mistake, and fails if there is one. What the reader does not know is a mistake: an
instruction that is new in cl/ gets its form in FORMS.
"""
import re
import sys

# The kinds of operands: r a register, i a number, v either, m an address, L a list of registers in braces, l a label.
# Forms begin with the instruction's name up to where its types begin; the longest that fits is taken.
FORMS = {
    "bar.sync": "v,i", "bar.arrive": "v,i", "bar.warp.sync": "v", "fence.proxy.async": "", "mov": "r,v", "shr": "r,r,i",
    "xor": "r,r,r", "prmt": "r,r,v,v", "cvt.rn": "r,r,r", "ex2.approx": "r,r", "rcp.approx": "r,r", "fma.rn": "r,r,r,r",
    "min.NaN": "r,r,v", "max.NaN": "r,r,v", "shfl.sync": "r,r,v,i,i", "vote.sync.any": "r,r,i", "selp": "r,i,i,r",
    "dp4a": "r,r,r,r", "setp": "r,v,i", "bra": "l", "st.volatile.shared": "m,L",
    "cp.async.ca.shared.global": "m,m,i", "cp.async.cg.shared.global": "m,m,i", "cp.async.commit_group": "",
    "cp.async.wait_all": "", "cp.async.wait_group": "i", "cp.async.mbarrier.arrive.noinc": "m",
    "mbarrier.init": "m,v", "mbarrier.arrive": "r,m", "mbarrier.try_wait.parity": "r,m,v",
    "ldmatrix.sync.aligned.m8n8.x4": "L,m", "mma.sync.aligned.m16n8k16": "L,L,L,L", "mma.sync.aligned.m16n8k32": "L,L,L,L",
    "setmaxnreg": "i",
    "wgmma.fence.sync.aligned": "", "wgmma.commit_group.sync.aligned": "", "wgmma.wait_group.sync.aligned": "i",
    # sums, rows in registers or a descriptor, a descriptor, whether to add, two signs, what is transposed
    "wgmma.mma_async.sync.aligned": "L,r,r,r,i,i,i,i|L,L,r,r,i,i,i",
}
OPTIONAL = {"bar.sync": 1, "cp.async.ca.shared.global": 1, "cp.async.cg.shared.global": 1}  # operands less, or more
KINDS = {
    "r": r"%[a-z]+\d+|%[a-z]+_[a-z]+|%tid\.x|[a-z][a-z_0-9]*", "i": r"-?\d+|0[xf][0-9a-fA-F]+",
    "m": r"\[(%[a-z]+\d+|[a-z][a-z_0-9]*)( ?\+ ?\d+)?\]", "L": r"\{%[a-z]+\d+(, ?%[a-z]+\d+)*\}", "l": r"[$A-Z_a-z0-9]+",
}
KINDS["v"] = KINDS["r"] + "|" + KINDS["i"]


def operands_of(text):
    """Splits at the commas outside of braces."""
    parts, depth = [""], 0
    for character in text:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip() or len(parts) > 1]


def fits(operands, form, spare):
    kinds = form.split(",") if form else []
    if not len(kinds) - spare <= len(operands) <= len(kinds) + spare:
        return False
    return all(re.fullmatch(KINDS[kind], operand) for kind, operand in zip(kinds + ["v"] * spare, operands))


def list_size(operand):
    return operand.count(",") + 1 if operand.startswith("{") else 1


def wrong_sizes(name, operands):
    """Returns whether a matrix instruction has other numbers of registers than its shape needs."""
    shape = re.search(r"m64n(\d+)k16", name)
    if shape:
        rows = list_size(operands[1])
        return list_size(operands[0]) != int(shape[1]) // 2 or rows not in (1, 4)
    if name.startswith("mma.sync"):
        return [list_size(operand) for operand in operands] != [4, 4, 2, 4]
    return name.startswith("ldmatrix") and list_size(operands[0]) != 4


def mistake_in(statement, declared):
    """What is wrong with a statement, or None. declared: names of the block, and how many registers of each kind the
    function has."""
    guarded = re.match(r"@!?([a-z]+)\s+", statement)
    if guarded and guarded[1] not in declared:
        return f"the predicate {guarded[1]} is not declared"
    text = statement[guarded.end():] if guarded else statement
    found = re.match(r"([a-z0-9_]+(?:(?:\.|::)[A-Za-z0-9_]+)*)\s*(.*)", text)
    if not found:
        return "this is no instruction"
    name = max((form for form in FORMS if re.match(re.escape(form) + r"(\.|:|$)", found[1])), key=len, default=None)
    if name is None:
        return f"{found[1]} is no instruction that this reader knows"
    operands = operands_of(found[2])
    if not any(fits(operands, form, OPTIONAL.get(name, 0)) for form in FORMS[name].split("|")):
        return f"operands of {name} are {FORMS[name] or 'none'}"
    if wrong_sizes(found[1], operands):
        return f"{found[1]} has another number of registers"
    for kind, number in re.findall(r"%([a-z]+)(\d+)", found[2]):
        if int(number) >= declared.get("%" + kind, 0):
            return f"the function has no register %{kind}{number}"
    words = re.findall(r"(?<![%\w$.])[a-z][a-z_0-9]*", found[2]) if found[1] != "bra" else []
    return next((f"{word} is not declared" for word in words if word not in declared and not word.startswith("0")), None)


def statements_of(block):
    """The statements of a block, with the names that it declares; a mistake in place of the names."""
    if block.count("{") != block.count("}") or block.count("[") != block.count("]"):
        return [block], "braces or brackets do not match"
    text = block.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    declared, statements = set(), []
    for part in re.split(r";", text):
        part = re.sub(r"^\s*[A-Z_]+:\s*", "", part.strip())  # a label
        found = re.match(r"\.(?:reg|shared)\s+(?:\.align \d+ )?\.\w+\s+(.+)", part)
        if found:
            declared |= set(re.findall(r"[a-z][a-z_0-9]*", found[1]))
        elif part:
            statements.append(part)
    if text and not text.rstrip().endswith(";"):
        return [block], "the last statement does not end"
    return statements, declared


def mistakes_of(path):
    """Yields (statement, mistake) of a file."""
    registers, inside = {}, None
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            register = re.match(r"\s*\.reg \.\w+\s+(%[a-z]+)<(\d+)>;", line)
            if re.match(r"(\.visible )?\.entry", line):
                registers = {}
            elif register:
                registers[register[1]] = int(register[2])
            elif "// begin inline asm" in line:
                inside = ""
            elif "// end inline asm" in line:
                statements, declared = statements_of(inside)
                if isinstance(declared, str):
                    yield statements[0], declared
                else:
                    for statement in statements:
                        mistake = mistake_in(statement, {**registers, **dict.fromkeys(declared, 0)})
                        if mistake:
                            yield statement, mistake
                inside = None
            elif inside is not None:
                inside += line

def main():
    wrong = 0
    for path in sys.argv[1:]:
        for statement, mistake in mistakes_of(path):
            wrong += 1
            print(f"{path}: {mistake}: {' '.join(statement.split())[:200]}", file=sys.stderr)
    print(f"inline assembly of {len(sys.argv) - 1} programs, {wrong} mistakes")
    sys.exit(wrong > 0 or len(sys.argv) < 2)


if __name__ == "__main__":
    main()
