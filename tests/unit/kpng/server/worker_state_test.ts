/** Answers that cross to a worker are those of the main isolate. */
import assert from "node:assert/strict";
import { createAnswerService } from "../../../../kpng/server/serving_workers.ts";
import { type Answer, createAnswers, type Subscription } from "../../../../kpng/server/answers.ts";
import { createWorkerState, type FromServingWorker } from "../../../../kpng/server/serving_worker.ts";
import { settled } from "../../../fakes/clock.ts";
import { node, service } from "../../../fakes/cluster_objects.ts";
import { filledStore, manyServices } from "./served.ts";

const GLOBAL: Subscription = { scope: "global", nodeName: "", extended: true, onlyNode: "n1" };
const LOCAL: Subscription = { scope: "local", nodeName: "n1", extended: true, onlyNode: undefined };

function connected() {
  const { clock, store } = filledStore([...manyServices(2000), node("n1"), node("n2")]);
  const answers = createAnswers(store, clock);
  const sent: FromServingWorker[] = [];
  const answer = createAnswerService(answers, clock, (message) => {
    const copy = structuredClone(message);
    if (copy.type === "answer" || copy.type === "chunk") queueMicrotask(() => state.take(copy));
  });
  const state = createWorkerState(clock, (message) => {
    sent.push(message);
    if (message.type === "ask" || message.type === "next" || message.type === "release") void answer(message);
  });
  const announce = () => state.take({ type: "revision", revision: store.revision() });
  announce();
  return { clock, store, answers, state, sent, announce };
}

async function bytesOf({ parts }: Answer): Promise<string> {
  const hashes: string[] = [];
  for (const part of parts) {
    for (let i = 0;; i++) {
      const chunk = await part.at(i);
      if (chunk === undefined) break;
      hashes.push(String(new Uint8Array(await crypto.subtle.digest("SHA-256", Uint8Array.from(chunk)))));
    }
  }
  return hashes.join(" ");
}

for (const subscription of [GLOBAL, LOCAL]) {
  Deno.test(`a worker gets the same ${subscription.scope} snapshot and changes`, async () => {
    const { clock, store, answers, state, announce } = connected();
    const snapshot = await state.answers.snapshot(subscription);
    assert.equal(await bytesOf(snapshot), await bytesOf(answers.snapshot(subscription)));
    const { position } = snapshot;
    for (
      const object of [
        service("default/s1", { affinitySeconds: 5 }),
        node("n1", { zone: "elsewhere" }),
        node("n2", { zone: "elsewhere" }),
      ]
    ) {
      store.set(object);
      clock.advance(10);
      announce();
      const changes = await state.answers.changes(position, subscription);
      assert.deepEqual(changes!.position, answers.changes(position, subscription)!.position);
      assert.equal(await bytesOf(changes!), await bytesOf(answers.changes(position, subscription)!));
      changes!.release!();
    }
    assert.equal(await state.answers.changes({ revision: -1, zone: "" }, subscription), undefined);
  });
}

Deno.test("changes that all watchers of a worker get alike cross once, and a snapshot crosses once", async () => {
  const { clock, store, state, sent, announce } = connected();
  const positions = [];
  for (let i = 0; i < 5; i++) positions.push((await state.answers.snapshot({ ...GLOBAL, onlyNode: `n${i}` })).position);
  const asks = sent.filter((message) => message.type === "ask");
  assert.deepEqual(asks.map(({ held }) => held.length), [0, 1, 1, 1, 1]);
  store.set(service("default/s1", { affinitySeconds: 5 }));
  clock.advance(10);
  announce();
  sent.length = 0;
  for (const position of positions) await state.answers.changes(position, GLOBAL);
  assert.equal(sent.filter(({ type }) => type === "ask").length, 1);
});

Deno.test("parts for one watcher are computed as it reads them, and dropped when it leaves", async () => {
  const { state, sent } = connected();
  const snapshot = await state.answers.snapshot(LOCAL);
  assert.equal(sent.filter(({ type }) => type === "next").length, 0);
  const endpoints = snapshot.parts.at(-1)!;
  await endpoints.at(0);
  await endpoints.at(1);
  await endpoints.at(2);
  assert.ok(sent.filter(({ type }) => type === "next").length <= 3);
  snapshot.release!();
  await settled();
  assert.equal(await endpoints.at(3), undefined);
});
