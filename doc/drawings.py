# SPDX-License-Identifier: Apache-2.0
"""The drawings of doc/design/families as SVG, which doc/generate.py writes: what a work-group owns of each kernel family, what it
streams, and where that lies. Each title says the point."""
from html import escape

MEMORY, LOCAL, REGISTERS, NOTHING = "#cfe0f3", "#fbe3a6", "#bfe0c6", "#fff"  # where data lies
PLACES = {"global memory": MEMORY, "local memory, or a core's L1 and L2": LOCAL, "registers": REGISTERS}
OWNED = "#1b6ca8"  # the frame of what a work-group owns


class Drawing:
    def __init__(self, title, width, height, *places):
        self.lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
                      '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
                      '<path d="M0 0 10 5 0 10z" fill="#555"/></marker></defs>', f'<rect width="{width}" height="{height}" fill="#fff"/>']
        self.text(12, 24, title, size=16, bold=True)
        x = 12
        for place in places:
            self.area(x, height - 22, 14, 12, PLACES[place])
            self.text(x + 20, height - 12, place, size=11)
            x += 40 + 6.2 * len(place)

    def text(self, x, y, words, anchor="start", size=12, bold=False):
        self.lines.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"' + (' font-weight="bold"' if bold else "") +
                          f'>{escape(words)}</text>')

    def area(self, x, y, width, height, fill, frame="#999", thick=1):
        self.lines.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" stroke="{frame}" stroke-width="{thick}"/>')

    def own(self, x, y, width, height):
        self.area(x, y, width, height, "none", OWNED, 3)

    def box(self, x, y, width, height, fill, *words):
        """A box with a line of 12 and further lines of 11 in its middle."""
        self.lines.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{fill}" stroke="#555"/>')
        first = y + height / 2 + 4 - 7.5 * (len(words) - 1)
        for n, line in enumerate(words):
            self.text(x + width / 2, first + 15 * n, line, "middle", 12 if n == 0 else 11)

    def grid(self, x, y, columns, rows, width, height, fill):
        """fill: a colour, or a function of row and column."""
        for row in range(rows):
            for column in range(columns):
                self.area(x + width * column, y + height * row, width, height, fill(row, column) if callable(fill) else fill)

    def arrow(self, x, y, to_x, to_y, dashed=False):
        self.lines.append(f'<path d="M{x:g} {y:g}L{to_x:g} {to_y:g}" stroke="#555" stroke-width="1.6" marker-end="url(#tip)"' +
                          (' stroke-dasharray="5 4"' if dashed else "") + "/>")

    def made(self):
        return "\n".join(self.lines + ["</svg>"]) + "\n"


def fused():
    d, side, left, top = Drawing("Scores stay on the chip: a block of queries streams tiles of keys", 860, 324), 34, 190, 70
    shades = {"empty": (NOTHING, NOTHING), "partial": ("#f9dfa8", "#fdf6e3"), "full": ("#bfe0c6", "#eef7f0")}
    for row in range(6):
        for column in range(6):
            kind = "empty" if column > row else "partial" if column == row else "full"
            x, y = left + side * column, top + side * row
            d.area(x, y, side, side, shades[kind][row != 3])
            if kind == "partial":
                d.lines.append(f'<path d="M{x} {y}l{side} {side}" stroke="#777"/>')
    y = top + side * 3
    d.own(left, y, side * 6, side)
    d.text(left + side * 3, top - 10, "keys, a tile of BLOCK_N at a time", "middle", 13)
    d.text(left - 10, y + 22, "BLOCK_M queries", "end", 13)
    d.text(left - 10, y + 40, "of one work-group", "end", 11)
    d.text(left, top + side * 6 + 22, "full: no mask is read, partial: tested,")
    d.text(left, top + side * 6 + 38, "empty: skipped")
    for n, (fill, title, more) in enumerate([
            ("#e8f0f8", "s = q kᵀ, then the steps of a score", "Q Kᵀ: K staged in local memory, or packed for vectors"),
            ("#fdf3dc", "p = exp(s - m)", "online softmax: row_max and row_sum rescale earlier sums"),
            ("#e5f3e8", "o = o exp(row_max - m) + p v", "P V: a tile's sums in registers; o there, too, or in L1"),
            ("#f5e6ea", "o / row_sum, lse = row_max + log(row_sum)", "once for each block, the only results in memory")]):
        y = 60 + 56 * n
        d.lines.append(f'<rect x="440" y="{y}" width="400" height="46" rx="6" fill="{fill}" stroke="#555"/>')
        d.text(452, y + 20, title, size=13)
        d.text(452, y + 37, more, size=11)
    return d.made()


