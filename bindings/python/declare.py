# SPDX-License-Identifier: Apache-2.0
"""python3 declare.py INCLUDE_FOLDER OUTPUT: writes what the public headers declare as a module of ctypes.

The headers are the one place that knows how structs lie in memory and what enums are worth; no line of
the package repeats it. They are written in a plain form (tests/test_declarations.py compares all of it
with what a C compiler sees): comments aside, every type is a typedef, every function begins with
CLATTN_API. What is not understood is an error.
"""
import keyword
import re
import sys
from pathlib import Path

BASIC = {
    "int": "c_int", "unsigned": "c_uint", "unsigned long long": "c_ulonglong", "float": "c_float",
    "double": "c_double", "size_t": "c_size_t", "int32_t": "c_int32", "uint32_t": "c_uint32", "int64_t": "c_int64", "uint64_t": "c_uint64", "char": "c_char",
    "cl_int": "c_int32", "cl_uint": "c_uint32", "cl_ulong": "c_uint64", "cl_bool": "c_uint32",
    "cl_device_type": "c_uint64", "cl_mem": "c_void_p", "cl_event": "c_void_p",
    "cl_context": "c_void_p", "cl_device_id": "c_void_p", "cl_platform_id": "c_void_p",
    "cl_command_queue": "c_void_p",
}

# What reading a member of a ctypes type gives, for type checkers.
PYTHON = {"c_float": "float", "c_double": "float", "c_char": "bytes", "c_char_p": "Optional[bytes]", "c_void_p": "Optional[int]"}


class Headers:
    """What was declared so far, in order, as lines of Python."""

    def __init__(self):
        self.types = dict(BASIC)
        self.lines = []
        self.functions = []
        self.structs = []
        self.statuses = []
        self.written = {}
        self.unions = {}
        self.comments = {}
        self.values = {}

    def value_type(self, text):
        """The ctypes name of a C type, given without a member's or parameter's name."""
        words = " ".join(word for word in text.replace("*", " * ").split() if word not in ("const", "struct"))
        if words.endswith("*"):
            return "c_char_p" if words == "char *" and "const" in text else "c_void_p"
        if words not in self.types:
            raise SystemExit(f"{text!r} is of a type that is not declared")
        return self.types[words]

    def enum(self, body, name):
        value = -1
        for entry in filter(None, map(str.strip, body.split(","))):
            constant, _, given = map(str.strip, entry.partition("="))
            value = int(given, 0) if given else value + 1
            self.constant(constant, value)
            if name == "clattn_status":
                self.statuses.append(constant)
        if name:
            self.types[name] = "c_int"

    def constant(self, name, value):
        self.values[name] = value
        self.lines.append(f"{name[len('CLATTN_'):]} = {value!r}")

    def struct(self, body, name):
        fields, types, written = [], [], []
        union = re.search(r"union\s*\{([^}]*)\}\s*;", body)
        if union:  # without a name: its members are the struct's
            self.union(union[1], name + "_union")
            body = body.replace(union[0], "")
            if body[union.start():].strip():
                raise SystemExit(f"the union of {name} is not its last member")
        for member in filter(None, map(str.strip, body.split(";"))):
            declared = re.fullmatch(r"(.*?[\s*])(\w+)\s*(?:\[(\w+)\])?", member, re.S)
            kind = self.value_type(declared[1])
            length = self.values.get(declared[3], declared[3])  # of an array, by number or by a constant's name
            fields.append(f'("{declared[2]}", {kind}{f" * {length}" if length else ""}),')
            if not keyword.iskeyword(declared[2]):
                types.append(f"    {declared[2]}: {self.python_type(kind, declared[3])}")
            if "*" in declared[1] and "const" not in declared[1]:
                written.append(declared[2])
        self.lines += ["", "", f"class {name}(Structure):", "    _fields_ = ["]
        self.lines += ["        " + field for field in fields]
        if union:
            self.lines += [f'        ("of_operation", {name}_union),', "    ]", '    _anonymous_ = ["of_operation"]']
            types += self.unions[name + "_union"]
        else:
            self.lines += ["    ]"]
        self.lines += [*types, ""]
        self.types[name] = name
        self.structs.append(name)
        if name.startswith("clattn_host_"):
            self.written[name[len("clattn_host_"):-len("_tensors")]] = written

    def union(self, body, name):
        self.lines += ["", "", f"class {name}(Union):", "    _fields_ = ["]
        self.unions[name] = []
        for member in filter(None, map(str.strip, body.split(";"))):
            declared = re.fullmatch(r"(.*?\s)(\w+)\s*(?:\[(\d+)\])?", member, re.S)
            kind = self.value_type(declared[1])
            self.lines.append(f'        ("{declared[2]}", {kind}{" * " + declared[3] if declared[3] else ""}),')
            self.unions[name].append(f"    {declared[2]}: {self.python_type(kind, declared[3])}")
        self.lines += ["    ]", ""]

    def python_type(self, kind, length):
        if length:
            return "bytes" if kind == "c_char" else "Any"  # the type of an array is made where it is named
        return kind if kind in self.structs else PYTHON.get(kind, "int" if kind in BASIC.values() else "Any")

    def parameters(self, text):
        parts = [] if text.strip() == "void" else text.split(",")
        for part in parts:
            if part.rstrip().endswith("]"):  # an array is a pointer
                yield "c_void_p"
            else:
                yield self.value_type(re.fullmatch(r"\s*(.*?[\s*])\w+\s*", part, re.S)[1])

    def result(self, text):
        return "None" if text.strip() == "void" else self.value_type(text)

    def callback(self, result, name, parameters):
        kinds = ", ".join([self.result(result), *self.parameters(parameters)])
        self.lines.append(f"{name} = CFUNCTYPE({kinds})")
        self.types[name] = name

    def comment(self, name, text):
        """What a header says of a function, without the marks of Doxygen."""
        lines = [re.sub(r"^ ?\* ?", "", line.strip()).rstrip() for line in text.strip("/* \n").splitlines()]
        self.comments[name] = re.sub(r"@(?:p|c|ref) ", "", "\n".join(lines)).strip()

    def read(self, text):
        for found in re.finditer(r"/\*\*((?:(?!\*/).)*)\*/\s*CLATTN_API [^;(]*?(clattn_\w+)\(", text, re.S):
            self.comment(found[2], found[1])
        text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
        for name, value in re.findall(r"#define (CLATTN_\w+) \(?(-?(?:0x)?[0-9A-Fa-f]+)\)?\s*$", text, re.M):
            self.constant(name, int(value, 0))
        text = re.sub(r"^\s*#.*?(?<!\\)$", "", text, flags=re.M | re.S)
        for found in re.finditer(
                r"(?:typedef )?enum \w*\s*\{(?P<enum>[^}]*)\}\s*(?P<enum_name>\w*);"
                r"|typedef struct (?P<opaque>\w+) (?P=opaque);"
                r"|typedef struct \w+ \{(?P<struct>(?:[^{}]|\{[^}]*\})*)\}\s*(?P<struct_name>\w+);"
                r"|typedef (?P<result>\w+) \(\*(?P<callback>\w+)\)\((?P<arguments>[^)]*)\);"
                r"|CLATTN_API (?P<returns>[^;(]*?)(?P<function>clattn_\w+)\((?P<parameters>[^)]*)\);", text):
            if found["enum"]:
                self.enum(found["enum"], found["enum_name"])
            elif found["opaque"]:
                pass  # seen through pointers alone
            elif found["struct"]:
                self.struct(found["struct"], found["struct_name"])
            elif found["callback"]:
                self.callback(found["result"], found["callback"], found["arguments"])
            else:
                kinds = ", ".join(self.parameters(found["parameters"]))
                self.functions.append(f'    "{found["function"]}": ({self.result(found["returns"])}, [{kinds}]),')


