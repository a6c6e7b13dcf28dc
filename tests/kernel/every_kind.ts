import type { Family, FamilySettings, ServicePort } from "../../core/model/mod.ts";
import { canonicalPrefix, hostPrefix } from "../../platform/mod.ts";
import { fakeServicePort, fakeSources } from "../fakes/service_port.ts";
import { nftSettings } from "../unit/backends/nftables/host.ts";

const ADDRESSES = {
  IPv4: { address: (network: number, host: number) => `10.${network}.0.${host}`, length: 16, loopback: "127.0.0.1/32" },
  IPv6: {
    address: (network: number, host: number) =>
      host === 0 ? `fd00:${network}::` : `fd00:${network}::${host.toString(16)}`,
    length: 64,
    loopback: "::1/128",
  },
} as const;

/** Service ports that together use every kind of rule and element. */
export function everyKindOfPort(family: Family): ServicePort[] {
  const { address, length } = ADDRESSES[family];
  const endpoint = (host: number) =>
    address(1, host).includes(":") ? `[${address(1, host)}]:80` : `${address(1, host)}:80`;
  const three = [1, 2, 3].map(endpoint);
  /** More external addresses than have slots of their own. */
  const many = (first: number) => Array.from({ length: 12 }, (_, i) => address(8, first + i + 1));
  const everyLength = Array.from({ length: length * 2 }, (_, i) => canonicalPrefix(`${address(5, 5)}/${i + 1}`)!);
  const manyRanges = Array.from({ length: 150 }, (_, i) => hostPrefix(address(5, i + 1)));
  const all: Partial<ServicePort>[] = [
    {},
    { protocol: "udp" },
    { protocol: "sctp" },
    { internal: "reject", external: "reject", clusterEndpoints: [] },
    { internal: "drop", external: "drop", nodePort: 30004 },
    { external: "cluster", nodePort: 30005 },
    { external: "local", nodePort: 30006, localEndpoints: three.slice(1), loadBalancerIPs: [address(9, 6)] },
    {
      external: "cluster",
      loadBalancerIPs: [address(9, 7)],
      loadBalancerSources: fakeSources(
        [`${address(5, 0)}/${length}`, `${address(6, 6)}/${length * 2}`],
        address(6, 6),
      ),
    },
    ...[everyLength, many(60).map(hostPrefix).concat(everyLength), manyRanges].map((
      ranges,
      i,
    ): Partial<ServicePort> => ({
      external: "cluster",
      loadBalancerIPs: i === 1 ? many(80) : [address(9, 30 + i)],
      loadBalancerSources: fakeSources(ranges),
    })),
    { affinitySeconds: 10_800, external: "cluster", nodePort: 30008, endpointsOnThisNode: [endpoint(1)] },
    { affinitySeconds: 90, external: "local", localEndpoints: three.slice(2), nodePort: 30009, protocol: "udp" },
    { affinitySeconds: 7, external: "drop", nodePort: 30010 },
    { balance: { algorithm: "round-robin" }, external: "cluster", nodePort: 30011 },
    { balance: { algorithm: "consistent-hash", hash: "flow" }, external: "cluster", nodePort: 30012 },
    {
      balance: { algorithm: "consistent-hash", hash: "client", localWeights: [1, 3] },
      external: "local",
      localEndpoints: three.slice(1),
      loadBalancerIPs: [address(9, 13)],
      protocol: "udp",
    },
    { balance: { algorithm: "random", clusterWeights: [3, 0, 1] }, protocol: "sctp" },
    ...[30020, 30021, 30022, 30023, 30024].map((nodePort, i): Partial<ServicePort> => ({
      nodePort,
      nodePortPrefixes: [`${address(3, 0)}/${length}`, `${address(2, 1)}/${length * 2}`].slice(i % 2),
      ...([
        { external: "cluster" },
        { external: "local", localEndpoints: three.slice(1) },
        { external: "drop", affinitySeconds: 60, protocol: "udp" },
        { internal: "reject", external: "reject", clusterEndpoints: [] },
        { external: "cluster", balance: { algorithm: "round-robin" } },
      ] as const)[i]!,
    })),
    ...(["round-robin", "random", "consistent-hash"] as const).flatMap((algorithm) =>
      [undefined, [5, 1, 4]].map((clusterWeights): Partial<ServicePort> => ({
        balance: { algorithm, hash: algorithm === "consistent-hash" ? "flow" : undefined, clusterWeights },
        affinitySeconds: 60,
      }))
    ),
    { balance: { algorithm: "consistent-hash", hash: "client" }, affinitySeconds: 60, protocol: "udp" },
    { external: "cluster", externalIPs: many(0) },
    { external: "local", localEndpoints: three.slice(1), loadBalancerIPs: many(20), protocol: "udp" },
    { external: "cluster", externalIPs: many(40), balance: { algorithm: "consistent-hash", hash: "flow" } },
  ];
  return all.map((changes, i) =>
    fakeServicePort(`default/s${i}:p`, {
      clusterIP: address(96, i),
      clusterEndpoints: three,
      endpointsOnThisNode: three.slice(1),
      external: "reject",
      ...changes,
    })
  );
}

/** Settings that together use every rule of the base chains. */
export function everyKindOfSettings(family: Family): FamilySettings[] {
  const { address, length, loopback } = ADDRESSES[family];
  return [
    nftSettings({
      nodeIP: address(2, 1),
      localTraffic: { by: "source-prefix", prefix: `${address(1, 0)}/${length}` },
      nodePortPrefixes: [`${address(2, 1)}/${length * 2}`, `${address(3, 0)}/${length}`, loopback],
      serviceRanges: [`${address(96, 0)}/${length}`, `${address(97, 1)}/${length * 2}`],
    }),
    nftSettings({
      nodeIP: address(6, 6),
      localTraffic: { by: "bridge", interface: "cbr0" },
      nodePortPrefixes: undefined,
      serviceRanges: [`${address(96, 0)}/${length}`],
      countsAttempts: true,
    }),
    nftSettings({
      localTraffic: { by: "interface-prefix", prefix: "veth" },
      nodePortPrefixes: [],
      masqueradeMark: 2 ** 31,
    }),
    nftSettings({ localTraffic: { by: "none" }, masqueradeAll: true, conntrackTcpLiberal: true, nodePortPrefixes: [] }),
    nftSettings({
      localTraffic: { by: "none" },
      nodePortPrefixes: undefined,
      countTraffic: true,
    }),
  ];
}
