import assert from "node:assert/strict";
import type { AnsweredCall } from "../../../features/mod.ts";
import { describeRules, readPacketCounts } from "../../../core/model/mod.ts";
import { CALLS } from "../../../workers/calls.ts";

/** The answer of a worker with this backend; undefined if the backend cannot give any. */
async function answerTo(name: string, request: unknown, backend: object): Promise<unknown> {
  const { handle } = CALLS.get(name) as AnsweredCall<unknown, unknown>;
  return await handle({ backend } as never, request);
}

Deno.test("a worker passes questions about rules and packets to its backend", async () => {
  const backend = {
    describe: (key: string) => Promise.resolve(`the rules of ${key}`),
    packetCounts: () => Promise.resolve({ ctStateInvalidDropped: 1, localhostNodePortsAccepted: 2 }),
  };
  assert.equal(await answerTo(describeRules.name, "default/web|tcp", backend), "the rules of default/web|tcp");
  assert.deepEqual(await answerTo(readPacketCounts.name, undefined, backend), await backend.packetCounts());
  for (const { name } of [describeRules, readPacketCounts]) assert.equal(await answerTo(name, "", {}), undefined);
});
