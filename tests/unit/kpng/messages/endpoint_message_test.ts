import assert from "node:assert/strict";
import type { SliceEndpoint } from "../../../../core/objects/mod.ts";
import { eachEndpoint, extendedEndpointMessage } from "../../../../kpng/messages/object_messages.ts";
import { ENDPOINT_INFO } from "../../../../kpng/messages/messages.ts";
import { readGlobalEndpoint } from "../../../../kpng/receiving/mod.ts";
import { endpoint, endpointSlice } from "../../../fakes/cluster_objects.ts";

const POD = { namespace: "default", name: "web-1", uid: "u1" };

/** The endpoint that another Sluice receives. */
function relayed(sent: SliceEndpoint): SliceEndpoint {
  const [one] = eachEndpoint([endpointSlice("default/web-1", [sent])]);
  const message = { namespace: "default", serviceName: "web", endpoint: extendedEndpointMessage(one!, false) };
  const bytes = ENDPOINT_INFO.encode(message);
  const [received] =
    readGlobalEndpoint(ENDPOINT_INFO.decode(bytes), { inFull: false, problem: assert.fail })!.endpoints;
  return received!;
}

Deno.test("another Sluice receives the pod of an endpoint if it was kept", () => {
  assert.deepEqual(relayed({ ...endpoint("10.1.0.1"), pod: POD }).pod, POD);
  assert.equal("pod" in relayed(endpoint("10.1.0.1")), false);
  assert.equal("pod" in relayed({ ...endpoint("10.1.0.1"), pod: { ...POD, namespace: "other" } }), false);
});
