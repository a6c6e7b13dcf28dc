import type { Runner } from "../../../../backends/tools/mod.ts";

/** A runner whose tool prints these lines and ends. */
export function runnerThatPrints(lines: readonly string[]): Runner {
  return {
    run({ onLine }) {
      lines.forEach((line) => onLine!(line));
      return Promise.resolve({ exitCode: 0, stdout: "", stderr: "" });
    },
  };
}
