/** The traces that a cleanup removes, from both variants of iptables. */
import assert from "node:assert/strict";
import type { BackendOptions } from "../../../../backends/contract/backend.ts";
import { type Runner, ToolMissingError } from "../../../../backends/tools/runner.ts";
import { BASE, type Layout } from "../../../../backends/xtables/chains.ts";
import {
  removeIptablesTraces,
  removeMartians,
  removeTracesOfOtherVariant,
} from "../../../../backends/xtables/cleanup.ts";
import { ROUTED_BY_US } from "../../../../backends/xtables/martians.ts";
import { createLogger } from "../../../../platform/log.ts";
import type { Family } from "../../../../platform/mod.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

/** The lines that iptables-save prints for a table. */
const table = (name: string, ...lines: string[]) => [`*${name}`, ...lines, "COMMIT"];

/** A host whose tools print these rules; a tool that prints none is not installed. */
function hostWith(
  saves: Readonly<Partial<Record<string, readonly string[]>>>,
  family: Family = "IPv4",
  restoreFails = false,
) {
  const called: string[] = [], restored: string[] = [], log: string[] = [];
  const runner: Runner = {
    run({ tool, args, stdin = [], onLine }) {
      called.push(tool);
      const done = (stdout: string) => Promise.resolve({ exitCode: 0, stdout, stderr: "" });
      if (args.includes("--version")) return done(`${tool} v1.8.9 (nf_tables)\n`);
      if (tool.endsWith("-save")) {
        const lines = saves[tool];
        if (lines === undefined) return Promise.reject(new ToolMissingError(tool));
        lines.forEach((line) => onLine!(line));
        return done("");
      }
      if (tool.endsWith("-restore")) {
        restored.push(`${tool}: ${[...stdin].join("").trim().replaceAll("\n", " ")}`);
        return restoreFails ? Promise.resolve({ exitCode: 4, stdout: "", stderr: "no" }) : done("");
      }
      return done("net.ipv4.conf.all.route_localnet = 0\n");
    },
  };
  const clock = createFakeClock();
  const logger = createLogger({
    level: "info",
    format: "text",
    clock,
    write: (line) => log.push(line.slice(25).trim()),
  });
  const options: BackendOptions = { family, runner, clock, logger };
  return { options, called, restored, log };
}

const RULES = [
  ...table(
    "nat",
    ":PREROUTING ACCEPT [0:0]",
    ":DOCKER - [0:0]",
    `:${BASE.services} - [0:0]`,
    ":KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]",
    `-A PREROUTING -m comment --comment "x" -j ${BASE.services}`,
    `-A DOCKER -g ${BASE.services}`,
    "-A PREROUTING -j DOCKER",
    `-A ${BASE.services} -j KUBE-SVC-AAAAAAAAAAAAAAAA`,
  ),
];

Deno.test("chains go with the jumps to them from chains of others, and nothing else does", async () => {
  const { options, restored } = hostWith({ "iptables-save": RULES });
  await removeIptablesTraces(options);
  const chains = ":KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0] :KUBE-SERVICES - [0:0]";
  assert.deepEqual(restored, [
    'iptables-restore: *nat -D PREROUTING -m comment --comment "x" -j KUBE-SERVICES -D DOCKER -g KUBE-SERVICES COMMIT',
    `iptables-restore: *nat ${chains} COMMIT`,
    `iptables-restore: *nat ${chains} -X KUBE-SERVICES -X KUBE-SVC-AAAAAAAAAAAAAAAA COMMIT`,
  ]);
});

Deno.test("the chains and jumps of a layout that stays are kept, services' chains and the note of a setting included", async () => {
  const stays: Layout = {
    jumps: [{ table: "nat", from: "PREROUTING", rule: `-m comment --comment "x" -j ${BASE.services}` }],
    baseChains: { mangle: [], filter: [], nat: [BASE.services] },
    isServiceChain: (_, name) => name.startsWith("KUBE-SVC-"),
  };
  const { options, restored } = hostWith({
    "iptables-save": [...RULES, ...table("filter", `:${ROUTED_BY_US} - [0:0]`)],
  });
  await removeIptablesTraces(options, stays);
  assert.deepEqual(restored, ["iptables-restore: *nat -D DOCKER -g KUBE-SERVICES COMMIT"]);
});

