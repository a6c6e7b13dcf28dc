import assert from "node:assert/strict";
import type { FamilySettings, ServicePort } from "../../../../core/model/mod.ts";
import { serviceChainNames } from "../../../../backends/xtables/chains.ts";
import { chainsOf, renderServiceChain } from "../../../../backends/iptables/service_chains.ts";
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
