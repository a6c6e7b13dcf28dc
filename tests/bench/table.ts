import { growthExponent, type Measurement } from "./measure.ts";

const WIDTHS = [22, 10, 12, 8, 11, 8, 14, 8];

/** The column headings. A growth is relative to the row above. */
export const HEADINGS = [
  line(["", "services", "time", "growth", "memory", "growth", "one change", "growth"]),
  line(["", "", "µs/service", "", "B/service", "", "µs", ""]),
].join("\n");

/** A line for each measured size of a stage. */
export function rowsOf(measurements: readonly Measurement[]): string[] {
  return measurements.map((measurement, i) => {
    const { stage, services, timeUs, bytes, changeUs } = measurement;
    const growth = (cost: (of: Measurement) => number) =>
      i === 0 ? "" : `n^${growthExponent(measurements[i - 1]!, measurement, cost).toFixed(2)}`;
    return line([
      i === 0 ? stage : "",
      services.toLocaleString("en"),
      (timeUs / services).toFixed(2),
      growth((of) => of.timeUs),
      (bytes / services).toFixed(0),
      growth((of) => of.bytes),
      changeUs.toFixed(2),
      growth((of) => of.changeUs),
    ]);
  });
}

function line(cells: readonly string[]): string {
  return cells.map((cell, i) => i === 0 ? cell.padEnd(WIDTHS[i]!) : cell.padStart(WIDTHS[i]!)).join("").trimEnd();
}
