#!/usr/bin/env python3
"""Writes the weights of the Unicode collations: uca900.bin, uca520.bin and uca400.bin.

  crates/types/src/uca/generate.py ALLKEYS_9_0_0 ALLKEYS_5_2_0 WEIGHTS_4_0_0

The first two are Unicode's allkeys.txt of these versions, which the Python package pyuca 1.2
carries. Version 4.0.0 is hard to find today. Its file has a line `code point TAB weights in hex`
for every code point, with NULL for no weights and for surrogates. A MariaDB server writes them:

  SELECT seq, IFNULL(NULLIF(HEX(WEIGHT_STRING(CONVERT(CHAR(seq USING utf32) USING utf8mb4)
         COLLATE utf8mb4_unicode_ci)), ''), 'NULL') FROM seq_0_to_1114111

The same lines of utf8mb4_unicode_520_ci agree with the file of version 5.2.0 at every code point.
The weights are facts of the Unicode Collation Algorithm (UTS #10). LICENSE-UNICODE beside this file
is their licence.

As in MySQL, contractions are left out, and a character has at most 8 collation elements.

The weights are written as codes (head of mod.rs), because they lie in index keys on disk. So the
files never change: a test compares their checksums.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
TRAILS = range(0x21, 0x100)  # the second byte of a code; never a space
SPACE = 0x20
MOST_ELEMENTS = 8
ALIAS = 0xF
LEADS = [0xFB00, 0xFB40, 0xFB41, 0xFB80, 0xFB84, 0xFB85, 0xFBC0, 0xFBC1]
ABOVE = range(0xFBC2, 0xFBE2)
BEYOND = 0xFFFD  # all supplementary characters in 4.0.0


def implicit(version, code):
    """The weights of a character without an entry (UTS #10, section 10.1.3)."""
    if version == 400 and code > 0xFFFF:
        return [BEYOND]
    if version == 900 and 0x17000 <= code <= 0x18AFF:
        return [0xFB00, (code - 0x17000) | 0x8000]
    extensions = [(0x3400, 0x4DB5)]
    unified = [(0x4E00, 0x9FA5)]
    if version == 900:
        extensions += [(0x20000, 0x2A6D6), (0x2A700, 0x2B734), (0x2B740, 0x2B81D)]
        extensions += [(0x2B820, 0x2CEA1)]
        unified = [(0x4E00, 0x9FD5), (0xFA0E, 0xFA29)]
    base = 0xFBC0
    if any(a <= code <= b for a, b in extensions):
        base = 0xFB80
    elif any(a <= code <= b for a, b in unified):
        base = 0xFB40
    return [base + (code >> 15), (code & 0x7FFF) | 0x8000]


def allkeys(path):
    """{code point: [(primary, secondary, tertiary)]}"""
    found = {}
    for line in path.read_text('utf-8').splitlines():
        m = re.match(r'([0-9A-F]+) *; *((?:\[[.*][0-9A-F.]+\])+)', line)
        if m:
            elements = re.findall(r'\[[.*]([0-9A-F]+)\.([0-9A-F]+)\.([0-9A-F]+)', m[2])
            elements = [tuple(int(w, 16) for w in e) for e in elements]
            found[int(m[1], 16)] = elements[:MOST_ELEMENTS]
    return found


def weights(path):
    """{code point: [(primary, 0x20, 2)]} of the lines that the head of this file describes"""
    found = {}
    for line in path.read_text('ascii').splitlines():
        code, text = line.split('\t')
        if not 0xD800 <= int(code) <= 0xDFFF:
            text = '' if text == 'NULL' else text
            found[int(code)] = [
                (int(text[i : i + 4], 16), 0x20, 2) for i in range(0, len(text), 4)
            ]
    return found


def one_level(entries):
    """Only the primary weights, for collations that compare no others."""
    return {c: [(p, 0x20, 2) for p, _, _ in elements if p] for c, elements in entries.items()}


def codes(entries):
    """{primary weight: code}. A code is a lead byte, and a second byte or 0 in the low half."""
    used = {w for elements in entries.values() for w, _, _ in elements}
    used = sorted(w for w in used if 0 < w < 0x8000)
    of_ascii = {entries[c][0][0] for c in range(0x80) if entries.get(c)}
    space = entries[ord(' ')][0][0]

    def leads(some):
        """[(lead, weight) or (lead, second byte, weight)] in order, with leads from 0."""
        lead, out, run = 0, {}, 0
        for w in some:
            if w in of_ascii:
                lead += run > 0
                out[w] = lead << 8
                lead, run = lead + 1, 0
                continue
            if run == len(TRAILS):
                lead, run = lead + 1, 0
            out[w] = lead << 8 | TRAILS[run]
            run += 1
        return out, lead + (run > 0)

    below, count = leads(w for w in used if w < space)
    out = {w: c + (SPACE - count << 8) for w, c in below.items()}
    assert min(out.values()) > 0x0100
    out[space] = SPACE << 8
    above, count = leads(w for w in used if w > space)
    out |= {w: c + (SPACE + 1 << 8) for w, c in above.items()}
    lead = 0xFF - 2 - len(LEADS)
    assert SPACE + 1 + count <= lead, (count, lead)
    for w in LEADS:
        out[w] = lead << 8
        lead += 1
    out |= {w: lead << 8 | TRAILS[n] for n, w in enumerate(ABOVE)}
    out[BEYOND] = lead + 1 << 8
    return out


def coded(primaries, code_of):
    """The codes of a character's weights. The weight after a lead is bits of a code point."""
    out, after_lead = [], False
    for w in primaries:
        if after_lead:
            first, second = divmod(w - 0x8000, len(TRAILS))
            out.append(TRAILS[first] << 8 | TRAILS[second])
        else:
            out.append(code_of[w])
        after_lead = not after_lead and (w in LEADS or w in ABOVE)
    return out


def varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def pack(version, entries):
    code_of = codes(entries)
    code_of[0] = 0
    implied = {tuple(implicit(version, c)): c for c in range(0x110000)}
    out, at, last, count = bytearray(), 0, 0, 0
    for character, elements in sorted(entries.items()):
        primaries = [w for w, _, _ in elements]
        if primaries == implicit(version, character):
            continue
        count += 1
        # Ideographs for compatibility weigh as the unified ideograph.
        alias = implied.get(tuple(primaries))
        if version == 900 and [(s, t) for _, s, t in elements] != [(0x20, 2), (0, 0)]:
            alias = None
        skipped = character - at
        head = (len(elements) if alias is None else ALIAS) | (0x20 if skipped else 0)
        usual = [(0x20, 2)] * len(elements)
        plain = [(s, t) for _, s, t in elements] == usual or alias is not None
        out.append(head | (0x10 if plain else 0))
        out += varint(skipped) if skipped else b''
        at = character + 1
        if alias is not None:
            out += varint(alias)
            continue
        for code, (_, secondary, tertiary) in zip(coded(primaries, code_of), elements, strict=True):
            step = code - last
            out += varint(step << 1 if step >= 0 else (-step << 1) - 1)
            last = code
            if not plain:
                out += bytes([max(secondary - 0x1F, 0), tertiary])
    print(f'uca{version}.bin: {count} characters, {len(out)} bytes')
    (HERE / f'uca{version}.bin').write_bytes(out)


def main(uca900, uca520, uca400):
    pack(900, allkeys(pathlib.Path(uca900)))
    pack(520, one_level(allkeys(pathlib.Path(uca520))))
    pack(400, weights(pathlib.Path(uca400)))


main(*sys.argv[1:])
