import assert from "node:assert/strict";
import { SET_KINDS, setName, setOptions, SETS } from "../../../../backends/ipvs/sets.ts";

const OF_FAMILY = "family inet hashsize 1024 maxelem 65536";

/** The sets of kube-proxy, and one of Sluice: the name in IPv4 and in IPv6, how it is created in IPv4, and its comment. */
const EXPECTED = `
KUBE-LOOP-BACK | KUBE-6-LOOP-BACK | hash:ip,port,ip ${OF_FAMILY} | endpoints dst ip:port, source ip for solving hairpin purpose
KUBE-CLUSTER-IP | KUBE-6-CLUSTER-IP | hash:ip,port ${OF_FAMILY} | service cluster ip + port for masquerade purpose
KUBE-EXTERNAL-IP | KUBE-6-EXTERNAL-IP | hash:ip,port ${OF_FAMILY} | service external ip + port for masquerade and filter purpose
KUBE-EXTERNAL-IP-LOCAL | KUBE-6-EXTERNAL-IP-LOCAL | hash:ip,port ${OF_FAMILY} | service external ip + port with externalTrafficPolicy=local
KUBE-LOAD-BALANCER | KUBE-6-LOAD-BALANCER | hash:ip,port ${OF_FAMILY} | service lb portal
KUBE-LOAD-BALANCER-LOCAL | KUBE-6-LOAD-BALANCER-LOCAL | hash:ip,port ${OF_FAMILY} | service load balancer ip + port with externalTrafficPolicy=local
KUBE-LOAD-BALANCER-FW | KUBE-6-LOAD-BALANCER-FW | hash:ip,port ${OF_FAMILY} | service load balancer ip + port for load balancer with sourceRange
KUBE-LOAD-BALANCER-SOURCE-IP | KUBE-6-LOAD-BALANCER-SOURCE-IP | hash:ip,port,ip ${OF_FAMILY} | service load balancer ip + port + source IP for packet filter purpose
KUBE-LOAD-BALANCER-SOURCE-CIDR | KUBE-6-LOAD-BALANCER-SOURCE-CID | hash:ip,port,net ${OF_FAMILY} | service load balancer ip + port + source cidr for packet filter purpose
KUBE-NODE-PORT-TCP | KUBE-6-NODE-PORT-TCP | bitmap:port range 0-65535 | nodeport TCP port for masquerade purpose
KUBE-NODE-PORT-LOCAL-TCP | KUBE-6-NODE-PORT-LOCAL-TCP | bitmap:port range 0-65535 | nodeport TCP port with externalTrafficPolicy=local
KUBE-NODE-PORT-UDP | KUBE-6-NODE-PORT-UDP | bitmap:port range 0-65535 | nodeport UDP port for masquerade purpose
KUBE-NODE-PORT-LOCAL-UDP | KUBE-6-NODE-PORT-LOCAL-UDP | bitmap:port range 0-65535 | nodeport UDP port with externalTrafficPolicy=local
KUBE-NODE-PORT-SCTP-HASH | KUBE-6-NODE-PORT-SCTP-HASH | hash:ip,port ${OF_FAMILY} | nodeport SCTP port for masquerade purpose with type hash ip:port
KUBE-NODE-PORT-LOCAL-SCTP-HASH | KUBE-6-NODE-PORT-LOCAL-SCTP-HAS | hash:ip,port ${OF_FAMILY} | nodeport SCTP port with externalTrafficPolicy=local with type hash ip:port
KUBE-HEALTH-CHECK-NODE-PORT | KUBE-6-HEALTH-CHECK-NODE-PORT | bitmap:port range 0-65535 | health check node port
KUBE-IPVS-IPS | KUBE-6-IPVS-IPS | hash:ip ${OF_FAMILY} | service addresses of this node
`;

Deno.test("sets have kube-proxy's names, types and comments, so that each program can take over from the other", () => {
  const lines = SET_KINDS.map((kind) => {
    const names = [setName(kind, "IPv4"), setName(kind, "IPv6")];
    return [...names, setOptions(kind, "IPv4"), SETS[kind].comment.replace("Kubernetes ", "")].join(" | ");
  });
  assert.deepEqual(lines, EXPECTED.trim().split("\n"));
  assert.equal(setOptions("clusterIP", "IPv6"), "hash:ip,port family inet6 hashsize 1024 maxelem 65536");
  assert.ok(SET_KINDS.every((kind) => SETS[kind].comment.startsWith("Kubernetes ")));
});