def split():
    d = Drawing("Each range of keys is read once for all query heads of its kv head", 900, 330, "global memory",
                "local memory, or a core's L1 and L2", "registers")
    for head in range(4):
        d.area(20, 84 + 24 * head, 90, 20, LOCAL)
        d.text(65, 98 + 24 * head, f"q of head {head}", "middle", 11)
    d.text(65, 72, "rows", "middle")
    d.text(65, 198, "of one kv head", "middle", 11)
    for part in range(4):
        x = 150 + 140 * part
        d.grid(x, 84, 4, 1, 30, 92, lambda row, column, part=part: LOCAL if column == 1 and part == 1 else MEMORY)
        d.text(x + 60, 72, f"range {part}", "middle")
        d.arrow(x + 60, 182, x + 60, 208)
        d.box(x - 4, 212, 128, 36, MEMORY, "o, row_max, row_sum")
        d.lines.append(f'<path d="M{x + 60} 250V280" stroke="#555" stroke-width="1.6" fill="none"/>')
    d.arrow(210, 280, 700, 280)
    d.own(290, 84, 120, 92)
    d.text(350, 50, "K and V of a range: one work-group", "middle")
    d.text(590, 50, "a tile of BLOCK_N keys at a time", "middle", 11)
    d.box(704, 256, 184, 48, REGISTERS, "combine", "rescales and adds them")
    d.text(796, 244, "o, lse of a row", "middle", 11)
    return d.made()


def unfused():
    d = Drawing("Three kernels pass the score matrix through global memory", 900, 280, "global memory", "local memory, or a core's L1 and L2", "registers")
    for n, title in enumerate(["scores: a tile of S = Q Kᵀ", "softmax: a row, in place", "values: a tile of O = P V"]):
        d.text(150 + 300 * n, 56, title, "middle", 13)
    # scores
    d.grid(80, 96, 6, 5, 26, 26, MEMORY)
    d.area(80 + 52, 96 + 52, 52, 26, REGISTERS)
    d.own(80 + 52, 96 + 52, 52, 26)
    d.area(36, 96 + 52, 34, 26, LOCAL)
    d.text(53, 90, "Q", "middle")
    d.area(36, 96, 34, 130, "none")
    d.area(80 + 52, 66, 52, 22, LOCAL)
    d.area(80, 66, 156, 22, "none")
    d.text(246, 82, "K")
    d.text(158, 244, "S", "middle")
    # softmax
    d.grid(360, 96, 6, 5, 26, 26, lambda row, column: REGISTERS if row == 2 else MEMORY)
    d.own(360, 148, 156, 26)
    d.text(438, 244, "P takes the place of S", "middle")
    # values
    d.grid(620, 96, 6, 5, 26, 26, lambda row, column: LOCAL if row == 2 and column < 2 else MEMORY)
    d.area(620, 148, 156, 26, "none")
    d.area(800, 66, 44, 22, "none")
    d.area(800, 66, 44, 22, LOCAL)
    d.text(852, 82, "V")
    d.grid(800, 96, 2, 5, 22, 26, MEMORY)
    d.area(800, 148, 44, 26, REGISTERS)
    d.own(800, 148, 44, 26)
    d.text(698, 244, "P", "middle")
    d.text(822, 244, "O", "middle")
    d.arrow(244, 161, 352, 161)
    d.arrow(522, 161, 612, 161)
    d.text(298, 152, "f32", "middle", 11)
    d.text(567, 152, "f32", "middle", 11)
    return d.made()


def backward():
    d, side = Drawing("Every gradient has one owner: work-groups own keys for dk and dv, and queries for dq", 900, 372, "global memory",
                      "local memory, or a core's L1 and L2", "registers"), 30
    for n, (title, note) in enumerate([("backward_keys: four products of a tile", "dv += pᵀ do, dk += dsᵀ q"), ("backward_queries, on GPUs: three more", "dq += ds k")]):
        left, top = 130 + 450 * n, 96
        d.text(left + 3 * side, 58, title, "middle", 13)
        d.grid(left, top, 6, 6, side, side, lambda row, column, n=n: LOCAL if (row, column) == (3, 2) else "#eef7f0" if (row, column)[1 - n] == (2, 3)[n] else NOTHING)
        if n == 0:
            d.own(left + 2 * side, top, side, 6 * side)
            d.arrow(left + 2.5 * side, top + 5, left + 2.5 * side, top + 5.8 * side)
            d.area(left + 2 * side, top + 6 * side + 10, side, 18, REGISTERS)
            d.text(left + 3.3 * side, top + 6 * side + 24, note)
            d.text(left - 10, top + 3.6 * side, "q, do: streamed", "end", 11)
            d.text(left + 2.5 * side, top - 8, "k, v: owned", "middle", 11)
        else:
            d.own(left, top + 3 * side, 6 * side, side)
            d.arrow(left + 5, top + 3.5 * side, left + 5.8 * side, top + 3.5 * side)
            d.area(left + 6 * side + 10, top + 3 * side, 18, side, REGISTERS)
            d.text(left + 6 * side + 36, top + 3.6 * side, note)
            d.text(left - 10, top + 3.6 * side, "q, do: owned", "end", 11)
            d.text(left + 2.5 * side, top - 8, "k, v: streamed", "middle", 11)
    d.text(130, 330, "CPUs have one pass, backward_cpu, whose fifth product adds ds k to sums of dq in the workspace. Each of the SPLIT_K work-items of a", size=11)
    d.text(130, 345, "kv head has such sums of its own, and backward_sum adds them in their order.", size=11)
    return d.made()


