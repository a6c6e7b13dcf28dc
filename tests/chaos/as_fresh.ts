import type { ProxyMode } from "../../core/model/mod.ts";
import { kernelState } from "./kernel.ts";
import type { ChaosLab } from "./lab.ts";
import { until } from "./until.ts";

/** A state of the kernel that it is to come back to. */
export interface ReferenceState {
  /**
   * Resolves, with the milliseconds that took, once the kernel holds exactly the same again, counters and order of
   * elements aside. Throws, with the differences, where it is late.
   */
  isBack(withinMs: number): Promise<number>;
  /** Whether it holds the same now. */
  holds(): Promise<boolean>;
}

/** Takes what the kernel holds now, after a first start, for the state to come back to. */
export async function rememberState(lab: ChaosLab, mode: ProxyMode): Promise<ReferenceState> {
  const wanted = await kernelState(lab, mode);
  return {
    holds: async () => await kernelState(lab, mode) === wanted,
    async isBack(withinMs) {
      let found = "";
      const isEqual = async () => (found = await kernelState(lab, mode)) === wanted;
      try {
        return await until("the kernel holds what it held after a fresh start", withinMs, isEqual, 50);
      } catch (error) {
        throw new Error(`the kernel differs from what a fresh start made of it:\n${differences(found, wanted)}`, {
          cause: error,
        });
      }
    },
  };
}

function differences(found: string, wanted: string): string {
  const holds = found.split("\n"), wants = wanted.split("\n");
  const more = without(holds, wants), less = without(wants, holds);
  const moved = holds.findIndex((line, i) => line !== wants[i]);
  return [
    ...[`${more.length} more:`, ...more.slice(0, 10), `${less.length} less:`, ...less.slice(0, 10)],
    ...["the first that differs, and what is before it:", ...holds.slice(Math.max(0, moved - 3), moved + 3)],
  ].join("\n");
}

/** What is left of some lines without others, each as often as it is there. */
function without(lines: readonly string[], others: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const line of others) counts.set(line, (counts.get(line) ?? 0) + 1);
  return lines.filter((line) => {
    const count = counts.get(line) ?? 0;
    counts.set(line, count - 1);
    return count <= 0;
  });
}
