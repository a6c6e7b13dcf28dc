/** An optional kind: older servers do not have it, or this user may not read it. */
import assert from "node:assert/strict";
import { KINDS } from "../../../../core/objects/cluster_object.ts";
import { statusResponse } from "../../../fakes/api_server.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { passing } from "../../../fakes/wait.ts";
import { withSource } from "./source_under_test.ts";

for (const [code, reason, level] of [[404, "NotFound", "INFO"], [403, "Forbidden", "WARN"]] as const) {
  Deno.test(`${code} for ServiceCIDRs delays nothing, is logged once, and is retried`, async () => {
    const clock = createFakeClock();
    await withSource((server) => {
      server.apply({ kind: "ServiceCIDR", metadata: { name: "kubernetes" } });
      server.fault(({ path }) =>
        path.endsWith("/servicecidrs") ? statusResponse(code, reason, "not for you") : undefined
      );
    }, async ({ server, receives, received, logged }) => {
      const tries = () => server.requests.filter(({ path }) => path.endsWith("/servicecidrs")).length;
      const lines = () => logged.filter((line) => line.includes("servicecidrs"));
      await receives("synced ServiceCIDR");
      await server.watches(3);
      assert.equal(tries(), 1);
      assert.match(lines()[0]!, new RegExp(`${level} .*${code} ${reason}.*unused cluster IPs is not dropped`));
      await passing(clock, () => tries() === 3, 100);
      assert.equal(lines().length, 1);
      server.fault(undefined);
      await passing(clock, () => received.includes("set ServiceCIDR kubernetes 2"), 100);
    }, { clock, kinds: KINDS });
  });
}

Deno.test("other failures of ServiceCIDRs are retried like those of every kind", async () => {
  let left = 3;
  await withSource((server) => {
    server.apply({ kind: "ServiceCIDR", metadata: { name: "kubernetes" } });
    server.fault(({ path }) =>
      path.endsWith("/servicecidrs") && left-- > 0 ? statusResponse(503, "ServiceUnavailable", "not now") : undefined
    );
  }, async ({ receives, received }) => {
    await receives("synced ServiceCIDR");
    assert.ok(received.includes("set ServiceCIDR kubernetes 2"));
  }, { kinds: KINDS });
});
