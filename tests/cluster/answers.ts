/** Sluice's answers about the cluster: `status`, `diff` and `check` on every node, and `explain` of the API server's service. */
import { systemClock } from "../../platform/clock.ts";
import type { Result } from "../suite.ts";
import { NODES, OUTSIDE } from "./cluster.ts";
import { sluiceBinary } from "./proxies.ts";
import type { PartOutcome, Trial } from "./results.ts";

/** Commands of Sluice that have to succeed, and what they print. */
const QUESTIONS: Readonly<Record<string, { readonly args: readonly string[]; readonly prints: RegExp }>> = {
  "status: everything is in effect": { args: ["status", "--wait", "60s"], prints: /^/ },
  "diff: the kernel has nothing else": { args: ["diff"], prints: /^$/ },
  "check: nothing is missing": { args: ["check", "--config"], prints: /^green/m },
  "explain: a connection of a pod to the API server": {
    args: ["explain", "default/kubernetes:443", "--from", "pod"],
    prints: new RegExp(`${OUTSIDE.IPv4.replaceAll(".", "\\.")}:6443`),
  },
};

/** Asks Sluice on every node; nothing with kube-proxy. */
export async function testAnswers({ cluster, proxy }: Trial): Promise<PartOutcome> {
  const results: Result[] = [];
  if (proxy.kind.program !== "sluice") return { results, counts: {} };
  for (const node of NODES) {
    for (const [question, { args, prints }] of Object.entries(QUESTIONS)) {
      const startedMs = systemClock.monotonic(), config = args.at(-1) === "--config" ? [proxy.configOf(node)] : [];
      const { code, stdout, stderr } = await cluster.run(node, [sluiceBinary(), ...args, ...config]);
      const name = `${question} (${node})`, passed = code === 0 && prints.test(stdout);
      if (!passed) console.log(`FAILED ${name}: ${stdout}${stderr}`);
      results.push({ name, unit: name, passed, tookMs: systemClock.monotonic() - startedMs });
    }
  }
  return { results, counts: {} };
}
