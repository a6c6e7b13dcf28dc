import assert from "node:assert/strict";
import { createOutgoingState } from "../../../../core/channel/outgoing_state.ts";
import { fakeServicePort, fakeSettings } from "../../../fakes/service_port.ts";

Deno.test("endpoints that are gone are sent once, even if nothing else has changed", () => {
  const state = createOutgoingState();
  state.configure(fakeSettings());
  state.put("default/web|tcp", fakeServicePort("default/web"));
  state.start();
  const send = () => {
    const delta = state.next();
    if (delta) state.markSent(delta);
    return delta;
  };
  assert.ok(!("gone" in send()!));
  assert.equal(send(), undefined);
  state.addGone(["10.1.0.1:80"]);
  state.addGone(["10.1.0.2:80"]);
  assert.ok(!state.isSent());
  const delta = send()!;
  assert.deepEqual([delta.gone, delta.set, delta.base], [["10.1.0.1:80", "10.1.0.2:80"], [], 1]);
  assert.equal(send(), undefined);
  // Those that the worker has not got are part of the snapshot.
  state.addGone(["10.1.0.3:80"]);
  state.forgetSent();
  assert.deepEqual(send()!.gone, ["10.1.0.3:80"]);
  assert.equal(send(), undefined);
});

Deno.test("an endpoint that is used again before it was sent as gone is not gone", () => {
  const state = createOutgoingState(), web = fakeServicePort("default/web", { clusterEndpoints: ["10.1.0.1:80"] });
  state.configure(fakeSettings());
  state.put("default/web|tcp", web);
  state.start();
  state.markSent(state.next()!);
  state.put("default/web|tcp", fakeServicePort("default/web", { clusterEndpoints: ["10.1.0.2:80"] }));
  state.addGone(["10.1.0.1:80", "10.1.0.3:80"]);
  state.put("default/web|tcp", web);
  const { set, gone } = state.next()!;
  assert.deepEqual([set, gone], [[], ["10.1.0.3:80"]]);
});
