/** The endpoints that a node takes from KPNG's programs. */
import assert from "node:assert/strict";
import type { EndpointSlice } from "../../../../core/objects/mod.ts";
import { ENDPOINT, type EndpointMessage, OP_ITEM, SETS } from "../../../../kpng/messages/messages.ts";
import { createReceiver } from "../../../../kpng/receiving/mod.ts";
import { SYNC } from "../../../../kpng/views/operations.ts";
import { createRecordingSink } from "../../../fakes/kpng.ts";

/** The slices that a node assembles from one endpoint of its local state. */
function slicesOf(endpoint: EndpointMessage): readonly EndpointSlice[] {
  const sink = createRecordingSink(), receiver = createReceiver({ sink, nodeName: "here", inFull: false });
  const ref = { set: SETS.EndpointsSet, path: "default/web/pod-1" };
  receiver.receive(OP_ITEM.encode({ set: { ref, bytes: ENDPOINT.encode(endpoint) } }));
  receiver.receive(SYNC);
  return sink.take().filter((line) => line.startsWith("set EndpointSlice"))
    .map((line) => JSON.parse(line.slice(line.indexOf("{"))));
}

const IPS = { v4: ["10.1.0.1", "10.1.0.2"], v6: ["fd00::1"] };

Deno.test("the addresses of an endpoint are one endpoint in each family, the first of each", () => {
  const endpoints = slicesOf({ ips: IPS }).flatMap(({ endpoints }) => endpoints);
  assert.deepEqual(endpoints.map(({ address }) => address).sort(), ["10.1.0.1", "fd00::1"]);
});

Deno.test("an endpoint that no traffic of the node uses is ignored; one on the node is known by its flag", () => {
  assert.deepEqual(slicesOf({ ips: IPS, scopes: { internal: false, external: false } }), []);
  for (const scopes of [{ internal: true, external: false }, { internal: false, external: true }, undefined]) {
    const [slice] = slicesOf({ ips: IPS, scopes, local: true });
    assert.deepEqual(slice!.endpoints.map(({ nodeName, ready }) => [nodeName, ready]), [["here", true]]);
  }
});
