#!/usr/bin/env python3
"""make_sample_corpus.py - writes examples/corpus: made-up documents of 3 to 5,000 words.

Every sentence is put together here from word lists written for this purpose; nothing is copied. The
same seed gives the same bytes (gzip members may differ with the zlib in use; their content does not).
PDF files are written by hand: one Helvetica text layer, a page for every 60 lines, and one file that
holds only a picture, as a scanner makes it, which the reader must list as a failure.

usage: make_sample_corpus.py [FOLDER]          writes (default examples/corpus)
       make_sample_corpus.py --check [FOLDER]  compares instead; exit 1 when something differs
"""
import gzip
import json
import pathlib
import sys
import textwrap

MASK = (1 << 64) - 1


class Dice:
    """SplitMix64 (Steele et al. 2014): the same numbers with every Python."""

    def __init__(self, seed):
        self.state = seed & MASK

    def below(self, bound):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % bound

    def pick(self, words):
        return words[self.below(len(words))]


# A theme: what acts, what it does, what is acted on, where, when, and what followed.
THEMES = {
    "radio": (
        "the northern cell|the baseband card|a handover timer|the scheduler|the spare link|our field "
        "team|the alarm console|the harbour mast|a drifting oscillator|the night shift",
        "dropped|restored|measured|rerouted|delayed|confirmed|logged|balanced|repeated|cleared",
        "two hundred attach requests|the uplink budget|a burst of voice frames|the paging queue|every "
        "second report|the neighbour list|half of the traffic|a stale routing entry|the power "
        "readings|an unusual error pattern",
        "on sector three|behind the ridge|near the ferry terminal|in the test rack|along the valley "
        "road|at the edge of coverage|under heavy rain",
        "before midnight|during the software change|for eleven minutes|after the battery test|while "
        "the load was rising|shortly past six",
        "nobody noticed|the counters returned to normal|a ticket was opened|the change was rolled "
        "back|throughput rose by a fifth|the report was sent on",
    ),
    "bakery": (
        "the old oven|a rye starter|the apprentice|the miller's daughter|the morning crew|a visiting "
        "baker|the cooling shelf|the delivery bicycle|our oldest recipe|the flour store",
        "needed|spoiled|carried|improved|surprised|outlasted|weighed|shaped|softened|replaced",
        "forty loaves|a tray of seeded rolls|the sourdough|too much salt|the plum cakes|a sack of "
        "spelt|the dough for Saturday|three dozen buns|the last of the butter|a very dark crust",
        "in the back room|by the window|at the market|beside the canal|on the upper rack|in a cold "
        "kitchen|across the square",
        "before the bells|on a foggy Thursday|all through harvest|within the hour|until the yeast "
        "woke|when the queue grew",
        "the customers came back|the crumb stayed moist|we wrote it down|the price did not change|the "
        "neighbours complained of the smell, smiling|nothing was thrown away",
    ),
    "garden": (
        "the walled garden|a late frost|the hedgehog|the rain barrel|a row of leeks|the volunteer "
        "group|the pear tree|a borrowed spade|the compost|the greenhouse",
        "covered|fed|hid|shaded|reached|split|protected|crowded out|ripened|outgrew",
        "the young beans|a bed of marigolds|the clay path|seven pumpkins|the slugs' favourite "
        "lettuce|the south wall|a nest of wrens|the seed labels|the strawberries|a forgotten onion",
        "below the terrace|by the gate|in the lowest bed|along the fence|under glass|behind the shed|"
        "next to the pond",
        "in the third week of May|overnight|through a dry summer|earlier than last year|between two "
        "storms|as the days shortened",
        "the harvest doubled|we planted again|the bees did not mind|the records disagree|a photograph "
        "was taken|the children ate most of it",
    ),
    "harbour": (
        "the pilot boat|a grain carrier|the tide gauge|the harbour office|a nervous captain|the blue "
        "crane|the lighthouse keeper|the customs clerk|a rusted buoy|the evening ferry",
        "waited for|sighted|passed|unloaded|recorded|missed|towed|signalled|inspected|sheltered",
        "nine containers|the fog signal|a school of herring|the western breakwater|a cargo of cork|an "
        "unlit barge|the spring tide|the mail bags|a loose mooring line|the weather chart",
        "off the point|inside the mole|at berth four|in the narrow channel|beyond the sandbank|"
        "alongside the quay|in sight of land",
        "at slack water|with the first light|during the gale|for most of the watch|after the pilot "
        "had left|as the wind backed",
        "no damage was found|the log was signed|the crew slept in turns|the fee was waived|the fog "
        "lifted by noon|a second anchor held",
    ),
    "library": (
        "the map room|a careful reader|the card index|the bindery|a lost letter|the reading lamp|the "
        "head librarian|a visiting scholar|the second catalogue|the cellar",
        "revealed|preserved|misplaced|described|borrowed|dated|mended|contradicted|listed|outlived",
        "four atlases|a diary without a name|the water-stained pages|an early timetable|the donor's "
        "wishes|a bundle of sketches|the missing volume|a table of tides|two opposite accounts|a "
        "pressed flower",
        "on the top shelf|in the east wing|among the ledgers|inside a false cover|under the stairs|"
        "beside the globe|in the quiet corner",
        "during the winter closing|in a single afternoon|over nine years|before the move|while the "
        "roof was open|on the last day of term",
        "a note was added|the fine was forgiven|the shelf mark changed|the question stayed open|a copy "
        "was made|the catalogue grew by one line",
    ),
}
FORMS = [
    "{A} {v} {o} {p} {t}.",
    "{T}, {a} {v} {o} {p}, and {r}.",
    "{P} {a} {v} {o}; {r}.",
    "Although {a} {v} {o} {t}, {r}.",
    "{A} {v} {o} {p}, which is why {r}.",
    "It was {a} that {v} {o} {t}, so {r}.",
    "When {a} {v} {o} {p}, {r}.",
    "{N} times that year {a} {v} {o} {t}.",
]
NUMBERS = "Two Three Four Five Six Seven Eight Nine Eleven Twelve Fifteen Twenty".split()


