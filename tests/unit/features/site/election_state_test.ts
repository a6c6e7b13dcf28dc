import assert from "node:assert/strict";
import {
  afterAnswer,
  afterLoss,
  afterRound,
  afterWatch,
  calmUnlessLost,
  type ElectionState,
  FIRST_STATE,
  isSuccessor,
  rememberedRole,
  withRole,
} from "../../../../features/site/election_state.ts";
import type { Leader, Role } from "../../../../features/site/lease.ts";

const TIMES = { leaseMs: 10_000, spreadMs: 1_000 };
const leader = (node: string, address = `${node}:1`): Leader => ({ node, address, certificate: "", proof: "" });
const follower = (of: Leader): Role => ({ kind: "follower", leader: of, isConfirmed: true });
const following = (changes: Partial<ElectionState> = {}): ElectionState => ({
  ...FIRST_STATE,
  role: follower(leader("n2")),
  members: { names: ["n1", "n2", "n3"], atMs: 0 },
  ...changes,
});
const lost = (state: ElectionState, node: string) => afterLoss(state, node, TIMES, 50_000, 0.5);

Deno.test("a node that has taken no part counts no leaders and waits for nothing", () => {
  assert.equal(FIRST_STATE.transitions, 0);
  assert.deepEqual(calmUnlessLost(FIRST_STATE), FIRST_STATE);
});

Deno.test("a new leader is watched from the start, the same one as before, and an equal role changes nothing", () => {
  const state = lost(following({ hasAnswered: true }), "n1");
  assert.equal(withRole(state, { ...state.role }), state);
  const moved = withRole(state, follower(leader("n2", "n2:2")));
  assert.deepEqual(moved, { ...state, role: follower(leader("n2", "n2:2")) });
  for (const role of [follower(leader("n3")), { kind: "alone" }, { kind: "leader", isConfirmed: true }] as const) {
    const { watch, isLost, hasAnswered } = withRole(state, role);
    assert.deepEqual([watch, isLost, hasAnswered], [{ kind: "calm" }, false, false]);
  }
});

Deno.test("the role without the Lease is that of the stored leader, unconfirmed", () => {
  assert.deepEqual(rememberedRole("n1", undefined), { kind: "undecided" });
  assert.deepEqual(rememberedRole("n1", leader("n1")), { kind: "leader", isConfirmed: false });
  const other = leader("n2");
  assert.deepEqual(rememberedRole("n1", other), { kind: "follower", leader: other, isConfirmed: false });
});

Deno.test("the successor of a holder is the next member by name, after the last one the first", () => {
  const successors = (holder: string) => ["n1", "n2", "n3"].filter((node) => isSuccessor(following(), node, holder));
  assert.deepEqual(["n1", "n2", "n3", "n15", "n9", ""].map(successors), [["n2"], ["n3"], ["n1"], ["n2"], ["n1"], [
    "n1",
  ]]);
  assert.equal(isSuccessor(following({ members: undefined }), "n1", "n2"), false);
});

Deno.test("after a loss, the successor of a leader that had answered reads the Lease at once, others when it has ended", () => {
  const dueMs = (state: ElectionState, node: string) => {
    const { isLost, watch } = lost(state, node);
    assert.ok(isLost);
    return watch.kind === "lost" ? watch.dueMs - 50_000 : undefined;
  };
  assert.equal(dueMs(following({ hasAnswered: true }), "n3"), 500);
  assert.equal(dueMs(following({ hasAnswered: true }), "n1"), 10_000 + 1_500 + 500);
  assert.equal(dueMs(following({ hasAnswered: false }), "n3"), 10_000 + 1_500 + 500, "it may not serve yet");
  assert.equal(dueMs(following({ watch: { kind: "waiting", round: 2 } }), "n3"), undefined, "it waits already");
  assert.equal(dueMs(following({ role: { kind: "alone" } }), "n3"), undefined);
});

Deno.test("a leader that answers is not lost any more; a loss before its first answer is forgotten", () => {
  const early = afterAnswer(lost(following({ hasAnswered: false }), "n1"));
  assert.deepEqual([early.watch.kind, early.isLost, early.hasAnswered], ["calm", false, true]);
  const late = afterAnswer(lost(following({ hasAnswered: true }), "n1"));
  assert.deepEqual([late.watch.kind, late.isLost], ["lost", false]);
});

Deno.test("when a Lease is due, whoever lost the leader or succeeds it waits for its end, and reads the members", () => {
  const due = (isLost: boolean, node: string) => {
    const { watch, members } = afterWatch(following({ isLost }), node, "n2");
    assert.equal(members, undefined);
    return watch;
  };
  assert.deepEqual(due(true, "n1"), { kind: "waiting", round: 0 });
  assert.deepEqual(due(false, "n3"), { kind: "waiting", round: 0 });
  assert.deepEqual(due(false, "n1"), { kind: "calm" });
});

Deno.test("rounds of waiting are counted, and end when the holder has returned", () => {
  const waiting = afterRound(following({ isLost: true }), 3);
  assert.deepEqual(waiting.watch, { kind: "waiting", round: 4 });
  assert.equal(calmUnlessLost(waiting), waiting);
  assert.deepEqual(calmUnlessLost({ ...waiting, isLost: false }).watch, { kind: "calm" });
  const returned = { ...lost(following(), "n1"), isLost: false };
  assert.equal(calmUnlessLost(returned), returned, "it was not waiting");
});