def double_backward():
    d = Drawing("A tile owns a few rows, and each step reads the rows of the other side once for all products", 900, 300, "global memory", "registers")
    d.grid(150, 90, 14, 4, 22, 22, lambda row, column: REGISTERS if 4 <= column < 8 else NOTHING)
    d.own(150, 90, 14 * 22, 88)
    d.arrow(246, 190, 440, 190)
    d.text(140, 130, "OWNED rows:", "end")
    d.text(140, 146, "q, do, ggq", "end", 11)
    d.text(258, 80, "a step: SIMD_WIDTH rows of k, v, ggk, ggv", "middle", 11)
    d.box(490, 70, 390, 40, REGISTERS, "q kᵀ, do vᵀ, ggq kᵀ + q ggkᵀ, do ggvᵀ", "products of each pair of the step")
    d.box(490, 120, 390, 40, REGISTERS, "P, dS, gS, gP'", "weights, by five numbers of the row")
    d.box(490, 170, 390, 40, REGISTERS, "gq += gS k + dS ggk,  gdo += P ggv + gP' v", "sums stay on the chip until the last step")
    d.box(150, 220, 300, 34, MEMORY, "of each query: m, 1 / row_sum, r, D, c")
    d.arrow(452, 232, 487, 148)
    d.text(490, 240, "Keys own likewise, and stream the queries of all heads.", size=11)
    return d.made()


def indexer():
    d = Drawing("A query keeps at most about two candidates for each key that it may choose", 900, 280, "global memory", "local memory, or a core's L1 and L2", "registers")
    d.text(20, 60, "keys, in their order")
    d.grid(20, 70, 26, 1, 33, 30, lambda row, column: LOCAL if 10 <= column < 14 else MEMORY)
    d.own(20 + 330, 70, 132, 30)
    d.text(416, 60, "a block, packed once for all queries of a task", "middle", 11)
    d.arrow(416, 104, 416, 124)
    d.box(316, 128, 200, 44, REGISTERS, "scores of a panel", "sum of w max(0, q k) over heads")
    d.arrow(520, 150, 570, 150)
    d.text(545, 142, "> t", "middle", 11)
    d.grid(574, 138, 12, 1, 24, 24, lambda row, column: MEMORY if column < 9 else NOTHING)
    d.text(574, 130, "candidates: rank and key, up to topk + max(topk, 256)", size=11)
    d.arrow(718, 168, 718, 196)
    d.text(708, 186, "full: bisect the ranks, drop the small", "end", 11)
    d.grid(574, 200, 12, 1, 24, 24, lambda row, column: MEMORY if column < 6 else NOTHING)
    d.text(574, 242, "topk remain, in the order of their keys", size=11)
    d.arrow(570, 218, 430, 176, dashed=True)
    d.text(420, 222, "the threshold t rises", "middle", 11)
    return d.made()


