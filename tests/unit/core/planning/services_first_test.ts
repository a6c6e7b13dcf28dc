import assert from "node:assert/strict";
import { servicesFirst } from "../../../../core/planning/mod.ts";
import type { Service } from "../../../../core/objects/cluster_object.ts";
import { createServiceTracker } from "../../../../core/tracking/trackers.ts";
import { service } from "../../../fakes/cluster_objects.ts";

function firstOf(count: number, ...special: Service[]): readonly string[] {
  const services = createServiceTracker();
  for (let i = 0; i < count; i++) services.set(`default/web-${i}`, service(`default/web-${i}`));
  for (const one of special) services.set(`${one.namespace}/${one.name}`, one);
  return servicesFirst(services);
}

Deno.test("with many services, the API and cluster DNS come first, by name or by label", () => {
  const first = [
    service("dns/coredns"),
    service("default/kubernetes"),
    service("kube-system/kube-dns"),
    service("kube-system/rke2-coredns", { isClusterDNS: true }),
  ];
  assert.deepEqual(firstOf(1000, service("other/kubernetes"), ...first), [
    "default/kubernetes",
    "kube-system/kube-dns",
    "kube-system/rke2-coredns",
    "dns/coredns",
  ]);
});

Deno.test("with few services, none comes first", () => {
  for (const [others, first] of [[98, []], [499, []], [500, ["default/kubernetes"]]] as const) {
    assert.deepEqual(firstOf(others, service("default/kubernetes")), first);
  }
});

Deno.test("many labelled services do not displace those of the system", () => {
  const labelled = Array.from({ length: 300 }, (_, i) => service(`tenant/s${i}`, { isClusterDNS: true }));
  const first = firstOf(1000, ...labelled, service("kube-system/kube-dns"));
  assert.equal(first[0], "kube-system/kube-dns");
  assert.equal(first.length, 100);
});
