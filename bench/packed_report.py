"""What padded_vs_packed.py writes: results.json, results.md, and bar charts as results.png and results.svg."""
import json
import pathlib

COLOURS = {"hf": "#7f8c8d", "st": "#b08d57", "wrapper": "#2e86ab", "engine": "#1b4965"}
LABELS = {"hf": "Hugging Face,\npadded by {batch}", "st": "sentence-\ntransformers",
          "wrapper": "warpgroup +\nHugging Face", "engine": "warpgroup\n(C engine)"}
MB = "{:,.0f}".format


def name(system, result):
    return LABELS[system].format(batch=result["settings"]["batches"]["hf"])


def one_line(system, result):
    return name(system, result).replace("-\n", "-").replace("\n", " ")


def bin_text(row):
    return f", bins of {row['bin_tokens']:,}" if row.get("bin_tokens") else ""


# ------------------------------------------------------------------------------------ Markdown

def count(n, what):
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def settings_line(result):
    s, lengths = result["settings"], result["lengths"]
    return (f"{result['model']['name']}, {s['corpus']}: {count(s['documents'], 'document')}, "
            f"{count(lengths['tokens'], 'token')} ({lengths['shortest']} to {lengths['longest']} a text, "
            f"median {lengths['median']}), at most {s['max_length']:,} tokens a text; {s['dtype']} on {s['device']}, "
            f"{count(s['threads'], 'thread')}, {count(s['rounds'], 'round')}.")


def machine_line(result):
    m, versions = result["machine"], {}
    for row in result["summary"]:
        versions.update(row["versions"])
    device = versions.pop("device", None)
    parts = [f"{m['cpu']}, {m['cpus']} CPUs ({' '.join(m['cpu_flags'])}), {MB(m['memory_mb'])} MB",
             *([device] if device else []), f"Linux {m['kernel']}",
             f"load {m['load_1_5_15'][0]:.2f} at the start",
             f"Python {m['python']}, " + ", ".join(f"{k} {v}" for k, v in versions.items()),
             f"commit {(m['commit'] or 'unknown')[:12]}{' with changes' if m['changed'] else ''}",
             *([m["compiler"]] if m["compiler"] else [])]
    return "; ".join(parts) + "."