def chosen_gradients():
    d = Drawing("Listed keys become dense batches, and their gradients are added list by list", 900, 290, "global memory")
    listed = [(0, 3, 4, 9), (1, 3, 8, 9), (0, 2, 5, 11), (3, 6, 7, 10)]
    d.text(20, 60, "lists over keys")
    d.grid(20, 70, 12, 4, 18, 22, lambda row, column: MEMORY if column in listed[row] else NOTHING)
    d.text(128, 174, "copy_lists: a list's rows of k and v", "middle", 11)
    d.arrow(240, 114, 300, 114)
    for n in range(4):
        d.grid(306 + 78 * (n % 2), 70 + 56 * (n // 2), 4, 2, 16, 22, MEMORY)
    d.text(306, 60, "a list is a batch of dense keys")
    d.text(382, 188, "queries: the heads that share", "middle", 11)
    d.text(382, 202, "the list; a backward family", "middle", 11)
    d.arrow(476, 114, 536, 114)
    d.text(560, 60, "sums of dk and dv, f32")
    d.grid(542, 70, 12, 1, 26, 26, lambda row, column: MEMORY)
    for n in range(4):
        d.own(542 + 78 * n, 70, 78, 26)
    d.text(698, 114, "add_keys: a work-group owns a range of keys", "middle", 11)
    for n, keys in enumerate(listed):
        for column in range(12):
            d.area(542 + 26 * column, 132 + 26 * n, 26, 20, MEMORY if column in keys else NOTHING, "#ddd")
        d.text(862, 147 + 26 * n, f"list {n}", size=11)
    d.arrow(530, 134, 530, 236)
    d.text(698, 256, "all groups go through the lists in this order", "middle", 11)
    return d.made()


def indexer_gradients():
    d = Drawing("Counting turns lists by query into lists by key, so that each dk has one writer", 900, 296, "global memory", "registers")
    lists = [(0, 2, 3), (1, 2, 5), (2, 3, 4), (0, 1, 2)]
    d.text(20, 60, "entries, query by query")
    for row, keys in enumerate(lists):
        for n, key in enumerate(keys):
            d.area(60 + 46 * n, 70 + 34 * row, 40, 28, MEMORY)
            d.text(80 + 46 * n, 88 + 34 * row, f"key {key}", "middle", 10)
        d.text(50, 88 + 34 * row, f"q{row}", "end", 11)
    d.text(130, 226, "a bit for each head: q k > 0", "middle", 11)
    d.arrow(216, 140, 276, 140)
    d.text(280, 60, "count_entries")
    counts = [sum(key in keys for keys in lists) for key in range(6)]
    for key, count in enumerate(counts):
        d.area(290, 70 + 26 * key, 70, 22, MEMORY)
        d.text(325, 85 + 26 * key, f"key {key}: {count}", "middle", 11)
    for n in range(3):
        d.own(286, 68 + 52 * n, 78, 52)
    d.text(325, 242, "RANGES items, a range", "middle", 11)
    d.text(325, 256, "of keys each", "middle", 11)
    d.arrow(374, 140, 430, 140)
    d.text(440, 60, "place_entries: entries, key by key")
    for key in range(6):
        for n, query in enumerate(q for q, keys in enumerate(lists) if key in keys):
            d.area(440 + 46 * n, 70 + 26 * key, 40, 22, MEMORY)
            d.text(460 + 46 * n, 85 + 26 * key, f"q{query}", "middle", 10)
    d.arrow(632, 140, 684, 140)
    d.box(690, 92, 190, 96, REGISTERS, "gradients_of_keys", "dk of one key: the sum over", "its entries and their bits,", "in rising order")
    return d.made()


def projection():
    d = Drawing("w is packed once for a block of columns on CPUs, and staged tile by tile on GPUs", 900, 340, "global memory", "local memory, or a core's L1 and L2", "registers")
    d.text(20, 58, "CPUs: a work-item owns BLOCK_M x BLOCK_N of y", size=13)
    d.grid(130, 80, 6, 1, 36, 60, lambda row, column: LOCAL)
    d.text(238, 72, "w, BLOCK_K deep: panels in L2", "middle", 11)
    d.grid(130, 150, 6, 6, 36, 22, lambda row, column: REGISTERS if (row, column) == (2, 3) else MEMORY)
    d.own(130, 150, 216, 132)
    d.area(40, 150, 80, 132, MEMORY)
    d.area(40, 194, 80, 22, LOCAL)
    d.text(80, 300, "x: a strip in L1", "middle", 11)
    d.text(238, 300, "y: a register tile at a time", "middle", 11)
    d.text(470, 58, "GPUs: a work-group owns a tile of y", size=13)
    d.grid(610, 80, 4, 1, 54, 60, lambda row, column: MEMORY)
    d.area(664, 104, 54, 18, LOCAL)
    d.text(718, 72, "w", "middle", 11)
    d.grid(610, 150, 4, 3, 54, 44, lambda row, column: REGISTERS if (row, column) == (1, 1) else MEMORY)
    d.own(664, 194, 54, 44)
    d.area(500, 150, 100, 132, MEMORY)
    d.area(540, 194, 26, 44, LOCAL)
    d.arrow(568, 216, 598, 216)
    d.arrow(691, 124, 691, 138)
    d.text(550, 300, "x, BLOCK_K deep", "middle", 11)
    d.text(728, 300, "y: sums in registers until the depth ends", "middle", 11)
    return d.made()


ALL = {"fused": fused, "split": split, "unfused": unfused, "backward": backward, "double_backward": double_backward, "indexer": indexer,
       "chosen_gradients": chosen_gradients, "indexer_gradients": indexer_gradients, "projection": projection}
