import assert from "node:assert/strict";
import type { FamilySettings, ServicePort } from "../../../../core/model/mod.ts";
import { serviceChainNames } from "../../../../backends/xtables/chains.ts";
import { chainsOf, changedChains, renderServiceChain } from "../../../../backends/iptables/service_chains.ts";
import { fakeServicePort, fakeSettings, fakeSources } from "../../../fakes/service_port.ts";

const PODS = fakeSettings({ localTraffic: { by: "source-prefix", prefix: "10.1.0.0/16" } });

function render(changes: Partial<ServicePort>, settings: FamilySettings = PODS) {
  const port = fakeServicePort("default/web:http", changes);
  const names = serviceChainNames(port);
  const kind = (chain: string) => Object.entries(names).find(([, name]) => name === chain)![0];
  return Object.fromEntries(
    chainsOf(port).map((chain) => {
      const rules = renderServiceChain(port, chain, settings);
      return [kind(chain), rules.map((rule) => rule.replace(/KUBE-(SVC|SVL|EXT)-[A-Z2-7]{16}/, "KUBE-$1-…"))];
    }),
  );
}

const THREE = ["10.1.0.1:80", "10.1.0.2:80", "10.1.0.3:80"];

Deno.test("each endpoint gets an equal share: one in the number of remaining endpoints", () => {
  assert.deepEqual(render({ clusterEndpoints: THREE }), {
    cluster: [
      "! -s 10.1.0.0/16 -j KUBE-MARK-MASQ",
      "-p tcp -m statistic --mode random --probability 0.33333333349 -j DNAT --to-destination 10.1.0.1:80",
      "-p tcp -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination 10.1.0.2:80",
      "-p tcp -j DNAT --to-destination 10.1.0.3:80",
    ],
  });
});

Deno.test("masquerading follows the detection of local traffic", () => {
  const first = (settings: FamilySettings) => render({}, settings)["cluster"]![0];
  assert.equal(first(fakeSettings()), "-p tcp -j DNAT --to-destination 10.1.0.1:8080");
  assert.equal(first(fakeSettings({ masqueradeAll: true })), "-j KUBE-MARK-MASQ");
  assert.equal(
    first(fakeSettings({ localTraffic: { by: "bridge", interface: "cbr0" } })),
    "! -i cbr0 -j KUBE-MARK-MASQ",
  );
  assert.equal(
    first(fakeSettings({ localTraffic: { by: "interface-prefix", prefix: "cali" } })),
    "! -i cali+ -j KUBE-MARK-MASQ",
  );
});

Deno.test("affinity looks for the client's endpoint first and remembers the one that it picks", () => {
  const rules = render({ affinitySeconds: 60, clusterEndpoints: THREE.slice(0, 2) }, fakeSettings())["cluster"]!;
  assert.equal(rules.length, 4);
  assert.match(
    rules[0]!,
    /^-p tcp -m recent --update --seconds 60 --reap --name KUBE-SEP-\w{16} --mask 255.255.255.255 --rsource -j DNAT --to-destination 10.1.0.1:80$/,
  );
  assert.match(
    rules[2]!,
    /^-p tcp -m statistic .* -m recent --set --name KUBE-SEP-\w{16} --mask 255.255.255.255 --rsource -j DNAT/,
  );
  const name = (rule: string) => / --name (\S+)/.exec(rule)![1];
  assert.equal(name(rules[0]!), name(rules[2]!));
  assert.notEqual(name(rules[0]!), name(rules[1]!));
});

Deno.test("external policy Cluster masquerades everything", () => {
  assert.deepEqual(render({ nodePort: 30080 })["external"], ["-j KUBE-MARK-MASQ", "-j KUBE-SVC-…"]);
});

