/** The fake iptables answers as the real one: runs the same input with both, the real one in a new network namespace. */
import assert from "node:assert/strict";
import { createFakeRunner, type Flavour } from "../fakes/runner.ts";
import { CASES, type IptablesCase } from "./iptables_cases.ts";
import { type Answer, inMemory, onKernel, type Step } from "./tool_steps.ts";

const PROGRAMS: Readonly<Record<Flavour, string>> = { nf_tables: "xtables-nft-multi", legacy: "xtables-legacy-multi" };
const TOOLS = ["iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"];

/** Removes the comments with the date, which differ between runs. */
function comparable(answers: readonly Answer[]): Answer[] {
  return answers.map((answer) => ({ ...answer, stdout: answer.stdout.replace(/^# .* on .*\n/gm, "") }));
}

function stepsOf({ family = "IPv4", input, then = [] }: IptablesCase): Step[] {
  const tool = family === "IPv4" ? "iptables" : "ip6tables";
  const restores = input === undefined ? [] : [input].flat();
  return [
    ...restores.map((stdin) => ({ tool: `${tool}-restore`, args: ["-w", "5", "--noflush"], stdin })),
    ...then,
    { tool: `${tool}-save`, args: [] },
  ];
}

for (const flavour of ["nf_tables", "legacy"] as const) {
  for (const each of CASES) {
    Deno.test(`the fake iptables matches the real one (${flavour}) for ${each.name}`, async () => {
      const steps = stepsOf(each);
      const real = await onKernel(steps, Object.fromEntries(TOOLS.map((tool) => [tool, PROGRAMS[flavour]])));
      assert.deepEqual(comparable(await inMemory(steps, createFakeRunner({ flavour }))), comparable(real));
    });
  }
}
