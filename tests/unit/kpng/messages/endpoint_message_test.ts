import assert from "node:assert/strict";
import type { SliceEndpoint } from "../../../../core/objects/mod.ts";
import {
  eachEndpoint,
  endpointInfoMessage,
  endpointMessage,
  extendedEndpointMessage,
} from "../../../../kpng/messages/object_messages.ts";
import { ENDPOINT_INFO } from "../../../../kpng/messages/messages.ts";
import { readGlobalEndpoint } from "../../../../kpng/receiving/mod.ts";
import { endpoint, endpointSlice } from "../../../fakes/cluster_objects.ts";

const SERVICE = { namespace: "default", name: "web" } as Parameters<typeof endpointInfoMessage>[0];
const POD = { namespace: "default", name: "web-1", uid: "u1" };

/** The endpoint that another Sluice receives. */
function relayed(sent: SliceEndpoint, inFull = false): SliceEndpoint {
  const [one] = eachEndpoint([endpointSlice("default/web-1", [sent])]);
  const message = endpointInfoMessage(SERVICE, one!, extendedEndpointMessage(one!, false));
  const bytes = ENDPOINT_INFO.encode(message);
  const [received] = readGlobalEndpoint(ENDPOINT_INFO.decode(bytes), { inFull, problem: assert.fail })!.endpoints;
  return received!;
}

Deno.test("another Sluice receives the pod of an endpoint if it was kept", () => {
  assert.deepEqual(relayed({ ...endpoint("10.1.0.1"), pod: POD }).pod, POD);
  assert.equal("pod" in relayed(endpoint("10.1.0.1")), false);
  assert.equal("pod" in relayed({ ...endpoint("10.1.0.1"), pod: { ...POD, namespace: "other" } }), false);
});

Deno.test("another Sluice receives everything about an endpoint, to pass it on", () => {
  const plain = endpoint("10.1.0.1");
  const table: readonly SliceEndpoint[] = [
    plain,
    { ...plain, ready: false },
    { ...plain, ready: false, serving: false, terminating: true },
    { ...plain, nodeName: "node-b", zone: "zone-a", zoneHints: ["zone-a", "zone-b"], nodeHints: ["node-b"] },
    { ...plain, details: { hostname: "web-1", podName: "web-1" }, pod: POD },
  ];
  for (const sent of table) assert.deepEqual({ ...relayed(sent, true) }, { ...sent });
});

Deno.test("KPNG's programs receive the host name of an endpoint", () => {
  const slice = endpointSlice("default/web-1", [{
    ...endpoint("10.1.0.1"),
    details: { podName: "", hostname: "web-1" },
  }]);
  const [one] = eachEndpoint([slice]);
  const { hostname, ips } = endpointMessage(one!, undefined);
  assert.deepEqual([hostname, ips], ["web-1", { v4: ["10.1.0.1"], v6: [] }]);
});
