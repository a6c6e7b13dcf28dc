/** The readings of a reconciler of chains, how often they are made, and the counts from them. */
import assert from "node:assert/strict";
import { createFixedChains, type Layout } from "../../../../backends/xtables/chains.ts";
import { createChainReconciler } from "../../../../backends/xtables/reconcile.ts";
import type { IptablesTools } from "../../../../backends/xtables/tools.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { backendUnderTest, tamper } from "../iptables/host.ts";

const RULE = "-d 10.96.0.10/32 -p udp -m udp --dport 53 -j KUBE-SVC-A";
const LAYOUT: Layout = {
  jumps: [],
  baseChains: { mangle: [], filter: [], nat: ["KUBE-SERVICES"] },
  isServiceChain: () => false,
};

/** A reconciler of one chain in a kernel that has it already. */
function reconcilerOfOne(generation?: () => number) {
  let readings = 0;
  const tools: IptablesTools = {
    keepsRules: false,
    save({ onChain, onRule }) {
      readings++;
      onChain("nat", "KUBE-SERVICES");
      onRule("nat", "KUBE-SERVICES", RULE);
      return Promise.resolve();
    },
    restore: () => Promise.reject(new Error("unexpected restore")),
    list: () => Promise.reject(new Error("unexpected list")),
    flavour: () => Promise.resolve("nf_tables"),
  };
  const ruleset = createFixedChains(LAYOUT.baseChains, () => [RULE]);
  const options = { layout: LAYOUT, ruleset, tools, flavour: "nf_tables", logger: silentLogger, generation } as const;
  return { reconciler: createChainReconciler(options), readings: () => readings };
}

Deno.test("a comparison that finds no difference reads the kernel once", async () => {
  const { reconciler, readings } = reconcilerOfOne();
  await reconciler.run();
  await reconciler.compareAndRun();
  assert.equal(readings(), 2);
});

Deno.test("while nothing has changed the ruleset, two readings that found no difference are enough", async () => {
  let generation = 1;
  const { reconciler, readings } = reconcilerOfOne(() => generation);
  await reconciler.run();
  for (let i = 0; i < 3; i++) await reconciler.compareAndRun();
  assert.equal(readings(), 2);
  generation++;
  await reconciler.compareAndRun();
  assert.equal(readings(), 3);
});

Deno.test("the count of programmed rules counts each chain as it is now", async () => {
  const { snapshot, change } = await backendUnderTest();
  const serve = (endpoint: string) => [fakeServicePort("default/web", { clusterEndpoints: [endpoint] })];
  const { counts } = await snapshot(serve("10.244.1.1:80"));
  assert.equal((await change(serve("10.244.1.2:80"))).counts.iptables_rules_nat, counts.iptables_rules_nat);
});

Deno.test("the UDP frontends of an earlier proxy are those of the first reading, and are returned once", async () => {
  const { reconciler } = reconcilerOfOne();
  await reconciler.run();
  await reconciler.compareAndRun();
  assert.equal(reconciler.takeEarlierUdpFrontends().size, 1);
  await reconciler.compareAndRun();
  assert.equal(reconciler.takeEarlierUdpFrontends().size, 0);
});

Deno.test("a jump that another program deletes is one difference, however many restores its repair takes", async () => {
  const { snapshot, backend, ...host } = await backendUnderTest();
  await snapshot([]);
  const jump = host.runner.dump().split("\n").find((line) => /^-A PREROUTING .*KUBE-SERVICES/.test(line))!;
  await tamper(host, "*nat", jump.replace("-A", "-D"), "COMMIT");
  const locked = { how: "exits", exitCode: 4, stderr: "Another app is currently holding the xtables lock" } as const;
  host.runner.inject(({ tool }) => tool === "iptables-restore", locked, 1);
  await assert.rejects(backend.resync(), /xtables lock/);
  assert.equal((await backend.resync()).counts.drift_repaired, 1);
  assert.ok(host.runner.dump().includes(jump));
});
