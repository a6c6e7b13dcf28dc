import assert from "node:assert/strict";
import { createHealthCheckPlanner } from "../../../../core/planning/mod.ts";
import type { ClusterObject, Service } from "../../../../core/objects/cluster_object.ts";
import { endpoint, endpointSlice, service, terminatingEndpoint } from "../../../fakes/cluster_objects.ts";
import { fakeTracking } from "../../../fakes/tracking.ts";

function createPlanned() {
  const tracking = fakeTracking();
  const planner = createHealthCheckPlanner("here", tracking);
  return {
    set(...objects: ClusterObject[]) {
      for (const object of objects) tracking.set(object);
      return planner(tracking.take());
    },
    delete(name: string) {
      tracking.delete({ kind: "Service", namespace: "default", name });
      return planner(tracking.take());
    },
  };
}

const web: Service = service("default/web", {
  type: "LoadBalancer",
  clusterIPs: ["10.0.0.1", "fd00::1"],
  externalPolicyLocal: true,
  healthCheckNodePort: 32000,
});
const check = (IPv4: number, IPv6 = 0) => ({
  namespace: "default",
  name: "web",
  port: 32000,
  localReadyEndpoints: { IPv4, IPv6 },
});
const here = { nodeName: "here" };

Deno.test("each address of ready endpoints on this node counts once", () => {
  const planned = createPlanned();
  const { set } = planned.set(
    web,
    endpointSlice("default/web-a", [
      endpoint("10.1.0.1", here),
      endpoint("10.1.0.2", here),
      endpoint("10.1.0.3"),
      terminatingEndpoint("10.1.0.4", here),
    ], {
      ports: [{ name: "http", protocol: "tcp", port: 8080 }, { name: "admin", protocol: "tcp", port: 9090 }],
    }),
    endpointSlice("default/web-b", [endpoint("10.1.0.2", here)]),
    endpointSlice("default/web-c", [endpoint("10.1.0.5", here)], { ports: [] }),
  );
  assert.deepEqual(set, [check(2)]);
});

Deno.test("only the families of the service are counted, each on its own", () => {
  const slices = [
    endpointSlice("default/web-a", [endpoint("10.1.0.1", here), endpoint("10.1.0.2", here)]),
    endpointSlice("default/web-b", [endpoint("fd00:1::1", here)], { family: "IPv6" }),
  ];
  assert.deepEqual(createPlanned().set(web, ...slices).set, [check(2, 1)]);
  const { set } = createPlanned().set({ ...web, clusterIPs: ["fd00::1"] }, ...slices);
  assert.deepEqual(set.map(({ localReadyEndpoints }) => localReadyEndpoints), [{ IPv6: 1 }]);
});

Deno.test("changes are returned once, and services without a health check never", () => {
  const planned = createPlanned();
  assert.deepEqual(planned.set(web, service("default/other", { healthCheckNodePort: 32001 })).set, [check(0)]);
  assert.deepEqual(planned.set(endpointSlice("default/web-a", [endpoint("10.1.0.1")])), { set: [], deleted: [] });
  assert.deepEqual(planned.set(endpointSlice("default/web-a", [endpoint("10.1.0.1", here)])).set, [check(1)]);
  assert.deepEqual(planned.set({ ...web, externalPolicyLocal: false }).deleted, ["default/web"]);
  planned.set(web);
  assert.deepEqual(planned.delete("web").deleted, ["default/web"]);
});
