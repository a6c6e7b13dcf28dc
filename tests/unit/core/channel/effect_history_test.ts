import assert from "node:assert/strict";
import { createEffectHistory } from "../../../../core/channel/effect_history.ts";

Deno.test("a change is in effect with the first revision that carries it", () => {
  const history = createEffectHistory();
  assert.deepEqual(history.since(1), waiting(undefined));
  history.sent(1, 3);
  assert.deepEqual(history.since(2), waiting(1));
  history.inEffect(1, 1000);
  assert.deepEqual(history.since(3), since(1, 1000));
  assert.deepEqual(history.since(4), waiting(undefined));
  history.sent(2, 4);
  history.sent(3, 6);
  history.inEffect(3, 2000);
  history.inEffect(3, 3000);
  assert.deepEqual(history.since(4), since(2, 2000));
  assert.deepEqual(history.since(5), since(3, 2000), "what is compared again later was in effect before");
});

Deno.test("of many syncs the first and the last are kept, and changes in between are marked as such", () => {
  const history = createEffectHistory(4);
  for (let revision = 1; revision <= 10; revision++) {
    history.sent(revision, revision);
    history.inEffect(revision, revision * 1000);
  }
  assert.deepEqual(history.since(1), since(1, 1000));
  assert.deepEqual(history.since(2), { ...since(8, 8000), orEarlier: true });
  assert.deepEqual(history.since(9), since(9, 9000));
  assert.deepEqual(history.since(11), waiting(undefined));
});

function since(revision: number, syncedAtMs: number) {
  return { state: "in effect", revision, syncedAtMs, orEarlier: false };
}

function waiting(revision: number | undefined) {
  return { state: "waiting", revision, syncedAtMs: undefined, orEarlier: false };
}
