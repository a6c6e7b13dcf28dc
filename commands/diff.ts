import { boolean, option } from "../core/config/mod.ts";
import { errorText } from "../platform/log.ts";
import { answersOf, familiesOf, FAMILY_FLAG, jsonText } from "./asking.ts";
import type { Command, Invocation } from "./command.ts";

/** What the kernel holds, against what it should. */
export const diffCommand: Command = {
  name: "diff",
  summary: "Show how the kernel differs from what it should hold; changes nothing.",
  arguments: [],
  flags: [FAMILY_FLAG, option("json", boolean(), "Write JSON.")],
  examples: [
    { line: "sluice diff", does: "exit status 0 where they are the same, 1 where they differ, 2 for a failure" },
    {
      line: "sluice diff --source file:services.yaml --proxy-mode nftables",
      does: "against what these manifests ask for",
    },
  ],
  async start(invocation) {
    const families = familiesOf(invocation);
    if (families === undefined) return 2;
    try {
      return await compare(invocation, families);
    } catch (error) {
      invocation.logger.error("the kernel cannot be compared", { error: errorText(error) });
      return 2;
    }
  },
};

async function compare(invocation: Invocation, families: readonly ("IPv4" | "IPv6")[]): Promise<0 | 1> {
  const { clock, signal, print, flags } = invocation;
  const { compareWithKernel } = await import("../backends/rehearsal/mod.ts");
  const { createProcessRunner } = await import("../backends/process_runner.ts");
  const answers = await answersOf(invocation);
  const runner = createProcessRunner({ clock, signal });
  const found = [];
  for (const family of families) {
    const rehearsal = { family, state: await answers.state(family), clock };
    for (const difference of await compareWithKernel(rehearsal, runner)) found.push({ family, ...difference });
  }
  if (flags.get("json") === true) print(jsonText(found));
  else {
    for (const { family, place, what, lines } of found) {
      print(`${family} ${place} ${WHAT[what]}\n${lines.map(({ sign, text }) => `  ${sign} ${text}\n`).join("")}`);
    }
  }
  return found.length === 0 ? 0 : 1;
}

const WHAT = { differs: "differs", missing: "is missing", unwanted: "should not be there" } as const;
