import assert from "node:assert/strict";
import type { SyncReport } from "../../../core/model/mod.ts";
import { createKernelView } from "../../../proxy/kernel_view.ts";

function report(revision: number, fields: Partial<SyncReport> = {}): SyncReport {
  return {
    family: "IPv4",
    revision,
    ok: true,
    full: false,
    endedAtMs: revision * 1000,
    durationMs: 1,
    problems: [],
    figures: {},
    ...fields,
  };
}

const refusalOf = (servicePort: string, message: string) =>
  [{ code: "rules-refused", servicePort, message }] as const satisfies SyncReport["problems"];

Deno.test("changes wait until a sync of their revision succeeds", () => {
  const view = createKernelView();
  view.planned(["a", "b"]);
  assert.equal(view.waiting(true), 2);
  view.sent(1);
  view.planned(["b", "c"]);
  assert.equal(view.waiting(true), 3);
  view.reported(report(1, { ok: false }));
  assert.equal(view.waiting(true), 3, "a failed sync brings nothing into effect");
  view.reported(report(1));
  assert.equal(view.waiting(true), 2);
  view.sent(2);
  view.reported(report(2));
  assert.equal(view.waiting(false), 0);
});

Deno.test("a change that was reverted before it was sent does not wait", () => {
  const view = createKernelView();
  view.planned(["a"]);
  assert.equal(view.waiting(false), 0);
});

Deno.test("a service port is refused from the first sync that failed for it until one succeeds", () => {
  const view = createKernelView();
  view.reported(report(1, { problems: refusalOf("default/web", "nft: bad address") }));
  view.reported(report(2, { problems: refusalOf("default/web", "nft: still bad") }));
  assert.deepEqual(view.refusal("default/web"), { message: "nft: still bad", sinceMs: 1000 });
  view.reported(report(3, { ok: false }));
  assert.equal(view.refusal("default/web")?.message, "nft: still bad", "a failed sync says nothing about it");
  view.reported(report(4));
  assert.equal(view.refusal("default/web"), undefined);
});

Deno.test("changes stay counted and bounded over a long series of failures", () => {
  const view = createKernelView();
  for (let revision = 1; revision <= 1000; revision++) {
    view.planned([`port ${revision % 10}`]);
    view.sent(revision);
    view.reported(report(revision, { ok: false }));
  }
  assert.equal(view.waiting(false), 10);
  view.reported(report(1000));
  assert.equal(view.waiting(false), 0);
});

Deno.test("a service port with a problem that leaves it served is not refused", () => {
  const view = createKernelView();
  view.reported(
    report(1, { problems: [{ code: "not-relayed", servicePort: "default/web", message: "no free port" }] }),
  );
  assert.equal(view.refusal("default/web"), undefined);
});
