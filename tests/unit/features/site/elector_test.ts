import assert from "node:assert/strict";
import { createElector } from "../../../../features/site/elector.ts";
import type { LeaseRecord } from "../../../../features/site/lease.ts";

function lease(node: string, version: string, renewedMs = 0, term = "first"): LeaseRecord {
  const durationMs = 30_000;
  return {
    node,
    version,
    durationMs,
    address: `${node}:12091`,
    certificate: "",
    proof: "",
    transitions: 4,
    term,
    renewedMs,
  };
}

const OPTIONS = { node: "a", renewMs: 10_000 };

Deno.test("an elector reads the Lease first, and takes one that nobody holds", () => {
  const elector = createElector(OPTIONS);
  assert.deepEqual(elector.next(0), { kind: "read" });
  elector.read(lease("", "1"), 5);
  assert.deepEqual(elector.next(5), { kind: "acquire", record: lease("", "1") });
});

Deno.test("another node's Lease ends when no new version was seen for its duration, whatever its times say", () => {
  const elector = createElector(OPTIONS);
  elector.read(lease("b", "1"), 1000);
  assert.deepEqual(elector.next(1000), { kind: "follow", leader: lease("b", "1"), untilMs: 31_000 });
  elector.read(lease("b", "1"), 20_000);
  assert.deepEqual(elector.next(30_999), { kind: "follow", leader: lease("b", "1"), untilMs: 31_000 });
  assert.deepEqual(elector.next(31_000), { kind: "acquire", record: lease("b", "1") });
});

Deno.test("a new version of another node's Lease starts its duration again", () => {
  const elector = createElector(OPTIONS);
  elector.read(lease("b", "1"), 0);
  elector.read(lease("b", "2", 500, "second"), 29_000);
  assert.equal(elector.next(58_999).kind, "follow");
  assert.equal(elector.next(59_000).kind, "acquire");
});

Deno.test("a leader renews, and holds the Lease from before its write", () => {
  const elector = createElector(OPTIONS);
  elector.wrote(lease("a", "2"), 100);
  assert.deepEqual(elector.next(5000), { kind: "renew", record: lease("a", "2"), atMs: 10_100 });
  assert.equal(elector.heldUntilMs(), 30_100);
});

Deno.test("a node that restarts finds its own Lease and renews it, but does not hold it before", () => {
  const elector = createElector(OPTIONS);
  elector.read(lease("a", "7"), 50);
  assert.deepEqual(elector.next(50), { kind: "renew", record: lease("a", "7"), atMs: 50 });
  assert.equal(elector.heldUntilMs(), undefined);
});

Deno.test("a leader that reads another holder holds nothing any more", () => {
  const elector = createElector(OPTIONS);
  elector.wrote(lease("a", "2"), 0);
  elector.forget();
  assert.deepEqual(elector.next(1), { kind: "read" });
  elector.read(lease("b", "3"), 40_000);
  assert.equal(elector.heldUntilMs(), undefined);
  assert.equal(elector.next(40_000).kind, "follow");
});

Deno.test("a version that is read late counts from its write, as the leader's own clock has measured it since an earlier one", () => {
  const elector = createElector(OPTIONS);
  elector.read(lease("b", "1", 5_000_000), 1000);
  elector.read(lease("b", "9", 5_060_000), 69_000);
  assert.equal(elector.next(90_999).kind, "follow", "written at 61,000 at the latest");
  assert.equal(elector.next(91_000).kind, "acquire");
});

Deno.test("of a leader's clock that goes backwards, or of another term, nothing is concluded", () => {
  for (const later of [lease("b", "2", 4_000_000), lease("b", "2", 5_001_000, "second"), lease("c", "2", 5_001_000)]) {
    const elector = createElector(OPTIONS);
    elector.read(lease("b", "1", 5_000_000), 0);
    elector.read(later, 20_000);
    assert.equal(elector.next(49_999).kind, "follow");
    assert.equal(elector.next(50_000).kind, "acquire");
  }
});
