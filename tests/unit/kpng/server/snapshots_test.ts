/** Snapshots that many watchers share. */
import assert from "node:assert/strict";
import { createAnswers, type Subscription } from "../../../../kpng/server/answers.ts";
import { OP_ITEM } from "../../../../kpng/messages/messages.ts";
import { createFrameReader } from "../../../../kpng/transport/grpc.ts";
import { node, service } from "../../../fakes/cluster_objects.ts";
import { filledStore, manyServices } from "./served.ts";

function joinable() {
  const { clock, store } = filledStore([...manyServices(100), node("n1"), node("n2")]);
  const answers = createAnswers(store, clock);
  const subscription = (onlyNode?: string): Subscription => ({
    scope: "global",
    nodeName: "",
    extended: true,
    onlyNode,
  });
  /** The chunks of a full snapshot: of nodes, of services at its revision, and of later changes. */
  const join = (onlyNode?: string) => answers.snapshot(subscription(onlyNode)).parts.map((part) => part.at(0));
  return { clock, store, join };
}

function pathsOf(chunk: Uint8Array | undefined): (string | undefined)[] {
  return createFrameReader(1 << 20).push(chunk ?? new Uint8Array(0)).map((bytes) =>
    OP_ITEM.decode(bytes).set?.ref?.path
  );
}

Deno.test("watchers that join one after the other get the same bytes, encoded once", () => {
  const { clock, join } = joinable();
  const [, first] = join("n1");
  for (let i = 0; i < 10; i++) {
    clock.advance(9000);
    assert.equal(join("n2")[1], first);
  }
  clock.advance(11_000);
  assert.notEqual(join("n1")[1], first, "unused bytes are dropped");
});

Deno.test("a snapshot is replaced when many services have changed since", () => {
  const { clock, store, join } = joinable();
  const [, first] = join("n1");
  store.set(service("default/s1", { affinitySeconds: 1 }));
  clock.advance(10);
  const [, same, later] = join("n1");
  assert.equal(same, first);
  assert.deepEqual(pathsOf(later), ["default|s1||"]);
  for (let i = 0; i < 50; i++) store.set(service(`default/s${i}`, { affinitySeconds: 2 }));
  clock.advance(10);
  const [, renewed, none] = join("n1");
  assert.notEqual(renewed, first);
  assert.equal(none, undefined);
});

Deno.test("a watcher of one node gets that node, any other all of them", () => {
  const { join } = joinable();
  assert.deepEqual(pathsOf(join("n2")[0]), ["|n2||"]);
  assert.deepEqual(pathsOf(join("unknown")[0]), []);
  assert.deepEqual(pathsOf(join()[0]), ["|n1||", "|n2||"]);
});