def table(result):
    base = one_line(result["base"], result)
    lines = [f"| | padding | real tokens/s, median (min-max) | against {base} (min-max) | peak memory, MB "
             "| of it beyond the loaded model | wall time, s |", "|---|---|---|---|---|---|---|"]
    for r in result["summary"]:
        cells = [f"{one_line(r['system'], result)}{bin_text(r)}", f"{100 * r['padding']:.2f} %",
                 f"{r['tokens_per_s']:,.0f} ({r['tokens_per_s_min']:,.0f}-{r['tokens_per_s_max']:,.0f})",
                 f"{r['ratio']:.2f} ({r['ratio_min']:.2f}-{r['ratio_max']:.2f})", MB(r["peak_mb"]),
                 MB(r["growth_mb"]), f"{r['seconds']:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def agreement_line(result):
    parts = [f"{one_line(system, result)} {a['difference_max']:.1e} (cosine {a['cosine_min']:.6f})"
             for system, a in result["agreement"].items() if system != result["base"]]
    return ("Vectors, checked before anything was timed; largest difference from "
            f"{one_line(result['base'], result)}: {', '.join(parts)}.") if parts else ""


def no_limit_lines(result):
    n = result["no_limit"]
    ratios = " and ".join(f"{ratio:.1f} times what {one_line(system, result)} took"
                          for system, ratio in n["ratios"].items())
    ran = n["padded_measured_mb"]
    return [f"Without a limit, a padded batch of {n['batch']} with a longest text of {n['longest']:,} tokens asks for "
            f"{MB(n['padded_computed_mb'])} MB of activations ({100 * n['padding_computed']:.1f} % padding); computed, "
            f"{'not run' if ran is None else f'and {MB(ran)} MB measured'}. The computed figure is "
            f"{ratios or 'compared with nothing'}. The cache of keys and values that a call without "
            f"use_cache=False keeps would be {MB(n['cache_computed_mb'])} MB more.",
            "", f"Formula: {n['formula']}.", "",
            f"The formula on a batch that is sure to run ({n['check']['batch']} texts, "
            f"{n['check']['longest']:,} tokens): "
            f"{MB(n['check']['formula_mb'])} MB computed, {MB(n['check']['measured_mb'])} MB measured."]


def markdown(result):
    out = [settings_line(result), "", *table(result), "", agreement_line(result), "", machine_line(result)]
    if result["corpus"]["extraction_s"] is not None:
        out += ["", "Reading the texts out of the PDFs, once, in no system's time: "
                f"{result['corpus']['extraction_s']:.2f} s."]
    for system, why in result["left_out"].items():
        out += ["", f"Left out: {one_line(system, result)}; {why}."]
    if "no_limit" in result:
        out += ["", *no_limit_lines(result)]
    return "\n".join(out) + "\n"


# -------------------------------------------------------------------------------------- charts

def panel(axes, title, rows, values, labels, result, spread=None):
    """Bars of one quantity with its values on top."""
    places = range(len(rows))
    colours = [COLOURS[r["system"]] for r in rows]
    axes.bar(places, values, color=colours, width=0.62, yerr=spread, capsize=4, error_kw={"elinewidth": 1})
    tops = [v + (spread[1][i] if spread else 0) for i, v in enumerate(values)]
    room = max(tops) or 10  # nothing but zeros: some height all the same
    for i, (top, label) in enumerate(zip(tops, labels)):
        axes.text(i, top + 0.02 * room, label, ha="center", va="bottom", fontsize=9)
    axes.set_ylim(0, 1.22 * room)
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.set_xticks(list(places), [name(r["system"], result) for r in rows], fontsize=8)
    axes.set_title(title, fontsize=11, loc="left", fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="x", length=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.tick_params(axis="y", labelsize=8)


def memory_panel(axes, rows, result):
    panel(axes, "Peak memory, MB: loaded model (pale) and activations", rows, [r["peak_mb"] for r in rows],
          [f"{MB(r['peak_mb'])}\n({MB(r['growth_mb'])} beyond\nthe model)" for r in rows], result)
    # The part that the loaded model holds, in a paler shade over the whole bar.
    axes.bar(range(len(rows)), [min(r["loaded_mb"], r["peak_mb"]) for r in rows], color="white", alpha=0.6, width=0.62)
    axes.set_ylim(0, 1.4 * max(r["peak_mb"] for r in rows))


def padding_panel(axes, rows, result):
    bars = [(r["system"], r["padding"], "") for r in rows]
    if "no_limit" in result and all(r["system"] != "hf" for r in rows):
        bars.insert(0, ("hf", result["no_limit"]["padding_computed"], "\n(computed)"))
    panel(axes, "Padding, % of the rows computed", [{"system": system} for system, _, _ in bars],
          [100 * share for _, share, _ in bars], [f"{100 * share:.2f} %{more}" for _, share, more in bars], result)


def no_limit_panel(axes, result):
    rows = [{"system": "hf", "value": result["no_limit"]["padded_computed_mb"]}]
    rows += [{"system": r["system"], "value": r["growth_mb"]} for r in result["summary"]
             if r["system"] in ("wrapper", "engine")]
    labels = [f"{MB(rows[0]['value'])}\n(computed)"] + [
        f"{MB(r['value'])}\n(1/{rows[0]['value'] / max(r['value'], 1):.0f})" for r in rows[1:]]
    panel(axes, "Activations without a length limit, MB", rows, [r["value"] for r in rows], labels, result)


def charts(result, out):
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "warpgroup"  # the same results give the same file
    import matplotlib.pyplot as plt
    rows = result["summary"]
    panels = 5 if "no_limit" in result else 4
    figure, grid = plt.subplots((panels + 1) // 2, 2, figsize=(11, 4.2 * ((panels + 1) // 2)))
    axes = list(grid.flat)
    speeds = [r["tokens_per_s"] for r in rows]
    spread = [[s - r["tokens_per_s_min"] for s, r in zip(speeds, rows)],
              [r["tokens_per_s_max"] - s for s, r in zip(speeds, rows)]]
    panel(axes[0], "Real tokens/s (median; min and max)", rows, speeds,
          [f"{r['tokens_per_s']:,.0f}\n({r['ratio']:.2f}x)" for r in rows], result, spread)
    padding_panel(axes[1], rows, result)
    memory_panel(axes[2], rows, result)
    panel(axes[3], "Wall time, s", rows, [r["seconds"] for r in rows], [f"{r['seconds']:.2f}" for r in rows], result)
    if panels == 5:
        no_limit_panel(axes[4], result)
        axes[5].set_visible(False)
    s = result["settings"]
    figure.suptitle(f"{result['model']['name']}, {s['corpus']}, {count(s['documents'], 'document')}, at most "
                    f"{s['max_length']:,} tokens; {s['dtype']} on {s['device']}, {count(s['threads'], 'thread')}",
                    fontsize=11)
    m = result["machine"]
    figure.text(0.5, 0.008, f"{m['cpu']}, commit {(m['commit'] or 'unknown')[:12]}, load {m['load_1_5_15'][0]:.2f} at "
                "the start", ha="center", fontsize=8, color="#555555")
    figure.tight_layout(rect=(0, 0.025, 1, 0.97), h_pad=2.5, w_pad=2)
    figure.savefig(out / "results.png", dpi=120)
    figure.savefig(out / "results.svg", metadata={"Date": None})
    plt.close(figure)


def write(result, out):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    (out / "results.md").write_text(markdown(result))
    charts(result, out)