Deno.test("external policy Local keeps the source address, and the node and its pods reach every endpoint", () => {
  const local = render({ nodePort: 30080, external: "local", localEndpoints: ["10.1.0.1:80"] });
  assert.deepEqual(local["external"], [
    "-s 10.1.0.0/16 -j KUBE-SVC-…",
    "-m addrtype --src-type LOCAL -j KUBE-MARK-MASQ",
    "-m addrtype --src-type LOCAL -j KUBE-SVC-…",
    "-j KUBE-SVL-…",
  ]);
  assert.deepEqual(local["local"], ["-p tcp -j DNAT --to-destination 10.1.0.1:80"]);
  // Traffic for the node port comes through the same chain unmarked, so the cluster IP is matched here.
  assert.equal(local["cluster"]![0], "! -s 10.1.0.0/16 -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-MARK-MASQ");
  const dropping = render({ nodePort: 30080, external: "drop" })["external"]!;
  assert.deepEqual(dropping.at(-1), "-m addrtype --src-type LOCAL -j KUBE-SVC-…");
});

Deno.test("the firewall chain admits the source ranges, and the load balancer IP itself if the node is in them", () => {
  const port = {
    loadBalancerIPs: ["192.0.2.5"],
    loadBalancerSources: fakeSources(["203.0.113.0/24", "192.168.0.0/16"]),
  };
  assert.deepEqual(render(port)["firewall"], [
    "-s 203.0.113.0/24 -j KUBE-EXT-…",
    "-s 192.168.0.0/16 -j KUBE-EXT-…",
    "-s 192.0.2.5/32 -j KUBE-EXT-…",
  ]);
  assert.equal(render({ ...port, loadBalancerSources: fakeSources(["203.0.113.0/24"]) })["firewall"]!.length, 1);
  assert.equal(render({ ...port, loadBalancerSources: undefined })["firewall"], undefined);
});

Deno.test("a service port without endpoints has no chains", () => {
  assert.deepEqual(render({ clusterEndpoints: [], internal: "reject", external: "reject", nodePort: 30080 }), {});
});

/** The probabilities with which packets that enter a chain get to each endpoint. */
function outcomes(rulesOf: (chain: string) => readonly string[], chain: string): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  let left = 1;
  for (const rule of rulesOf(chain)) {
    const taken = left * Number(/--probability (\S+)/.exec(rule)?.[1] ?? 1);
    left -= taken;
    const [, target = "", endpoint] = / ?-j (\S+)(?: --to-destination (\S+))?$/.exec(rule) ?? [];
    if (endpoint !== undefined) found.set(endpoint, taken);
    else for (const [one, share] of outcomes(rulesOf, target)) found.set(one, share * taken);
  }
  return found;
}

const MANY = Array.from({ length: 1000 }, (_, i) => `10.1.${i >> 8}.${i & 255}:80`).sort();

Deno.test("many endpoints have chains of some each, and equal shares", () => {
  const port = fakeServicePort("default/web:http", { clusterEndpoints: MANY });
  const rulesOf = (chain: string) => renderServiceChain(port, chain, fakeSettings());
  const chains = chainsOf(port), { cluster } = serviceChainNames(port);
  assert.equal(chains.at(-1), cluster);
  // The names of iptables' chains have at most 28 characters.
  assert.ok(chains.every((chain) => chain.length <= 28));
  assert.ok(chains.every((chain) => rulesOf(chain).length < 120), "a packet crosses few rules");
  const shares = outcomes(rulesOf, cluster);
  assert.deepEqual([...shares.keys()].sort(), MANY);
  for (const share of shares.values()) assert.ok(Math.abs(share - 0.001) < 1e-6, String(share));
});

Deno.test("a change of one endpoint among many writes the chains of two groups", () => {
  const names = serviceChainNames({ name: "default/web:http", protocol: "tcp" });
  const port = (clusterEndpoints: readonly string[]) => fakeServicePort("default/web:http", { clusterEndpoints });
  const before = port(MANY), after = port([...MANY.slice(1), "10.2.0.1:80"]);
  const changed = changedChains(before, after, names);
  assert.equal(changed.length, 3);
  const differing = [...new Set([...chainsOf(before), ...chainsOf(after)])].filter((chain) => {
    const of = (one: ServicePort) =>
      chainsOf(one).includes(chain) ? renderServiceChain(one, chain, PODS).join() : undefined;
    return of(before) !== of(after);
  });
  assert.deepEqual(differing.filter((chain) => !changed.includes(chain)), []);
});
