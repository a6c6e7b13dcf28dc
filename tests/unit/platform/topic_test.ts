import assert from "node:assert/strict";
import { createTopic } from "../../../platform/topic.ts";

Deno.test("every subscriber is called with each event, in the order of their subscriptions", () => {
  const topic = createTopic<[name: string, count: number]>(), calls: string[] = [];
  topic.publish("nobody hears it", 0);
  for (const subscriber of ["a", "b"]) {
    topic.subscribe((name, count) => void calls.push(`${subscriber} ${name} ${count}`));
  }
  topic.publish("one", 1);
  topic.publish("two", 2);
  assert.deepEqual(calls, ["a one 1", "b one 1", "a two 2", "b two 2"]);
});
