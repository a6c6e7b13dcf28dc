import fc from "fast-check";
import type { FamilySettings, ServicePort } from "../../core/model/mod.ts";
import { fakeServicePort, fakeSettings, fakeSources } from "../fakes/service_port.ts";

/** More service ports than a leaf of the dispatch holds, at adjacent and distant addresses. */
export const ports: fc.Arbitrary<ServicePort> = fc.record({
  index: fc.nat(90),
  changes: fc.record({
    clusterEndpoints: fc.constantFrom(["10.1.0.1:80"], ["10.1.0.1:80", "10.1.0.2:80"], []),
    localEndpoints: fc.constantFrom([], ["10.1.0.1:80"]),
    endpointsOnThisNode: fc.constantFrom([], ["10.1.0.1:80"]),
    internal: fc.constantFrom("cluster", "reject", "drop"),
    external: fc.constantFrom("cluster", "local", "reject", "drop"),
    nodePort: fc.constantFrom(0, 30000, 30001),
    nodePortPrefixes: fc.constantFrom(undefined, [], ["192.168.1.0/24"], ["192.168.2.0/24", "192.168.1.1/32"]),
    healthCheckNodePort: fc.constantFrom(0, 32000),
    externalIPs: fc.constantFrom([], ["192.0.2.1"]),
    loadBalancerIPs: fc.constantFrom([], ["192.0.2.2"], ["192.0.2.1"]),
    loadBalancerSources: fc.constantFrom(undefined, fakeSources(["203.0.113.0/24"])),
    affinitySeconds: fc.constantFrom(0, 60),
  }, { requiredKeys: [] }),
}).map(({ index, changes }) => {
  const near = index % 3 !== 0;
  const clusterIP = near ? `10.96.0.${index}` : `10.${index}.7.${index}`;
  return fakeServicePort(`default/s${index}:p`, { clusterIP, ...changes } as Partial<ServicePort>);
});

/** Settings that affect most rules. */
export const settings: fc.Arbitrary<FamilySettings> = fc.constantFrom(
  fakeSettings(),
  fakeSettings({ masqueradeAll: true }),
  fakeSettings({ localTraffic: { by: "source-prefix", prefix: "10.1.0.0/16" }, nodePortPrefixes: ["192.168.1.1/32"] }),
);