Deno.test("what another program removes meanwhile is no failure of a cleanup, which removes the rest", async () => {
  const gone = "iptables-restore: line 2 failed: Bad rule (does a matching rule exist in that chain?).";
  const left = table("nat", `:${BASE.services} - [0:0]`);
  const { options, restored } = hostWith({ "iptables-save": RULES });
  const { run } = options.runner, listings = [RULES, left];
  const runner: Runner = {
    async run(call) {
      if (call.tool === "iptables-save") listings.shift()!.forEach((line) => call.onLine!(line));
      else if (restored.length > 0) return await run(call);
      else {
        await run(call);
        return { exitCode: 1, stdout: "", stderr: gone };
      }
      return { exitCode: 0, stdout: "", stderr: "" };
    },
  };
  await removeIptablesTraces({ ...options, runner });
  assert.match(restored.at(-1)!, /:KUBE-SERVICES - \[0:0\] -X KUBE-SERVICES COMMIT$/);
  const always: Runner = {
    run: async (call) => call.tool === "iptables-restore" ? { exitCode: 1, stdout: "", stderr: gone } : await run(call),
  };
  await assert.rejects(removeIptablesTraces({ ...options, runner: always }), /does a matching rule exist/);
});

Deno.test("a cleanup that the tool refuses is an error", async () => {
  const { options } = hostWith({ "iptables-save": RULES }, "IPv4", true);
  await assert.rejects(removeIptablesTraces(options), /iptables-restore failed with exit status 4: no/);
});

Deno.test("the other variant's rules are removed with its own tools, which is logged if there were any", async () => {
  const both = hostWith({ "iptables-save": RULES, "iptables-legacy-save": RULES });
  await removeTracesOfOtherVariant(both.options);
  assert.ok(both.restored.length > 0 && both.restored.every((call) => call.startsWith("iptables-legacy-restore: ")));
  assert.deepEqual(both.log, ["INFO  removed the rules of the other iptables variant variant=legacy"]);
  for (const saves of [{ "iptables-legacy-save": table("nat", ":DOCKER - [0:0]") }, {}]) {
    const { options, restored, log } = hostWith(saves);
    await removeTracesOfOtherVariant(options);
    assert.deepEqual([restored, log], [[], []]);
  }
});

const MARTIANS = table("filter", `:${BASE.martians} - [0:0]`, `-A INPUT -j ${BASE.martians}`);

Deno.test("martian rules are removed from each variant that has them, and nothing is read for them without any", async () => {
  const removals = (tool: string) => [
    `${tool}: *filter -D INPUT -j KUBE-MARTIANS COMMIT`,
    `${tool}: *filter :KUBE-MARTIANS - [0:0] COMMIT`,
    `${tool}: *filter :KUBE-MARTIANS - [0:0] -X KUBE-MARTIANS COMMIT`,
  ];
  const [own, other] = ["iptables-restore", "iptables-legacy-restore"].map(removals);
  for (
    const [saves, expected] of [
      [{ "iptables-save": MARTIANS, "iptables-legacy-save": MARTIANS }, [...own!, ...other!]],
      [{ "iptables-save": MARTIANS }, own],
      [{ "iptables-save": [], "iptables-legacy-save": MARTIANS }, other],
    ] as const
  ) {
    const { options, restored } = hostWith(saves);
    await removeMartians(options);
    assert.deepEqual(restored, expected);
  }
  const none = hostWith({ "iptables-save": [], "iptables-legacy-save": [] });
  await removeMartians(none.options);
  assert.ok(!none.called.includes("sysctl"));
  const IPv6 = hostWith({}, "IPv6");
  await removeMartians(IPv6.options);
  assert.deepEqual(IPv6.called, [], "the kernel itself drops them");
});
