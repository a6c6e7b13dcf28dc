import assert from "node:assert/strict";
import { createAnnotationReports } from "../../../../core/planning/annotation_reports.ts";
import { describeMode } from "../../../../backends/mod.ts";
import type { Service } from "../../../../core/objects/cluster_object.ts";
import { fakeBalance } from "../../../fakes/balance.ts";
import { service } from "../../../fakes/cluster_objects.ts";
import { fakeTracking } from "../../../fakes/tracking.ts";

function reporting() {
  const tracking = fakeTracking();
  const current = new Map<string, readonly string[]>(), events: string[] = [];
  const reports = createAnnotationReports({
    tracking,
    balance: fakeBalance(describeMode("iptables")),
    onProblems: (scope, list) => current.set(scope, list.map(({ code, subject }) => `${code} ${subject}`)),
    onProblem: (key, { detail }, action) => events.push(`${action} ${key}: ${detail}`),
  });
  return {
    ...{ current, events },
    set(fields: Partial<Service>) {
      tracking.set(service("default/web", fields));
      reports(tracking.take());
    },
    remove() {
      tracking.delete({ kind: "Service", namespace: "default", name: "web" });
      reports(tracking.take());
    },
  };
}

const KINDS: readonly {
  readonly what: string;
  readonly wrong: readonly Partial<Service>[];
  readonly scope: string;
  readonly code: string;
  readonly event: string;
}[] = [
  {
    what: "balancing annotation",
    wrong: [{ own: { balance: "consistent-hash" } }, { own: { balance: "nonsense" } }],
    scope: "balance of default/web",
    code: "balance-ignored",
    event:
      "Balance default/web: annotation sluice.dev/balance: iptables mode has no consistent-hash; balanced at random",
  },
  {
    what: "annotation for the addresses of node ports",
    wrong: [{ own: { nodePortAddresses: "primary" } }, { own: { nodePortAddresses: "" } }],
    scope: "node port addresses of default/web",
    code: "node-port-addresses-invalid",
    event: 'SelectNodePortAddresses default/web: annotation sluice.dev/node-port-addresses: "primary" is not an IP ' +
      "address or a CIDR; the node ports are at no address",
  },
];

for (const { what, wrong, scope, code, event } of KINDS) {
  Deno.test(`a wrong ${what} is reported once, until it is corrected or its service is gone`, () => {
    const { set, remove, current, events } = reporting();
    set(wrong[0]!);
    set({ ...wrong[0], affinitySeconds: 60 });
    assert.deepEqual([...current], [[scope, [`${code} default/web`]]]);
    assert.deepEqual(events, [event]);
    set({});
    assert.deepEqual([...current], [[scope, []]]);
    set(wrong[1]!);
    assert.equal(events.length, 2);
    remove();
    assert.deepEqual([...current], [[scope, []]]);
  });
}
