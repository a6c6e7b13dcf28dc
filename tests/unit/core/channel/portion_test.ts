import assert from "node:assert/strict";
import { createOutgoingState, type OutgoingState } from "../../../../core/channel/outgoing_state.ts";
import { type ServicePort, servicePortKey } from "../../../../core/model/mod.ts";
import { fakeServicePort, fakeSettings } from "../../../fakes/service_port.ts";

/** A service port of 4,000 elements. */
function large(name: string, changes: Partial<ServicePort> = {}): ServicePort {
  const clusterEndpoints = Array.from({ length: 4000 }, (_, i) => `10.${i >> 8}.${i & 255}.1:80`);
  return fakeServicePort(name, { clusterEndpoints, ...changes });
}

/** A state whose service ports have been sent. */
function sent(...ports: readonly ServicePort[]): OutgoingState {
  const state = createOutgoingState();
  state.configure(fakeSettings());
  put(state, ...ports);
  state.start();
  names(state);
  return state;
}

function put(state: OutgoingState, ...ports: readonly ServicePort[]): void {
  for (const port of ports) state.put(servicePortKey(port.name, port.protocol), port);
}

/** Sends the next delta, and returns what it sets and deletes. */
function names(state: OutgoingState): readonly string[] {
  const delta = state.next()!;
  state.markSent(delta);
  return [...delta.set.map(({ name }) => name), ...delta.deleted];
}

Deno.test("small changes go before large ones, which follow in portions", () => {
  const state = sent();
  put(state, large("a"), large("b"), large("c"), fakeServicePort("small"));
  assert.deepEqual(names(state), ["small", "a", "b"]);
  assert.equal(state.pending(), 1);
  put(state, fakeServicePort("later", { clusterIP: "10.96.0.11" }), large("d"));
  assert.deepEqual(names(state), ["later", "c", "d"]);
  assert.ok(state.isSent());
});

Deno.test("a large change is not held up by small ones that keep coming", () => {
  const state = sent();
  put(state, large("a"), large("b"), large("c"), large("d"));
  for (let i = 0; !state.isSent(); i++) {
    assert.ok(i < 4);
    put(state, fakeServicePort("small", { port: 1 + i }));
    assert.equal(names(state)[0], "small");
  }
});

Deno.test("what was cut is compared with what the worker has, so that a reverted change is not sent", () => {
  const state = sent(large("b", { port: 1 }), large("c", { port: 2 }));
  put(state, large("a"), large("b", { port: 1, nodePort: 30001 }), large("c", { port: 2, nodePort: 30002 }));
  assert.deepEqual(names(state), ["a", "b"]);
  put(state, large("c", { port: 2 }));
  assert.ok(state.isSent());
  state.put("b|tcp", undefined);
  assert.deepEqual(names(state), ["b|tcp"]);
});

for (const after of [large("holder", { clusterIP: "10.96.0.1" }), undefined]) {
  Deno.test(`a large change that ${after ? "gives up" : "deletes"} a frontend goes with the one that takes it`, () => {
    const before = large("holder", { clusterIP: "10.96.0.1", externalIPs: ["192.0.2.1"] });
    const state = sent(before);
    put(
      state,
      ...["a", "b"].map((name, i) =>
        large(name, { clusterIP: `10.96.1.${i}`, clusterEndpoints: large("").clusterEndpoints.slice(i + 1) })
      ),
    );
    state.put("holder|tcp", after);
    put(state, fakeServicePort("taker", { externalIPs: ["192.0.2.1"] }));
    assert.deepEqual(new Set(names(state)), new Set(["taker", "a", "b", after ? "holder" : "holder|tcp"]));
    assert.ok(state.isSent());
  });
}