def in_order(folder):
    """The headers, each after those that it includes."""
    done = []

    def visit(name):
        if name in done:
            return
        text = (folder / name).read_text()
        for included in re.findall(r"#include <clattn/(\w+\.h)>", text):
            visit(included)
        done.append(name)

    visit("clattn.h")
    return [(folder / name).read_text() for name in done]


def main(include, output):
    headers = Headers()
    for text in in_order(Path(include) / "clattn"):
        headers.read(text)
    variables = (Path(include).parent / "src" / "base" / "variables.def").read_text()
    lines = ['"""Made by declare.py of the headers in include/clattn; see there for what it all means."""',
             "from __future__ import annotations", "", "from typing import Any, Optional",
             "from ctypes import " + ", ".join(sorted({"CFUNCTYPE", "Structure", "Union", *BASIC.values(), "c_char_p"})), "", *headers.lines, "", "STRUCTS = [" + ", ".join(headers.structs) + "]",
             "STATUSES = " + repr([name[len('CLATTN_'):] for name in headers.statuses]), "# The tensors that an execution writes: those whose host pointer is not const.",
             "# The environment variables that clattn reads.",
             "VARIABLES = " + repr(re.findall(r'VARIABLE\([A-Z_]+, "(\w+)"', variables)),
             "WRITTEN = " + repr(headers.written), "# What the headers say of the text forms.",
             "TEXT_FORMS = " + repr({name: headers.comments[f"clattn_{name}_print"].split("@param")[0].strip()
                                     for name in ("problem", "multihead")}), "FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {", *headers.functions, "}", ""]
    Path(output).write_text("\n".join(lines))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
