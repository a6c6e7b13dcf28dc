import assert from "node:assert/strict";
import {
  BASE,
  bothLayouts,
  isServiceChain,
  type Layout,
  serviceChainNames,
} from "../../../../backends/xtables/chains.ts";

Deno.test("the chains of a service port have kube-proxy's names", () => {
  // From kube-proxy's own golden tests: ns1/svc1:p80 over TCP.
  assert.deepEqual(serviceChainNames({ name: "ns1/svc1:p80", protocol: "tcp" }), {
    cluster: "KUBE-SVC-XPGD46QRK7WJZT7O",
    local: "KUBE-SVL-XPGD46QRK7WJZT7O",
    external: "KUBE-EXT-XPGD46QRK7WJZT7O",
    firewall: "KUBE-FW-XPGD46QRK7WJZT7O",
  });
});

Deno.test("the chains that packets enter have kube-proxy's names, besides Sluice's own", () => {
  assert.deepEqual(BASE, {
    services: "KUBE-SERVICES",
    nodePorts: "KUBE-NODEPORTS",
    postrouting: "KUBE-POSTROUTING",
    markMasquerade: "KUBE-MARK-MASQ",
    forward: "KUBE-FORWARD",
    proxyFirewall: "KUBE-PROXY-FIREWALL",
    externalServices: "KUBE-EXTERNAL-SERVICES",
    externalNodePorts: "KUBE-EXT-NODEPORTS",
    martians: "KUBE-MARTIANS",
    localhostNodePorts: "KUBE-SVC-LOCALHOST",
    relayed: "KUBE-SVC-RELAYED",
  });
});

Deno.test("two layouts together have the jumps and the chains of both", () => {
  const layout = (name: string): Layout => ({
    jumps: [{ table: "nat", from: "OUTPUT", rule: `-j ${name}` }],
    baseChains: { mangle: [`${name}-M`], filter: [`${name}-F`], nat: [`${name}-N`] },
    isServiceChain: (table, chain) => table === "nat" && chain === `${name}-S`,
  });
  const both = bothLayouts(layout("A"), layout("B"));
  assert.deepEqual(both.jumps.map(({ rule }) => rule), ["-j A", "-j B"]);
  assert.deepEqual(both.baseChains, { mangle: ["A-M", "B-M"], filter: ["A-F", "B-F"], nat: ["A-N", "B-N"] });
  assert.deepEqual(["A-S", "B-S", "C-S"].map((chain) => both.isServiceChain("nat", chain)), [true, true, false]);
  assert.equal(both.isServiceChain("filter", "A-S"), false);
});

Deno.test("only chains of services may be deleted", () => {
  for (const chain of ["KUBE-SVC-XPGD46QRK7WJZT7O", "KUBE-SEP-AAAA", "KUBE-SVC-TO-0a60", "KUBE-EXT-A", "KUBE-FW-A"]) {
    assert.equal(isServiceChain("nat", chain), true, chain);
  }
  for (const chain of ["KUBE-FIREWALL", "KUBE-KUBELET-CANARY", "KUBE-IPTABLES-HINT", "KUBE-MARK-DROP", "DOCKER"]) {
    assert.equal(isServiceChain("nat", chain), false, chain);
    assert.equal(isServiceChain("filter", chain), false, chain);
  }
  for (const chain of ["KUBE-SVC-A", "KUBE-EXT-A", "KUBE-FW-A"]) {
    assert.deepEqual([isServiceChain("filter", chain), isServiceChain("mangle", chain)], [true, false], chain);
  }
});
