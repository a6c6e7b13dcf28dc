/** The addresses to which Services limit their node ports, behind servers that know them and servers that do not. */
import assert from "node:assert/strict";
import type { Service } from "../../../../core/objects/cluster_object.ts";
import { createReceiver } from "../../../../kpng/receiving/mod.ts";
import type { ServiceState } from "../../../../kpng/store/service_state.ts";
import { createGlobalView } from "../../../../kpng/views/global_view.ts";
import { createLocalView } from "../../../../kpng/views/local_view.ts";
import { difference, EXTENDED_RESET, RESET, SYNC, type View } from "../../../../kpng/views/operations.ts";
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

/** A node that has a receiver, and watches one server after another. */
function node() {
  const sink = createRecordingSink();
  const receiver = createReceiver({ sink, nodeName: "node-1", inFull: false });
  return {
    watch(server: string, view: View, after: ServiceState, reset: Uint8Array<ArrayBuffer> | undefined) {
      receiver.restart(server);
      const change = { services: [{ before: undefined, after }], scoped: [] };
      for (const bytes of [...reset ? [reset] : [], ...difference(change, view), SYNC]) receiver.receive(bytes);
    },
    /** The Services reported since the last call, each as its node port and limit, and the problems. */
    taken() {
      const lines = sink.take();
      const services = lines.filter((line) => line.startsWith("set Service")).map((line) => {
        const { ports: [spec], own } = JSON.parse(line.slice(line.indexOf("{"))) as Service;
        return `${spec!.nodePort} at ${own?.nodePortAddresses}`;
      });
      return [...services, ...lines.filter((line) => line.startsWith("problem"))];
    },
  };
}

Deno.test("a server of this version passes limits on, and node ports without one are open", () => {
  for (const view of SLUICE) {
    const { watch, taken } = node();
    watch("a:1", view, LIMITED, EXTENDED_RESET);
    assert.deepEqual(taken(), ["30080 at 192.168.1.0/24"]);
    watch("a:1", view, state(), EXTENDED_RESET);
    assert.deepEqual(taken(), ["30080 at undefined"]);
  }
});

Deno.test("behind an older Sluice, node ports are closed until a server knows limits, and a problem names the server", () => {
  for (const view of SLUICE) {
    const { watch, taken } = node();
    watch("old:1", view, state(), RESET);
    const [closed, problem, ...others] = taken();
    assert.equal(closed, "0 at undefined");
    assert.match(problem!, /old:1.*the node ports of 1 Service are closed/);
    assert.deepEqual(others, []);
    watch("new:1", view, state(), EXTENDED_RESET);
    assert.deepEqual(taken(), ["30080 at undefined"]);
    watch("old:1", view, state(), RESET);
    assert.equal(taken()[0], "0 at undefined");
  }
});

Deno.test("an older Sluice whose Services have no node ports is no problem", () => {
  const { watch, taken } = node();
  watch("old:1", SLUICE[0]!, state({ ports: [{ ...ports[0], nodePort: 0 }] }), RESET);
  assert.deepEqual(taken(), ["0 at undefined"]);
});

Deno.test("behind KPNG, which knows no limits, node ports are open, limited if it passes the annotation on", () => {
  for (const reset of [RESET, undefined]) {
    const { watch, taken } = node();
    watch("kpng:1", KPNG, state(), reset);
    assert.deepEqual(taken(), ["30080 at undefined"]);
    watch("kpng:1", KPNG, LIMITED, reset);
    assert.deepEqual(taken(), ["30080 at 192.168.1.0/24"]);
  }
});
