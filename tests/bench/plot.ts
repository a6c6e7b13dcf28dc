/**
 * Draws docs/performance.svg from docs/measurements.jsonl, the output of the conformance suite's benchmark with `--json`:
 * `deno task plot`.
 */
import { chartOf, PANEL_WIDTH, type Point, type Series, svgDocument } from "./log_chart.ts";

const MEASUREMENTS = new URL("../../docs/measurements.jsonl", import.meta.url);
const DRAWING = new URL("../../docs/performance.svg", import.meta.url);

/** The programs and their names in the measurements, in the order of their colours. */
const PROGRAMS = [{ proxy: "kube-proxy", label: "kube-proxy" }, { proxy: "sluice", label: "Sluice" }];

type Line = Readonly<Record<string, unknown>>;

/** iptables mode with 3 endpoints per service, at every size that was measured successfully. */
function seriesOf(lines: readonly Line[], field: string): Series[] {
  return PROGRAMS.map(({ proxy, label }) => ({
    label,
    points: lines
      .filter((line) => line.proxy === proxy && line.mode === "iptables" && line.endpoints === 3)
      .flatMap((line): Point[] => {
        const x = line.services, y = line[field];
        return typeof x === "number" && typeof y === "number" ? [{ x, y }] : [];
      })
      .sort((a, b) => a.x - b.x),
  }));
}

const lines = Deno.readTextFileSync(MEASUREMENTS).trim().split("\n").map((line): Line => JSON.parse(line));
const panels = [
  chartOf({ title: "Start to every rule in effect", unit: "s", series: seriesOf(lines, "start s") }),
  chartOf({ title: "CPU per change", unit: "ms", series: seriesOf(lines, "cpu ms/change") }),
];
const description = "Start time and CPU per change over the number of services, kube-proxy and Sluice, iptables mode";
Deno.writeTextFileSync(DRAWING, svgDocument(panels, PANEL_WIDTH, description));
