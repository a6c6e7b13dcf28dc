import assert from "node:assert/strict";
import { servicePortKey } from "../../../core/model/mod.ts";
import type { RelayPlacement } from "../../../relay/mod.ts";
import { createCounters } from "../../../relay/counts.ts";
import { createListeners } from "../../../relay/listeners.ts";
import type { Target } from "../../../relay/target.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { fakeServicePort } from "../../fakes/service_port.ts";

const KEY = servicePortKey("default/web", "tcp");

/** Listeners on a system that gives out ports from 40001, and refuses what the test tells it to. */
function startLab(placement: RelayPlacement = { by: "redirect", udpAddress: "192.168.1.1" }) {
  const clock = createFakeClock();
  const counters = createCounters();
  const open = new Map<number, Target>(), opened: number[] = [];
  const refused = { error: undefined as string | undefined };
  let next = 40_000;
  const listeners = createListeners({
    ...{ family: "IPv4", placement, counters, clock },
    listen(place, target) {
      if (refused.error !== undefined) return Promise.reject(new Error(refused.error));
      const port = place.port === 0 ? ++next : place.port;
      if (open.has(port)) return Promise.reject(new Error("EADDRINUSE"));
      open.set(port, target);
      opened.push(port);
      return Promise.resolve({ port, close: () => open.delete(port) });
    },
  });
  const set = async (...servicePorts: ReturnType<typeof fakeServicePort>[]) => {
    for (const servicePort of servicePorts) listeners.assign(servicePort);
    await listeners.openMissing();
  };
  return { clock, counters, open, opened, refused, listeners, set };
}

Deno.test("a listener keeps its port while its service port changes, and serves the new endpoints", async () => {
  const { listeners, open, set } = startLab();
  await set(fakeServicePort("default/web"));
  await set(fakeServicePort("default/web", { clusterEndpoints: ["10.1.0.9:80"] }));
  assert.deepEqual(listeners.ports.get(KEY), { cluster: 40_001 });
  assert.deepEqual(open.get(40_001)!.servicePort.clusterEndpoints, ["10.1.0.9:80"]);
  await set(fakeServicePort("default/web", { external: "local", nodePort: 30080, internal: "reject" }));
  assert.deepEqual(listeners.ports.get(KEY), { cluster: 40_001, local: 40_002 });
  await set(fakeServicePort("default/web", { internal: "reject", external: "reject" }));
  assert.deepEqual(listeners.ports.get(KEY), { cluster: 40_001, local: 40_002 });
});

Deno.test("a deleted service port drains, and gets its port back if it returns meanwhile", async () => {
  const { clock, listeners, open, set, counters } = startLab();
  await set(fakeServicePort("default/web"));
  listeners.delete(KEY);
  clock.advance(4999);
  await set(fakeServicePort("default/web"));
  clock.advance(5000);
  assert.deepEqual([listeners.ports.get(KEY), [...open.keys()]], [{ cluster: 40_001 }, [40_001]]);
  listeners.delete(KEY);
  clock.advance(5000);
  assert.deepEqual([open.size, counters.listeners, listeners.keys()], [0, 0, []]);
});

Deno.test("a listener that cannot be opened is a problem of its service port, until a later attempt succeeds", async () => {
  const { counters, listeners, refused, set } = startLab();
  await set(fakeServicePort("default/fine"));
  refused.error = "EMFILE";
  await set(fakeServicePort("default/web"));
  assert.deepEqual(listeners.problems(), [{
    ...{ code: "not-relayed", servicePort: "default/web" },
    message: "cannot listen on 0.0.0.0:0: too many open files (raise LimitNOFILE)",
  }]);
  assert.deepEqual([...listeners.ports.keys()], [servicePortKey("default/fine", "tcp")]);
  await listeners.openMissing();
  refused.error = undefined;
  await listeners.openMissing();
  assert.deepEqual(listeners.problems(), []);
  assert.deepEqual(listeners.ports.get(KEY), { cluster: 40_002 });
  assert.deepEqual([counters.listeners, counters.listenersFailed], [2, 2]);
});

Deno.test("the problem of a service port ends with it", async () => {
  const { listeners, refused, set } = startLab();
  refused.error = "EMFILE";
  await set(fakeServicePort("default/web"));
  listeners.delete(KEY);
  assert.deepEqual(listeners.problems(), []);
});

Deno.test("the problem of a node port ends when its service port does not want it any more", async () => {
  const { listeners, refused, set } = startLab({ by: "localhost-node-ports", addresses: ["127.0.0.1"] });
  refused.error = "EADDRINUSE";
  await set(fakeServicePort("default/web", { nodePort: 30001 }));
  assert.equal(listeners.problems().length, 1);
  listeners.assign(fakeServicePort("default/web"));
  assert.deepEqual(listeners.problems(), []);
});

Deno.test("a renewal opens the TCP listeners again on their ports; UDP listeners stay, since their flows would end", async () => {
  const { listeners, opened, counters, set } = startLab();
  await set(fakeServicePort("default/web"), fakeServicePort("default/dns", { protocol: "udp" }));
  await listeners.renew();
  assert.deepEqual([opened, counters.listeners], [[40_001, 40_002, 40_001], 2]);
});

Deno.test("a service port whose listener cannot be opened again has no port until it can", async () => {
  const { listeners, refused, set } = startLab();
  await set(fakeServicePort("default/web"));
  refused.error = "EMFILE";
  await listeners.renew();
  assert.deepEqual([listeners.ports.get(KEY), listeners.problems().length], [undefined, 1]);
  refused.error = undefined;
  await listeners.openMissing();
  assert.deepEqual(listeners.ports.get(KEY), { cluster: 40_002 });
});

Deno.test("the end closes all listeners, also those that drain", async () => {
  const { clock, listeners, open, set } = startLab();
  await set(fakeServicePort("default/web"), fakeServicePort("default/api"));
  listeners.delete(KEY);
  listeners.closeAll();
  assert.deepEqual([open.size, clock.pending()], [0, []]);
});

Deno.test("node ports on loopback addresses move at once, also if two service ports swap theirs", async () => {
  const { clock, listeners, open, set } = startLab({ by: "localhost-node-ports", addresses: ["127.0.0.1"] });
  const at = (name: string, nodePort: number) => fakeServicePort(name, { nodePort });
  await set(at("default/one", 30001), at("default/two", 30002));
  await set(at("default/one", 30002), at("default/two", 30001));
  assert.deepEqual(listeners.problems(), []);
  assert.deepEqual([...open].map(([port, { key }]) => [port, key]), [[30002, "default/one|tcp"], [
    30001,
    "default/two|tcp",
  ]]);
  listeners.delete("default/one|tcp");
  await set(at("default/two", 30002));
  assert.deepEqual([...open.keys()], [30002]);
  await set(at("default/two", 0));
  assert.deepEqual([open.size, listeners.ports.size], [0, 0]);
  listeners.delete("default/two|tcp");
  assert.deepEqual(clock.pending(), [], "nothing drains");
});
