/** The addresses to which Services limit their node ports, behind Sluice and behind KPNG. */
import assert from "node:assert/strict";
import type { Service } from "../../../../core/objects/cluster_object.ts";
import { createReceiver } from "../../../../kpng/receiving/mod.ts";
import type { ServiceState } from "../../../../kpng/store/mod.ts";
import { createGlobalView } from "../../../../kpng/views/global_view.ts";
import { createLocalView } from "../../../../kpng/views/local_view.ts";
import { difference, RESET, SYNC, type View } from "../../../../kpng/views/operations.ts";
import { endpoint, endpointSlice, service } from "../../../fakes/cluster_objects.ts";
import { createRecordingSink } from "../../../fakes/kpng.ts";

const ports = [{ name: "http", protocol: "tcp", port: 80, nodePort: 30080 }] as const;
const state = (fields: Partial<Service> = {}): ServiceState => ({
  namespace: "default",
  name: "web",
  service: service("default/web", { type: "NodePort", ports, ...fields }),
  slices: [endpointSlice("default/web-1", [endpoint("10.1.0.1")])],
});
const LIMITED = state({ own: { nodePortAddresses: "192.168.1.0/24" } });

/** The views of a Sluice in both scopes, and of KPNG. */
const SLUICE = [
  createGlobalView({ extended: true, nodeName: undefined }),
  createLocalView({ extended: true, node: { name: "node-1", zone: "" } }),
];
const KPNG = createGlobalView({ extended: false, nodeName: undefined });

/** A node that has a receiver, and watches servers. */
function node() {
  const sink = createRecordingSink();
  const receiver = createReceiver({ sink, nodeName: "node-1", inFull: false });
  return {
    watch(view: View, after: ServiceState, reset: Uint8Array<ArrayBuffer> | undefined) {
      receiver.restart();
      const change = { services: [{ before: undefined, after }], scoped: [] };
      for (const bytes of [...reset ? [reset] : [], ...difference(change, view), SYNC]) receiver.receive(bytes);
    },
    /** The Services reported since the last call, each as its node port and limit. */
    taken() {
      return sink.take().filter((line) => line.startsWith("set Service")).map((line) => {
        const { ports: [spec], own } = JSON.parse(line.slice(line.indexOf("{"))) as Service;
        return `${spec!.nodePort} at ${own?.nodePortAddresses}`;
      });
    },
  };
}

Deno.test("Sluice passes limits on, and node ports without one are open", () => {
  for (const view of SLUICE) {
    const { watch, taken } = node();
    watch(view, LIMITED, RESET);
    assert.deepEqual(taken(), ["30080 at 192.168.1.0/24"]);
    watch(view, state(), RESET);
    assert.deepEqual(taken(), ["30080 at undefined"]);
  }
});

Deno.test("behind KPNG, which knows no limits, node ports are open, limited if it passes the annotation on", () => {
  for (const reset of [RESET, undefined]) {
    const { watch, taken } = node();
    watch(KPNG, state(), reset);
    assert.deepEqual(taken(), ["30080 at undefined"]);
    watch(KPNG, LIMITED, reset);
    assert.deepEqual(taken(), ["30080 at 192.168.1.0/24"]);
  }
});
