import assert from "node:assert/strict";
import { openConnection } from "../../../../kpng/client/mod.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { createPodReader } from "../../../../workers/cri/mod.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import {
  type FakeContainerRuntime,
  type FakeSandbox,
  startFakeContainerRuntime,
} from "../../../fakes/container_runtime.ts";

const WEB: FakeSandbox = { id: "s1", namespace: "default", name: "web", uid: "u1", ips: ["10.1.0.7", "fd00:0:0::7"] };
const LIVE_WEB = { namespace: "default", name: "web", uid: "u1", isStatic: false, usesHostNetwork: false };

/** Runs a test with a reader of a runtime. */
async function withReader(
  test: (read: ReturnType<typeof createPodReader>, runtime: FakeContainerRuntime) => Promise<void>,
  appliesFilter?: boolean,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/cri.sock`;
  const runtime = await startFakeContainerRuntime(path, appliesFilter);
  const connection = await openConnection({
    address: { kind: "unix", path },
    tls: undefined,
    clock: systemClock,
    onEnd: () => {},
  });
  try {
    await test(createPodReader(connection, createFakeClock()), runtime);
  } finally {
    connection.close();
    await runtime.close();
    await Deno.remove(folder, { recursive: true });
  }
}

for (const appliesFilter of [true, false]) {
  const runtime = `a runtime that ${appliesFilter ? "lists what is asked for" : "lists all"}`;
  Deno.test(`a ready sandbox is a pod with its addresses in canonical form, the newest one of each pod: ${runtime}`, () =>
    withReader(async (read, runtime) => {
      runtime.run(
        { ...WEB, id: "s0", ips: ["10.1.0.6"], createdAt: 1_763_800_000_000_000_000n },
        { ...WEB, createdAt: 1_763_800_000_000_000_001n },
        { ...WEB, id: "s2", uid: "u2", name: "gone", isNotReady: true },
      );
      assert.deepEqual(await read(), [{ ...LIVE_WEB, addresses: ["10.1.0.7", "fd00::7"] }]);
    }, appliesFilter));
}

Deno.test("pods of the node's network, static pods and pods without a network are told apart", () =>
  withReader(async (read, runtime) => {
    runtime.run(
      { id: "s9", namespace: "kube-system", name: "etcd", uid: "u9", usesHostNetwork: true, configSource: "file" },
      { ...WEB, ips: [], configSource: "" },
    );
    const pods = [
      { namespace: "kube-system", name: "etcd", uid: "u9", isStatic: true, addresses: [], usesHostNetwork: true },
      { ...LIVE_WEB, addresses: [] },
    ];
    assert.deepEqual([await read(), await read()], [pods, pods]);
    assert.deepEqual(runtime.asked, ["s9", "s1", "s1"], "a pod of the node's network will have no address");
  }));

Deno.test("a sandbox is asked for its network until it has one", () =>
  withReader(async (read, runtime) => {
    runtime.run({ ...WEB, ips: [] });
    await read();
    runtime.run(WEB);
    await read();
    assert.deepEqual(await read(), [{ ...LIVE_WEB, addresses: ["10.1.0.7", "fd00::7"] }]);
    assert.deepEqual(runtime.asked, ["s1", "s1"]);
  }));

Deno.test("a sandbox that ends between list and status is left out, one with another failure has unknown addresses", () =>
  withReader(async (read, runtime) => {
    runtime.run(WEB);
    runtime.refuse("status", 5);
    assert.deepEqual(await read(), []);
    runtime.refuse("status", 2);
    assert.deepEqual(await read(), [{ ...LIVE_WEB, addresses: undefined }]);
    runtime.refuse("list", 12);
    await assert.rejects(read(), /the server answered UNIMPLEMENTED: not here/);
  }));

Deno.test("a runtime that goes away is an error", () =>
  withReader(async (read, runtime) => {
    await read();
    await runtime.close();
    await assert.rejects(read(), Error);
  }));

Deno.test("a runtime with more than 10,000 pods is refused before it is asked about each", () =>
  withReader(async (read, runtime) => {
    runtime.run(...Array.from({ length: 10_001 }, (_, i) => ({ ...WEB, id: `s${i}`, uid: `u${i}` })));
    await assert.rejects(read(), /it has 10001 pods, more than the limit of 10000/);
  }));
