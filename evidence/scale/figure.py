"""growth.webp, from growth.json: the processor's time and the most memory of each stage, by the number of images."""

from pathlib import Path

from matplotlib.figure import Figure

from conceptlens.core.files import read_json, write_bytes
from conceptlens.pages.webp import webp

HERE = Path(__file__).parent
COLORS = {
    "index": "#000000",
    "open": "#56b4e9",
    "encode": "#d55e00",
    "train": "#009e73",
    "predict": "#0072b2",
    "audit": "#cc79a7",
}
NAMES = {"index": "first start", "open": "start"}


def main() -> None:
    rows = read_json(HERE / "growth.json")["rows"]
    made = Figure(figsize=(9, 3.6), layout="constrained")
    time, memory = made.subplots(1, 2)
    for stage, color in COLORS.items():
        mine = sorted((row for row in rows if row["stage"] == stage), key=lambda row: row["images"])
        images, look = [row["images"] for row in mine], {"color": color, "marker": "o", "markersize": 4}
        name = NAMES.get(stage, stage)
        time.plot(images, [row["processor_seconds"] for row in mine], label=name, **look)
        memory.plot(images, [row["memory_mb"] / 1024 for row in mine], **look)
    for axes in (time, memory):
        axes.set_xscale("log")
        axes.set_xlabel("images")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    time.set_yscale("log")
    time.set_ylabel("processor time, s")
    time.legend(frameon=False, fontsize=9)
    memory.axhline(4, color="0.5", linestyle=":")
    memory.annotate("wanted: below", (1e4, 4), (0, -12), textcoords="offset points", color="0.4", fontsize=9)
    memory.set_ylim(0, 4.3)
    memory.set_ylabel("most memory, GB")
    write_bytes(HERE / "growth.webp", webp(made))


if __name__ == "__main__":
    main()
