import assert from "node:assert/strict";
import { isServiceChain, serviceChainNames } from "../../../../backends/xtables/chains.ts";

Deno.test("the chains of a service port have kube-proxy's names", () => {
  // From kube-proxy's own golden tests: ns1/svc1:p80 over TCP.
  assert.deepEqual(serviceChainNames({ name: "ns1/svc1:p80", protocol: "tcp" }), {
    cluster: "KUBE-SVC-XPGD46QRK7WJZT7O",
    local: "KUBE-SVL-XPGD46QRK7WJZT7O",
    external: "KUBE-EXT-XPGD46QRK7WJZT7O",
    firewall: "KUBE-FW-XPGD46QRK7WJZT7O",
  });
});

Deno.test("only chains of services may be deleted", () => {
  for (const chain of ["KUBE-SVC-XPGD46QRK7WJZT7O", "KUBE-SEP-AAAA", "KUBE-SVC-TO-0a60", "KUBE-EXT-A", "KUBE-FW-A"]) {
    assert.equal(isServiceChain("nat", chain), true, chain);
  }
  for (const chain of ["KUBE-FIREWALL", "KUBE-KUBELET-CANARY", "KUBE-IPTABLES-HINT", "KUBE-MARK-DROP", "DOCKER"]) {
    assert.equal(isServiceChain("nat", chain), false, chain);
    assert.equal(isServiceChain("filter", chain), false, chain);
  }
});