def sentence(dice, theme):
    actors, verbs, objects, places, times, results = (part.split("|") for part in THEMES[theme])
    parts = {
        "a": dice.pick(actors), "v": dice.pick(verbs), "o": dice.pick(objects),
        "p": dice.pick(places), "t": dice.pick(times), "r": dice.pick(results),
        "N": dice.pick(NUMBERS),
    }
    for key in "apt":
        parts[key.upper()] = parts[key][0].upper() + parts[key][1:]
    return dice.pick(FORMS).format(**parts)


def text_of(dice, theme, words):
    """Exactly `words` words in paragraphs of four to nine sentences."""
    paragraphs, count = [], 0
    while count < words:
        line = " ".join(sentence(dice, theme) for _ in range(4 + dice.below(6))).split()
        line = line[: words - count]
        count += len(line)
        paragraphs.append(" ".join(line))
    text = "\n\n".join(paragraphs)
    return text if text.endswith(".") else text.rstrip(",;") + "."


def pdf_file(objects):
    """A PDF 1.4 file of these objects, 1 being the catalogue."""
    out, offsets = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"), []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)


def stream(content, entries=b""):
    return b"<< /Length %d%s >>\nstream\n%s\nendstream" % (len(content), entries, content)


def text_pdf(title, text):
    lines = [title, ""]
    for paragraph in text.split("\n\n"):
        lines += textwrap.wrap(paragraph, 88) + [""]
    pages = [lines[i : i + 60] for i in range(0, len(lines), 60)]
    kids = b" ".join(b"%d 0 R" % (4 + 2 * i) for i in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for i, page in enumerate(pages):
        shown = b"BT /F1 10 Tf 12 TL 54 780 Td\n"
        for line in page:
            escaped = line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
            shown += b"(%s) '\n" % escaped.encode("cp1252")
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % (5 + 2 * i))
        objects.append(stream(shown + b"ET"))
    return pdf_file(objects)


def picture_pdf():
    """One page that is a grey picture: what a scanner without character recognition leaves."""
    pixels = bytes(255 if (x // 3 + y // 5) % 4 else 40 for y in range(64) for x in range(64))
    image = (b" /Type /XObject /Subtype /Image /Width 64 /Height 64 /ColorSpace /DeviceGray"
             b" /BitsPerComponent 8")
    return pdf_file([
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R "
        b"/Resources << /XObject << /Im1 5 0 R >> >> >>",
        stream(b"q 500 0 0 700 47 71 cm /Im1 Do Q"),
        stream(pixels, image),
    ])


def zipped(data):
    return gzip.compress(data, mtime=0)


def corpus():
    """{path below the folder: bytes}"""
    dice, files, themes = Dice(20), {}, list(THEMES)

    def record(number, words):
        theme = themes[number % len(themes)]
        return {"id": f"{theme}-{number:02}", "text": text_of(dice, theme, words), "theme": theme}

    # Short notes: 3 to 130 words, one record a line.
    notes = [record(i, words) for i, words in enumerate(
        [3, 12, 45, 7, 130, 66, 21, 98, 5, 54, 110, 32, 16, 77, 124, 9, 88, 41])]
    files["notes.jsonl"] = "".join(json.dumps(note) + "\n" for note in notes).encode()
    reports = [record(i, words) for i, words in enumerate([400, 25, 1300, 60, 820, 15])]
    files["archive/reports.jsonl.gz"] = zipped(
        "".join(json.dumps(report) + "\n" for report in reports).encode())
    for i, words in enumerate([180, 2400, 640]):
        files[f"letters/letter-{i + 1}.txt"] = text_of(dice, themes[i], words).encode() + b"\n"
    files["letters/letter-4.txt.gz"] = zipped(text_of(dice, themes[3], 950).encode() + b"\n")
    for i, words in enumerate([90, 1100]):
        body = text_of(dice, themes[3 - i], words)
        files[f"guide-{themes[3 - i]}.md"] = f"# Notes on the {themes[3 - i]}\n\n{body}\n".encode()
    for i, words in enumerate([70, 1850, 110, 5000, 260, 3100]):
        theme = themes[i % len(themes)]
        body = text_of(dice, theme, words)
        files[f"papers/{theme}-{i + 1}.pdf"] = text_pdf(f"The {theme} papers, part {i + 1}", body)
    files["papers/scanned-page.pdf"] = picture_pdf()
    return files


def same(path, data):
    if not path.is_file():
        return False
    found = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(found) == gzip.decompress(data)
    return found == data


def main():
    arguments = sys.argv[1:]
    is_check = "--check" in arguments
    names = [name for name in arguments if name != "--check"]
    default = pathlib.Path(__file__).resolve().parent.parent / "examples" / "corpus"
    folder = pathlib.Path(names[0]) if names else default
    files = corpus()
    if is_check:
        present = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        wrong = [name for name, data in files.items() if not same(folder / name, data)]
        wrong += sorted(present - set(files))
        for name in wrong:
            print(f"{folder / name} is not what this script writes", file=sys.stderr)
        sys.exit(1 if wrong else 0)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    print(f"{len(files)} files, {sum(map(len, files.values())):,} bytes in {folder}", file=sys.stderr)


if __name__ == "__main__":
    main()
