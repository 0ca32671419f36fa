#!/usr/bin/env python3
"""compare_runs.py - two report.json of one corpus side by side: a padded run and a packed one.

usage: compare_runs.py PADDED/report.json PACKED/report.json
"""
import json
import sys

ROWS = [
    ("documents", "documents", "{:,.0f}", 1),
    ("failed (listed)", "failed", "{:,.0f}", 1),
    ("real tokens", "tokens", "{:,.0f}", 1),
    ("padding", "padding", "{:.2f} %", 100),
    ("tokens/s", "tokens_per_s", "{:,.0f}", 1),
    ("documents/s", "documents_per_s", "{:,.1f}", 1),
    ("seconds", "seconds", "{:.2f}", 1),
    ("peak memory", "peak_bytes", "{:,.0f} MiB", 1 / 2**20),
]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    padded, packed = (json.load(open(path)) for path in sys.argv[1:])
    print(f"{'':16} {'padded by 8':>14} {'packed':>14}")
    for title, key, form, scale in ROWS:
        if key in padded and key in packed:
            cells = (form.format(run[key] * scale) for run in (padded, packed))
            print(f"{title:16}", *(f"{cell:>14}" for cell in cells))
    print(f"packed does {packed['tokens_per_s'] / padded['tokens_per_s']:.2f} times the tokens per second")


if __name__ == "__main__":
    main()
